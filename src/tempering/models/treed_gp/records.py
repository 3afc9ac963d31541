"""A tree as one row of numbers, and back: what a run keeps of a draw.

Nodes stand in pre-order. An internal node is (column, cut, its place between two inputs); a leaf is (-1, ...) with its
parameters. The row ends with the hyper-parameters.
"""

import numpy as np

from tempering.models.treed_gp.compiled import Array, Ints, compiled, entry
from tempering.models.treed_gp.layout import (
    CUT,
    LEFT,
    MAX_LEAVES,
    N_LEAVES,
    N_MEAN,
    N_RANGES,
    NUGGET,
    PLACE,
    RANGES,
    RIGHT,
    ROOT,
    SIGMA2,
    TAU2,
    VARIABLE,
    State,
)
from tempering.models.treed_gp.reference import plant_root
from tempering.models.treed_gp.summary import summarise
from tempering.models.treed_gp.tree import open_children, refresh_lists

_FIXED = 5  # column, cut, nugget, sigma^2, tau^2; then ranges, Booleans, what is used of beta, beta


@compiled
def node_width(integer: Ints) -> int:
    """Return how many numbers one node takes."""
    return int(_FIXED + 2 * integer[N_RANGES] + 2 * integer[N_MEAN])


@compiled
def record_length(state: State) -> int:
    """Return how many numbers one draw takes."""
    return int((2 * state.integer[MAX_LEAVES] - 1) * node_width(state.integer) + state.shared.shape[0])


def record_size(state: State) -> int:
    """Return how many numbers one draw takes, in Python."""
    nodes = 2 * int(state.integer[MAX_LEAVES]) - 1
    return nodes * (_FIXED + 2 * (int(state.integer[N_RANGES]) + int(state.integer[N_MEAN]))) + len(state.shared)


@compiled
def record_into(state: State, out: Array) -> None:
    """Write the tree, its leaves and the hyper-parameters into one row."""
    for i in range(out.shape[0]):
        out[i] = 0.0
    width = node_width(state.integer)
    n_parameters = 2 * (state.integer[N_RANGES] + state.integer[N_MEAN])
    stack = state.lists[2]
    stack[0] = state.meta[ROOT]
    size, at = 1, 0
    while size > 0:
        size -= 1
        node = stack[size]
        if state.tree[node, LEFT] >= 0:
            out[at] = state.tree[node, VARIABLE]
            out[at + 1] = state.tree[node, CUT]
            out[at + 2] = state.leaf[node, PLACE]
            stack[size] = state.tree[node, RIGHT]
            stack[size + 1] = state.tree[node, LEFT]
            size += 2
        else:
            out[at] = -1.0
            out[at + 2] = state.leaf[node, NUGGET]
            out[at + 3] = state.leaf[node, SIGMA2]
            out[at + 4] = state.leaf[node, TAU2]
            for i in range(n_parameters):
                out[at + _FIXED + i] = state.leaf[node, RANGES + i]
        at += width
    first = out.shape[0] - state.shared.shape[0]
    for i in range(state.shared.shape[0]):
        out[first + i] = state.shared[i]


@entry
def record(state: State) -> Array:
    """Return the draw as one row of numbers."""
    out = np.empty(record_length(state))
    record_into(state, out)
    return out


@compiled
def unpack_record(state: State, row: Array) -> None:
    """Overwrite the tree and parameters by a recorded draw; `summarise` the leaves whose data are needed."""
    width = node_width(state.integer)
    n_parameters = 2 * (state.integer[N_RANGES] + state.integer[N_MEAN])
    plant_root(state)
    first = row.shape[0] - state.shared.shape[0]
    for i in range(state.shared.shape[0]):
        state.shared[i] = row[first + i]
    stack = state.lists[2]
    stack[0] = state.meta[ROOT]
    size, at = 1, 0
    while size > 0:
        size -= 1
        node = stack[size]
        if row[at] >= 0.0:
            state.tree[node, VARIABLE] = int(row[at])
            state.tree[node, CUT] = int(row[at + 1])
            state.leaf[node, PLACE] = row[at + 2]
            open_children(state, node)
            stack[size] = state.tree[node, RIGHT]
            stack[size + 1] = state.tree[node, LEFT]
            size += 2
        else:
            state.leaf[node, NUGGET] = row[at + 2]
            state.leaf[node, SIGMA2] = row[at + 3]
            state.leaf[node, TAU2] = row[at + 4]
            for i in range(n_parameters):
                state.leaf[node, RANGES + i] = row[at + _FIXED + i]
        at += width
    refresh_lists(state)


@entry
def load_record(state: State, row: Array) -> None:
    """Do the same, called from Python."""
    unpack_record(state, row)


@entry
def revive(state: State, row: Array) -> None:
    """Overwrite the state by a recorded draw and summarise all leaves: a chain can go on from it."""
    unpack_record(state, row)
    for i in range(state.meta[N_LEAVES]):
        summarise(state, state.lists[0, i])
