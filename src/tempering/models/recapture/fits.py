"""Laws of every value a model may have, fitted before sampling.

Given the rest, the likelihood of one value is close to v^s (1 - v)^f. The pseudo-counts s and f are found for every
set of columns and every block of intervals, from the mode and the curvature of the likelihood on the logit scale, the
rest standing at a smoothed fit. A trend has the mode and the curvature of its two coefficients. Wrong fits cost
acceptances, never exactness.
"""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.cells import from_logit, logit, put, put_hyper, put_trend
from tempering.models.recapture.compiled import allocating, compiled, inner
from tempering.models.recapture.given import companion
from tempering.models.recapture.kernel import hold
from tempering.models.recapture.layout import PARALLEL, TREND, Floats, State
from tempering.models.recapture.likelihood import refresh

SPREAD_IN_TIME = 0.7  # logit; how far the smoothed fit lets a year stray from its class
SPREAD_OF_CLASSES = 2.0  # logit; a weak prior on the class means, wider than any plausible value
ROUNDS_OF_MEANS, ROUNDS_OF_YEARS = 20, 6
NEWTON_STEPS = 8
DIFFERENCE = 1e-3  # error h^2 and |log L| 1e-16 / h^2: both far below a pseudo-count
LARGEST = 12.0  # logit
MOST_LOST = 0.9  # of a curvature, to what hangs together with it


def fit_laws(state: State, masks: list[int], n_laws: int) -> tuple[Floats, Floats, Floats]:
    """Return pseudo-counts (Q, set, law, 2), those with a free companion, and trends (Q, set, time, 5) of all sets.

    ``state`` is scratch.
    """
    n_times = int(state.ints[at.N_TIMES])
    pseudo = np.zeros((at.N_PARAMETERS, len(masks), n_laws, 2))
    marginal, trend = np.zeros_like(pseudo), np.zeros((at.N_PARAMETERS, len(masks), n_times, 5))
    fit_all(state, np.array(masks, np.int64), pseudo, marginal, trend)
    return pseudo, marginal, trend


@allocating
def smoothed_fit(state: State) -> None:
    """Climb to values that maximise the likelihood with years shrunk towards their column, one logit at a time."""
    i = state.ints
    n_intervals, n_columns = i[at.N_INTERVALS], i[at.N_COLUMNS]
    state.values[:] = 0.5
    means = np.zeros((at.N_PARAMETERS, n_columns))
    effects = np.zeros((at.N_PARAMETERS, n_intervals, n_columns))
    for q in range(at.N_PARAMETERS):
        hold(state, q)
    for _ in range(ROUNDS_OF_MEANS):
        for q in range(at.N_PARAMETERS):
            for c in range(n_columns):
                means[q, c] = _climbed(state, means, effects, q, c, -1)
    for _ in range(ROUNDS_OF_YEARS):
        for q in range(at.N_PARAMETERS):
            for c in range(n_columns):
                for t in range(n_intervals):
                    if not tables.is_held(i, q, t, c):
                        effects[q, t, c] = _climbed(state, means, effects, q, c, t)
                means[q, c] = _climbed(state, means, effects, q, c, -1)


@inner
def _penalised(state: State, means: Any, effects: Any, q: int, c: int, t: int, x: float) -> Any:
    """Return the penalised log likelihood with one mean (t = -1) or one year's effect at x."""
    i = state.ints
    if t >= 0:
        state.values[q, t, c] = from_logit(means[q, c] + x)
        return refresh(state) - 0.5 * (x / SPREAD_IN_TIME) ** 2
    for u in range(i[at.N_INTERVALS]):
        if not tables.is_held(i, q, u, c):
            state.values[q, u, c] = from_logit(x + effects[q, u, c])
    return refresh(state) - 0.5 * (x / SPREAD_OF_CLASSES) ** 2


@inner
def _climbed(state: State, means: Any, effects: Any, q: int, c: int, t: int) -> Any:
    """Take one damped Newton step in one coordinate."""
    x = means[q, c] if t < 0 else effects[q, t, c]
    down = _penalised(state, means, effects, q, c, t, x - DIFFERENCE)
    up = _penalised(state, means, effects, q, c, t, x + DIFFERENCE)
    here = _penalised(state, means, effects, q, c, t, x)
    curvature = max(-(up - 2 * here + down) / DIFFERENCE**2, 0.05)
    new = x + min(max((up - down) / (2 * DIFFERENCE) / curvature, -1.0), 1.0)
    new = min(max(new, -LARGEST), LARGEST)
    if _penalised(state, means, effects, q, c, t, new) < here:
        new = x
        _penalised(state, means, effects, q, c, t, new)
    return new


@compiled
def fit_all(state: State, masks: Any, pseudo: Any, marginal: Any, trend: Any) -> None:
    """Fit the laws of every set, with the rest at the smoothed fit, which is put back."""
    smoothed_fit(state)
    i = state.ints
    for q in range(at.N_PARAMETERS):
        other = companion(state, q)
        centre, centre_of_other = state.values[q].copy(), state.values[other].copy()
        for row in range(len(masks)):
            law = 0
            for time in range(i[at.N_TIMES]):
                if tables.kind_of(i, time) == TREND:
                    _fit_trend(state, q, masks[row], time, trend[q, row, time])
                    _put_values(state, q, centre)
                for block in range(tables.n_blocks(i, time)):
                    if tables.kind_of(i, time) == PARALLEL:  # what its base has: it serves as a width of steps
                        same = i[i[at.OFFSETS] + tables.base_of(i, time)] + block
                        pseudo[q, row, law, 0] = pseudo[q, row, same, 0]
                        pseudo[q, row, law, 1] = pseudo[q, row, same, 1]
                    elif tables.kind_of(i, time) != TREND:
                        _fit_block(state, q, masks[row], time, block, pseudo[q, row, law])
                        _put_values(state, q, centre)
                        marginal[q, row, law, 0] = pseudo[q, row, law, 0]
                        marginal[q, row, law, 1] = pseudo[q, row, law, 1]
                        _fit_with(state, q, other, masks[row], time, block, marginal[q, row, law])
                        _put_values(state, q, centre)
                        _put_values(state, other, centre_of_other)
                    law += 1


@inner
def _put_values(state: State, q: int, values: Any) -> None:
    """Write the values of a parameter, one by one: whole arrays would bring the text of an error to be compiled."""
    for t in range(values.shape[0]):
        for c in range(values.shape[1]):
            state.values[q, t, c] = values[t, c]


@inner
def _along(state: State, q: int, mask: int, time: int, block: int, x: float) -> Any:
    """Return log L + log v (1 - v) with one logit in a block."""
    put(state, q, mask, time, block, from_logit(x))
    return refresh(state) - np.log1p(np.exp(-abs(x))) * 2 - abs(x)


@inner
def _fit_block(state: State, q: int, mask: int, time: int, block: int, out: Any) -> None:
    """Write the pseudo-counts of a block: Newton's method with central differences.

    A block without cells has the flat likelihood: mode 0, curvature 1/2, no pseudo-counts.
    """
    i = state.ints
    n, x = 0, 0.0
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if (
                i[i[at.LABELS] + time * i[at.N_INTERVALS] + t] == block
                and mask >> c & 1
                and not tables.is_held(i, q, t, c)
            ):
                x += logit(state.values[q, t, c])
                n += 1
    if n == 0:
        return
    x, curvature = x / n, 0.5
    for _ in range(NEWTON_STEPS):
        here = _along(state, q, mask, time, block, x)
        up = _along(state, q, mask, time, block, x + DIFFERENCE)
        down = _along(state, q, mask, time, block, x - DIFFERENCE)
        curvature = max(-(up - 2 * here + down) / DIFFERENCE**2, 0.05)
        change = min(max((up - down) / (2 * DIFFERENCE) / curvature, -1.0), 1.0)
        x = min(max(x + change, -LARGEST), LARGEST)
        if abs(change) < 1e-4:
            break
    _write_counts(x, curvature, out)


@inner
def _write_counts(x: float, curvature: float, out: Any) -> None:
    """Write the pseudo-counts of a mode and a curvature on the logit scale."""
    v = from_logit(x)
    total = curvature / (v * (1 - v))
    out[0] = max(total * v - 1, 0.0)
    out[1] = max(total * (1 - v) - 1, 0.0)


@inner
def _move_other(state: State, other: int, mask: int, t: int, shift: float) -> None:
    """Move the companion's values of an interval on the logit scale."""
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1 and not tables.is_held(state.ints, other, t, c):
            state.values[other, t, c] = from_logit(logit(state.values[other, t, c]) + shift)


@inner
def _with_other(state: State, q: int, other: int, mask: int, time: int, block: int, x: float, t: int) -> Any:
    """Return log L + log v (1 - v) of one logit in a block and of the companion's values of an interval."""
    total = _along(state, q, mask, time, block, x)
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1 and not tables.is_held(state.ints, other, t, c):
            total += np.log(state.values[other, t, c]) + np.log1p(-state.values[other, t, c])
    return total


@inner
def _fit_with(state: State, q: int, other: int, mask: int, time: int, block: int, out: Any) -> None:
    """Write the pseudo-counts of a block while the companion's values are free in every interval of it.

    In turn each of those takes a step of Newton's method, then the block with what is left of its curvature (the Schur
    complement), starting from the counts in ``out``, which stay if the companion is not one of this study.
    """
    i, h = state.ints, DIFFERENCE
    x, curvature = np.log((out[0] + 1) / (out[1] + 1)), 0.0
    for _ in range(NEWTON_STEPS):
        lost, largest = 0.0, 0.0
        for t in range(tables.first_of(i, time, block), tables.last_of(i, time, block) + 1):
            if tables.label(i, time, t) == block and tables.is_present(i, other):
                here = _with_other(state, q, other, mask, time, block, x, t)
                right = _with_other(state, q, other, mask, time, block, x + h, t)
                _move_other(state, other, mask, t, h)
                up = _with_other(state, q, other, mask, time, block, x, t)
                both = _with_other(state, q, other, mask, time, block, x + h, t)
                _move_other(state, other, mask, t, -2 * h)
                down = _with_other(state, q, other, mask, time, block, x, t)
                cross = (both - right - up + here) / h**2
                bend = max(-(up - 2 * here + down) / h**2, 0.05)
                change = min(max((up - down) / (2 * h) / bend, -1.0), 1.0)
                _move_other(state, other, mask, t, h + change)
                lost, largest = lost + cross * cross / bend, max(largest, abs(change))
        if lost == 0.0:
            return
        here = _along(state, q, mask, time, block, x)
        up, down = _along(state, q, mask, time, block, x + h), _along(state, q, mask, time, block, x - h)
        curvature = max(-(up - 2 * here + down) / h**2, 0.05)
        curvature -= min(lost, MOST_LOST * curvature)
        change = min(max((up - down) / (2 * h) / curvature, -1.0), 1.0)
        x = min(max(x + change, -LARGEST), LARGEST)
        if max(abs(change), largest) < 1e-3:
            break
    _write_counts(x, curvature, out)


@inner
def _trend_at(state: State, q: int, mask: int, time: int, a: float, b: float) -> Any:
    put_hyper(state, q, mask, a, b)
    put_trend(state, q, mask, time)
    return refresh(state)


@inner
def _fit_trend(state: State, q: int, mask: int, time: int, out: Any) -> None:
    """Write mode and precision of a trend's coefficients, by Newton's method with a weak penalty."""
    i = state.ints
    n, a, b, h = 0, 0.0, 0.0, 10 * DIFFERENCE
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if mask >> c & 1 and not tables.is_held(i, q, t, c):
                a += logit(state.values[q, t, c])
                n += 1
    if n == 0:
        return
    a /= n
    for _ in range(2 * NEWTON_STEPS):
        here = _trend_at(state, q, mask, time, a, b)
        a_up, a_down = _trend_at(state, q, mask, time, a + h, b), _trend_at(state, q, mask, time, a - h, b)
        b_up, b_down = _trend_at(state, q, mask, time, a, b + h), _trend_at(state, q, mask, time, a, b - h)
        both = _trend_at(state, q, mask, time, a + h, b + h)
        aa = max(-(a_up - 2 * here + a_down) / h**2, 0.0)
        bb = max(-(b_up - 2 * here + b_down) / h**2, 0.0)
        ab = -(both - a_up - b_up + here) / h**2
        bound = 0.95 * np.sqrt(aa * bb)
        ab = min(max(ab, -bound), bound)
        paa, pbb = aa + 0.25, bb + 0.25
        ga, gb = (a_up - a_down) / (2 * h) - 0.25 * a, (b_up - b_down) / (2 * h) - 0.25 * b
        det = paa * pbb - ab * ab
        a = min(max(a + min(max((pbb * ga - ab * gb) / det, -1.0), 1.0), -LARGEST), LARGEST)
        b = min(max(b + min(max((paa * gb - ab * ga) / det, -1.0), 1.0), -5.0), 5.0)
        out[0], out[1], out[2], out[3], out[4] = a, b, aa, ab, bb
