"""Draws of the sources, enumerated: on every rung of two legs they keep the joint law, at the ends they forget.

The whole iteration of the scalar engine: a draw of the rung's source or a local move, then the rung's own move.
"""

from itertools import product

import numpy as np
import pytest
from enumeration import (
    FITTED,
    PRIOR,
    TWO_LEGGED,
    TWO_LEGS,
    Decisions,
    accept,
    drift,
    enumerate_decisions,
    normalised,
    outcomes,
)

from tempering.compiling.functions import bind
from tempering.engines import loops
from tempering.rungs import simulated

FRESH = 0.3  # how often a draw of the source is proposed on the rungs between
SOURCES = TWO_LEGGED.sources.astype(int)
NO_REFERENCE = np.zeros(2, int)  # where the one mixture begins and ends; its draws are enumerated


@pytest.fixture(autouse=True)
def _branching(monkeypatch):
    enumerate_decisions(monkeypatch, simulated)
    monkeypatch.setattr(Decisions, "random", lambda self: 1.0 - self.take([1.0 - FRESH, FRESH]), raising=False)


def evaluate(functions, x, out):
    out[:-1] = TWO_LEGS.terms[int(x[0])]


def draw_base(functions, decisions, out):
    out[0] = decisions.take(PRIOR)


def mixture_draw(decisions, references, which, out):
    assert which == 0
    out[0] = decisions.take(FITTED)


def lazy(decisions, functions, particle, *rest):
    return particle


PIECES = {
    "local_move": lazy,
    "draw_base": draw_base,
    "mixture_draw": mixture_draw,
    "evaluate": evaluate,
    "accept": accept,
}


def fresh_move(**broken):
    return bind(loops.redraw_or_move, **(PIECES | broken))


def particle_at(x):
    here = np.append(TWO_LEGS.terms[x], 0.0)
    return np.array([float(x)]), np.array([float(x)]), here, here.copy()


def after_move(x, rung, move, coefficients=TWO_LEGS.coefficients):
    """Return every point after one move on a rung, with its probability."""

    def run(decisions):
        settings = (np.full(len(SOURCES), FRESH), SOURCES, None)
        functions = (None, None, (None,), (NO_REFERENCE,))
        particle = move(decisions, functions, particle_at(x), coefficients[rung], settings, rung, np.zeros(1))
        np.testing.assert_array_equal(particle[2][:-1], TWO_LEGS.terms[int(particle[0][0])])  # its terms go along
        return int(particle[0][0])

    return outcomes(run)


def law_of_rung(rung):
    return normalised({x: TWO_LEGS.log_density(rung, x) for x in range(3)})


def worst_drift(move, coefficients=TWO_LEGS.coefficients):
    return max(drift(law_of_rung(i), lambda x, i=i: after_move(x, i, move, coefficients)) for i in range(len(TWO_LEGS)))


def test_draws_of_the_sources_keep_every_rung():
    assert worst_drift(fresh_move()) < 1e-15


def test_they_move_on_every_rung():
    for rung, x in product(range(len(TWO_LEGS)), range(3)):
        assert sum(p for p, there in after_move(x, rung, fresh_move()) if there != x) > 0.01


def test_control_a_source_whose_own_density_is_not_cancelled_is_seen():
    own = np.eye(3)[SOURCES]
    assert worst_drift(fresh_move(is_end=lambda *_: False), TWO_LEGS.coefficients + own) > 1e-3


def test_control_a_draw_of_the_other_source_is_seen():
    swapped = {"draw_base": lambda f, d, out: mixture_draw(d, None, 0, out)}
    assert worst_drift(fresh_move(**swapped)) > 1e-3


def test_control_a_coefficient_of_the_wrong_sign_is_seen():
    for term in range(3):
        sign = np.where(np.arange(3) == term, -1.0, 1.0)
        assert worst_drift(fresh_move(), sign * TWO_LEGS.coefficients) > 1e-3


def forgets(move):
    """Return how far the ends are from forgetting where they were: the largest difference from the source's law."""
    worst = 0.0
    for rung, source in ((0, FITTED), (len(TWO_LEGS) - 1, PRIOR)):
        for x in range(3):
            weights = np.zeros(3)
            for p, there in after_move(x, rung, move):
                weights[there] += p
            worst = max(worst, np.abs(weights - source).max())
    return worst


def test_at_both_ends_a_new_tour_begins():
    assert TWO_LEGGED.ends == (5, 0)
    assert forgets(fresh_move()) < 1e-15


def test_control_an_end_that_does_not_redraw_is_seen():
    assert forgets(fresh_move(is_end=lambda *_: False)) > 0.1


def joint_drift(move, move_rung):
    def write_terms(functions, particle, out):
        out[:] = particle[2][:-1]
        return True

    loop = bind(loops.simulate, move=move, write_terms=write_terms, write=lambda *_: None, move_rung=move_rung)
    law = normalised(
        {
            (x, i, way): TWO_LEGS.log_density(i, x) + TWO_LEGS.log_pseudo_prior[i]
            for x, i, way in product(range(3), range(len(TWO_LEGS)), (-1, 1))
        }
    )

    def transitions(state):
        x, rung, way = state

        def run(decisions):
            out = ([None], np.empty((1, 3)), np.empty(1, int), np.empty(1, int), [np.zeros(1)])
            settings = (np.full(len(SOURCES), FRESH), SOURCES, None)
            chain = (particle_at(x), rung, way)
            schedule = (settings, TWO_LEGS.coefficients, TWO_LEGS.log_pseudo_prior, True)
            particle, rung_new, way_new, _ = loop(decisions, None, None, None, (NO_REFERENCE,), chain, schedule, out)
            return int(particle[0][0]), rung_new, way_new

        return outcomes(run)

    return drift(law, transitions)


@pytest.mark.parametrize("name", ["move_to_neighbour", "move_lifted"])
def test_a_whole_iteration_keeps_the_joint_law(name):
    assert joint_drift(fresh_move(), getattr(simulated, name)) < 1e-15


def test_control_a_draw_accepted_always_is_seen_in_the_joint_law():
    assert joint_drift(fresh_move(accept=lambda decisions, log_ratio: True), simulated.move_lifted) > 1e-3
