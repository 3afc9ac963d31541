"""The tree: who lies below which node, which leaves are large enough, and where a split may be proposed.

Section 6 of the specification. Inputs below one node are next to each other in ``order``; a rule sends those
whose rank in its column is at most ``cut`` to the left.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, Ints, compiled
from tempering.models.treed_gp.layout import State


@compiled
def pick(rng: np.random.Generator, n: int) -> int:
    """Draw one of 0 to n - 1."""
    return min(int(rng.random() * n), n - 1)


@compiled
def n_split_columns(state: State) -> int:
    """Return how many columns a split may be on."""
    return int(state.n_cuts.shape[0] - state.integer[at.FIRST_SPLIT])


@compiled
def pick_column(rng: np.random.Generator, state: State) -> int:
    """Draw the column of a split."""
    return int(state.integer[at.FIRST_SPLIT] + pick(rng, n_split_columns(state)))


@compiled
def log_split(state: State, depth: int) -> float:
    """Return the log prior probability that a node at this depth is split."""
    return float(math.log(state.real[at.ALPHA]) - state.real[at.BETA] * math.log(1.0 + depth))


@compiled
def log_no_split(state: State, depth: int) -> float:
    """Return the log prior probability that a node at this depth is a leaf."""
    return math.log1p(-state.real[at.ALPHA] * (1.0 + depth) ** -state.real[at.BETA])


@compiled
def log_tree_prior(state: State) -> float:
    """Return the log probability of the branching process alone, without the places of the splits."""
    total = 0.0
    for i in range(state.meta[at.N_LEAVES]):
        total += log_no_split(state, state.tree[state.lists[0, i], at.DEPTH])
    for i in range(state.meta[at.N_INTERNAL]):
        total += log_split(state, state.tree[state.lists[1, i], at.DEPTH])
    return total


@compiled
def log_places_prior(state: State) -> float:
    """Return the log prior of the splits' columns and values: uniform over all candidates, in any node."""
    total = 0.0
    for i in range(state.meta[at.N_INTERNAL]):
        variable = state.tree[state.lists[1, i], at.VARIABLE]
        total -= math.log(n_split_columns(state) * state.n_cuts[variable])
    return total


@compiled
def new_node(state: State, parent: int, depth: int) -> int:
    """Take a free row for a leaf; the table has two more than the largest tree needs."""
    for node in range(state.tree.shape[0]):
        if state.tree[node, at.USED] == 0:
            break
    state.tree[node, at.LEFT] = -1
    state.tree[node, at.RIGHT] = -1
    state.tree[node, at.VARIABLE] = -1
    state.tree[node, at.PARENT] = parent
    state.tree[node, at.DEPTH] = depth
    state.tree[node, at.USED] = 1
    return node


@compiled
def partition(state: State, node: int) -> int:
    """Reorder the inputs below ``node`` by its rule; return where the right child's begin."""
    variable, cut = state.tree[node, at.VARIABLE], state.tree[node, at.CUT]
    i, j = state.tree[node, at.START], state.tree[node, at.END] - 1
    while i <= j:
        row = state.order[i]
        if state.rank[row, variable] <= cut:
            i += 1
        else:
            state.order[i] = state.order[j]
            state.order[j] = row
            j -= 1
    return int(i)


@compiled
def open_children(state: State, node: int) -> None:
    """Give a node with a rule two new leaves."""
    middle = partition(state, node)
    left = new_node(state, node, state.tree[node, at.DEPTH] + 1)
    right = new_node(state, node, state.tree[node, at.DEPTH] + 1)
    state.tree[left, at.START] = state.tree[node, at.START]
    state.tree[left, at.END] = middle
    state.tree[right, at.START] = middle
    state.tree[right, at.END] = state.tree[node, at.END]
    state.tree[node, at.LEFT] = left
    state.tree[node, at.RIGHT] = right


@compiled
def close_children(state: State, node: int) -> None:
    """Make a node a leaf again."""
    state.tree[state.tree[node, at.LEFT], at.USED] = 0
    state.tree[state.tree[node, at.RIGHT], at.USED] = 0
    state.tree[node, at.LEFT] = -1
    state.tree[node, at.RIGHT] = -1
    state.tree[node, at.VARIABLE] = -1


@compiled
def route(state: State, top: int) -> bool:
    """Send the inputs below ``top`` down its rules again; say whether every leaf is large enough."""
    stack = state.lists[2]
    stack[0] = top
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        left, right = state.tree[node, at.LEFT], state.tree[node, at.RIGHT]
        if left < 0:
            if not well_sized(state, node):
                return False
            continue
        middle = partition(state, node)
        state.tree[left, at.START] = state.tree[node, at.START]
        state.tree[left, at.END] = middle
        state.tree[right, at.START] = middle
        state.tree[right, at.END] = state.tree[node, at.END]
        stack[size] = left
        stack[size + 1] = right
        size += 2
    return True


@compiled
def well_sized(state: State, node: int) -> bool:
    """Say whether a leaf has enough rows, and not too many for its matrix."""
    few_enough = state.tree[node, at.END] - state.tree[node, at.START] <= state.integer[at.MAX_ROWS]
    return bool(few_enough and has_enough(state, node))


@compiled
def has_enough(state: State, node: int) -> bool:
    """Say whether a leaf has enough rows, and enough distinct ones for its regression (section 6)."""
    first, last = state.tree[node, at.START], state.tree[node, at.END]
    rows = 0.0
    for i in range(first, last):
        rows += state.y[state.order[i], at.COUNT]
    if rows < state.integer[at.MIN_LEAF]:
        return False
    if state.integer[at.CHECK_LEAF] == 0:
        return True
    if last - first < state.integer[at.N_BASE] + 1:
        return False
    for j in range(state.integer[at.N_BASE]):
        value = state.x[state.order[first], j]
        varies = False
        for i in range(first + 1, last):
            if state.x[state.order[i], j] != value:
                varies = True
                break
        if not varies:
            return False
    return True


@compiled
def leaves_below(state: State, top: int, out: Ints) -> int:
    """List the leaves below ``top``, left to right; return how many."""
    stack = state.lists[2]
    stack[0] = top
    size, found = 1, 0
    while size > 0:
        size -= 1
        node = stack[size]
        if state.tree[node, at.LEFT] < 0:
            out[found] = node
            found += 1
        else:
            stack[size] = state.tree[node, at.RIGHT]
            stack[size + 1] = state.tree[node, at.LEFT]
            size += 2
    return found


@compiled
def refresh_lists(state: State) -> None:
    """List leaves and internal nodes afresh, and set the depths."""
    stack = state.lists[2]
    root = state.meta[at.ROOT]
    stack[0] = root
    state.tree[root, at.DEPTH] = 0
    size, n_leaves, n_internal = 1, 0, 0
    while size > 0:
        size -= 1
        node = stack[size]
        left, right = state.tree[node, at.LEFT], state.tree[node, at.RIGHT]
        if left < 0:
            state.lists[0, n_leaves] = node
            n_leaves += 1
            continue
        state.lists[1, n_internal] = node
        n_internal += 1
        state.tree[left, at.DEPTH] = state.tree[node, at.DEPTH] + 1
        state.tree[right, at.DEPTH] = state.tree[node, at.DEPTH] + 1
        stack[size] = right
        stack[size + 1] = left
        size += 2
    state.meta[at.N_LEAVES] = n_leaves
    state.meta[at.N_INTERNAL] = n_internal


@compiled
def is_prunable(state: State, node: int) -> bool:
    """Say whether both children are leaves."""
    left, right = state.tree[node, at.LEFT], state.tree[node, at.RIGHT]
    return bool(left >= 0 and state.tree[left, at.LEFT] < 0 and state.tree[right, at.LEFT] < 0)


@compiled
def count_prunable(state: State) -> int:
    """Count the internal nodes with two leaf children."""
    count = 0
    for i in range(state.meta[at.N_INTERNAL]):
        if is_prunable(state, state.lists[1, i]):
            count += 1
    return count


@compiled
def interval(state: State, node: int, variable: int) -> tuple[int, int]:
    """Return (low, high): cuts strictly between can leave inputs on both sides of a split of ``node``."""
    low, high = -1, state.n_cuts[variable] - 1
    child, above = node, state.tree[node, at.PARENT]
    while above >= 0:
        if state.tree[above, at.VARIABLE] == variable:
            cut = state.tree[above, at.CUT]
            if state.tree[above, at.LEFT] == child:
                high = min(high, cut)
            else:
                low = max(low, cut)
        child, above = above, state.tree[above, at.PARENT]
    return low, high


@compiled
def split_probabilities(state: State, node: int, variable: int, out: Array) -> tuple[int, int]:
    """Fill ``out[low + 1 : high]`` with the proposal probabilities of the cuts of a node (section 7).

    Candidates inside the node weigh 1 / rank by their distance from its middle; those below the middle and
    those above it have half of the probability each, or one side all of it where the other is empty.
    """
    low, high = interval(state, node, variable)
    if high - low < 2:
        return low, high
    values = state.cuts[variable]
    middle = 0.5 * (values[max(low, 0)] + values[high])
    right = low + 1
    while right < high and values[right] < middle:
        right += 1
    left, first_right = right - 1, right
    below, above = 0.0, 0.0
    for position in range(1, high - low):
        from_left = right >= high or (left > low and middle - values[left] <= values[right] - middle)
        if from_left:
            out[left] = 1.0 / position
            below += out[left]
            left -= 1
        else:
            out[right] = 1.0 / position
            above += out[right]
            right += 1
    half = 0.5 if below > 0.0 and above > 0.0 else 1.0
    for i in range(low + 1, high):
        out[i] *= half / (below if i < first_right else above)
    return low, high
