"""Mixtures in a subspace are the dense ones they stand for: values, gradients, draws, by NumPy and by compiled code."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import Ladder
from tempering.engines import reference_arrays
from tempering.errors import TargetError
from tempering.io.encoding import decode, encode
from tempering.learning.reference.from_draws import Split, best_of_clusters
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.refit import refit_reference
from tempering.learning.reference.spanned import in_a_subspace, one_around, spanned, with_broad
from tempering.path import Leg, Path
from tempering.path.reference import Reference
from tempering.path.subspace import Subspace

D, R = 12, 3


@cache
def skewed():
    """Return a mixture of two components along three directions, of unequal widths across them."""
    rng = seeded_rng("subspace")
    subspace = Subspace(rng.normal(size=D), rng.uniform(0.5, 2.0, D), np.linalg.qr(rng.normal(size=(D, R)))[0])
    factors = np.zeros((2, R + 1, R + 1))
    factors[:, :R, :R] = [np.linalg.cholesky(np.cov(rng.normal(size=(R, 20)))) for _ in range(2)]
    factors[:, R, R] = [0.6, 1.4]
    means = np.append(rng.normal(scale=2.0, size=(2, R)), np.zeros((2, 1)), axis=1)
    return Reference([0.3, 0.7], means, factors, [5, 8], subspace.n_across, subspace, rng.normal(size=(3, D)))


def wider():
    """Return the same but for one width across, a tenth too wide."""
    q = skewed()
    factors = np.array(q.factors)
    factors[1, R, R] *= 1.1
    return Reference(q.weights, q.means, factors, q.degrees_of_freedom, q.n_across, q.subspace)


def test_values_and_gradients_are_those_of_the_dense_mixture():
    q, x = skewed(), seeded_rng("places").normal(scale=3.0, size=(4, 5, D))
    np.testing.assert_allclose(q.log_density(x), q.dense.log_density(x), rtol=1e-12)
    np.testing.assert_allclose(q.log_parts(x), q.dense.log_parts(x), rtol=1e-12)
    value, slope = q.log_density_gradient(x[0, 0])
    expected, dense_slope = q.dense.log_density_gradient(x[0, 0])
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope, dense_slope, rtol=1e-9, atol=1e-12)
    assert np.max(np.abs(wider().log_density(x) - q.dense.log_density(x))) > 0.05  # control


def test_compiled_values_and_gradients_are_those_of_the_dense_mixture():
    x = seeded_rng("compiled").normal(scale=3.0, size=D)
    with jax.enable_x64(True):

        def both(q):
            arrays = jax.device_put(reference_arrays.arrays_of(q, is_fitted=True))
            return jax.value_and_grad(lambda x: reference_arrays.log_density(arrays, x))(jnp.asarray(x))

        (value, slope), (expected, dense_slope) = both(skewed()), both(skewed().dense)
    assert float(value) == pytest.approx(float(expected), rel=1e-12)
    np.testing.assert_allclose(slope, dense_slope, rtol=1e-9, atol=1e-12)


def by_numpy(q, n):
    return q.sample_many(seeded_rng("draws"), n)


def by_arrays(q, n):
    with jax.enable_x64(True):
        draw = reference_arrays.draw_of([jax.device_put(reference_arrays.arrays_of(q))], 1)
        rng = seeded_rng("numbers")
        normals, uniforms = rng.standard_normal((n, draw.n_normals)), rng.uniform(size=(n, draw.n_uniforms))
        return np.asarray(
            jax.vmap(lambda *row: draw.position(None, 1, *row))(jnp.asarray(normals), jnp.asarray(uniforms))
        )


@pytest.mark.parametrize("drawn", [by_numpy, by_arrays])
def test_draws_are_those_of_the_density(drawn):
    """E_q of (another density / q) is 1, for one that is narrower: every width and every mean counts."""
    q, n = skewed(), 20_000
    other = Reference(q.weights, q.means + 0.0, 0.8 * np.array(q.factors), [8, 8], q.n_across, q.subspace).dense
    x = drawn(q, n)
    assert_mean_is(1.0, np.exp(other.log_density(x) - q.dense.log_density(x)))
    assert_mean_is_not(1.0, np.exp(other.log_density(x) - wider().log_density(x)))


def test_a_path_with_a_subspace_comes_back_as_it_was_stored():
    legs = [Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder([1.0, 0.0]), 1), Leg("quick", np.eye(3)[2], Ladder([1.0]), 2)]
    path = Path([1.0, 1.0, 0.0], legs, references=[skewed()])
    again = decode(encode(path))
    x = seeded_rng("again").normal(size=(3, D))
    np.testing.assert_array_equal(again.references[0].log_density(x), skewed().log_density(x))
    np.testing.assert_array_equal(again.references[0].summits, skewed().summits)


def test_a_component_projected_onto_its_own_subspace_is_itself():
    q = skewed()
    mean, covariance = q.subspace.projected(q.dense.means[1], q.dense.factors[1])
    np.testing.assert_allclose(mean, q.means[1], atol=1e-12)
    np.testing.assert_allclose(covariance, q.factors[1] @ q.factors[1].T, atol=1e-12)


def test_one_component_without_directions_is_the_diagonal_one():
    rng = seeded_rng("diagonal")
    centre, deviations = rng.normal(size=200), rng.uniform(0.5, 2.0, 200)
    q = with_broad(one_around(centre, deviations, 5))
    assert q.subspace.n_directions == 0
    x = centre + deviations * rng.normal(size=(3, 200))
    expected = Reference([1.0], centre[None], np.diag(deviations)[None], [5]).log_density(x)
    np.testing.assert_allclose(q.log_parts(x)[:, 0] - np.log(0.95), expected, rtol=1e-12)


def two_widths(rng, n, d):
    """Draw from two modes whose centres differ in one direction, the second half as wide, in uneven coordinates."""
    scale, way = np.linspace(0.5, 2.0, d), np.ones(d) / np.sqrt(d)
    second = rng.random(n) < 0.3
    return scale * (np.where(second, 0.5, 1.0)[:, None] * rng.normal(size=(n, d)) + 20.0 * second[:, None] * way)


@pytest.mark.slow
def test_modes_of_unequal_widths_are_learnt_along_the_direction_between_them():
    rng, d = seeded_rng("learnt"), 160
    x = two_widths(rng, 8000, d)
    q = in_a_subspace(x, np.zeros(len(x)), (), rng).mixture
    assert 1 <= q.subspace.n_directions <= 4
    fresh = two_widths(rng, 4000, d)
    scale = np.linspace(0.5, 2.0, d)
    normal = lambda x, s: -0.5 * np.sum((x / (s * scale)) ** 2, axis=1) - np.sum(np.log(s * scale))  # noqa: E731
    away = 20.0 * scale / np.sqrt(d)
    truth = np.logaddexp(np.log(0.7) + normal(fresh, 1.0), np.log(0.3) + normal(fresh - away, 0.5))
    lost = np.mean(truth - 0.5 * d * np.log(2 * np.pi) - q.log_density(fresh))
    assert 0.0 < lost < 1.0
    one = in_a_subspace(x[:2000] * [[1.0]], np.zeros(2000), (), rng).mixture.subspace.of_rank(0)
    split = Split(one.reduced(x), np.zeros(len(x)), one.n_across)  # control: without the direction
    flat = refit_reference(best_of_clusters(split, rng), split.values, split.log_weights)
    control = Reference(flat.weights, flat.means, flat.factors, flat.degrees_of_freedom, flat.n_across, one)
    assert np.mean(truth - 0.5 * d * np.log(2 * np.pi) - control.log_density(fresh)) > lost + 2.0


def test_directions_from_summit_to_summit_are_among_those_found():
    rng, d = seeded_rng("summits"), 40
    x, summits = rng.normal(size=(500, d)), 5.0 * rng.normal(size=(3, d))
    found = spanned(x, np.zeros(500), [Mode(summit, 0.0, np.eye(d)) for summit in summits], 4, rng)
    ways = (summits[1:] - summits[0]) / found.deviations
    left = ways - (ways @ found.directions) @ found.directions.T
    assert np.max(np.abs(left)) < 1e-9
    others = spanned(x, np.zeros(500), (), 4, rng).directions
    assert np.max(np.abs(ways - (ways @ others) @ others.T)) > 1.0  # control


def test_few_draws_move_centre_and_widths_from_the_summit_by_what_their_halves_agree_on():
    """Of 300 draws in 400 dimensions: near the summit there is little to learn, far from it all is believed."""
    rng, d, n = seeded_rng("shrunk"), 400, 300
    widths = np.exp(rng.normal(size=d))
    summit = [Mode(np.zeros(d), 0.0, np.diag(widths))]
    for away in (0.05, 5.0):
        centre = away * rng.normal(size=d) * widths
        x = centre + widths * rng.normal(size=(n, d))
        found = spanned(x, np.zeros(n), summit, 0, rng)
        error = np.mean(((found.centre - centre) / widths) ** 2)
        noise = np.mean(((x.mean(axis=0) - centre) / widths) ** 2)  # control: the plain mean
        assert error < 0.65 * noise if away < 1.0 else abs(error / noise - 1.0) < 0.05
        assert np.std(np.log(found.deviations / widths)) < 0.5 * np.std(np.log(x.std(axis=0) / widths))


def test_draws_that_were_not_fitted_to_are_described_as_well_as_fresh_ones():
    rng, d, n = seeded_rng("unseen"), 400, 1200
    x, fresh = rng.normal(size=(n, d)) + 1.0, rng.normal(size=(4000, d)) + 1.0
    found = in_a_subspace(x, np.zeros(n), (), rng)

    def lost(rows, log_density):
        return np.mean(-0.5 * np.sum((rows - 1.0) ** 2, axis=1) - 0.5 * d * np.log(2 * np.pi) - log_density)

    of_fresh = np.mean([lost(fresh, half.log_density(fresh)) for half in found.of_halves])
    assert of_fresh > 0.3
    assert lost(x, found.log_density_unseen(x)) == pytest.approx(of_fresh, rel=0.2)
    halves = (x[: n // 2], x[n // 2 :])
    seen = np.mean([lost(rows, q.log_density(rows)) for rows, q in zip(halves, found.of_halves, strict=True)])
    assert seen < 0.0  # control


def test_what_is_no_subspace_is_refused():
    with pytest.raises(TargetError, match="orthonormal"):
        Subspace(np.zeros(3), np.ones(3), np.ones((3, 2)))
    with pytest.raises(TargetError, match="distance from 0"):
        Reference([1.0], [[0.0, 1.0]], [np.eye(2)], [5], n_across=3)
    with pytest.raises(TargetError, match="Make them agree"):
        Reference([1.0], [[0.0, 0.0]], [np.eye(2)], [5], 3, skewed().subspace)
