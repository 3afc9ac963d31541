"""Oracles 3, 4, 5 and 6 of the specification: quadrature, weights, the walk between rungs."""

import math

import numpy as np
import pytest
import treed_gp_twin as twin
from numba import njit

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.estimators import combined_ess, ess_of_weights
from tempering.estimators.rules import ess_optimal
from tempering.models.treed_gp.driver import log_marginals, log_weight_of, move_rung
from tempering.models.treed_gp.engine import TreedGPEngine
from tempering.models.treed_gp.layout import LOG_DET, N_LEAVES, N_ROWS, NUGGET, RANGES, SIGMA2
from tempering.models.treed_gp.leaf import draw_sigma2_beta
from tempering.models.treed_gp.learning import tune
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


@pytest.mark.slow
@pytest.mark.parametrize("leaf", ["linear", "gp"])
def test_the_integrated_weight_is_the_mean_of_the_drawn_one(leaf):
    rng = seeded_rng(f"integrated weight {leaf}")
    x = rng.random((15, 1))
    model = TreedGPModel(x, x.ravel() + 0.3 * rng.standard_normal(15), leaf=leaf, prior=Prior(tree=False))
    state = model.initial(rng)
    draw, log_weight, cold = map(twin.from_python, (draw_sigma2_beta, log_weight_of, log_marginals))
    rows = []
    for _ in range(20_000):
        draw(rng, state, 0, 0.8)
        rows.append(math.exp(0.2 * energy(state) - log_weight(state, 0.8, cold(state, 1.0))))
    assert_mean_is([1.0], rows)
    assert_mean_is_not([1.05], rows)


@pytest.mark.slow
def test_the_rung_walk_visits_flat_rungs_evenly_ends_included():
    rng = seeded_rng("flat walk")
    ladder = Ladder.geometric(7, 0.1)
    move = twin.from_python(move_rung)
    runs = []
    for _ in range(24):
        walk, counts = np.array([0, 1]), np.zeros(7)
        for _ in range(3000):
            # An energy of another rung's law each time: independent of the walk, as for a flat target.
            move(rng, walk, ladder.inverse_temperatures.copy(), np.zeros(7), rng.standard_normal())
            counts[walk[0]] += 1
        runs.append(counts / 3000)
    # With a symmetric energy around 0 the acceptances to and fro are equal in law: occupancies are even.
    assert_mean_is(np.full(7, 1 / 7), runs)


def test_tuning_learns_the_normalisers():
    """The mean energies of runs at fixed rungs, integrated over k, give log Z(k) by another way."""
    x = np.linspace(0, 1, 30)[:, None]
    model = TreedGPModel(x, np.sin(5 * x.ravel()), leaf="linear", prior=Prior(tree=False))
    ladder = Ladder.geometric(6, 0.3)
    k = ladder.inverse_temperatures
    engine = TreedGPEngine(model, 2, 1)
    chains, schedule, _ = tune(engine, ladder, 20_000, lambda *_: None, is_ours=False)
    means = []
    for rung in range(6):
        engine.on_rungs(chains, [rung, rung])
        means.append(np.mean([t.energy for t in engine.advance(chains, schedule, 8000, moving=False)]))
    steps = -np.diff(k) * (np.array(means)[1:] + np.array(means)[:-1]) / 2
    assert schedule.log_pseudo_prior == pytest.approx(np.append(0.0, np.cumsum(steps)), abs=0.2)


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
