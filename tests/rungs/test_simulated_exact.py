"""Simulated tempering's rung moves by their exact transition matrices, in the loop the scalar engine runs."""

from itertools import product

import numpy as np
import pytest
from enumeration import (
    ENERGY,
    LADDER,
    LOG_PSEUDO_PRIOR,
    accept,
    choose,
    drift,
    enumerate_decisions,
    normalised,
    outcomes,
)

from tempering.compiling.functions import bind
from tempering.engines import loops
from tempering.rungs import simulated

MOVES = {"neighbour": simulated.move_to_neighbour, "lifted": simulated.move_lifted}


@pytest.fixture(autouse=True)
def _branching(monkeypatch):
    enumerate_decisions(monkeypatch, simulated)


def ring_move(decisions, functions, x, k, settings, rung, acceptance):
    """Metropolis on a ring of three points, at one inverse temperature."""
    there = (x + 1 + choose(decisions, 2)) % len(ENERGY)
    return there if accept(decisions, k * (ENERGY[there] - ENERGY[x])) else x


def lazy_move(decisions, functions, x, k, settings, rung, acceptance):
    """Stay: the rung move alone."""
    return x


def joint_law(n_rungs):
    """Return pi(x)^k_i p(i) / 2 for each (x, rung, direction)."""
    return normalised(
        {
            (x, i, way): LADDER[i] * ENERGY[x] + LOG_PSEUDO_PRIOR[i]
            for x, i, way in product(range(len(ENERGY)), range(n_rungs), (-1, 1))
        }
    )


def drift_of(move_rung, move=ring_move, n_rungs=len(LADDER)):
    """Return how far one iteration of the engine's loop takes the joint law from itself."""
    loop = bind(
        loops.simulate,
        move=move,
        energy_of=lambda functions, x: ENERGY[x],
        write=lambda functions, x, out: None,
        move_rung=move_rung,
    )

    def transitions(state):
        x, rung, direction = state

        def run(decisions):
            out = ([None], np.empty(1), np.empty(1, int), np.empty(1, int), [None])
            k, log_p = LADDER[:n_rungs], LOG_PSEUDO_PRIOR[:n_rungs]
            x_new, rung_new, way, done = loop(decisions, 0, 0, 0, x, 0, rung, direction, k, log_p, True, out)
            assert done == 1
            assert out[2][0] == rung_new
            return x_new, rung_new, way

        return outcomes(run)

    return drift(joint_law(n_rungs), transitions)


@pytest.mark.parametrize("n_rungs", [1, 2, 3, 4])
@pytest.mark.parametrize("move", [ring_move, lazy_move])
@pytest.mark.parametrize("name", MOVES)
def test_an_iteration_keeps_the_joint_law_of_position_rung_and_direction(name, move, n_rungs):
    assert drift_of(MOVES[name], move, n_rungs) < 1e-14


@pytest.mark.parametrize("n_rungs", [3, 4])
def test_control_forgetting_the_asymmetry_at_the_ends_is_seen(monkeypatch, n_rungs):
    propose = simulated.propose_neighbour
    monkeypatch.setattr(simulated, "propose_neighbour", lambda *a: (propose(*a)[0], 0.0))
    assert drift_of(simulated.move_to_neighbour, n_rungs=n_rungs) > 1e-3


def test_two_rungs_are_both_ends_and_need_no_factor():
    assert simulated.propose_neighbour(None, 0, 2) == (1, 0.0)
    assert simulated.propose_neighbour(None, 1, 2) == (0, 0.0)
    assert simulated.propose_neighbour(None, 0, 1) == (0, 0.0)


def test_control_a_direction_that_does_not_turn_is_seen():
    def straight_on(decisions, rung, direction, *rest):
        rung, _, proposed = simulated.move_lifted(decisions, rung, direction, *rest)
        return rung, direction, proposed

    assert drift_of(straight_on) > 1e-3


def test_control_turning_at_every_step_is_seen_when_the_rung_moves():
    def turning(decisions, rung, direction, *rest):
        rung, _, proposed = simulated.move_lifted(decisions, rung, direction, *rest)
        return rung, -direction, proposed

    assert drift_of(turning) > 1e-3


@pytest.mark.parametrize("name", MOVES)
def test_control_a_forgotten_pseudo_prior_is_seen(name):
    def forgetful(decisions, rung, direction, energy, k, log_pseudo_prior):
        return MOVES[name](decisions, rung, direction, energy, k, np.zeros_like(log_pseudo_prior))

    assert drift_of(forgetful) > 1e-3


@pytest.mark.parametrize("name", MOVES)
def test_control_an_energy_of_the_wrong_sign_is_seen(name):
    def contrary(decisions, rung, direction, energy, k, log_pseudo_prior):
        return MOVES[name](decisions, rung, direction, -energy, k, log_pseudo_prior)

    assert drift_of(contrary) > 1e-3


def test_the_neighbour_move_is_reversible():
    law = joint_law(4)
    for x, i in product(range(len(ENERGY)), range(3)):
        up = flow(law, x, i, i + 1)
        assert up > 1e-3
        assert up == pytest.approx(flow(law, x, i + 1, i), rel=1e-13)


def flow(law, x, here, there):
    ends = outcomes(lambda d: simulated.move_to_neighbour(d, here, 1, ENERGY[x], LADDER, LOG_PSEUDO_PRIOR)[0])
    return law[x, here, 1] * sum(p for p, end in ends if end == there)


@pytest.mark.parametrize("name", MOVES)
def test_a_point_without_likelihood_cannot_leave_the_base(name):
    k = np.array([1.0, 0.5, 0.0])
    ends = outcomes(lambda d: MOVES[name](d, 2, -1, -np.inf, k, np.zeros(3)))
    assert {end[0] for p, end in ends if p > 0} == {2}
