"""Every continuous problem: its density, its normaliser and its exact draws must tell one story."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from statistical import (
    FALSE_ALARM_RATE,
    assert_mean_is,
    assert_mean_is_not,
    seeded_rng,
)
from tempering import problems
from tempering.errors import TargetError

PROBLEMS = {
    "mixture": problems.mixture(),
    "skewed_1": problems.skewed(1),
    "skewed_5": problems.skewed(5),
    "banana": problems.Banana(),
    "ring": problems.ring(),
    "two_modes": problems.two_modes(),
    "five_modes": problems.five_modes(),
    "unequal_modes": problems.unequal_modes(5),
}
LIKELIHOOD = problems.likelihood_gaussian(3)
N_DRAWS = 20_000


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def columns(x):
    """Return draws as (n, dimension), also those of a scalar problem."""
    return np.asarray(x).reshape(len(x), -1)


def first_and_second_moments(problem, x):
    """Return statistics whose cold means are 0: centred draws, and their products less the covariance."""
    centred = columns(x) - np.ravel(problem.mean)
    products = centred[:, :, None] * centred[:, None, :] - np.atleast_2d(problem.covariance)
    upper = np.triu_indices(centred.shape[1])
    return np.hstack([centred, products[:, upper[0], upper[1]]])


def integral(log_density, lower, upper, n=1001):
    """Integrate exp(log_density) over a box in one or two dimensions by the trapezoid rule."""
    axes = [np.linspace(a, b, n) for a, b in zip(lower, upper, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    values = np.exp(log_density(points))
    for axis in reversed(axes):
        values = np.trapezoid(values, axis, axis=-1)
    return float(values)


def weighted_back(problem, x, k):
    """Return w - 1 and w times `first_and_second_moments`, w = pi^(1-k) Z_k: all of mean 0 under pi^k."""
    weights = np.exp((1 - k) * problem.log_density(x) + problem.log_normaliser(k))
    return np.column_stack([weights - 1, weights[:, None] * first_and_second_moments(problem, x)])


@pytest.mark.slow
def test_numpy_jax_and_numba_agree(problem):
    x = problem.sample(np.random.default_rng(3), 20, 0.3)
    expected = problem.log_density(x)
    assert expected.shape == (20,)
    with jax.enable_x64(True):
        traced = jax.jit(jax.vmap(problem.log_density))(jnp.asarray(x))
        np.testing.assert_allclose(traced, expected, rtol=1e-12)
        gradient = jax.vmap(jax.grad(problem.log_density))(jnp.asarray(x))
        assert np.all(np.isfinite(gradient))
    np.testing.assert_allclose([problem.log_density_numba(row) for row in x], expected, rtol=1e-12)


def test_far_away_the_log_density_is_minus_infinity_not_nan(problem):
    far = np.full_like(np.asarray(problem.initial), 1e200)
    with np.errstate(over="ignore", divide="ignore"):
        assert problem.log_density(far) == -np.inf
    assert problem.log_density_numba(far) == -np.inf


@pytest.mark.slow
@pytest.mark.parametrize("k", [1.0, 0.4, 0.05])
@pytest.mark.parametrize(
    ("name", "lower", "upper"),
    [
        ("mixture", [-60.0], [60.0]),
        ("skewed_1", [-250.0], [12.0]),
        ("banana", [-60.0, -20.0], [60.0, 900.0]),
        ("ring", [-45.0, -45.0], [45.0, 45.0]),
    ],
)
def test_the_density_to_the_k_integrates_to_its_normaliser(name, lower, upper, k):
    problem = PROBLEMS[name]
    if name == "banana":  # straighten it, a shear of unit Jacobian: a grid cannot follow the bend

        def log_density(x):
            return problem.log_density(np.stack([x[..., 0], x[..., 1] + problem.bend * x[..., 0] ** 2], axis=-1))

        upper = [60.0, 20.0]
    else:
        log_density = problem.log_density
    n = 200_001 if len(lower) == 1 else 1001
    total = integral(lambda x: k * log_density(x[..., 0] if name == "mixture" else x), lower, upper, n)
    assert np.log(total) == pytest.approx(problem.log_normaliser(k), abs=1e-4)


@pytest.mark.parametrize("k", [1.0, 0.5, 0.02])
def test_the_mean_energy_is_the_slope_of_the_log_normaliser(problem, k):
    """d log Z / dk = E_k[log pi] ties draws, density and normaliser together in any dimension."""
    rng = seeded_rng(f"energy {type(problem).__name__} {problem.dimension} {k}")
    energy = problem.log_density(problem.sample(rng, N_DRAWS, k))
    assert_mean_is(slope(problem, k), energy)


@pytest.mark.parametrize("k", [1.0, 0.5, 0.02])
def test_control_draws_at_a_neighbouring_k_have_another_mean_energy(problem, k):
    rng = seeded_rng(f"energy control {type(problem).__name__} {problem.dimension} {k}")
    energy = problem.log_density(problem.sample(rng, N_DRAWS, 0.85 * k))
    assert_mean_is_not(slope(problem, k), energy)


def slope(problem, k):
    """Differentiate log Z at k by a five-point rule on a log scale, one-sided at k = 1."""
    backward = (np.arange(0, -5, -1), [25 / 12, -4, 3, -4 / 3, 1 / 4])
    central = (np.array([-2, -1, 1, 2]), np.array([1, -8, 8, -1]) / 12)
    places, rule = backward if k == 1.0 else central
    values = [problem.log_normaliser(k * np.exp(0.02 * place)) for place in places]
    return np.dot(rule, values) / (0.02 * k)


def test_cold_draws_have_the_stated_moments_and_mode_masses(problem):
    rng = seeded_rng(f"cold {type(problem).__name__} {problem.dimension}")
    x = problem.sample(rng, N_DRAWS)
    assert_mean_is(0.0, first_and_second_moments(problem, x))
    if len(problem.mode_masses) > 1:
        one_hot = problem.mode_of(x)[:, None] == np.arange(len(problem.mode_masses))
        assert_mean_is(problem.mode_masses, one_hot)


def test_control_moments_off_by_a_fifteenth_of_a_deviation_are_seen(problem):
    x = problem.sample(seeded_rng(f"shifted {type(problem).__name__} {problem.dimension}"), N_DRAWS)
    shift = np.sqrt(np.diag(np.atleast_2d(problem.covariance))) / 15
    assert_mean_is_not(0.0, first_and_second_moments(problem, columns(x) + shift))


def test_draws_of_a_power_weighted_back_have_the_cold_moments(problem):
    k = 0.6 if problem.dimension < 10 else 0.9
    x = problem.sample(seeded_rng(f"back {type(problem).__name__} {problem.dimension}"), N_DRAWS, k)
    assert_mean_is(0.0, weighted_back(problem, x, k))


def test_control_weights_of_another_k_are_seen(problem):
    k = 0.6 if problem.dimension < 10 else 0.9
    x = problem.sample(seeded_rng(f"not back {type(problem).__name__} {problem.dimension}"), N_DRAWS, 0.9 * k)
    assert_mean_is_not(0.0, weighted_back(problem, x, k))


@pytest.mark.parametrize("k", [0.02, 0.003])
def test_rejection_gives_the_power_of_a_mixture_where_its_modes_melt(k):
    problem = problems.mixture()
    x = problem.sample(seeded_rng(f"rejection {k}"), N_DRAWS, k)
    assert stats.kstest(x, lambda v: numerical_cdf(problem, v, k)).pvalue > FALSE_ALARM_RATE


def test_control_the_envelope_without_rejection_is_seen(monkeypatch):
    problem = problems.NormalMixture([0.5, 0.5], [0.0, 0.0], [1.0, 3.0])
    monkeypatch.setattr(problems.GaussianMixture, "_log_acceptance", lambda self, x, k: np.zeros(len(x)))
    x = problem.sample(seeded_rng("envelope"), N_DRAWS, 0.3)
    assert stats.kstest(x, lambda v: numerical_cdf(problem, v, 0.3)).pvalue < FALSE_ALARM_RATE**1.3


def numerical_cdf(problem, x, k):
    grid = np.linspace(-400, 400, 400_001)
    density = np.exp(k * problem.log_density(grid) - problem.log_normaliser(k))
    return np.interp(x, grid, np.cumsum(density) * (grid[1] - grid[0]))


@pytest.mark.parametrize("name", ["mixture", "skewed_1"])
def test_one_dimensional_draws_follow_the_distribution_function(name):
    problem = PROBLEMS[name]
    x = problem.sample(seeded_rng(f"cdf {name}"), N_DRAWS).ravel()
    assert stats.kstest(x, problem.cdf).pvalue > FALSE_ALARM_RATE
    assert stats.kstest(x + 0.1 * x.std(), problem.cdf).pvalue < FALSE_ALARM_RATE**1.3


def test_the_likelihood_problem_is_exact_along_its_path():
    """E_prior[L^k] = Z_k, and the draws at any k reproduce the slope and the Gaussian moments."""
    rng = seeded_rng("likelihood")
    for k in (0.0, 0.3, 1.0):
        x = LIKELIHOOD.sample(rng, N_DRAWS, k)
        mean, covariance = LIKELIHOOD.posterior(k)
        assert_mean_is(mean, x)
        assert_mean_is(covariance, np.einsum("ni,nj->nij", x - mean, x - mean))
    prior = np.array([LIKELIHOOD.sample_prior(rng) for _ in range(N_DRAWS)])
    ratio = np.exp(0.05 * LIKELIHOOD.log_likelihood(prior) - LIKELIHOOD.log_normaliser(0.05))
    assert_mean_is(1.0, ratio)
    assert_mean_is_not(1.0, np.exp(0.06 * LIKELIHOOD.log_likelihood(prior) - LIKELIHOOD.log_normaliser(0.05)))


def test_the_evidence_agrees_with_quadrature_and_the_prior_integrates_to_one():
    problem = problems.likelihood_gaussian(2)
    lower, upper = [-12.0, -12.0], [12.0, 12.0]
    assert integral(problem.log_prior, lower, upper) == pytest.approx(1.0, abs=1e-6)
    assert np.log(integral(problem.log_density, lower, upper)) == pytest.approx(problem.log_evidence, abs=1e-6)
    assert problem.log_normaliser(0.0) == pytest.approx(0.0, abs=1e-12)


def test_the_likelihood_problem_speaks_numpy_jax_and_numba():
    x = LIKELIHOOD.sample(np.random.default_rng(4), 10, 0.2)
    with jax.enable_x64(True):
        for name in ("log_prior", "log_likelihood", "log_density"):
            function = getattr(LIKELIHOOD, name)
            np.testing.assert_allclose(jax.jit(jax.vmap(function))(jnp.asarray(x)), function(x), rtol=1e-12)
        drawn = LIKELIHOOD.sample_prior(jax.random.key(1))
        assert drawn.shape == (3,)
    for name in ("log_prior", "log_likelihood", "log_density"):
        compiled = getattr(LIKELIHOOD, name + "_numba")
        np.testing.assert_allclose([compiled(row) for row in x], getattr(LIKELIHOOD, name)(x), rtol=1e-12)


def test_a_problem_does_not_change_and_equal_seeds_give_equal_draws(problem):
    first = problem.sample(np.random.default_rng(5), 50, 0.2)
    second = problem.sample(np.random.default_rng(5), 50, 0.2)
    np.testing.assert_array_equal(first, second)
    problem.initial[...] = 99.0
    assert not np.any(problem.initial == 99.0)
    assert problem.sample(np.random.default_rng(5), 0).shape == first[:0].shape


@pytest.mark.parametrize(
    "build",
    [
        lambda: problems.GaussianMixture([0.5, 0.6], np.zeros((2, 2)), np.ones(2)),
        lambda: problems.GaussianMixture([0.5, 0.5], np.zeros((3, 2)), np.ones(2)),
        lambda: problems.NormalMixture([0.5, 0.5], [0.0, 1.0], [1.0, -1.0]),
        lambda: problems.Skewed([1.0, 2.0], [0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]),
        lambda: problems.Skewed([-1.0], [0.0], [[1.0]]),
        lambda: problems.skewed(2).cdf(0.0),
        lambda: problems.Banana(spread=0.0),
        lambda: problems.GaussianLikelihood([[1.0]], [1.0, 2.0], [0.0], [1.0], 1.0),
        lambda: problems.GaussianLikelihood([[1.0]], [1.0], [0.0], [1.0], -1.0),
        lambda: problems.mixture().log_normaliser(0.0),
        lambda: problems.ring().sample(np.random.default_rng(1), 3, k=1.5),
        lambda: LIKELIHOOD.posterior(-0.1),
        lambda: problems.variable_selection().model_probabilities(2.0),
        lambda: problems.VariableSelection(np.ones((3, 2)), np.ones(2)),
        lambda: problems.VariableSelection(np.ones((3, 2)), np.ones(3), inclusion=1.0),
    ],
)
def test_what_cannot_be_is_refused_with_the_value(build):
    with pytest.raises(TargetError, match=r"(must|needs) .*but (got|this)"):
        build()
