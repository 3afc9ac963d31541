import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng, student_cut
from tempering.engines.reference_arrays import arrays_of, draw_of
from tempering.engines.reference_arrays import log_density as log_density_of_arrays
from tempering.errors import TargetError
from tempering.learning.reference import (
    FitEffort,
    Reference,
    TooManyCalls,
    along_reference,
    fit_reference,
    refit_reference,
    search,
)
from tempering.learning.reference.climbing import climb_together
from tempering.learning.reference.modes import climb, find_modes, is_parted, local_factor
from tempering.learning.reference.refit import split_reference
from tempering.learning.reference.surface import Surface
from tempering.problems import Banana, five_modes, likelihood_gaussian, ring, skewed, two_modes
from tempering.target.layout import Layout

MEANS = np.array([[1.0, -2.0, 0.5], [4.0, 3.0, -1.0]])
FACTORS = np.array([[[1.0, 0, 0], [0.5, 0.8, 0], [-0.3, 0.2, 1.4]], [[0.6, 0, 0], [-0.4, 1.1, 0], [0.1, 0.7, 0.5]]])
SKEWED = Reference([0.35, 0.65], MEANS, FACTORS, [5, 12])


def broken(reference):
    """Return a reference whose second factor is a fifth too wide."""
    factors = np.array(reference.factors)
    factors[1] *= 1.2
    return Reference(reference.weights, reference.means, factors, reference.degrees_of_freedom)


def draws_by_jax(reference, n, seed):
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(reference.sample)(jax.random.split(jax.random.key(seed), n)))


def draws_by_arrays(reference, n, seed):
    """Draw by the compiled code that all references share, from numbers that the kernel would hand out."""
    elsewhere = Reference([1.0], reference.means[:1] + 50.0, reference.factors[:1], [3])
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        draw = draw_of([jax.tree.map(jnp.asarray, arrays_of(one)) for one in (elsewhere, reference)], 1)
        normals, uniforms = rng.standard_normal((n, draw.n_normals)), rng.uniform(size=(n, draw.n_uniforms))
        of_second = jax.vmap(lambda *row: draw.position(None, 2, *row))
        return np.asarray(of_second(jnp.asarray(normals), jnp.asarray(uniforms)))


def draws_by_numba(reference, n, seed):
    rng = np.random.default_rng(seed)
    return np.array([reference.sample_numba(rng) for _ in range(n)])


def draws_by_numpy(reference, n, seed):
    return reference.sample_many(np.random.default_rng(seed), n)


def basin_starts(problem, rng):
    """Return a random point of each mode's bulk, not the mode itself."""
    return problem.means + problem.sds * rng.standard_normal(problem.means.shape)


# --- the density ----------------------------------------------------------------------------------


def test_the_density_is_that_of_scipys_multivariate_t():
    x = seeded_rng("scipy t").normal(1.0, 3.0, size=(50, 3))
    parts = [
        stats.multivariate_t(mean, factor @ factor.T, df=nu).logpdf(x)
        for mean, factor, nu in zip(MEANS, FACTORS, [5, 12], strict=True)
    ]
    expected = logsumexp(np.array(parts), axis=0, b=np.array([[0.35], [0.65]]))
    np.testing.assert_allclose(SKEWED.log_density(x), expected, rtol=1e-12)


def test_numpy_jax_padded_arrays_and_numba_give_one_density():
    x = seeded_rng("three densities").normal(1.0, 3.0, size=(20, 3))
    expected = SKEWED.log_density(x)
    with jax.enable_x64(True):
        traced = jax.jit(jax.vmap(SKEWED.log_density))(x)
        assert traced.dtype == jnp.float64
        by_arrays = jax.jit(jax.vmap(log_density_of_arrays, in_axes=(None, 0)))(arrays_of(SKEWED), x)
    np.testing.assert_allclose(traced, expected, rtol=1e-13)
    np.testing.assert_allclose(by_arrays, expected, rtol=1e-13)
    np.testing.assert_allclose([SKEWED.log_density_numba(row) for row in x], expected, rtol=1e-13)
    assert SKEWED.log_density(x.reshape(4, 5, 3)).shape == (4, 5)


def of_size(n, d, rng):
    """Return a skewed mixture of ``n`` components."""
    factors = np.tril(rng.normal(0.0, 0.3, (n, d, d)), -1) + np.eye(d) * rng.uniform(0.5, 1.5, (n, d, 1))
    return Reference(rng.dirichlet(np.ones(n)), rng.normal(0.0, 3.0, (n, d)), factors, rng.integers(1, 16, n))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 40])
def test_arrays_of_any_size_give_the_density_and_its_slope(n):
    rng = seeded_rng("groups of components")
    reference, x = of_size(n, 3, rng), rng.normal(0.0, 4.0, (10, 3))
    slopes = [reference.log_density_gradient(row)[1] for row in x]
    with jax.enable_x64(True):
        arrays = jax.tree.map(jnp.asarray, arrays_of(reference, is_fitted=True))
        of = jax.jit(jax.vmap(jax.value_and_grad(log_density_of_arrays, argnums=1), in_axes=(None, 0)))
        value, slope = of(arrays, x)
        one_group_less = of(arrays._replace(n_groups=arrays.n_groups - 1), x)
    np.testing.assert_allclose(value, reference.log_density(x), rtol=1e-12)
    np.testing.assert_allclose(slope, slopes, rtol=1e-10, atol=1e-12)
    assert not np.allclose(one_group_less[0], value)  # the control: a group that is passed over is seen


def test_many_vectors_are_taken_block_by_block_and_none_is_lost():
    rng = seeded_rng("blocks of vectors")
    reference, x = of_size(40, 3, rng), rng.normal(0.0, 4.0, (3, 700, 3))
    np.testing.assert_array_equal(reference.log_density(x), reference.log_density(x.reshape(-1, 3)).reshape(3, 700))
    np.testing.assert_allclose(reference.log_density(x)[2, 650:], reference.log_density(x[2, 650:]), rtol=1e-14)
    assert reference.log_parts(x).shape == (3, 700, 40)


def test_it_integrates_to_one_against_a_known_density():
    rng = seeded_rng("integral")
    proposal = stats.multivariate_t(MEANS.mean(axis=0), 9 * np.eye(3), df=3, seed=rng)
    x = proposal.rvs(size=200_000)
    log_p = proposal.logpdf(x)
    assert_mean_is(1.0, np.exp(SKEWED.log_density(x) - log_p))
    wrong = np.exp(SKEWED.log_density(x) - log_p) / 1.1
    assert_mean_is_not(1.0, wrong)


# --- its draws ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("draw", [draws_by_numpy, draws_by_jax, draws_by_arrays, draws_by_numba])
def test_draws_follow_the_density(draw):
    n = 40_000
    x = draw(SKEWED, n, 7)
    covariance = sum(
        w * (factor @ factor.T * nu / (nu - 2) + np.outer(mean, mean))
        for w, mean, factor, nu in zip(SKEWED.weights, MEANS, FACTORS, [5, 12], strict=True)
    )
    products = np.einsum("ni,nj->nij", x, x)[:, *np.triu_indices(3)]
    truth = np.append(SKEWED.weights @ MEANS, covariance[np.triu_indices(3)])
    assert_mean_is(truth, np.hstack([x, products]))
    # weights towards a density with lighter tails have mean one only if draws and density agree everywhere
    other = Reference([0.5, 0.5], MEANS + 0.1, 0.9 * FACTORS, [16, 16])
    assert_mean_is(1.0, np.exp(other.log_density(x) - SKEWED.log_density(x)))
    assert_mean_is_not(1.0, np.exp(other.log_density(x) - broken(SKEWED).log_density(x)))


def test_a_draw_by_a_generator_is_one_vector():
    assert SKEWED.sample(np.random.default_rng(1)).shape == (3,)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (([0.5, 0.5], MEANS, FACTORS[:1], [5, 5]), r"one weight, mean, square factor .* \(1, 3, 3\)"),
        (([0.5, 0.6], MEANS, FACTORS, [5, 5]), r"sum to 1, but they are \[0.5, 0.6\]"),
        (([0.5, 0.5], MEANS, FACTORS, [5, 2.5]), r"whole numbers of at least 1, but they are \[5.0, 2.5\]"),
        (([0.5, 0.5], MEANS, -FACTORS, [5, 5]), "lower triangular with a positive diagonal"),
    ],
)
def test_a_bad_reference_is_refused(pieces, message):
    with pytest.raises(TargetError, match=message):
        Reference(*pieces)


def test_two_references_are_equal_only_if_they_are_one():
    twin = Reference(SKEWED.weights, MEANS, FACTORS, [5, 12])
    assert twin != SKEWED
    assert len({SKEWED, twin, SKEWED}) == 2
    with pytest.raises(ValueError, match="read-only"):
        twin.means[0] = 0.0


# --- modes ----------------------------------------------------------------------------------------


def gaussian_surface(covariance, mean, *, traceable):
    precision = np.linalg.inv(covariance)
    if traceable:
        return Surface(lambda x: -0.5 * (x - mean) @ precision @ (x - mean), len(mean))
    return Surface(lambda x: float(-0.5 * (np.asarray(x) - mean) @ precision @ (np.asarray(x) - mean)), len(mean))


@pytest.mark.parametrize(("traceable", "tolerance"), [(True, 1e-6), (False, 1e-3)])
def test_a_gaussian_mode_has_its_own_mean_and_covariance(traceable, tolerance):
    factor = FACTORS[1] * np.array([[1e-3], [1.0], [1e2]])
    surface = gaussian_surface(factor @ factor.T, MEANS[0], traceable=traceable)
    assert surface.is_differentiable == traceable
    (mode,) = find_modes(surface, [MEANS[0] + factor @ np.array([1.0, -1.0, 2.0])])
    assert mode.distance(MEANS[0]) < 0.01
    found = mode.factor @ mode.factor.T
    scale = np.sqrt(np.diag(factor @ factor.T))
    np.testing.assert_allclose(
        found / np.outer(scale, scale), factor @ factor.T / np.outer(scale, scale), atol=tolerance
    )
    assert mode.log_mass == pytest.approx(1.5 * np.log(2 * np.pi) + np.linalg.slogdet(factor)[1], abs=10 * tolerance)


def test_a_cusp_and_an_edge_have_widths_although_their_hessian_says_nothing():
    cusp = Surface(lambda x: -jnp.sum(jnp.abs(x)), 2)
    assert np.diagonal(local_factor(cusp, np.zeros(2), 0.0)) == pytest.approx(0.5, rel=0.2)
    edge = Surface(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), 1)
    summit, log_height = climb(edge, np.array([2.0]), None)
    assert 0 < summit[0] < 0.5
    assert log_height > -0.5
    assert 0.2 < local_factor(edge, summit, log_height)[0, 0] < 0.8


def test_summits_joined_without_a_dip_are_one_mode_and_others_are_not():
    ridge = Surface(lambda x: -0.5 * (x[0] / 1e3) ** 4 - 0.5 * x[1] ** 2, 2)  # a flat ridge: climbs stop anywhere
    assert len(find_modes(ridge, [np.array([-300.0, 1.0]), np.array([200.0, -1.0]), np.zeros(2)])) == 1
    pair = Surface(lambda x: jnp.logaddexp(-0.5 * (x[0] - 2.5) ** 2, -0.5 * (x[0] + 2.5) ** 2), 1)
    assert len(find_modes(pair, [np.array([-3.0]), np.array([2.0]), np.array([2.9])])) == 2


def bent(x):
    """Two bananas, one upside down: their summits lie at (0, 0.9) and (12, 7.1)."""
    one = -0.5 * (x[0] ** 2 / 9 + (x[1] - 0.1 * x[0] ** 2 - 0.9) ** 2 / 0.04)
    y = jnp.stack([12.0 - x[0], 8.0 - x[1]])
    other = -0.5 * (y[0] ** 2 / 9 + (y[1] - 0.1 * y[0] ** 2 - 0.9) ** 2 / 0.04)
    return jnp.logaddexp(one, other)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_climbs_made_together_end_on_the_summits(scale):
    surface = Surface(lambda x: bent(x / scale), 2)
    starts = scale * seeded_rng("climbs").uniform([-5, 0], [17, 8], (40, 2))
    ends, heights = climb_together(surface, starts, 1e-13, 300)
    off = np.abs(ends[:, None] / scale - np.array([[0.0, 0.9], [12.0, 7.1]])).max(axis=-1).min(axis=1)
    assert off.max() < 1e-3
    assert heights == pytest.approx(0.0, abs=1e-6)
    singles = np.array([climb(surface, start, None)[1] for start in starts[:4]])
    assert heights[:4] == pytest.approx(singles, abs=1e-6)


def test_control_climbs_cut_short_do_not_end_there():
    starts = seeded_rng("climbs").uniform([-5, 0], [17, 8], (40, 2))
    _, heights = climb_together(Surface(bent, 2), starts, 1e-13, 4)
    assert np.median(heights) < -0.01


def test_points_off_the_support_are_not_climbed_from_and_none_is_climbed_to():
    edge = Surface(lambda x: jnp.where(x[0] > 0, -x[0] - x[1] ** 2, -jnp.inf), 2)
    starts = np.array([[2.0, 1.0], [-1.0, 0.0], [0.1, -1.0]])
    ends, heights = climb_together(edge, starts, 1e-13, 300)
    assert heights[1] == -np.inf
    assert np.all(ends[[0, 2], 0] > 0)
    assert np.all(heights[[0, 2]] > edge.values(starts[[0, 2]]) + 0.3)


@pytest.mark.parametrize("n", [0, 1, 8, 33, 600])
def test_any_number_of_points_is_evaluated_by_one_program(n):
    problem = skewed()
    surface = Surface(problem.log_density, 5)
    x = problem.sample(seeded_rng("points"), n)
    values, gradients = surface.values_and_gradients(x)
    expected = problem.log_density(x)
    np.testing.assert_allclose(surface.values(x), expected)
    np.testing.assert_allclose(values, expected)
    with jax.enable_x64(True):
        slopes = [jax.grad(problem.log_density)(jnp.asarray(row)) for row in x[:3]]
    np.testing.assert_allclose(gradients[:3], np.reshape(slopes, (-1, 5)))
    assert surface.n_calls == 2 * n


def test_a_climb_does_not_leave_its_box():
    surface = Surface(lambda x: -0.5 * jnp.sum((x - 5.0) ** 2), 2)
    summit, _ = climb(surface, np.zeros(2), (np.array([-1.0, -1.0]), np.array([1.0, 9.0])))
    assert summit == pytest.approx([1.0, 5.0], abs=1e-5)


# --- fits -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("make", [two_modes, five_modes])
def test_every_mode_gets_its_mass_from_one_start_in_each_basin(make):
    problem = make()
    rng = seeded_rng(f"masses {make.__name__}")
    fitted = fit_reference(problem.log_density, basin_starts(problem, rng), rng=rng)
    assert fitted.n_modes == problem.n_modes
    assert fitted.is_good
    assert fitted.ess_fraction > 0.4
    assert np.sort(fitted.masses) == pytest.approx(np.sort(problem.weights), abs=0.05)
    # replicates of importance sampling from the fitted reference: level 5, masses exact
    replicates = []
    for _ in range(24):
        x = fitted.reference.sample_many(rng, 10_000)
        w = np.exp(problem.log_density(x) - fitted.reference.log_density(x))
        replicates.append(np.bincount(problem.mode_of(x), w, problem.n_modes) / len(x))
    assert_mean_is(problem.weights, replicates)
    assert_mean_is_not(problem.weights * [1.1, *np.ones(problem.n_modes - 1)], replicates)
    assert fitted.log_normaliser == pytest.approx(0.0, abs=0.1)
    assert fitted.log_normalisers([1.0, 0.0]) == pytest.approx([fitted.log_normaliser, 0.0])


def test_control_a_reference_without_the_narrow_mode_misses_its_mass():
    problem = two_modes()
    fitted = fit_reference(problem.log_density, problem.means[:1] + 0.5, rng=1)
    assert fitted.n_modes == 1
    x = fitted.reference.sample_many(np.random.default_rng(2), 20_000)
    log_w = problem.log_density(x) - fitted.reference.log_density(x)
    w = np.exp(log_w - logsumexp(log_w))
    assert w @ (problem.mode_of(x) == 1) < 0.01


def test_the_broad_component_finds_modes_nobody_named():
    problem = ring()
    fitted = fit_reference(problem.log_density, problem.initial, rng=3)
    assert fitted.n_modes == 8
    assert np.sort(fitted.masses) == pytest.approx(np.sort(problem.weights), abs=0.03)


def test_points_scattered_in_a_box_find_modes():
    problem = five_modes()
    fitted = fit_reference(problem.log_density, problem.initial, box=(-12.0, 12.0), scattered=60, rng=4)
    assert fitted.n_modes >= 2
    with pytest.raises(TargetError, match=r"finite lower ends below its upper ends, but got \[1.0"):
        fit_reference(problem.log_density, problem.initial, box=(1.0, -1.0))


def test_a_function_jax_cannot_trace_is_fitted_by_differences():
    def log_density(x):
        return float(np.logaddexp(-0.5 * np.sum(x**2), -0.5 * np.sum((x - 9.0) ** 2) / 0.25))

    fitted = fit_reference(log_density, [[1.0, -1.0], [8.0, 9.5]], rng=5)
    assert fitted.n_modes == 2
    assert fitted.masses == pytest.approx([0.8, 0.2], abs=0.05)


def test_what_a_mixture_cannot_fit_is_called_poor():
    def funnel(x):
        return -(x[0] ** 2) / 18 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 2 * x[0]

    assert not fit_reference(funnel, np.zeros(5), rng=6).is_good
    assert not fit_reference(lambda x: 0.0 * jnp.sum(x), np.zeros(2), rng=7).is_good
    with pytest.raises(TargetError, match="-inf at all 1 that were given"):
        fit_reference(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), [-1.0], rng=8)


def test_refitting_to_exact_draws_repairs_a_broken_reference():
    problem = skewed()
    rng = seeded_rng("repair")
    fitted = fit_reference(problem.log_density, problem.initial, rng=rng).reference
    factors = np.array(fitted.factors)
    factors[0] *= 1.6
    bad = Reference(fitted.weights, fitted.means + 0.3, factors, fitted.degrees_of_freedom)
    x = problem.sample(rng, 4000)
    repaired = refit_reference(bad, x, np.zeros(len(x)))
    for _ in range(3):
        repaired = refit_reference(repaired, x, np.zeros(len(x)))
    fresh = problem.sample(rng, 4000)
    gain = repaired.log_density(fresh) - bad.log_density(fresh)
    loss = repaired.log_density(fresh) - fitted.log_density(fresh)
    assert gain.mean() > 0.5
    assert abs(loss.mean()) < 0.1


def test_splitting_keeps_every_components_mean_and_covariance():
    q = fit_reference(five_modes().log_density, five_modes().means, rng=2).reference
    parts = split_reference(q)
    assert parts.n_components == 3 * (q.n_components - 1) + 1
    for c in range(q.n_components - 1):
        means, factors = parts.means[3 * c : 3 * c + 3], parts.factors[3 * c : 3 * c + 3]
        assert means.mean(axis=0) == pytest.approx(q.means[c])
        between = np.cov(means.T, bias=True)
        within = (factors @ factors.transpose(0, 2, 1)).mean(axis=0)
        np.testing.assert_allclose(between + within, q.factors[c] @ q.factors[c].T, atol=1e-10)


def test_a_bent_mode_gets_several_components_and_fits():
    problem = Banana()
    fitted = fit_reference(problem.log_density, problem.initial, rng=1)
    assert fitted.n_modes == 1
    assert fitted.masses == pytest.approx([1.0])
    assert fitted.reference.n_components > 2
    assert fitted.ess_fraction > 0.2  # one component alone: 0.03 to 0.2
    assert fitted.is_good


def test_equal_seeds_give_equal_fits():
    problem = five_modes()
    one, two = (fit_reference(problem.log_density, problem.means, rng=9).reference for _ in range(2))
    np.testing.assert_array_equal(one.factors, two.factors)
    np.testing.assert_array_equal(one.weights, two.weights)


# --- the path -------------------------------------------------------------------------------------


def test_the_path_ends_in_the_reference_and_in_the_posterior():
    problem = likelihood_gaussian()
    target = tp.Target.from_likelihood(problem.log_likelihood, problem.log_prior, problem.sample_prior)
    path = along_reference(target, SKEWED)
    x = seeded_rng("path").normal(size=(10, 3))
    np.testing.assert_allclose(path.base(x), SKEWED.log_density(x))
    np.testing.assert_allclose(path.base(x) + path.energy(x), problem.log_density(x), rtol=1e-10)
    assert path is along_reference(target, SKEWED)


def test_positions_with_names_are_laid_out_for_the_reference():
    layout = Layout.of({"a": np.zeros(2), "b": 0.0})
    target = tp.Target(lambda p: -0.5 * (p["a"] ** 2).sum() - p["b"] ** 2)
    path = along_reference(target, SKEWED, layout)
    position = path.sample_base(np.random.default_rng(1))
    assert set(position) == {"a", "b"}
    flat = layout.flatten(position)
    assert path.base(position) == pytest.approx(SKEWED.log_density(flat))
    with jax.enable_x64(True):
        drawn = path.sample_base(jax.random.key(1))
        assert jax.jit(path.energy)(drawn) == pytest.approx(float(path.energy(jax.tree.map(np.asarray, drawn))))


def test_a_numba_target_gets_a_numba_path():
    problem = five_modes()
    q = fit_reference(problem.log_density, problem.means, rng=1).reference
    path = along_reference(tp.Target(problem.log_density_numba), q)
    x = problem.means[2] + 0.3
    assert path.energy(x) == pytest.approx(problem.log_density(x) - q.log_density(x))
    assert hasattr(path.base, "py_func")
    assert path.sample_base(np.random.default_rng(1)).shape == (10,)

    class Plain:
        log_density = staticmethod(lambda x: 0.0)
        sample = staticmethod(lambda rng: 0.0)

    with pytest.raises(TargetError, match=r"compiled by Numba too, but Plain.log_density is not"):
        along_reference(tp.Target(problem.log_density_numba), Plain())

    class Unhashable(Plain):
        __hash__ = None

    with pytest.raises(TargetError, match=r"hashable, .* but Unhashable is not"):
        along_reference(tp.Target(problem.log_density), Unhashable())
    with pytest.raises(TargetError, match="object has no log_density"):
        along_reference(tp.Target(problem.log_density), object())


@pytest.mark.slow
def test_simulated_tempering_from_the_reference_has_every_mass_right():
    problem = two_modes()
    rng = seeded_rng("tempering from a reference")
    starts = basin_starts(problem, rng)
    q = fit_reference(problem.log_density, starts, rng=rng).reference
    run = tp.sample(
        along_reference(tp.Target(problem.log_density), q),
        initial=list(starts),
        ladder=[1, 0.6, 0.3, 0],
        draws=1500,
        tuning=tp.Tuning(320),
        rng=1,
        progress=False,
    )
    mass = run.expect(lambda x: 1.0 * (problem.mode_of(x) == 1))
    cut = student_cut(run.n_chains, 1)
    assert abs(mass.value - 0.3) < cut * mass.standard_error
    assert abs(mass.value - 0.5) > 1.3 * cut * mass.standard_error  # the share of starts: chains did leave


@pytest.mark.parametrize("seed", range(3))
def test_scouts_lead_to_a_mode_that_no_start_climbs_to(seed):
    problem, rng = two_modes(5), seeded_rng(f"scouts {seed}")
    start = problem.means[0]
    hot = np.concatenate([problem.sample(rng, 100, k) for k in (0.3, 0.1, 0.05)])
    assert 0 < np.sum(problem.mode_of(hot) == 1) < 30
    fitted = fit_reference(problem.log_density, start, scouts=hot, rng=rng)
    assert np.abs(fitted.masses - problem.weights).max() < 0.05
    blind = fit_reference(problem.log_density, start, scouts=hot[problem.mode_of(hot) == 0], rng=rng)  # control
    assert blind.n_modes == 1


def test_scouts_that_are_higher_than_known_modes_explain_are_climbed_from(monkeypatch):
    """Around a narrow mode most hot draws lie in no valley's way, but higher than the wide mode would have them."""
    problem, rng = two_modes(8), seeded_rng("unexplained")
    surface = Surface(problem.log_density, 8)
    wide = find_modes(surface, problem.means[:1])
    hot = problem.sample(rng, 4000, 0.1)
    heights = problem.log_density(hot)
    hidden = (problem.mode_of(hot) == 1) & ~is_parted(surface, wide, hot, heights)
    scouts = np.concatenate([hot[hidden][:2], hot[problem.mode_of(hot) == 0][:500]])
    options = {"scouts": (scouts, problem.log_density(scouts)), "effort": FitEffort(draws=300)}
    fitted = fit_reference(problem.log_density, problem.means[0], rng=1, **options)
    assert fitted.n_modes == 2
    monkeypatch.setattr(search, "is_unexplained", lambda modes, places, heights: np.zeros(len(places), dtype=bool))
    blind = fit_reference(problem.log_density, problem.means[0], rng=1, **options)  # control
    assert blind.n_modes == 1


def test_a_fit_stops_at_the_calls_it_was_given():
    problem, calls = Banana(), []

    def counted(x):
        calls.append(1)
        return float(problem.log_density(np.asarray(x)))

    with pytest.raises(TooManyCalls) as stopped:
        fit_reference(counted, problem.initial, effort=FitEffort(most_calls=500), rng=1)
    assert 500 < stopped.value.n_calls
    assert len(calls) <= stopped.value.n_calls


def test_a_summit_without_a_width_is_no_mode(monkeypatch):
    """Where cliffs stand around a summit its lengths come out as nought, and nothing could be solved with them."""
    surface = Surface(lambda x: -0.5 * np.sum(np.asarray(x) ** 2), 2)
    assert len(find_modes(surface, [np.ones(2)])) == 1
    for broken in (np.diag([1.0, 0.0]), np.diag([1.0, np.nan])):
        monkeypatch.setattr("tempering.learning.reference.modes.local_factor", lambda *_, broken=broken: broken)
        assert find_modes(surface, [np.ones(2), -np.ones(2)]) == ()


def test_climbs_made_together_leave_calls_for_what_they_lead_to():
    """A search begins nothing new once half of its calls are made; climbs without a share of their own make these."""

    def narrow(x):  # a valley a thousand times as long as it is wide: climbs take many steps
        return -0.5 * jnp.sum((x * jnp.geomspace(1.0, 1e3, 20)) ** 2) - jnp.sum(jnp.cos(x))

    points = 10.0 * seeded_rng("climbs together").standard_normal((64, 20))
    surface, unbounded = Surface(narrow, 20, most_calls=4_000), Surface(narrow, 20)
    climb_together(surface, points, 1e-6, 300)
    climb_together(unbounded, points, 1e-6, 300)
    assert not surface.is_exhausted
    assert unbounded.n_calls > 4_000 / 2  # control: these would have exhausted it
