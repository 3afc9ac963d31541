"""A state whose dimension changes, under both samplers: all 256 models on every rung, against enumeration."""

from functools import cache

import numpy as np
import pytest

from statistical import assert_mean_is, assert_mean_is_not
from tempering import Ladder, problems
from tempering.engines import scalar, scalar_pieces
from tempering.engines.trace import Schedule
from tempering.path import Path

PROBLEM = problems.variable_selection()
LADDER = Ladder([1.0, 0.3, 0.05])
PATH = Path.powers(LADDER)
LOG_Z = np.array([PROBLEM.log_normaliser(k) for k in LADDER])
LOG_PSEUDO_PRIOR = -LOG_Z + np.array([0.0, 0.4, -0.3])  # not 1 / Z
OCCUPANCY = np.exp(LOG_Z + LOG_PSEUDO_PRIOR) / np.exp(LOG_Z + LOG_PSEUDO_PRIOR).sum()
MODELS = np.array([PROBLEM.model_probabilities(k) for k in LADDER])
N_REPLICATES, BURN_IN = 32, 512
FEWEST = 20  # expected visits a replicate; models seen less often are counted together


@cache
def counts(method, rung_moves, n_draws, *, compiled=True):
    """Return the share of draws on each rung in each model, (replicate, rung, model), after a burn-in."""
    model = PROBLEM.compiled if compiled else PROBLEM
    pieces = scalar_pieces.model_pieces(model, model.initial(np.random.default_rng(0)))
    engine = scalar.ScalarEngine(pieces, method, rung_moves, 11, N_REPLICATES, len(LADDER))
    schedule = Schedule(PATH, LOG_PSEUDO_PRIOR)
    states, _ = engine.run(engine.start(PATH), schedule, BURN_IN)
    _, trace = engine.run(states, schedule, n_draws)
    assert engine.name == ("scalar (Numba)" if compiled else "scalar (Python)")
    number = (trace.values[..., :8] @ 2.0 ** np.arange(8)).astype(int)
    cell = (trace.rung * 256 + number).reshape(N_REPLICATES, -1)
    cells = len(LADDER) * 256
    return np.array([np.bincount(c, minlength=cells) for c in cell]).reshape(N_REPLICATES, -1, 256) / n_draws


def grouped(truth, shares, n_draws):
    """Return both with the rarest models of each rung pooled, until a replicate expects `FEWEST` visits a group.

    Every model is in some group, and Student's t is used only where a mean of many visits is.
    """
    expected, found = [], []
    for rung in range(len(LADDER)):
        order = np.argsort(truth[rung])
        group = np.floor(np.cumsum(truth[rung][order]) * n_draws / FEWEST)
        group = np.unique(group, return_inverse=True)[1]
        for g in range(group.max() + 1):
            members = order[group == g]
            expected.append(truth[rung][members].sum())
            found.append(shares[:, rung, members].sum(axis=1))
    return np.array(expected), np.stack(found, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("rung_moves", ["lifted", "neighbour"])
def test_simulated_tempering_visits_every_model_as_often_as_it_should(rung_moves):
    n = 8192
    shares = counts("simulated", rung_moves, n)
    truth, found = grouped(OCCUPANCY[:, None] * MODELS, shares, n)
    assert len(truth) > 100
    assert_mean_is(truth, found)


@pytest.mark.slow
@pytest.mark.parametrize("rung_moves", ["non_reversible", "random"])
def test_parallel_tempering_visits_every_model_as_often_as_it_should(rung_moves):
    n = 4096
    truth, found = grouped(MODELS, counts("parallel", rung_moves, n), n)
    assert len(truth) > 150
    assert_mean_is(truth, found)


def test_control_models_of_another_temperature_are_seen():
    n = 4096
    warmer = np.array([PROBLEM.model_probabilities(0.8 * k) for k in LADDER])
    truth, found = grouped(warmer, counts("parallel", "non_reversible", n), n)
    assert_mean_is_not(truth, found)


def test_control_a_forgotten_pseudo_prior_is_seen():
    n = 8192
    truth, found = grouped(MODELS / 3, counts("simulated", "lifted", n), n)
    assert_mean_is_not(truth, found)


@pytest.mark.slow
def test_plain_python_visits_the_models_too():
    n = 512
    truth, found = grouped(OCCUPANCY[:, None] * MODELS, counts("simulated", "lifted", n, compiled=False), n)
    assert_mean_is(truth, found)


@pytest.mark.long
@pytest.mark.parametrize("rung_moves", ["non_reversible", "even_odd", "random"])
def test_plain_python_couples_chains_too(rung_moves):
    n = 2048
    truth, found = grouped(MODELS, counts("parallel", rung_moves, n, compiled=False), n)
    assert_mean_is(truth, found)
