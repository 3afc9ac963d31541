"""Products of mixtures of single coordinates, some of which follow others: density, draws, slopes, both in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.engines import reference_arrays
from tempering.errors import TargetError
from tempering.path.factored import Bends, Factored, bent, straightened
from tempering.path.reference import Reference
from tempering.path.scores import scores
from tempering.path.stacked import stacked_references

WEIGHTS = np.array([[0.7, 0.3], [1.0, 0.0], [0.4, 0.6]])
MEANS = np.array([[-1.0, 2.0], [0.5, 0.0], [-1.0, 1.5]])
DEVIATIONS = np.array([[0.8, 0.5], [1.2, 1.0], [0.3, 0.6]])
BENDS = Bends(
    parents=np.array([0, 0, 2]),
    centres=np.array([0.0, 0.3, 0.0]),
    widths=np.array([1.0, 1.5, 1.0]),
    lowest=np.array([-1.0, -2.0, -1.0]),
    highest=np.array([1.0, 2.5, 1.0]),
    offsets=np.array([0.0, 0.4, 0.0]),
    slopes=np.array([0.0, -0.5, 0.0]),
    curvatures=np.array([0.0, 0.8, 0.0]),
    log_scales=np.array([0.0, 0.6, 0.0]),
)
WHOLE = Reference([0.9, 0.1], [np.zeros(3), np.ones(3)], [2 * np.eye(3)] * 2, [8, 3], summits=np.eye(3))


def product(**wrong):
    return Factored(
        **{"weights": WEIGHTS, "means": MEANS, "deviations": DEVIATIONS, "bends": BENDS} | wrong, mixture=WHOLE
    )


def in_jax(q, function):
    with jax.enable_x64(True):
        return function(reference_arrays.arrays_of(q, is_fitted=True))


def drawn_by_jax(q, n):
    """Return draws that the vector engine makes of given numbers."""
    rng = seeded_rng("numbers")

    def make(arrays):
        (draw,) = reference_arrays.draws_of([arrays], 2)
        normals, uniforms = rng.standard_normal((n, draw.n_normals)), rng.random((n, draw.n_uniforms))
        return np.asarray(jax.jit(jax.vmap(lambda z, u: draw.position(None, jnp.int32(2), z, u)))(normals, uniforms))

    return in_jax(q, make)


def shares_below(q, levels):
    """Return the share of every straightened coordinate's mixture that lies below some levels, (d, level)."""
    parts = ndtr((levels[:, None] - q.means[:, None, :]) / q.deviations[:, None, :])
    return np.sum(q.weights[:, None, :] * parts, axis=-1)


@pytest.mark.parametrize("draw", [lambda q, n: q.sample_many(seeded_rng("draws"), n), drawn_by_jax])
def test_its_draws_straightened_are_those_of_the_mixtures(draw):
    q, levels = product(), np.array([-1.0, 0.0, 1.0, 2.0])
    z = straightened(BENDS, q.follow, draw(q, 40_000))[0]
    below = (z[..., None] < levels).reshape(len(z), -1).astype(float)
    assert_mean_is(shares_below(q, levels).ravel(), below)
    assert_mean_is_not(shares_below(product(deviations=1.2 * DEVIATIONS), levels).ravel(), below)
    other = straightened(BENDS._replace(log_scales=np.array([0.0, 0.2, 0.0])), q.follow, draw(q, 40_000))[0]
    assert_mean_is_not(shares_below(q, levels).ravel(), (other[..., None] < levels).reshape(len(z), -1).astype(float))


def test_its_density_is_that_of_the_mixtures_times_how_straightening_changes_volumes():
    q = product()
    for x in q.sample_many(seeded_rng("volumes"), 20):
        z = straightened(BENDS, q.follow, x)[0]
        columns = [
            (straightened(BENDS, q.follow, x + e)[0] - straightened(BENDS, q.follow, x - e)[0]) / 2e-6
            for e in 1e-6 * np.eye(3)
        ]
        of_mixtures = np.sum(WEIGHTS * norm.pdf(z[:, None], MEANS, DEVIATIONS), axis=1)
        expected = np.sum(np.log(of_mixtures)) + np.linalg.slogdet(np.array(columns).T)[1]
        np.testing.assert_allclose(q.log_density(x), expected, rtol=1e-7)


def test_straightening_undoes_bending():
    z = seeded_rng("straight").normal(size=(100, 3))
    follow = product().follow
    np.testing.assert_allclose(straightened(BENDS, follow, bent(BENDS, follow, z))[0], z, atol=1e-12)


def test_jax_computes_the_same_density_and_its_slope():
    q = product()
    x = q.sample_many(seeded_rng("slope"), 20)
    values = in_jax(q, lambda arrays: jax.vmap(lambda x: reference_arrays.log_density(arrays, x))(x))
    np.testing.assert_allclose(values, q.log_density(x), rtol=1e-12)
    slopes = in_jax(q, lambda arrays: jax.vmap(jax.grad(lambda x: reference_arrays.log_density(arrays, x)))(x))
    for i, step in enumerate(1e-6 * np.eye(3)):
        expected = (q.log_density(x + step) - q.log_density(x - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, i], expected, atol=1e-6)


def test_draws_leap_between_the_summits_that_it_has():
    (draw,) = in_jax(product(), lambda arrays: reference_arrays.draws_of([arrays], 1))
    assert draw.leap.is_there


@pytest.mark.parametrize(("most", "n_columns"), [(64, 5), (4, 4), (1, 1)])
def test_slopes_have_mean_zero(most, n_columns):
    q = product()
    x = q.sample_many(seeded_rng("zero"), 40_000)
    found = scores(q, x, most)
    assert found.shape == (40_000, n_columns)
    assert_mean_is(0.0, found)
    assert_mean_is_not(0.0, scores(product(means=MEANS + np.array([[0.1], [0.0], [0.0]])), x, 64))


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": WEIGHTS * 1.1},
        {"deviations": -DEVIATIONS},
        {"means": MEANS[:, :1]},
        {"bends": BENDS._replace(parents=np.array([1, 0, 2]))},
    ],
)
def test_parameters_that_are_none_are_refused(wrong):
    with pytest.raises(TargetError, match="factored reference"):
        product(**wrong)


def test_the_scalar_engine_takes_mixtures_alone():
    assert stacked_references([WHOLE], 3)[0].tolist() == [0, 2]
    with pytest.raises(TargetError, match="vector engine"):
        stacked_references([product()], 3)
