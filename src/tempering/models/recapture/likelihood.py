"""The integrated likelihood from counts, compiled.

A column is an age class of a group of birds. With survival phi, recapture p, recovery lambda and fidelity F,

    log L = sum { (W + Z) log phi + D log(1 - phi) + D log lambda + W log p + Z' log(1 - p) + (W + Z') log F
                  + n log G + V log chi }

Z' counts the birds missed before they were seen again alive; without fidelity (F = 1) it is Z and all G are 1. A bird
alive in the study area at the start of interval t is never met again with probability

    chi[t] = (1 - phi)(1 - lambda) + phi { F (1 - p) chi[t + 1] + (1 - F) xi[t + 1] }
    xi[t]  = (1 - phi)(1 - lambda) + phi xi[t + 1]                        (it has left, but may be found dead)

both 1 after the last interval, and one last seen at t and found dead in interval d has lived through t, ..., d - 1
in or out of the area with probability G[t, d] = F (1 - p) G[t + 1, d] + (1 - F), G[d, d] = 1 (Burnham 1993).
Survival over an interval of length l is phi^l. First captures have a likelihood of their own where they are asked for
(`entry`), and so have birds that move between states (`states`). With individual covariates the sum goes over strata
of birds that have the same ones, each with its own values: logit v + b x.
"""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.compiled import compiled, inner
from tempering.models.recapture.entry import entry_part
from tempering.models.recapture.layout import DESTINATION, FIDELITY, LAMBDA, MOVEMENT, PHI, State
from tempering.models.recapture.layout import P as P_

CHI, LOG_CHI, NEW_CHI, NEW_LOG_CHI, XI = range(5)
CLOSEST = 1e-15
VANISHED = 2 * at.N_PARAMETERS
FROM = 4  # of ``energy``: the first interval whose chi was worked out


@inner
def survival(state: State, t: int, c: int) -> Any:
    """Return the probability to survive interval t."""
    phi = state.values[PHI, t, c]
    if state.ints[at.HAS_LENGTHS] and tables.length(state.ints, state.floats, t) != 1.0:
        return phi ** tables.length(state.ints, state.floats, t)
    return phi


@inner
def refresh_chi(state: State, first: int, last: int) -> Any:
    """Work out chi as proposed where values changed in the intervals ``first`` to ``last``; return the gain.

    That is the gain in sum V log chi. What does not change is not looked at twice: columns whose chi is the same to the
    bit keep its log, and where a whole interval before ``first`` stays as it was, so do those before it.
    """
    i, f, chi = state.ints, state.floats, state.chi
    if i[at.HAS_FIDELITY]:
        return _refresh_with_fidelity(state)
    n_intervals, n_columns = i[at.N_INTERVALS], i[at.N_COLUMNS]
    gain = 0.0
    state.energy[FROM] = 0.0
    for t in range(last, -1, -1):
        after, stays = CHI if t == last else NEW_CHI, t < first
        for c in range(n_columns):
            phi = survival(state, t, c)
            on = tables.following(i, c)
            later = 1.0 if t == n_intervals - 1 else chi[after, t + 1, on]
            new = (1 - phi) * (1 - state.values[LAMBDA, t, c]) + phi * (1 - state.values[P_, t, c]) * later
            chi[NEW_CHI, t, c] = new
            stays = stays and new == chi[CHI, t, c]
            n = tables.count(i, f, VANISHED, t, c)
            if new == chi[CHI, t, c] or n == 0.0:
                chi[NEW_LOG_CHI, t, c] = chi[LOG_CHI, t, c]
            else:
                chi[NEW_LOG_CHI, t, c] = np.log(new)
                gain += n * (chi[NEW_LOG_CHI, t, c] - chi[LOG_CHI, t, c])
        if stays:
            state.energy[FROM] = t
            break
    return gain


@inner
def _refresh_with_fidelity(state: State) -> Any:
    """Work out all of chi, and of xi beside it."""
    i, f, chi = state.ints, state.floats, state.chi
    n_intervals, n_columns = i[at.N_INTERVALS], i[at.N_COLUMNS]
    gain = 0.0
    for t in range(n_intervals - 1, -1, -1):
        for c in range(n_columns):
            phi, on = survival(state, t, c), tables.following(i, c)
            stays = state.values[FIDELITY, t, c]
            unseen, away = 1.0, 1.0
            if t < n_intervals - 1:
                unseen, away = chi[NEW_CHI, t + 1, on], chi[XI, t + 1, on]
            gone = (1 - phi) * (1 - state.values[LAMBDA, t, c])
            new = gone + phi * (stays * (1 - state.values[P_, t, c]) * unseen + (1 - stays) * away)
            chi[XI, t, c] = gone + phi * away
            chi[NEW_CHI, t, c] = new
            n = tables.count(i, f, VANISHED, t, c)
            chi[NEW_LOG_CHI, t, c] = np.log(new) if n > 0.0 else 0.0
            gain += n * (chi[NEW_LOG_CHI, t, c] - chi[LOG_CHI, t, c])
    return gain


@inner
def keep_chi(state: State, last: int) -> None:
    """Take over what `refresh_chi` worked out."""
    start, end = int(state.energy[FROM]), last + 1
    if state.ints[at.HAS_FIDELITY]:
        start, end = 0, state.ints[at.N_INTERVALS]
    for t in range(start, end):
        for c in range(state.ints[at.N_COLUMNS]):
            state.chi[CHI, t, c] = state.chi[NEW_CHI, t, c]
            state.chi[LOG_CHI, t, c] = state.chi[NEW_LOG_CHI, t, c]


@inner
def dead_part(state: State) -> Any:
    """Return sum n log G; 0 without fidelity."""
    i = state.ints
    total = 0.0
    if not i[at.HAS_FIDELITY]:
        return total
    for n in range(i[at.N_DEAD]):
        start, c, end, number = tables.dead(i, n, 0), tables.dead(i, n, 1), tables.dead(i, n, 2), tables.dead(i, n, 3)
        here, away = 1.0, 0.0
        for t in range(start, end):
            stays = state.values[FIDELITY, t, c]
            away += here * (1 - stays)
            here *= stays * (1 - state.values[P_, t, c])
            c = tables.following(i, c)
        total += number * np.log(here + away)
    return total


@inner
def other_parts(state: State) -> Any:
    """Return what the log likelihood has beside events and chi: fidelity, first captures, states."""
    return dead_part(state) + entry_part(state) + states_part(state)


@inner
def log_events(n: float, probability: float) -> Any:
    """Return n log(probability), 0 where there are no events."""
    return n * np.log(probability) if n > 0.0 else 0.0


@inner
def direct_part(state: State, q: int) -> Any:
    """Return one parameter's part of log L outside chi and G."""
    i, f = state.ints, state.floats
    total = 0.0
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            v = survival(state, t, c) if q == PHI else state.values[q, t, c]
            total += log_events(tables.count(i, f, q, t, c), v)
            total += log_events(tables.count(i, f, at.N_PARAMETERS + q, t, c), 1 - v)
    return total


@inner
def shift_of(state: State, q: int, s: int) -> Any:
    """Return how far the birds of a stratum lie from the average on the logit scale."""
    total = 0.0
    for m in range(state.ints[at.N_INDIVIDUAL]):
        if tables.may_slope(state.ints, q, m) and state.slopes[q, m, 0] > 0.0:
            total += state.slopes[q, m, 1] * tables.individual(state.ints, state.floats, s, m)
    return total


@inner
def shifted(v: float, shift: float) -> Any:
    """Return a probability moved on the logit scale, kept off 0 and 1; those that are 0 or 1 stay."""
    if shift == 0.0 or v <= 0.0 or v >= 1.0:
        return v
    odds = v / (1 - v) * np.exp(shift)
    return min(max(odds / (1 + odds), CLOSEST), 1 - CLOSEST)


@inner
def stratified(state: State) -> Any:
    """Return the log likelihood summed over strata, without fidelity; chi's rows for proposals are scratch."""
    i, f, chi = state.ints, state.floats, state.chi
    n_intervals, n_columns = i[at.N_INTERVALS], i[at.N_COLUMNS]
    total = 0.0
    for s in range(i[at.N_STRATA]):
        by_phi, by_p, by_lambda = shift_of(state, PHI, s), shift_of(state, P_, s), shift_of(state, LAMBDA, s)
        for t in range(n_intervals - 1, -1, -1):
            for c in range(n_columns):
                phi = shifted(state.values[PHI, t, c], by_phi)
                if i[at.HAS_LENGTHS]:
                    phi = phi ** tables.length(i, f, t)
                p, found = shifted(state.values[P_, t, c], by_p), shifted(state.values[LAMBDA, t, c], by_lambda)
                later = 1.0 if t == n_intervals - 1 else chi[NEW_CHI, t + 1, tables.following(i, c)]
                chi[NEW_CHI, t, c] = (1 - phi) * (1 - found) + phi * (1 - p) * later
                total += log_events(tables.count_in_stratum(i, f, s, PHI, t, c), phi)
                total += log_events(tables.count_in_stratum(i, f, s, at.N_PARAMETERS + PHI, t, c), 1 - phi)
                total += log_events(tables.count_in_stratum(i, f, s, P_, t, c), p)
                total += log_events(tables.count_in_stratum(i, f, s, at.N_PARAMETERS + P_, t, c), 1 - p)
                total += log_events(tables.count_in_stratum(i, f, s, LAMBDA, t, c), found)
                total += log_events(tables.count_in_stratum(i, f, s, VANISHED, t, c), chi[NEW_CHI, t, c])
    return total


@inner
def total_gain(state: State, q: int, direct: float, first: int, last: int) -> Any:
    """Return the gain in log L of what stands in the state, of which the intervals ``first`` to ``last`` may be new.

    ``direct`` is that of the changed values' own events.
    """
    if state.ints[at.N_STRATA] > 0:
        return stratified(state) - state.energy[0]
    state.energy[3] = state.energy[1]
    if state.ints[at.HAS_ENTRY] or state.ints[at.N_STATES] or q in (P_, FIDELITY):
        state.energy[3] = other_parts(state)
    return direct + refresh_chi(state, first, last) + state.energy[3] - state.energy[1]


@inner
def keep_gain(state: State, gain: float, last: int) -> None:
    """Take over what `total_gain` worked out."""
    state.energy[0] += gain
    if state.ints[at.N_STRATA] == 0:
        keep_chi(state, last)
        state.energy[1] = state.energy[3]


@inner
def refresh(state: State) -> Any:
    """Work out the log likelihood of a state's values from nothing, and keep it with the state."""
    i = state.ints
    if i[at.N_STRATA] > 0:
        state.energy[0] = stratified(state)
        return state.energy[0]
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            state.chi[LOG_CHI, t, c] = 0.0
            state.chi[CHI, t, c] = 1.0
    vanished = refresh_chi(state, 0, i[at.N_INTERVALS] - 1)
    keep_chi(state, i[at.N_INTERVALS] - 1)
    state.energy[1] = other_parts(state)
    total = vanished + state.energy[1]
    for q in range(at.N_PARAMETERS):
        total += direct_part(state, q)
    state.energy[0] = total
    return total


@compiled
def evaluate(state: State) -> Any:
    """Work out the log likelihood of a state's values from nothing, and keep it with the state."""
    return refresh(state)


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
            if tables.next_met(i, state.floats, start, c, i[at.N_INTERVALS] * (i[at.N_STATES] + 1) + 1) > 0.0:
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
                phi = phi ** tables.length(i, f, t)
            found += chi[XI, HERE, r] * (1 - phi) * state.values[LAMBDA, t, column]
            gone += chi[XI, HERE, r] * (1 - phi) * (1 - state.values[LAMBDA, t, column])
            for s in range(n_states):
                chi[XI, THERE, s] += chi[XI, HERE, r] * phi * move(state, t, column, r, s)
        n = tables.next_met(i, f, start, c, n_intervals * n_states + t)
        total += n * np.log(found) if n > 0.0 else 0.0
        for s in range(n_states):
            p, n = state.values[P_, t, first + s * n_ages], tables.next_met(i, f, start, c, t * n_states + s)
            total += n * np.log(chi[XI, THERE, s] * p) if n > 0.0 else 0.0
            chi[XI, HERE, s] = chi[XI, THERE, s] * (1 - p)
        first = tables.following(i, first)
    for s in range(n_states):
        gone += chi[XI, HERE, s]
    n = tables.next_met(i, f, start, c, n_intervals * (n_states + 1))
    return total + (n * np.log(gone) if n > 0.0 else 0.0)
