"""Generalised linear models: Laplace against quadrature, derivatives against differences, chains against all models."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from statistical import seeded_rng
from tempering.errors import InputError
from tempering.models.variable_selection import Family, VariableSelection
from tempering.models.variable_selection.families import FAMILIES, _higher, _terms

NAMES = [name for name in FAMILIES if name != "gaussian"]
TRIALS, DISPERSION = 4.0, 2.5


def response(name, eta, rng):
    mean = FAMILIES[name].mean(eta)
    if name in ("logistic", "probit"):
        return (rng.random(eta.size) < mean).astype(float)
    if name == "binomial":
        return rng.binomial(int(TRIALS), mean).astype(float)
    if name == "poisson":
        return rng.poisson(mean).astype(float)
    return rng.poisson(mean * rng.gamma(DISPERSION, 1 / DISPERSION, eta.size)).astype(float)


def data(name, n=60, p=5):
    rng = seeded_rng(f"families {name}")
    x = rng.standard_normal((n, p))
    x[:, 1] = 0.9 * x[:, 0] + 0.44 * x[:, 1]
    return x, response(name, 0.3 + 0.9 * x[:, 0] - 0.6 * x[:, 2], rng)


def log_density(name, y, eta):
    """The log density of responses by SciPy, an independent source."""
    if name in ("logistic", "binomial"):
        return stats.binom.logpmf(y, 1 if name == "logistic" else TRIALS, expit(eta))
    if name == "probit":
        return stats.bernoulli.logpmf(y, stats.norm.cdf(eta))
    if name == "poisson":
        return stats.poisson.logpmf(y, np.exp(eta))
    return stats.nbinom.logpmf(y, DISPERSION, DISPERSION / (DISPERSION + np.exp(eta)))


def fitted(name, **settings):
    x, y = data(name)
    trials = TRIALS if name == "binomial" else None
    sampling = {"draws": 300, "tune": 100, "chains": 4} | settings
    family = Family(name, trials=trials, dispersion=DISPERSION)
    return VariableSelection(family, sampling=sampling, random_state=1).fit(x, y)


@pytest.mark.parametrize("name", NAMES)
def test_slopes_and_curvatures_are_those_of_the_log_density(name):
    code, step = FAMILIES[name].code, 1e-4
    trials = TRIALS if name == "binomial" else 1.0
    for y, eta in [(0.0, -2.1), (1.0, -0.4), (1.0, 1.7), (0.0, 0.9)]:
        value, slope, curvature = _terms(code, eta, y, trials, DISPERSION)
        above, below = (_terms(code, eta + d, y, trials, DISPERSION)[0] for d in (step, -step))
        assert slope == pytest.approx((above - below) / (2 * step), abs=1e-6)
        assert curvature == pytest.approx(-(above - 2 * value + below) / step**2, abs=1e-5)
        third, fourth = _higher(code, eta, y, trials, DISPERSION)
        above, below = (_terms(code, eta + d, y, trials, DISPERSION)[2] for d in (step, -step))
        assert third == pytest.approx(-(above - below) / (2 * step), abs=1e-6)
        assert fourth == pytest.approx(-(above - 2 * curvature + below) / step**2, abs=1e-5)
        other = _terms(code, eta + 1.0, y, trials, DISPERSION)[0]
        truth = log_density(name, y, eta + 1.0) - log_density(name, y, eta)
        assert other - value == pytest.approx(float(truth), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_marginal_likelihood_is_near_that_of_quadrature(name):
    """Two coefficients (intercept, one column): within 0.002 on 60 rows, a tenth of the first order's error."""
    model = fitted(name)
    problem = model.problem_
    value, beta, tril = problem.evaluate((0,))
    deviation = np.sqrt(np.diag(np.linalg.inv(tril @ tril.T)))
    x = problem.columns[:, 0]

    low, high = beta - 8 * deviation, beta + 8 * deviation
    nodes, weights = np.polynomial.legendre.leggauss(60)
    a = 0.5 * (high[0] - low[0]) * nodes + 0.5 * (high[0] + low[0])
    b = 0.5 * (high[1] - low[1]) * nodes + 0.5 * (high[1] + low[1])
    eta = a[:, None, None] + b[None, :, None] * x
    log_grid = log_density(name, problem.response, eta).sum(axis=-1)
    log_grid += stats.norm.logpdf(a, scale=10.0)[:, None] + stats.norm.logpdf(b)
    grid = np.exp(log_grid - value)
    area = 0.25 * (high[0] - low[0]) * (high[1] - low[1])
    assert abs(np.log(area * weights @ grid @ weights)) < 0.002


@pytest.mark.parametrize("name", NAMES)
def test_the_chain_has_the_inclusion_probabilities_of_all_models(name):
    model = fitted(name, draws=1000)
    problem = model.problem_
    sets = [tuple(i for i in range(5) if row[i]) for row in np.ndindex(*(2,) * 5)]
    log_posterior = np.array([problem.log_prior(s) + problem.evaluate(s)[0] for s in sets])
    weight = np.exp(log_posterior - log_posterior.max())
    weight /= weight.sum()
    truth = np.array([sum(w for s, w in zip(sets, weight, strict=True) if unit in s) for unit in range(5)])
    z = (model.inclusion_probabilities_ - truth) / np.maximum(model.inclusion_errors_, 1e-6)
    assert np.abs(z).max() < 6
    wrong = (model.inclusion_probabilities_ + 0.1 - truth) / np.maximum(model.inclusion_errors_, 1e-6)
    assert np.abs(wrong).max() > 8
    evidence = model.log_evidence()
    assert abs(evidence.value - np.logaddexp.reduce(log_posterior)) < 6 * evidence.standard_error


def all_sets(problem):
    """Return all sets of units and their probabilities under the problem's own marginal likelihoods."""
    p = len(problem.units)
    sets = [tuple(i for i in range(p) if row[i]) for row in np.ndindex(*(2,) * p)]
    log_posterior = np.array([problem.log_prior(s) + problem.evaluate(s)[0] for s in sets])
    return sets, np.exp(log_posterior - np.logaddexp.reduce(log_posterior))


def integrated(problem, name, model, nodes=9):
    """Return the log marginal likelihood of a model by Gauss-Hermite quadrature around its mode, in all dimensions."""
    _, beta, tril = problem.evaluate(model)
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[z] * len(beta), indexing="ij"), -1).reshape(-1, len(beta))
    log_w = np.stack(np.meshgrid(*[np.log(w)] * len(beta), indexing="ij"), -1).reshape(len(grid), -1).sum(axis=1)
    at = beta + np.linalg.solve(tril.T, grid.T).T
    eta = at[:, :1] + at[:, 1:] @ problem.columns[:, list(model)].T
    log_prior = stats.norm.logpdf(at[:, 0], scale=10.0) + stats.norm.logpdf(at[:, 1:]).sum(axis=1)
    value = log_density(name, problem.response, eta).sum(axis=1) + log_prior + 0.5 * (grid**2).sum(axis=1) + log_w
    return np.logaddexp.reduce(value) - np.log(np.diag(tril)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_inclusion_probabilities_are_near_those_of_numerical_integration_over_all_models(name):
    """Four columns, 60 rows: within .001. To the first order, Laplace's approximation is off by .01 (logistic)."""
    x, y = data(name, p=4)
    family = Family(name, trials=TRIALS if name == "binomial" else None, dispersion=DISPERSION)
    problem = (
        VariableSelection(family, sampling={"draws": 100, "tune": 10, "chains": 2}, random_state=1).fit(x, y).problem_
    )
    sets, weight = all_sets(problem)
    exact = np.array([problem.log_prior(s) + integrated(problem, name, s) for s in sets])
    exact = np.exp(exact - np.logaddexp.reduce(exact))
    inside = np.array([[unit in s for unit in range(4)] for s in sets])
    assert np.abs(weight @ inside - exact @ inside).max() < 0.001
    finer = integrated(problem, name, sets[-1], nodes=11)
    assert abs(finer - integrated(problem, name, sets[-1])) < 1e-4  # the quadrature itself
    without = np.array([problem.log_prior(s) + problem.evaluate(s)[0] + 0.5 * len(s) for s in sets])
    wrong = np.exp(without - np.logaddexp.reduce(without))
    assert np.abs(wrong @ inside - exact @ inside).max() > 0.02  # half a nat for a column would be seen


def test_a_look_at_three_flips_of_five_has_the_same_inclusion_probabilities():
    model = fitted("poisson", draws=3000, tries=3)
    sets, weight = all_sets(model.problem_)
    truth = np.array([sum(w for s, w in zip(sets, weight, strict=True) if unit in s) for unit in range(5)])
    error = np.maximum(model.inclusion_errors_, 1e-3)
    assert np.abs((model.inclusion_probabilities_ - truth) / error).max() < 6
    assert np.abs((model.inclusion_probabilities_ + 0.1 - truth) / error).max() > 8
    with pytest.raises(InputError, match="leave tries out"):
        VariableSelection(sampling={"tries": 3}).fit(*data("poisson"))


@pytest.mark.parametrize("name", NAMES)
def test_predictions_are_means_of_the_response(name):
    model = fitted(name)
    x, y = data(name)
    mean, deviation = model.predict(x, return_std=True)
    share = y / TRIALS if name == "binomial" else y
    assert mean.mean() == pytest.approx(share.mean(), rel=0.1)
    assert np.all(deviation > 0)
    assert np.corrcoef(mean, share)[0, 1] > 0.35
    assert model.score(x, y) == pytest.approx(1 - np.var(share - mean) / np.var(share), abs=0.05)


def test_rungs_run_over_generalised_models_too():
    model = fitted("logistic", ladder=[1.0, 0.5, 0.2], draws=600)
    plain = fitted("logistic", draws=600)
    difference = model.inclusion_probabilities_ - plain.inclusion_probabilities_
    error = np.hypot(model.inclusion_errors_, plain.inclusion_errors_)
    assert np.abs(difference / error).max() < 6
    assert set(np.unique(model.posterior_.rung)) == {0, 1, 2}
