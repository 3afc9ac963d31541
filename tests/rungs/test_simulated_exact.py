"""Simulated tempering's rung moves by their exact transition matrices, in the loop the scalar engine runs."""

from itertools import product

import numpy as np
import pytest
from enumeration import (
    ENERGY,
    LADDER,
    LINES,
    LOG_PSEUDO_PRIOR,
    POWERS,
    TWO_LEGS,
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
SIZES = [("powers", n) for n in (1, 2, 3, 4)] + [("two legs", n) for n in (2, 6)]


@pytest.fixture(autouse=True)
def _branching(monkeypatch):
    enumerate_decisions(monkeypatch, simulated)


def ring_move_on(line):
    """Return Metropolis on a ring of three points, on one rung."""

    def ring_move(decisions, functions, x, coefficients, settings, rung, acceptance):
        there = (x + 1 + choose(decisions, 2)) % len(line.terms)
        np.testing.assert_array_equal(coefficients, line.coefficients[rung])
        return there if accept(decisions, line.log_density(rung, there) - line.log_density(rung, x)) else x

    return ring_move


def lazy_move(decisions, functions, x, coefficients, settings, rung, acceptance):
    """Stay: the rung move alone."""
    return x


def joint_law(line):
    """Return pi_i(x) p(i) / 2 for each (x, rung, direction)."""
    return normalised(
        {
            (x, i, way): line.log_density(i, x) + line.log_pseudo_prior[i]
            for x, i, way in product(range(len(line.terms)), range(len(line)), (-1, 1))
        }
    )


def drift_of(move_rung, line=POWERS, move=None):
    """Return how far one iteration of the engine's loop takes the joint law from itself."""

    def write_terms(functions, x, out):
        out[:] = line.terms[x]
        return True

    loop = bind(
        loops.simulate,
        move=ring_move_on(line) if move is None else move,
        write_terms=write_terms,
        write=lambda functions, x, out: None,
        move_rung=move_rung,
    )

    def transitions(state):
        x, rung, direction = state

        def run(decisions):
            terms = np.empty((1, line.terms.shape[1]))
            out = ([None], terms, np.empty(1, int), np.empty(1, int), [None])
            schedule = (0, line.coefficients, line.log_pseudo_prior, True)
            x_new, rung_new, way, done = loop(decisions, 0, 0, 0, (), (x, rung, direction), schedule, out)
            assert done == 1
            assert out[2][0] == rung_new
            return x_new, rung_new, way

        return outcomes(run)

    return drift(joint_law(line), transitions)


@pytest.mark.parametrize(("path", "n_rungs"), SIZES)
@pytest.mark.parametrize("move", [None, lazy_move], ids=["ring", "lazy"])
@pytest.mark.parametrize("name", MOVES)
def test_an_iteration_keeps_the_joint_law_of_position_rung_and_direction(name, move, path, n_rungs):
    assert drift_of(MOVES[name], LINES[path].first(n_rungs), move) < 1e-15


@pytest.mark.parametrize(("path", "n_rungs"), [("powers", 3), ("powers", 4), ("two legs", 6)])
def test_control_forgetting_the_asymmetry_at_the_ends_is_seen(monkeypatch, path, n_rungs):
    propose = simulated.propose_neighbour
    monkeypatch.setattr(simulated, "propose_neighbour", lambda *a: (propose(*a)[0], 0.0))
    assert drift_of(simulated.move_to_neighbour, LINES[path].first(n_rungs)) > 1e-3


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


@pytest.mark.parametrize("path", LINES)
@pytest.mark.parametrize("name", MOVES)
def test_control_a_forgotten_pseudo_prior_is_seen(name, path):
    def forgetful(decisions, rung, direction, terms, coefficients, log_pseudo_prior):
        return MOVES[name](decisions, rung, direction, terms, coefficients, np.zeros_like(log_pseudo_prior))

    assert drift_of(forgetful, LINES[path]) > 1e-3


@pytest.mark.parametrize(("path", "term"), [("powers", 0), ("two legs", 0), ("two legs", 1), ("two legs", 2)])
@pytest.mark.parametrize("name", MOVES)
def test_control_a_coefficient_of_the_wrong_sign_is_seen(name, path, term):
    sign = np.where(np.arange(LINES[path].terms.shape[1]) == term, -1.0, 1.0)

    def contrary(decisions, rung, direction, terms, coefficients, log_pseudo_prior):
        return MOVES[name](decisions, rung, direction, terms, sign * coefficients, log_pseudo_prior)

    assert drift_of(contrary, LINES[path]) > 1e-3


def test_control_a_term_left_out_is_seen():
    """As if the fitted density at the end of the quick leg were flat."""

    def without(decisions, rung, direction, terms, coefficients, log_pseudo_prior):
        seen = np.append(terms[:2], 0.0)
        return simulated.move_to_neighbour(decisions, rung, direction, seen, coefficients, log_pseudo_prior)

    assert drift_of(without, TWO_LEGS) > 1e-3


@pytest.mark.parametrize("path", LINES)
def test_the_neighbour_move_is_reversible(path):
    line = LINES[path]
    law = joint_law(line)
    for x, i in product(range(len(line.terms)), range(len(line) - 1)):
        up = flow(law, line, x, i, i + 1)
        assert up > 1e-3
        assert up == pytest.approx(flow(law, line, x, i + 1, i), rel=1e-13)


def flow(law, line, x, here, there):
    arguments = (here, 1, line.terms[x], line.coefficients, line.log_pseudo_prior)
    ends = outcomes(lambda d: simulated.move_to_neighbour(d, *arguments)[0])
    return law[x, here, 1] * sum(p for p, end in ends if end == there)


@pytest.mark.parametrize("name", MOVES)
def test_a_point_without_likelihood_cannot_leave_the_base(name):
    coefficients = np.array([[1.0, 1.0], [0.5, 1.0], [0.0, 1.0]])
    ends = outcomes(lambda d: MOVES[name](d, 2, -1, np.array([-np.inf, -0.7]), coefficients, np.zeros(3)))
    assert {end[0] for p, end in ends if p > 0} == {2}


@pytest.mark.parametrize("name", MOVES)
def test_a_point_outside_the_support_cannot_leave_the_fitted_end(name):
    """The quick leg may end in a density that reaches further than the target: from there nobody goes inwards."""
    terms = np.array([-np.inf, -np.inf, -0.3])
    ends = outcomes(lambda d: MOVES[name](d, 0, 1, terms, TWO_LEGS.coefficients, TWO_LEGS.log_pseudo_prior))
    assert {end[0] for p, end in ends if p > 0} == {0}


def test_one_term_is_the_papers_ratio():
    """(k_j - k_i) log pi(x), by hand."""
    for here, there, x in product(range(4), range(4), range(3)):
        ratio = simulated.log_ratio_of_rungs(POWERS.coefficients, here, there, POWERS.terms[x])
        assert ratio == pytest.approx((LADDER[there] - LADDER[here]) * ENERGY[x], abs=1e-15)
    assert len(LOG_PSEUDO_PRIOR) == len(LADDER)
