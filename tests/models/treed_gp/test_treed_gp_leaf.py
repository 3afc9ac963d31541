"""The integrated likelihood of one leaf, (5.1), against other ways to the same number."""

import math

import numpy as np
import pytest
import treed_gp_twin as twin
from scipy import integrate, stats

from statistical import seeded_rng
from tempering.models.treed_gp import layout, reference, summary
from tempering.models.treed_gp import leaf as inner
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.settings import CORRELATIONS, Prior
from tempering.models.treed_gp.summary import gram_of, shift_of

log_likelihood, log_marginal, summarise, plant_root = map(
    twin.from_python, (inner.log_likelihood, inner.log_marginal, summary.summarise, reference.plant_root)
)


def one_leaf(rng, *, n, n_columns=2, leaf="gp", replicates=1, **prior):
    """Return a root-only state with every parameter drawn from the prior, and its rows."""
    x = np.repeat(rng.random((n, n_columns)), replicates, axis=0)
    z = rng.standard_normal(len(x))
    model = TreedGPModel(x, z, leaf=leaf, prior=Prior(tree=False, **prior))
    state = model.initial(rng)
    return model, state, (x - x.min(0)) / np.ptp(x, 0), (z - z.mean()) / np.ptp(z)


def smooth_leaf(rng, n, n_columns, share):
    """Return a leaf of nearly collinear correlations, with so large a share of the smallest nugget there may be."""
    model, state, _, _ = one_leaf(rng, n=n, n_columns=n_columns)
    state.leaf[0, layout.RANGES : layout.RANGES + n_columns] = 10.0
    state.leaf[0, layout.NUGGET] = share * model.real[layout.NUGGET_FLOOR]
    summarise(state, 0)
    return state


@pytest.mark.parametrize("n", [20, 60, 250])
def test_the_smallest_nugget_is_what_the_largest_leaf_needs(n):
    """It limits how well data without noise are predicted: 1e-12 for all made errors of Branin's function double."""
    rng = seeded_rng(f"floor {n}")
    states = [smooth_leaf(rng, n, d, 1.0) for d in (1, 2) for _ in range(10)]
    assert all(np.isfinite(state.leaf[0, layout.LOG_DET]) for state in states)
    assert states[0].real[layout.NUGGET_FLOOR] < 1e-15 * n
    without = [smooth_leaf(rng, n, 1, 1e-3) for _ in range(10)]
    assert any(np.isinf(state.leaf[0, layout.LOG_DET]) for state in without)


def test_replicates_do_not_make_the_smallest_nugget_too_small():
    rng = seeded_rng("floor, replicates")
    model, state, _, _ = one_leaf(rng, n=60, replicates=30)
    state.leaf[0, layout.RANGES : layout.RANGES + 2] = 10.0
    state.leaf[0, layout.NUGGET] = model.real[layout.NUGGET_FLOOR]
    summarise(state, 0)
    assert np.isfinite(state.leaf[0, layout.LOG_DET])


@pytest.mark.slow
@pytest.mark.parametrize("k", [0.3, 1.0, 1.7])
def test_integrated_likelihood_is_the_integral(k):
    rng = seeded_rng(f"quadrature {k}")
    _, state, x, z = one_leaf(rng, n=5, n_columns=1, mean="constant", sigma2_rates=(0, 0), sigma2=(5, 3))
    root, shared = state.leaf[0], state.shared
    matrix = twin.covariance(x, root[layout.RANGES : layout.RANGES + 1], [1], root[layout.NUGGET], "separable")
    scale = root[layout.TAU2] / shared[layout.BETA0 + 1]
    prior = stats.invgamma(2.5, scale=1.5)

    inverse, log_det = np.linalg.inv(matrix), np.linalg.slogdet(matrix)[1]

    def integrand(beta, log_sigma2):
        sigma2 = math.exp(log_sigma2)
        log_l = -0.5 * (5 * math.log(2 * math.pi * sigma2) + log_det + (z - beta) @ inverse @ (z - beta) / sigma2)
        deviation = (beta - shared[layout.BETA0]) ** 2 / (sigma2 * scale)
        log_p = -0.5 * (math.log(2 * math.pi * sigma2 * scale) + deviation) + prior.logpdf(sigma2)
        return math.exp(k * log_l + log_p + log_sigma2)

    def inner(log_sigma2):
        reach = 12 * math.exp(log_sigma2 / 2) * math.sqrt(scale + 1)
        centre = shared[layout.BETA0]
        ends = min(centre, 0.0) - reach, max(centre, 0.0) + reach
        return integrate.quad(integrand, *ends, args=(log_sigma2,), points=[centre, 0.0], limit=200)[0]

    exact = integrate.quad(inner, -8, 16, limit=200)[0]
    assert log_marginal(state, 0, k) == pytest.approx(math.log(exact), abs=1e-5)


def test_integrated_likelihood_at_one_is_a_multivariate_t():
    rng = seeded_rng("multivariate t")
    _, state, x, z = one_leaf(rng, n=12)
    m, shared, root = 3, state.shared, state.leaf[0]
    matrix = twin.covariance(x, root[layout.RANGES : layout.RANGES + 2], [1, 1], root[layout.NUGGET], "separable")
    f = twin.regressors(x, m)
    beta0, w = (
        shared[layout.BETA0 : layout.BETA0 + m],
        np.linalg.inv(shared[layout.BETA0 + m :].reshape(m, m)),
    )
    a, q = shared[layout.A_SIGMA], shared[layout.Q_SIGMA]
    shape = q / a * (matrix + root[layout.TAU2] * f @ w @ f.T)
    assert log_marginal(state, 0, 1.0) == pytest.approx(stats.multivariate_t.logpdf(z, f @ beta0, shape, df=a))


def test_integrated_likelihood_at_zero_is_one():
    _, state, _, _ = one_leaf(seeded_rng("k zero"), n=20)
    assert log_marginal(state, 0, 0.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("leaf", ["constant", "linear", "gp", "gp_linear"])
@pytest.mark.parametrize("correlation", list(CORRELATIONS))
def test_collapsed_leaf_agrees_with_its_dense_twin(leaf, correlation):
    rng = seeded_rng(f"{leaf} {correlation}")
    for _ in range(5):
        _, state, x, z = one_leaf(rng, n=15, replicates=2, leaf=leaf, correlation=correlation)
        n_ranges, m = state.integer[layout.N_RANGES], state.integer[layout.N_MEAN]
        ranges = state.leaf[0, layout.RANGES : layout.RANGES + n_ranges]
        active = state.leaf[0, layout.RANGES + n_ranges : layout.RANGES + 2 * n_ranges]
        always, nugget = leaf in ("constant", "linear"), state.leaf[0, layout.NUGGET]
        exponent = state.leaf[0, layout.EXPONENT]
        matrix = twin.covariance(x, ranges, active, nugget, correlation, exponent=exponent, is_always_linear=always)
        f = twin.regressors(x, m)
        sides = np.column_stack([f, z - f @ shift_of(state, 0)])
        gram = gram_of(state, 0).reshape(m + 1, m + 1)
        expected = np.linalg.solve(matrix, sides).T @ sides
        np.testing.assert_allclose(np.tril(gram), np.tril(expected), rtol=1e-7, atol=1e-7)
        assert state.leaf[0, layout.LOG_DET] == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-8)


@pytest.mark.parametrize("k", [0.2, 1.0])
def test_log_marginal_agrees_with_its_twin(k):
    rng = seeded_rng(f"marginal twin {k}")
    for _ in range(10):
        _, state, _, _ = one_leaf(rng, n=14, leaf="gp_linear")
        assert log_marginal(state, 0, k) == pytest.approx(twin.Snapshot(state).log_marginal(k), rel=1e-8)


def test_log_likelihood_is_the_normal_density_at_the_drawn_parameters():
    rng = seeded_rng("likelihood")
    _, state, x, z = one_leaf(rng, n=14, leaf="gp_linear")
    while twin.Snapshot(state).used(0).all() or not twin.Snapshot(state).parameters(0)[1].any():
        _, state, x, z = one_leaf(rng, n=14, leaf="gp_linear")  # until a slope is left out
    ranges, active, beta = twin.Snapshot(state).parameters(0)
    matrix = twin.covariance(x, ranges, active, state.leaf[0, layout.NUGGET], "separable")
    exact = stats.multivariate_normal.logpdf(z, twin.regressors(x, 3) @ beta, state.leaf[0, layout.SIGMA2] * matrix)
    assert log_likelihood(state, 0) == pytest.approx(exact)


def test_a_singular_correlation_has_likelihood_zero():
    _, state, _, _ = one_leaf(seeded_rng("singular"), n=30, n_columns=1)
    plant_root(state)
    state.leaf[0, layout.RANGES] = 1e9
    state.leaf[0, layout.NUGGET] = 0.0
    summarise(state, 0)
    assert log_marginal(state, 0, 0.5) == -math.inf


def least_squares(x, z):
    f = twin.regressors(x, x.shape[1] + 1)
    return f, np.linalg.lstsq(f, z, rcond=None)[0]


@pytest.mark.parametrize("leaf", ["linear", "gp"])
@pytest.mark.parametrize("k", [0.4, 1.0])
def test_coefficients_around_least_squares_have_that_prior_mean(leaf, k):
    rng = seeded_rng(f"least squares {leaf} {k}")
    _, state, x, z = one_leaf(rng, n=14, leaf=leaf, coefficients="least_squares")
    f, centre = least_squares(x, z)
    root, shared = state.leaf[0], state.shared
    n_ranges = state.integer[layout.N_RANGES]
    ranges, active = np.split(root[layout.RANGES : layout.RANGES + 2 * n_ranges], 2)
    matrix = twin.covariance(x, ranges, active, root[layout.NUGGET], "separable", is_always_linear=leaf == "linear")
    w_inverse = shared[layout.BETA0 + 3 :].reshape(3, 3)
    a, q = shared[layout.A_SIGMA], shared[layout.Q_SIGMA]
    exact = twin.log_marginal(z, f, matrix, w_inverse, centre, root[layout.TAU2], a, q, k)
    assert log_marginal(state, 0, k) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("k", [0.6, 1.0])
def test_flat_coefficients_take_their_degrees_of_freedom_with_them(k):
    _, state, x, z = one_leaf(seeded_rng(f"flat {k}"), n=14, coefficients="flat")
    f, _ = least_squares(x, z)
    root, shared = state.leaf[0], state.shared
    matrix = twin.covariance(x, root[layout.RANGES : layout.RANGES + 2], [1, 1], root[layout.NUGGET], "separable")
    inverse = np.linalg.inv(matrix)
    v = np.linalg.inv(k * f.T @ inverse @ f)
    beta = k * v @ f.T @ inverse @ z
    lam = k * z @ inverse @ z - beta @ np.linalg.solve(v, beta)
    a, q = shared[layout.A_SIGMA], shared[layout.Q_SIGMA]
    shape = (a + k * 14 - 3) / 2
    exact = (np.linalg.slogdet(v)[1] - k * 14 * math.log(2 * math.pi) - k * np.linalg.slogdet(matrix)[1]) / 2
    exact += a / 2 * math.log(q / 2) - shape * math.log((q + lam) / 2) + math.lgamma(shape) - math.lgamma(a / 2)
    assert log_marginal(state, 0, k) == pytest.approx(exact, rel=1e-7)


def test_a_third_of_the_default_ranges_is_short_enough_for_a_bump_within_a_leaf():
    """x exp(-x^2 - y^2) on [-2, 6]^2 has ranges of 0.01 to 0.05; with a tenth below that small leaves call it noise."""
    mixture = Prior().range_
    below, beyond = (
        np.mean([stats.gamma.cdf(x, mixture[i], scale=1 / mixture[i + 1]) for i in (0, 2)]) for x in (0.05, 5)
    )
    assert 0.3 < below < 0.4
    assert 1 - beyond > 0.15  # and surfaces that are nearly plane in an input
