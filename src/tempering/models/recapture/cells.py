"""The values of a set of columns, as they lie in the cells of a state: written, read, and kept off 0 and 1."""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.layout import PARALLEL, State

CLOSEST = 1e-12  # to 0 and 1: values nearer are refused


@inner
def logit(v: float) -> Any:
    """Return the log odds."""
    return np.log(v) - np.log1p(-v)


@inner
def from_logit(x: float) -> Any:
    """Return the probability with these log odds."""
    return 1.0 / (1.0 + np.exp(-x))


@inner
def is_inside(v: float) -> Any:
    """Whether a value is allowed."""
    return v > CLOSEST and v < 1 - CLOSEST


@inner
def put(state: State, q: int, mask: int, time: int, block: int, v: float) -> None:
    """Write a value into the cells of a block of a set; additive effects move it on the logit scale."""
    i = state.ints
    is_parallel = tables.kind_of(i, time) == PARALLEL
    for t in range(tables.first_of(i, time, block), tables.last_of(i, time, block) + 1):
        if tables.label(i, time, t) == block:
            for c in range(i[at.N_COLUMNS]):
                if mask >> c & 1 and not tables.is_held(i, q, t, c):
                    distance = state.hyper[q, c, 0] if is_parallel else 0.0
                    state.values[q, t, c] = moved(v, distance)


@inner
def moved(v: float, distance: float) -> Any:
    """Return a probability moved by a distance on the logit scale, kept off 0 and 1."""
    return v if distance == 0.0 else min(max(from_logit(logit(v) + distance), 1e-15), 1 - 1e-15)


@inner
def is_reference(state: State, mask: int, time: int, c: int) -> Any:
    """Whether a column has the level of its set's first one, from which distances are measured."""
    return tables.level(state.ints, time, c) == tables.level(state.ints, time, first_column(mask))


@inner
def is_first_of_level(state: State, mask: int, time: int, c: int) -> Any:
    """Whether a column is the first of its set with its level."""
    if not mask >> c & 1:
        return False
    return first_column(level_mask(state, mask, time, c)) == c


@inner
def level_mask(state: State, mask: int, time: int, column: int) -> Any:
    """Return the columns of a set that have a column's level, as bits."""
    found = 0
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1 and tables.level(state.ints, time, c) == tables.level(state.ints, time, column):
            found |= 1 << c
    return found


@inner
def put_distance(state: State, q: int, mask: int, time: int, column: int, distance: float) -> None:
    """Write the distance of a column's level from the first."""
    members = level_mask(state, mask, time, column)
    for c in range(state.ints[at.N_COLUMNS]):
        if members >> c & 1:
            state.hyper[q, c, 0] = distance


@inner
def are_inside(state: State, q: int, mask: int) -> Any:
    """Whether all values of a set are allowed."""
    for t in range(state.ints[at.N_INTERVALS]):
        for c in range(state.ints[at.N_COLUMNS]):
            if mask >> c & 1 and not tables.is_held(state.ints, q, t, c) and not is_inside(state.values[q, t, c]):
                return False
    return True


@inner
def value_of(state: State, q: int, mask: int, time: int, block: int) -> Any:
    """Return the value of a block of a set."""
    i, c = state.ints, first_column(mask)
    for t in range(tables.first_of(i, time, block), tables.last_of(i, time, block) + 1):
        if tables.label(i, time, t) == block and not tables.is_held(i, q, t, c):
            return state.values[q, t, c]
    return 0.5


@inner
def put_trend(state: State, q: int, mask: int, time: int) -> Any:
    """Write the values of a trend from its coefficients; return whether all are allowed."""
    i, first = state.ints, first_column(mask)
    allowed = True
    for t in range(i[at.N_INTERVALS]):
        v = from_logit(state.hyper[q, first, 0] + state.hyper[q, first, 1] * tables.covariate(i, state.floats, time, t))
        allowed = allowed and is_inside(v)
        for c in range(i[at.N_COLUMNS]):
            if mask >> c & 1 and not tables.is_held(i, q, t, c):
                state.values[q, t, c] = v
    return allowed


@inner
def first_column(mask: int) -> Any:
    """Return the first column of a set."""
    c = 0
    while not mask >> c & 1:
        c += 1
    return c


@inner
def put_hyper(state: State, q: int, mask: int, one: float, two: float) -> None:
    """Write the coefficients of a set, which all its columns hold."""
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1:
            state.hyper[q, c, 0] = one
            state.hyper[q, c, 1] = two
