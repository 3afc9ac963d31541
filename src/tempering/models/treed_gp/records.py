"""A tree as one row of numbers, and back: what a run keeps of a draw.

A row begins with the hyper-parameters, and the omega of classes. Then nodes stand in pre-order. An internal node is
(column, cut, its place between two inputs); a leaf is (-1, ...) with its parameters. The rest is zeros: rows may be cut
after the last node.

What a run records has numbers about the draw before the row: see `HEAD`.
"""

import math
from collections.abc import Sequence

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, Ints, called, compiled, entry
from tempering.models.treed_gp.hierarchy import log_prior_of_shared
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import log_marginal
from tempering.models.treed_gp.leaf_prior import log_prior_of_leaf
from tempering.models.treed_gp.reference import plant_root
from tempering.models.treed_gp.summary import is_linear, summarise
from tempering.models.treed_gp.tree import log_places_prior, log_tree_prior, open_children, refresh_lists

# Numbers about a draw: leaves, share of the rows in linear ones, log posterior density at k = 1 up to a constant, the k
# of the round that led to it, then the proposals of each move that were tried in it and accepted.
LEAVES, LINEAR_SHARE, LOG_POSTERIOR, MADE_AT, COUNTS = range(5)
HEAD = COUNTS + 2 * len(at.MOVES)

_FIXED = 6  # column, cut, nugget, sigma^2, tau^2, exponent; then ranges, Booleans, what is used of beta, beta


@compiled
def node_width(integer: Ints) -> int:
    """Return how many numbers one node takes."""
    return int(_FIXED + 2 * integer[at.N_RANGES] + 2 * integer[at.N_MEAN])


@compiled
def record_into(state: State, out: Array) -> None:
    """Write the hyper-parameters, the tree and its leaves into one row."""
    first = state.shared.shape[0]
    for i in range(first):
        out[i] = state.shared[i]
    for i in range(first, out.shape[0]):
        out[i] = 0.0
    width = node_width(state.integer)
    n_parameters = 2 * (state.integer[at.N_RANGES] + state.integer[at.N_MEAN])
    stack = state.lists[2]
    stack[0] = state.meta[at.ROOT]
    size, place = 1, first
    while size > 0:
        size -= 1
        node = stack[size]
        if state.tree[node, at.LEFT] >= 0:
            out[place] = state.tree[node, at.VARIABLE]
            out[place + 1] = state.tree[node, at.CUT]
            out[place + 2] = state.leaf[node, at.PLACE]
            stack[size] = state.tree[node, at.RIGHT]
            stack[size + 1] = state.tree[node, at.LEFT]
            size += 2
        else:
            out[place] = -1.0
            out[place + 2] = state.leaf[node, at.NUGGET]
            out[place + 3] = state.leaf[node, at.SIGMA2]
            out[place + 4] = state.leaf[node, at.TAU2]
            out[place + 5] = state.leaf[node, at.EXPONENT]
            for i in range(n_parameters):
                out[place + _FIXED + i] = state.leaf[node, at.RANGES + i]
        place += width


@compiled
def log_posterior(state: State) -> float:
    """Return the log posterior density at k = 1 with beta and sigma^2 integrated out, up to a constant."""
    total = log_tree_prior(state) + log_places_prior(state) + log_prior_of_shared(state)
    for i in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, i]
        if not state.leaf[node, at.LOG_DET] < math.inf:
            return -math.inf
        total += log_marginal(state, node, 1.0) + log_prior_of_leaf(state, node)
    return total


@called
def record(state: State) -> Array:
    """Return the draw as one row of numbers, with what `HEAD` says before it."""
    length = (2 * state.integer[at.MAX_LEAVES] - 1) * node_width(state.integer) + state.shared.shape[0]
    out = np.empty(HEAD + length)
    linear, rows = 0.0, 0.0
    for i in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, i]
        rows += state.leaf[node, at.N_ROWS]
        if is_linear(state, node):
            linear += state.leaf[node, at.N_ROWS]
    out[LEAVES] = state.meta[at.N_LEAVES]
    out[LINEAR_SHARE] = linear / rows
    out[LOG_POSTERIOR] = log_posterior(state)
    out[MADE_AT] = state.log_ratio[2]
    for i in range(state.counters.shape[0]):
        out[COUNTS + 2 * i] = state.counters[i, 0]
        out[COUNTS + 2 * i + 1] = state.counters[i, 1]
    record_into(state, out[HEAD:])
    return out


def record_size(integer: Ints, n_shared: int) -> int:
    """Return how many numbers `record` returns."""
    return HEAD + n_shared + (2 * int(integer[at.MAX_LEAVES]) - 1) * _width(integer)


def _width(integer: Ints) -> int:
    """Return `node_width`, in Python."""
    return _FIXED + 2 * int(integer[at.N_RANGES] + integer[at.N_MEAN])


def nodes_of(rows: Array, integer: Ints, n_shared: int) -> Array:
    """Return the nodes of rows, shape (..., node, number): as many as fit into rows that were cut."""
    width = _width(integer)
    rows = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, -(rows.shape[-1] - n_shared) % width)])
    n = (rows.shape[-1] - n_shared) // width
    return rows[..., n_shared : n_shared + n * width].reshape(*rows.shape[:-1], n, width)


def row_of_rules(rules: Sequence[tuple[int, int]], integer: Ints, n_shared: int) -> Array:
    """Return a row of a tree alone: column and cut of each node in pre-order, (-1, -1) for a leaf."""
    nodes = np.zeros((len(rules), _width(integer)))
    nodes[:, :2] = rules
    return np.concatenate([np.zeros(n_shared), nodes.ravel()])


@compiled
def unpack_record(state: State, row: Array) -> None:
    """Overwrite the tree and parameters by a recorded draw; `summarise` the leaves whose data are needed."""
    width = node_width(state.integer)
    n_parameters = 2 * (state.integer[at.N_RANGES] + state.integer[at.N_MEAN])
    plant_root(state)
    first = state.shared.shape[0]
    for i in range(first):
        state.shared[i] = row[i]
    if state.integer[at.RESPONSE] == at.CLASSES:
        for i in range(state.y.shape[0]):
            state.y[i, at.WEIGHT] = row[first - state.y.shape[0] + i]
            state.y[i, at.MEAN] = state.y[i, at.KAPPA] / state.y[i, at.WEIGHT]
    stack = state.lists[2]
    stack[0] = state.meta[at.ROOT]
    size, place = 1, first
    while size > 0:
        size -= 1
        node = stack[size]
        if row[place] >= 0.0:
            state.tree[node, at.VARIABLE] = int(row[place])
            state.tree[node, at.CUT] = int(row[place + 1])
            state.leaf[node, at.PLACE] = row[place + 2]
            open_children(state, node)
            stack[size] = state.tree[node, at.RIGHT]
            stack[size + 1] = state.tree[node, at.LEFT]
            size += 2
        else:
            state.leaf[node, at.NUGGET] = row[place + 2]
            state.leaf[node, at.SIGMA2] = row[place + 3]
            state.leaf[node, at.TAU2] = row[place + 4]
            state.leaf[node, at.EXPONENT] = row[place + 5]
            for i in range(n_parameters):
                state.leaf[node, at.RANGES + i] = row[place + _FIXED + i]
        place += width
    refresh_lists(state)


@entry
def load_record(state: State, row: Array) -> None:
    """Do the same, called from Python."""
    unpack_record(state, row)


@entry
def revive(state: State, row: Array) -> None:
    """Overwrite the state by a recorded draw and summarise all leaves: a chain can go on from it."""
    unpack_record(state, row)
    for i in range(state.meta[at.N_LEAVES]):
        summarise(state, state.lists[0, i])
