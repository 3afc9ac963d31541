"""Whole chains on both engines: occupancies of rungs and expectations on each, over replicates (level 5)."""

from functools import cache

import numpy as np
import pytest
from scipy.special import digamma

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import Ladder, Target, TemperedDraws, problems
from tempering.engines import scalar, scalar_pieces, vector
from tempering.engines.trace import Schedule
from tempering.kernels import RandomWalk
from tempering.kernels.settings import starting_settings
from tempering.path import Path
from tempering.target.layout import Layout

PROBLEM = problems.skewed(2)
LADDER = Ladder([1.0, 0.5, 0.15])
PATH = Path.powers(LADDER)
LAYOUT = Layout.of(np.zeros(2))
KERNEL = RandomWalk()
LOG_Z = np.array([PROBLEM.log_normaliser(k) for k in LADDER])
LOG_PSEUDO_PRIOR = -LOG_Z + np.array([0.0, 0.5, -0.3])  # not 1 / Z: the rungs are visited unevenly
N_REPLICATES, N_DRAWS = 32, 2048
TARGETS = {"vector": Target(PROBLEM.log_density), "numba": Target(PROBLEM.log_density_numba)}
SIMULATED = [(e, m) for e in ("vector", "numba") for m in ("lifted", "neighbour")]
PARALLEL = [("vector", "non_reversible"), ("numba", "even_odd")]


def occupancy(log_pseudo_prior):
    log_p = LOG_Z + log_pseudo_prior
    return np.exp(log_p - np.logaddexp.reduce(log_p))


def mean_at(k):
    """Return the exact mean of pi^k: y_i is log(G / k) with G gamma of shape k a_i."""
    return PROBLEM.location + PROBLEM.tril @ (digamma(k * PROBLEM.shapes) - np.log(k))


MEANS = np.array([mean_at(k) for k in LADDER])


@cache
def run(engine, method, rung_moves):
    """Run the replicates from exact draws, on rungs drawn from their exact law."""
    rng = seeded_rng(f"{engine} {method} {rung_moves}")
    m = len(LADDER)
    rung = np.tile(np.arange(m), N_REPLICATES)
    if method == "simulated":
        rung = rng.choice(m, size=N_REPLICATES, p=occupancy(LOG_PSEUDO_PRIOR))
    starts = [PROBLEM.sample(rng, 1, LADDER[i])[0] for i in rung]
    module = vector if engine == "vector" else scalar_pieces
    build = vector.VectorEngine if engine == "vector" else scalar.ScalarEngine
    pieces = module.target_pieces(TARGETS[engine], KERNEL, LAYOUT, starts)
    chains = build(pieces, method, rung_moves, int(rng.integers(2**31)), N_REPLICATES, m)
    states = chains.start(PATH)
    if method == "simulated":
        states = chains.on_rung(states, rung)
    schedule = Schedule(PATH, LOG_PSEUDO_PRIOR, (starting_settings(LADDER, np.zeros(2), 1.7, dense=True),))
    return chains.run(states, schedule, N_DRAWS)[1]


def on_each_rung(trace):
    """Return 1{rung = i}, as (chain, draw, rung)."""
    return (trace.rung[:, :, None] == np.arange(len(LADDER))).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "rung_moves"), SIMULATED)
def test_rungs_are_visited_as_the_pseudo_prior_says(engine, rung_moves):
    visits = on_each_rung(run(engine, "simulated", rung_moves)).mean(axis=1)
    assert_mean_is(occupancy(LOG_PSEUDO_PRIOR), visits)
    assert_mean_is_not(occupancy(-LOG_Z), visits)


@pytest.mark.parametrize(("engine", "rung_moves"), SIMULATED)
def test_simulated_tempering_draws_from_every_rung(engine, rung_moves):
    """Of 1{rung = i} x, whose expectation is that of x on rung i times the occupancy: no ratio, no bias."""
    trace = run(engine, "simulated", rung_moves)
    products = np.einsum("cti,ctj->cij", on_each_rung(trace), trace.values) / N_DRAWS
    truth = occupancy(LOG_PSEUDO_PRIOR)[:, None] * MEANS
    assert_mean_is(truth, products)
    assert_mean_is_not(occupancy(LOG_PSEUDO_PRIOR)[:, None] * np.roll(MEANS, 1, axis=0), products)


def by_ensemble(array):
    """Return an array of (chain, draw, ...) as (ensemble, replica, draw, ...)."""
    return array.reshape(N_REPLICATES, len(LADDER), *array.shape[1:])


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "rung_moves"), PARALLEL)
def test_parallel_tempering_draws_from_every_rung(engine, rung_moves):
    trace = run(engine, "parallel", rung_moves)
    products = np.einsum("crti,crtj->cij", by_ensemble(on_each_rung(trace)), by_ensemble(trace.values)) / N_DRAWS
    assert_mean_is(MEANS, products)
    assert_mean_is_not(np.roll(MEANS, 1, axis=0), products)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["cold_only", "ess_optimal", "mbar"])
@pytest.mark.parametrize(("engine", "rung_moves"), PARALLEL)
def test_all_draws_of_parallel_tempering_estimate_the_cold_expectation(engine, rung_moves, rule):
    """Importance MC3: the estimators of importance tempering on the draws of every rung."""
    estimates = [one.expect(lambda x: x, rule).value for one in ensembles(run(engine, "parallel", rung_moves))]
    assert_mean_is(PROBLEM.mean, estimates)
    assert_mean_is_not(MEANS[1], estimates)


def test_all_rungs_together_know_more_than_the_cold_one():
    draws = list(ensembles(run("numba", "parallel", "even_odd")))

    def spread(rule):
        return np.std([one.expect(lambda x: x, rule).value for one in draws], axis=0)

    assert np.all(spread("mbar") < spread("cold_only"))


def ensembles(trace):
    """Return the draws of every ensemble by itself."""
    m = len(LADDER)
    for i in range(N_REPLICATES):
        own = slice(i * m, (i + 1) * m)
        yield TemperedDraws(
            values=LAYOUT.named(trace.values[own]),
            rung=trace.rung[own],
            terms=trace.terms[own],
            path=PATH,
            log_pseudo_prior=LOG_PSEUDO_PRIOR,
            proposed=trace.proposed[own],
            acceptance=trace.acceptance[own],
            chains_per_ensemble=m,
            layout=LAYOUT,
        )
