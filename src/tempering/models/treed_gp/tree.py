"""The tree: who lies below which node, which leaves are large enough, and where a split may be proposed.

Section 6 of the specification. Inputs below one node are next to each other in ``order``; a rule sends those
whose rank in its column is at most ``cut`` to the left.
"""

import math

import numpy as np

from tempering.models.treed_gp.compiled import Array, Ints, compiled
from tempering.models.treed_gp.layout import (
    ALPHA,
    BETA,
    CHECK_LEAF,
    COUNT,
    CUT,
    DEPTH,
    END,
    FIRST_SPLIT,
    LEFT,
    MAX_ROWS,
    MIN_LEAF,
    N_BASE,
    N_INTERNAL,
    N_LEAVES,
    PARENT,
    RIGHT,
    ROOT,
    START,
    USED,
    VARIABLE,
    State,
)


@compiled
def pick(rng: np.random.Generator, n: int) -> int:
    """Draw one of 0 to n - 1."""
    return min(int(rng.random() * n), n - 1)


@compiled
def n_split_columns(state: State) -> int:
    """Return how many columns a split may be on."""
    return int(state.n_cuts.shape[0] - state.integer[FIRST_SPLIT])


@compiled
def pick_column(rng: np.random.Generator, state: State) -> int:
    """Draw the column of a split."""
    return int(state.integer[FIRST_SPLIT] + pick(rng, n_split_columns(state)))


@compiled
def log_split(state: State, depth: int) -> float:
    """Return the log prior probability that a node at this depth is split."""
    return float(math.log(state.real[ALPHA]) - state.real[BETA] * math.log(1.0 + depth))


@compiled
def log_no_split(state: State, depth: int) -> float:
    """Return the log prior probability that a node at this depth is a leaf."""
    return math.log1p(-state.real[ALPHA] * (1.0 + depth) ** -state.real[BETA])


@compiled
def log_tree_prior(state: State) -> float:
    """Return the log probability of the branching process alone, without the places of the splits."""
    total = 0.0
    for i in range(state.meta[N_LEAVES]):
        total += log_no_split(state, state.tree[state.lists[0, i], DEPTH])
    for i in range(state.meta[N_INTERNAL]):
        total += log_split(state, state.tree[state.lists[1, i], DEPTH])
    return total


@compiled
def log_places_prior(state: State) -> float:
    """Return the log prior of the splits' columns and values: uniform over all candidates, in any node."""
    total = 0.0
    for i in range(state.meta[N_INTERNAL]):
        variable = state.tree[state.lists[1, i], VARIABLE]
        total -= math.log(n_split_columns(state) * state.n_cuts[variable])
    return total


@compiled
def new_node(state: State, parent: int, depth: int) -> int:
    """Take a free row for a leaf; the table has two more than the largest tree needs."""
    for node in range(state.tree.shape[0]):
        if state.tree[node, USED] == 0:
            break
    state.tree[node, LEFT] = -1
    state.tree[node, RIGHT] = -1
    state.tree[node, VARIABLE] = -1
    state.tree[node, PARENT] = parent
    state.tree[node, DEPTH] = depth
    state.tree[node, USED] = 1
    return node


@compiled
def partition(state: State, node: int) -> int:
    """Reorder the inputs below ``node`` by its rule; return where the right child's begin."""
    variable, cut = state.tree[node, VARIABLE], state.tree[node, CUT]
    i, j = state.tree[node, START], state.tree[node, END] - 1
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
    left = new_node(state, node, state.tree[node, DEPTH] + 1)
    right = new_node(state, node, state.tree[node, DEPTH] + 1)
    state.tree[left, START] = state.tree[node, START]
    state.tree[left, END] = middle
    state.tree[right, START] = middle
    state.tree[right, END] = state.tree[node, END]
    state.tree[node, LEFT] = left
    state.tree[node, RIGHT] = right


@compiled
def close_children(state: State, node: int) -> None:
    """Make a node a leaf again."""
    state.tree[state.tree[node, LEFT], USED] = 0
    state.tree[state.tree[node, RIGHT], USED] = 0
    state.tree[node, LEFT] = -1
    state.tree[node, RIGHT] = -1
    state.tree[node, VARIABLE] = -1


@compiled
def route(state: State, top: int) -> bool:
    """Send the inputs below ``top`` down its rules again; say whether every leaf is large enough."""
    stack = state.lists[2]
    stack[0] = top
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
        if left < 0:
            if not well_sized(state, node):
                return False
            continue
        middle = partition(state, node)
        state.tree[left, START] = state.tree[node, START]
        state.tree[left, END] = middle
        state.tree[right, START] = middle
        state.tree[right, END] = state.tree[node, END]
        stack[size] = left
        stack[size + 1] = right
        size += 2
    return True


@compiled
def well_sized(state: State, node: int) -> bool:
    """Say whether a leaf has enough rows, and not too many for its matrix."""
    few_enough = state.tree[node, END] - state.tree[node, START] <= state.integer[MAX_ROWS]
    return bool(few_enough and has_enough(state, node))


@compiled
def has_enough(state: State, node: int) -> bool:
    """Say whether a leaf has enough rows, and enough distinct ones for its regression (section 6)."""
    first, last = state.tree[node, START], state.tree[node, END]
    rows = 0.0
    for i in range(first, last):
        rows += state.y[state.order[i], COUNT]
    if rows < state.integer[MIN_LEAF]:
        return False
    if state.integer[CHECK_LEAF] == 0:
        return True
    if last - first < state.integer[N_BASE] + 1:
        return False
    for j in range(state.integer[N_BASE]):
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
        if state.tree[node, LEFT] < 0:
            out[found] = node
            found += 1
        else:
            stack[size] = state.tree[node, RIGHT]
            stack[size + 1] = state.tree[node, LEFT]
            size += 2
    return found


@compiled
def refresh_lists(state: State) -> None:
    """List leaves and internal nodes afresh, and set the depths."""
    stack = state.lists[2]
    root = state.meta[ROOT]
    stack[0] = root
    state.tree[root, DEPTH] = 0
    size, n_leaves, n_internal = 1, 0, 0
    while size > 0:
        size -= 1
        node = stack[size]
        left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
        if left < 0:
            state.lists[0, n_leaves] = node
            n_leaves += 1
            continue
        state.lists[1, n_internal] = node
        n_internal += 1
        state.tree[left, DEPTH] = state.tree[node, DEPTH] + 1
        state.tree[right, DEPTH] = state.tree[node, DEPTH] + 1
        stack[size] = right
        stack[size + 1] = left
        size += 2
    state.meta[N_LEAVES] = n_leaves
    state.meta[N_INTERNAL] = n_internal


@compiled
def is_prunable(state: State, node: int) -> bool:
    """Say whether both children are leaves."""
    left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
    return bool(left >= 0 and state.tree[left, LEFT] < 0 and state.tree[right, LEFT] < 0)


@compiled
def count_prunable(state: State) -> int:
    """Count the internal nodes with two leaf children."""
    count = 0
    for i in range(state.meta[N_INTERNAL]):
        if is_prunable(state, state.lists[1, i]):
            count += 1
    return count


@compiled
def interval(state: State, node: int, variable: int) -> tuple[int, int]:
    """Return (low, high): cuts strictly between can leave inputs on both sides of a split of ``node``."""
    low, high = -1, state.n_cuts[variable] - 1
    child, above = node, state.tree[node, PARENT]
    while above >= 0:
        if state.tree[above, VARIABLE] == variable:
            cut = state.tree[above, CUT]
            if state.tree[above, LEFT] == child:
                high = min(high, cut)
            else:
                low = max(low, cut)
        child, above = above, state.tree[above, PARENT]
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
