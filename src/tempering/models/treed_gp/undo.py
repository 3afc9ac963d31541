"""Keep what a proposal may spoil, and bring it back when the proposal is rejected."""

from tempering.models.treed_gp.compiled import compiled
from tempering.models.treed_gp.layout import TREE_WIDTH, State


@compiled
def keep_leaf(state: State, node: int) -> None:
    """Keep a leaf, for a proposal that may be rejected."""
    for i in range(state.leaf.shape[1]):
        state.keep[i] = state.leaf[node, i]


@compiled
def restore_leaf(state: State, node: int) -> None:
    """Undo everything since `keep_leaf`."""
    for i in range(state.leaf.shape[1]):
        state.leaf[node, i] = state.keep[i]


@compiled
def save(state: State) -> None:
    """Keep the tree, the order and the leaves, for a proposal that may be rejected."""
    nodes = state.tree.shape[0]
    width = state.leaf.shape[1]
    for i in range(nodes):
        for j in range(TREE_WIDTH):
            state.keep_int[i * TREE_WIDTH + j] = state.tree[i, j]
        for j in range(width):
            state.keep[i * width + j] = state.leaf[i, j]
    for i in range(state.order.shape[0]):
        state.keep_int[nodes * TREE_WIDTH + i] = state.order[i]


@compiled
def restore(state: State) -> None:
    """Undo everything since `save`."""
    nodes = state.tree.shape[0]
    width = state.leaf.shape[1]
    for i in range(nodes):
        for j in range(TREE_WIDTH):
            state.tree[i, j] = state.keep_int[i * TREE_WIDTH + j]
        for j in range(width):
            state.leaf[i, j] = state.keep[i * width + j]
    for i in range(state.order.shape[0]):
        state.order[i] = state.keep_int[nodes * TREE_WIDTH + i]
