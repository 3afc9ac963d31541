"""Oracles 3, 4 and 5 of the specification: quadrature, weights, normalisers; whole runs against enumeration."""

import math

import numpy as np
import pytest
import treed_gp_twin as twin
from numba import njit

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.estimators import combined_ess, ess_of_weights
from tempering.estimators.rules import ess_optimal
from tempering.models.treed_gp.layout import LOG_DET, N_LEAVES, N_ROWS, NUGGET, RANGES, SIGMA2
from tempering.models.treed_gp.model import TreedGPModel, energy, step
from tempering.models.treed_gp.settings import Prior, Proposals
from tempering.models.treed_gp.summary import active_of
from tempering.path.ladder import Ladder

# beta ~ N(0, sigma^2 I), tau^2 = 1 and (a, q) fixed: p(d, g | Z) is then an integral over the plane.
A, Q = 5.0, 10.0
TGP = {"range_": (1.0, 20.0, 10.0, 10.0), "nugget": (1.0, 1.0, 1.0, 1.0)}  # priors within the grid


def simple_prior(q):
    rates = {"sigma2_rates": (0.0, 0.0), "tau2_rates": (0.0, 0.0)}
    return Prior(tree=False, coefficients="fixed", slope=1.0, sigma2=(A, q), **rates, **TGP)


def log_mixture(x, prior):
    parts = [(a * np.log(b) + (a - 1) * np.log(x) - b * x - math.lgamma(a)) for a, b in (prior[:2], prior[2:])]
    return np.logaddexp(*parts) + math.log(0.5)


def grid(x, z, q, n=90):
    """Return (log d, log g, log posterior of a GP leaf, of a linear leaf) on a grid, at k = 1."""
    log_d, log_g = np.linspace(math.log(1e-3), math.log(6.0), n), np.linspace(math.log(1e-4), math.log(12.0), n)
    prior = Prior(**TGP)
    f = twin.regressors(x, 2)
    process, linear = np.empty((n, n)), np.empty((n, n))
    flat = (np.eye(2), np.zeros(2), 1.0, A, q, 1.0)
    for j, g in enumerate(np.exp(log_g)):
        linear[:, j] = twin.log_marginal(z, f, g * np.eye(len(z)), *flat)
        for i, d in enumerate(np.exp(log_d)):
            matrix = np.exp(-((x - x.T) ** 2) / d) + g * np.eye(len(z))
            process[i, j] = twin.log_marginal(z, f, matrix, *flat)
    log_prior = log_mixture(np.exp(log_d), prior.range_)[:, None] + log_mixture(np.exp(log_g), prior.nugget)
    log_prior = log_prior + log_d[:, None] + log_g
    return log_d, log_g, process + log_prior, linear + log_prior


@njit
def collect(rng, state, k, n, out):
    for i in range(n):
        for _ in range(3):
            step(rng, state, k)
        out[i, 0] = (1.0 - k) * energy(state)
        out[i, 1] = math.log(state.leaf[0, RANGES])
        out[i, 2] = math.log(state.leaf[0, NUGGET])
        out[i, 3] = 1.0 - active_of(state, 0)[0]


def weighted_means(model, rng, k, n, n_runs):
    rows = []
    for _ in range(n_runs):
        state, out = model.initial(rng), np.empty((n, 4))
        collect(rng, state, 1.0, 200, np.empty((200, 4)))
        collect(rng, state, k, n, out)
        w = np.exp(out[:, 0] - out[:, 0].max())
        assert w.sum() ** 2 / (w**2).sum() > 50
        rows.append(w @ out[:, 1:] / w.sum())
    return np.array(rows)


@pytest.fixture(scope="module")
def plane():
    """Return data of one GP leaf and its exact posterior means of log d and log g."""
    rng = np.random.default_rng(30)
    x = np.sort(rng.random(30))[:, None]
    y = np.sin(6 * x.ravel()) + 0.25 * rng.standard_normal(30)
    log_d, log_g, log_p, _ = grid((x - x.min()) / np.ptp(x), (y - y.mean()) / np.ptp(y), Q)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return x, y, np.array([p.sum(axis=1) @ log_d, p.sum(axis=0) @ log_g])


@pytest.mark.slow
@pytest.mark.parametrize("k", [1.0, 0.8, 0.6])
def test_importance_sampling_from_one_temperature_agrees_with_the_cold_one(k, plane):
    x, y, exact = plane
    model = TreedGPModel(x, y, prior=simple_prior(Q), proposals=Proposals(window=2.5, nugget_move=1.0))
    runs = weighted_means(model, seeded_rng(f"one temperature {k}"), k, 2000, 24)[:, :2]
    assert_mean_is(exact, runs)
    biased = np.array([-0.3, 0.3])  # what variance inflation in place of the power does at k = 0.8
    assert_mean_is_not(exact + biased, runs)


@pytest.mark.slow
def test_odds_of_the_linear_model_are_those_of_quadrature():
    rng = np.random.default_rng(20)
    x = np.sort(rng.random(20))[:, None]
    y = x.ravel() + 0.15 * np.sin(5 * x.ravel()) + 0.2 * rng.standard_normal(20)
    prior = simple_prior(0.2)
    model = TreedGPModel(x, y, leaf="gp_linear", prior=prior, proposals=Proposals(window=2.5, nugget_move=1.0))
    log_d, _, process, linear = grid((x - x.min()) / np.ptp(x), (y - y.mean()) / np.ptp(y), 0.2)
    off = 0.2 + 0.7 / (1 + np.exp(-10 * (np.exp(log_d) - 0.5)))
    top = max(process.max(), linear.max())
    weight_linear = (np.exp(linear - top) * off[:, None]).sum()
    weight_process = (np.exp(process - top) * (1 - off)[:, None]).sum()
    exact = weight_linear / (weight_linear + weight_process)
    runs = weighted_means(model, seeded_rng("odds"), 1.0, 2500, 24)[:, 2:]
    assert 0.05 < exact < 0.95
    assert_mean_is([exact], runs)
    doubled = 2 * exact / (1 + exact)  # the odds doubled, as by a skip that depends on the state
    assert_mean_is_not([doubled], runs)


def test_the_energy_is_the_log_likelihood_of_all_leaves():
    rng = seeded_rng("weight identity")
    x = rng.random((60, 1))
    model = TreedGPModel(x, np.sin(9 * x.ravel()), prior=Prior(split_probability=0.9, min_leaf=6))
    state = model.initial(rng)
    while state.meta[N_LEAVES] < 3:
        state = model.initial(rng)
    shown, total = twin.Snapshot(state), 0.0
    for node, _, rows in shown.leaves():
        ranges, active, beta = shown.parameters(node)
        matrix = twin.covariance(state.x[rows], ranges, active, state.leaf[node, NUGGET], "separable")
        residual = state.y[rows, 1] - twin.regressors(state.x[rows], 2) @ beta
        sigma2 = state.leaf[node, SIGMA2]
        total -= 0.5 * (len(rows) * math.log(2 * math.pi * sigma2) + np.linalg.slogdet(matrix)[1])
        total -= 0.5 * residual @ np.linalg.solve(matrix, residual) / sigma2
        assert state.leaf[node, N_ROWS] == len(rows)
        assert state.leaf[node, LOG_DET] == pytest.approx(np.linalg.slogdet(matrix)[1])
    assert energy(state) == pytest.approx(total)


def test_a_run_learns_the_normalisers():
    """The mean energies of runs at fixed rungs, integrated over k, give log Z(k) by another way."""
    x = np.linspace(0, 1, 30)[:, None]
    model = TreedGPModel(x, np.sin(5 * x.ravel()), leaf="linear", prior=Prior(tree=False))
    ladder = Ladder.geometric(6, 0.3)
    run = tp.sample(model, ladder=ladder, chains=2, draws=32, tuning=tp.Tuning(20_000), rng=1, progress=False)
    rng, means = seeded_rng("normalisers"), []
    for k in ladder.inverse_temperatures:
        state, energies = model.initial(rng), []
        for _ in range(8000):
            state = model.step(rng, state, float(k))
            energies.append(model.energy(state))
        means.append(np.mean(energies[500:]))
    steps = -np.diff(ladder.inverse_temperatures) * (np.array(means)[1:] + np.array(means)[:-1]) / 2
    assert run.log_pseudo_prior == pytest.approx(np.append(0.0, np.cumsum(steps)), abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_whole_runs_agree_with_the_enumerated_posterior_of_trees(method):
    """All rungs of runs by `sample`, weighted: the number of leaves, with its standard error."""
    from test_treed_gp_moves import FIXED, X, Z, exact_posterior

    model = TreedGPModel(X[:, None], Z, leaf="constant", prior=FIXED, proposals=Proposals(tree_moves=1.0))
    how = {"ladder": [1, 0.6, 0.3], "method": method, "tuning": tp.Tuning(600), "progress": False}
    seed = int(seeded_rng(f"whole runs {method}").integers(2**31))
    runs = [tp.sample(model, chains=2, draws=3000, rng=seed + i, **how) for i in range(24)]
    found = [run.estimate(run.values["x"][..., :1] == np.arange(1, 4)).value for run in runs]
    assert_mean_is(exact_posterior(1.0)[:3], found)
    assert_mean_is_not(exact_posterior(0.65)[:3], found)


def test_combined_sample_size_from_sums_is_that_of_the_weights():
    rng = np.random.default_rng(3)
    rung = rng.integers(4, size=500)
    log_w = rng.standard_normal(500) * rung
    from tempering.estimators.rung_sums import RungSums

    sums = RungSums.from_log_weights(log_w, rung, 4)
    shares = ess_optimal(sums)
    weights = shares[rung] * np.exp(log_w - sums.log_sum[rung])
    assert combined_ess(sums, shares) == pytest.approx(ess_of_weights(np.log(weights)))
    ell, t = sums.kish_ess.sum(), 500
    assert combined_ess(sums, shares) == pytest.approx(t * (t - 1) * ell / (t * t - ell))
