"""Birds that move between two or three states (sites, breeding or not): the model of Arnason and Schwarz.

A bird in state r survives an interval with phi, then leaves for another state with psi, of three states for the first
of the others with ``to``, and is seen there with p of its new state; one that dies is found with lambda, wherever it
was. States are stages (`stages`): columns go age by age within state by state within group by group, and all values
but p are those of the column that a bird begins the interval in; p is that of its new state, at the same age. A bird
that is not seen may be anywhere, so that counts by state do not suffice: needed is the array of releases by column and
next encounters by state.
"""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.layout import DESTINATION, LAMBDA, MOVEMENT, PHI, State
from tempering.models.recapture.layout import P as P_
from tempering.models.recapture.tables import following, length, next_met

XI, HERE, THERE = 4, 0, 1  # rows of chi that are free where nobody leaves: chances to be in each state, unseen


@inner
def move(state: State, t: int, c: int, r: int, s: int) -> Any:
    """Return the probability that a survivor of interval t in column c, that is in state r, goes to state s."""
    psi = state.values[MOVEMENT, t, c]
    if r == s:
        return 1 - psi
    if state.ints[at.N_STATES] == 2:
        return psi
    to = state.values[DESTINATION, t, c]
    return psi * to if s == (1 if r == 0 else 0) else psi * (1 - to)


@inner
def in_first_state(state: State, c: int) -> Any:
    """Return the column of a column's group and age in the first state."""
    n_ages = state.ints[at.N_CLASSES]
    return c - c // n_ages % state.ints[at.N_STATES] * n_ages


@inner
def states_part(state: State) -> Any:
    """Return the log likelihood of releases and next encounters by state; 0 where there are no states."""
    i, total = state.ints, 0.0
    if not i[at.N_STATES]:
        return total
    for start in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if next_met(i, state.floats, start, c, i[at.N_INTERVALS] * (i[at.N_STATES] + 1) + 1) > 0.0:
                total += _released(state, start, c)
    return total


@inner
def _released(state: State, start: int, c: int) -> Any:
    """Return the log likelihood of the birds released at the start of an interval in a column."""
    i, f, chi = state.ints, state.floats, state.chi
    n_states, n_intervals, n_ages = i[at.N_STATES], i[at.N_INTERVALS], i[at.N_CLASSES]
    first, total, gone = in_first_state(state, c), 0.0, 0.0
    for s in range(n_states):
        chi[XI, HERE, s] = 1.0 if first + s * n_ages == c else 0.0
    for t in range(start, n_intervals):
        found = 0.0
        for s in range(n_states):
            chi[XI, THERE, s] = 0.0
        for r in range(n_states):
            column = first + r * n_ages
            phi = state.values[PHI, t, column]
            if i[at.HAS_LENGTHS]:
                phi = phi ** length(i, f, t)
            found += chi[XI, HERE, r] * (1 - phi) * state.values[LAMBDA, t, column]
            gone += chi[XI, HERE, r] * (1 - phi) * (1 - state.values[LAMBDA, t, column])
            for s in range(n_states):
                chi[XI, THERE, s] += chi[XI, HERE, r] * phi * move(state, t, column, r, s)
        n = next_met(i, f, start, c, n_intervals * n_states + t)
        total += n * np.log(found) if n > 0.0 else 0.0
        for s in range(n_states):
            p, n = state.values[P_, t, first + s * n_ages], next_met(i, f, start, c, t * n_states + s)
            total += n * np.log(chi[XI, THERE, s] * p) if n > 0.0 else 0.0
            chi[XI, HERE, s] = chi[XI, THERE, s] * (1 - p)
        first = following(i, first)
    for s in range(n_states):
        gone += chi[XI, HERE, s]
    n = next_met(i, f, start, c, n_intervals * (n_states + 1))
    return total + (n * np.log(gone) if n > 0.0 else 0.0)
