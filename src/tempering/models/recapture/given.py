"""Which laws a jump draws from: as fitted, as fitted with a free companion, or given the rest of the state.

Laws are fitted with the rest of the state at one place (`fits`). Where the rest stands elsewhere the mode is elsewhere:
one step of Newton's method from the fitted mode finds it, with the fitted curvature and the gradient of the likelihood
given the rest. The values that are drawn anew never enter, so that a jump and its way back look at the same laws. It
costs as much as a likelihood, and pays where two parameters are drawn anew together, the second given the first.
"""

from typing import Any

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.cells import first_column, from_logit, logit, put
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.layout import BLOCKS, LAMBDA, PHI, RANDOM, State
from tempering.models.recapture.layout import P as P_
from tempering.models.recapture.likelihood import NEW_CHI, VANISHED, XI, survival

LARGEST_SHIFT = 1.0  # logit; as in the fits
GRADIENT = XI  # the rows of chi that hold d log L / d chi, where nobody leaves


@inner
def companion(state: State, q: int) -> Any:
    """Return the parameter whose values hang together with those of q most: survival, or recovery for survival."""
    if q != PHI:
        return PHI
    return LAMBDA if tables.is_present(state.ints, LAMBDA) else P_


@inner
def sets_touching(state: State, q: int, mask: int) -> Any:
    """Return the columns, as bits, of all sets of a parameter that share a column with a set."""
    found = 0
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1:
            found |= tables.mask_of(state.ints, state.structure[q, 0], c)
    return found


@inner
def recall(state: State, q: int, mask: int, time: int, which: int) -> None:
    """Take the laws of a set as fitted: PSEUDO, or MARGINAL while its companion is free, whatever that is."""
    i, first, law = state.ints, first_column(mask), tables.law_of(state.ints, q, mask, time, 0)
    for block in range(tables.n_blocks(i, time)):
        for side in range(2):
            state.laws[first, block, side] = tables.pseudo_count(i, state.floats, which, law + block, side)


@inner
def look(state: State, q: int, columns: int) -> None:
    """Find the laws of all sets in some columns given the rest; fitted modes take the place of their values."""
    i = state.ints
    moves = i[at.N_STRATA] == 0 and not (i[at.HAS_FIDELITY] or i[at.HAS_ENTRY] or i[at.N_STATES])
    for c in range(i[at.N_COLUMNS]):
        if columns >> c & 1 and tables.youngest(i, state.structure[q, 0], c) == c:
            mask, time = tables.mask_of(i, state.structure[q, 0], c), state.structure[q, 1 + c]
            recall(state, q, mask, time, at.PSEUDO)
            if moves and _has_laws(i, time):
                for block in range(tables.n_blocks(i, time)):
                    if tables.block_exists(i, q, mask, time, block):
                        one, two = state.laws[c, block, 0], state.laws[c, block, 1]
                        put(state, q, mask, time, block, (one + 1) / (one + two + 2))
    if not moves:
        return
    differentiate(state)
    for c in range(i[at.N_COLUMNS]):
        if columns >> c & 1 and tables.youngest(i, state.structure[q, 0], c) == c:
            mask, time = tables.mask_of(i, state.structure[q, 0], c), state.structure[q, 1 + c]
            if _has_laws(i, time):
                for block in range(tables.n_blocks(i, time)):
                    if tables.block_exists(i, q, mask, time, block):
                        _shift(state, q, mask, time, block, c)


@inner
def _has_laws(i: Any, time: int) -> Any:
    return tables.kind_of(i, time) == BLOCKS or tables.kind_of(i, time) == RANDOM


@inner
def _shift(state: State, q: int, mask: int, time: int, block: int, c: int) -> None:
    """Move the law of a block to where the gradient leads; it stays worth as many birds."""
    one, two = state.laws[c, block, 0], state.laws[c, block, 1]
    total = one + two + 2
    v = (one + 1) / total
    excess = slope_of_block(state, q, mask, time, block) - (one * (1 - v) - two * v)
    shift = min(max(excess / (total * v * (1 - v)), -LARGEST_SHIFT), LARGEST_SHIFT)
    v = from_logit(logit(v) + shift)
    state.laws[c, block, 0], state.laws[c, block, 1] = max(total * v - 1, 0.0), max(total * (1 - v) - 1, 0.0)


@inner
def differentiate(state: State) -> None:
    """Work out chi of what stands in the state, and the derivative of the log likelihood by each of them."""
    i, f, chi = state.ints, state.floats, state.chi
    n_intervals, n_columns = i[at.N_INTERVALS], i[at.N_COLUMNS]
    for t in range(n_intervals - 1, -1, -1):
        for c in range(n_columns):
            phi, later = (
                survival(state, t, c),
                1.0 if t == n_intervals - 1 else chi[NEW_CHI, t + 1, tables.following(i, c)],
            )
            gone = (1 - phi) * (1 - state.values[LAMBDA, t, c])
            chi[NEW_CHI, t, c] = gone + phi * (1 - state.values[P_, t, c]) * later
            chi[GRADIENT, t, c] = 0.0
    for t in range(n_intervals):
        for c in range(n_columns):
            slope = chi[GRADIENT, t, c] + tables.count(i, f, VANISHED, t, c) / chi[NEW_CHI, t, c]
            chi[GRADIENT, t, c] = slope
            if t + 1 < n_intervals:
                passed = survival(state, t, c) * (1 - state.values[P_, t, c])
                chi[GRADIENT, t + 1, tables.following(i, c)] += slope * passed


@inner
def slope_of_block(state: State, q: int, mask: int, time: int, block: int) -> Any:
    """Return the derivative of the log likelihood by the logit of a block, after `differentiate`."""
    i, total = state.ints, 0.0
    for t in range(tables.first_of(i, time, block), tables.last_of(i, time, block) + 1):
        if tables.label(i, time, t) == block:
            for c in range(i[at.N_COLUMNS]):
                if mask >> c & 1 and not tables.is_held(i, q, t, c):
                    total += slope_of_cell(state, q, t, c)
    return total


@inner
def slope_of_cell(state: State, q: int, t: int, c: int) -> Any:
    """Return the derivative of the log likelihood by the logit of a cell: its own events, and chi."""
    i, f, chi = state.ints, state.floats, state.chi
    ones, zeros = tables.count(i, f, q, t, c), tables.count(i, f, at.N_PARAMETERS + q, t, c)
    v, phi = state.values[q, t, c], survival(state, t, c)
    later = 1.0 if t == i[at.N_INTERVALS] - 1 else chi[NEW_CHI, t + 1, tables.following(i, c)]
    if q == PHI:
        step = (1 - v) * (tables.length(i, f, t) if i[at.HAS_LENGTHS] else 1.0)
        by_chi = phi * step * ((1 - state.values[P_, t, c]) * later - (1 - state.values[LAMBDA, t, c]))
        return ones * step - zeros * step * phi / (1 - phi) + chi[GRADIENT, t, c] * by_chi
    by_chi = -v * (1 - v) * (phi * later if q == P_ else 1 - phi)
    return ones * (1 - v) - zeros * v + chi[GRADIENT, t, c] * by_chi
