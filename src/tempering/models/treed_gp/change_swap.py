"""Change, swap and rotate: moves that keep the number of leaves (section 7).

Leaf parameters stay where they are; beta and sigma^2 are integrated out, (5.1), and drawn afresh when the
data of a leaf have changed. A proposal that leaves some leaf too small is refused.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Ints, compiled
from tempering.models.treed_gp.grow_prune import accept
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import draw_sigma2_beta, log_marginal
from tempering.models.treed_gp.summary import summarise
from tempering.models.treed_gp.tree import leaves_below, log_tree_prior, pick, refresh_lists, route
from tempering.models.treed_gp.undo import restore, save


@compiled
def _log_marginal_below(state: State, leaves: Ints, n_leaves: int, k: float) -> float:
    total = 0.0
    for i in range(n_leaves):
        total += log_marginal(state, leaves[i], k)
    return total


@compiled
def _size_changed(state: State, node: int) -> bool:
    """Say whether a leaf holds more or fewer inputs than when `save` was called.

    Where one cut has moved, a leaf on one side of it can only lose inputs, on the other only gain: as many as
    before are the same ones.
    """
    start = node * at.TREE_WIDTH
    return bool(
        state.tree[node, at.END] - state.tree[node, at.START]
        != state.keep_int[start + at.END] - state.keep_int[start + at.START]
    )


@compiled
def settle(rng: np.random.Generator, state: State, top: int, k: float, move: int) -> None:
    """Route the data below ``top`` by its new rules, and accept or undo; `save` was called before."""
    leaves = state.lists[3]
    n_leaves = leaves_below(state, top, leaves)
    log_ratio = -_log_marginal_below(state, leaves, n_leaves, k)
    if route(state, top):
        for i in range(n_leaves):
            if move != at.CHANGE or _size_changed(state, leaves[i]):
                summarise(state, leaves[i])
        log_ratio += _log_marginal_below(state, leaves, n_leaves, k)
    else:
        log_ratio = -math.inf
    if accept(rng, state, move, log_ratio):
        for i in range(n_leaves):
            draw_sigma2_beta(rng, state, leaves[i], k)
    else:
        restore(state)


@compiled
def change(rng: np.random.Generator, state: State, k: float) -> None:
    """Move the cut of an internal node to a nearby candidate of the same column; symmetric."""
    if state.meta[at.N_INTERNAL] == 0:
        return
    node = state.lists[1, pick(rng, state.meta[at.N_INTERNAL])]
    reach = state.integer[at.CHANGE_REACH]
    distance = 1 if reach == 1 else 1 + pick(rng, reach)
    cut = state.tree[node, at.CUT] + (distance if rng.random() < 0.5 else -distance)
    if cut < 0 or cut >= state.n_cuts[state.tree[node, at.VARIABLE]]:
        accept(rng, state, at.CHANGE, -math.inf)
        return
    save(state)
    state.tree[node, at.CUT] = cut
    settle(rng, state, node, k, at.CHANGE)


@compiled
def pick_child(rng: np.random.Generator, state: State) -> int:
    """Draw an internal node that has a parent; -1 where there is none."""
    if state.meta[at.N_INTERNAL] < 2:
        return -1
    node = state.lists[1, pick(rng, state.meta[at.N_INTERNAL] - 1)]
    if node == state.meta[at.ROOT]:
        node = state.lists[1, state.meta[at.N_INTERNAL] - 1]
    return int(node)


@compiled
def exchange_rules(state: State, node: int, parent: int) -> None:
    """Give each of two nodes the rule of the other."""
    for column in (at.VARIABLE, at.CUT):
        rule = state.tree[node, column]
        state.tree[node, column] = state.tree[parent, column]
        state.tree[parent, column] = rule


@compiled
def swap_or_rotate(rng: np.random.Generator, state: State, k: float) -> None:
    """Exchange the rules of an internal node and its parent, or rotate them where they split one column.

    An exchange may move both cuts too, up or down alike, so that it stays symmetric.
    """
    node = pick_child(rng, state)
    if node < 0:
        return
    parent = state.tree[node, at.PARENT]
    save(state)
    if state.tree[node, at.VARIABLE] == state.tree[parent, at.VARIABLE]:
        rotate(rng, state, node, k)
        return
    exchange_rules(state, node, parent)
    if rng.random() < state.real[at.P_SHIFT] and not (_shift(rng, state, node) and _shift(rng, state, parent)):
        restore(state)
        accept(rng, state, at.SWAP, -math.inf)
        return
    settle(rng, state, parent, k, at.SWAP)


@compiled
def _shift(rng: np.random.Generator, state: State, node: int) -> bool:
    """Move the cut of a node by so many candidates either way, or leave it; say whether there is such a cut."""
    reach = state.integer[at.SWAP_REACH]
    cut = state.tree[node, at.CUT] + pick(rng, 2 * reach + 1) - reach
    state.tree[node, at.CUT] = cut
    return bool(0 <= cut < state.n_cuts[state.tree[node, at.VARIABLE]])


@compiled
def _link(state: State, parent: int, side: int, child: int) -> None:
    state.tree[parent, side] = child
    state.tree[child, at.PARENT] = parent


@compiled
def rotate(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Rotate a node over its parent: the leaves keep their data, so that only the tree prior decides."""
    log_ratio = -log_tree_prior(state)
    parent = state.tree[node, at.PARENT]
    above = state.tree[parent, at.PARENT]
    near, far = (at.RIGHT, at.LEFT) if state.tree[parent, at.RIGHT] == node else (at.LEFT, at.RIGHT)
    _link(state, parent, near, state.tree[node, far])
    _link(state, node, far, parent)
    state.tree[node, at.PARENT] = above
    if above < 0:
        state.meta[at.ROOT] = node
    else:
        state.tree[above, at.LEFT if state.tree[above, at.LEFT] == parent else at.RIGHT] = node
    _span(state, parent)
    _span(state, node)
    refresh_lists(state)
    log_ratio += log_tree_prior(state)
    if state.integer[at.TEMPER_TREE] != 0:
        log_ratio *= k
    if not accept(rng, state, at.ROTATE, log_ratio):
        restore(state)
        state.meta[at.ROOT] = parent if above < 0 else state.meta[at.ROOT]
        refresh_lists(state)


@compiled
def _span(state: State, node: int) -> None:
    """Set the stretch of inputs below a node from its children's."""
    state.tree[node, at.START] = state.tree[state.tree[node, at.LEFT], at.START]
    state.tree[node, at.END] = state.tree[state.tree[node, at.RIGHT], at.END]
