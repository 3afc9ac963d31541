"""Grow and prune: the pair of moves that change the number of leaves (section 7).

Both integrate beta and sigma^2 out, (5.1), and draw them afresh when accepted. Each block of a child's
parameters, the ranges, the nugget and tau^2, is the parent's in one child and a draw from the prior in the
other; prune keeps either child's. So the priors cancel against the proposals, and no Jacobian is left; where the
other child may also inherit, the ratio of prior to proposal stays.
"""

import math

import numpy as np

from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import (
    A_TAU,
    CUT,
    DEPTH,
    GROW,
    LEFT,
    LOG_REACH,
    MAX_LEAVES,
    N_INTERNAL,
    N_LEAVES,
    N_RANGES,
    NUGGET,
    NUGGET_FLOOR,
    P_INHERIT,
    PARENT,
    PRUNE,
    Q_TAU,
    RIGHT,
    RUNG,
    SAMPLE_NUGGET,
    SAMPLE_RANGE,
    SAMPLE_TAU2,
    TAU2,
    TEMPER_TREE,
    VARIABLE,
    State,
)
from tempering.models.treed_gp.leaf import draw_sigma2_beta, log_marginal
from tempering.models.treed_gp.leaf_prior import (
    draw_active,
    draw_nugget,
    draw_range,
    log_prior_of_nugget,
    log_prior_of_range,
)
from tempering.models.treed_gp.summary import active_of, ranges_of, summarise
from tempering.models.treed_gp.tree import (
    close_children,
    count_prunable,
    is_prunable,
    log_no_split,
    log_split,
    open_children,
    pick,
    pick_column,
    refresh_lists,
    split_probabilities,
    well_sized,
)


@compiled
def accept(rng: np.random.Generator, state: State, move: int, log_ratio: float) -> bool:
    """Decide on a proposal, count it, and keep its log ratio; NaN is refused."""
    accepted = math.log(rng.random()) < log_ratio
    state.counters[state.meta[RUNG], move, 0] += 1
    if accepted:
        state.counters[state.meta[RUNG], move, 1] += 1
    state.log_ratio[0] = log_ratio
    state.log_ratio[1] = 1.0 if accepted else 0.0
    return accepted


@compiled
def draw_tau2(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw tau^2 of a leaf from its prior; a fixed one is left as it is."""
    if state.integer[SAMPLE_TAU2] != 0:
        state.leaf[node, TAU2] = 0.5 * state.shared[Q_TAU] / rng.standard_gamma(0.5 * state.shared[A_TAU])


@compiled
def copy_block(state: State, source: int, target: int, block: int) -> None:
    """Copy one block of leaf parameters: 0 the ranges, 1 the nugget, 2 tau^2."""
    if block == 0:
        for j in range(state.integer[N_RANGES]):
            ranges_of(state, target)[j] = ranges_of(state, source)[j]
    elif block == 1:
        state.leaf[target, NUGGET] = state.leaf[source, NUGGET]
    else:
        state.leaf[target, TAU2] = state.leaf[source, TAU2]


@compiled
def _log_share_of_prior(state: State, value: float, near: float, log_prior: float) -> float:
    """Return log p(value) - log q(value | near), q a mixture of the prior and of a stretch around ``near``."""
    inherit, reach = state.real[P_INHERIT], state.real[LOG_REACH]
    if inherit == 0.0:
        return 0.0
    if abs(math.log(value / near)) >= reach:
        return -math.log(1.0 - inherit) if inherit < 1.0 else math.inf
    return -math.log((1.0 - inherit) + inherit * math.exp(-log_prior) / (2.0 * reach * value))


@compiled
def log_inheritance(state: State, heir: int, other: int, block: int) -> float:
    """Return log p - log q of the other child's block given the heir's: what the proposal leaves of its prior."""
    total = 0.0
    if block == 0 and state.integer[SAMPLE_RANGE] != 0:
        for j in range(state.integer[N_RANGES]):
            value = ranges_of(state, other)[j]
            total += _log_share_of_prior(state, value, ranges_of(state, heir)[j], log_prior_of_range(state, value))
    elif block == 1 and state.integer[SAMPLE_NUGGET] != 0:
        value = state.leaf[other, NUGGET]
        log_prior = log_prior_of_nugget(state, value)
        total = _log_share_of_prior(state, value - NUGGET_FLOOR, state.leaf[heir, NUGGET] - NUGGET_FLOOR, log_prior)
    return total


@compiled
def _near(rng: np.random.Generator, state: State, value: float) -> float:
    """Draw a value up to a factor away, uniformly in the logarithm."""
    return value * math.exp(state.real[LOG_REACH] * (2.0 * rng.random() - 1.0))


@compiled
def inherit_block(rng: np.random.Generator, state: State, heir: int, other: int, block: int) -> None:
    """Draw the other child's block from the prior, or near the heir's."""
    if block == 0 and state.integer[SAMPLE_RANGE] != 0:
        for j in range(state.integer[N_RANGES]):
            if rng.random() < state.real[P_INHERIT]:
                ranges_of(state, other)[j] = _near(rng, state, ranges_of(state, heir)[j])
            else:
                ranges_of(state, other)[j] = draw_range(rng, state)
    elif block == 1 and state.integer[SAMPLE_NUGGET] != 0:
        if rng.random() < state.real[P_INHERIT]:
            nugget = state.leaf[heir, NUGGET] - NUGGET_FLOOR
            state.leaf[other, NUGGET] = NUGGET_FLOOR + _near(rng, state, nugget)
        else:
            state.leaf[other, NUGGET] = draw_nugget(rng, state)
    else:
        draw_block(rng, state, other, block)


@compiled
def draw_block(rng: np.random.Generator, state: State, node: int, block: int) -> None:
    """Draw one block of leaf parameters from its prior."""
    if block == 0:
        for j in range(state.integer[N_RANGES]):
            ranges_of(state, node)[j] = draw_range(rng, state)
    elif block == 1:
        state.leaf[node, NUGGET] = draw_nugget(rng, state)
    else:
        draw_tau2(rng, state, node)


@compiled
def draw_booleans(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw the Booleans of a leaf given its ranges."""
    for j in range(state.integer[N_RANGES]):
        active_of(state, node)[j] = draw_active(rng, state, ranges_of(state, node)[j])


@compiled
def log_prior_of_split(state: State, depth: int, k: float) -> float:
    """Return the log ratio of the tree prior, a split at this depth against a leaf; tempered where asked."""
    log_prior = log_split(state, depth) + 2.0 * log_no_split(state, depth + 1) - log_no_split(state, depth)
    return k * log_prior if state.integer[TEMPER_TREE] != 0 else log_prior


@compiled
def _choose_cut(rng: np.random.Generator, probabilities: Array, low: int, high: int) -> int:
    u = rng.random()
    for cut in range(low + 1, high - 1):
        u -= probabilities[cut]
        if u < 0.0:
            return cut
    return high - 1


@compiled
def grow(rng: np.random.Generator, state: State, k: float) -> None:
    """Split a leaf chosen uniformly; accept with the ratio (7.1)."""
    n_leaves = state.meta[N_LEAVES]
    node = state.lists[0, pick(rng, n_leaves)]
    variable = pick_column(rng, state)
    probabilities = state.panel
    low, high = split_probabilities(state, node, variable, probabilities)
    if n_leaves >= state.integer[MAX_LEAVES] or high - low < 2:
        accept(rng, state, GROW, -math.inf)
        return
    cut = _choose_cut(rng, probabilities, low, high)
    place = -math.log(state.n_cuts[variable] * probabilities[cut])  # the panel is work space of the leaves too
    # The new split can be pruned; its parent, if it could be, no longer can.
    parent = state.tree[node, PARENT]
    prunable = count_prunable(state) + (0 if parent >= 0 and is_prunable(state, parent) else 1)
    state.tree[node, VARIABLE] = variable
    state.tree[node, CUT] = cut
    open_children(state, node)
    left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
    if not (well_sized(state, left) and well_sized(state, right)):
        close_children(state, node)
        accept(rng, state, GROW, -math.inf)
        return
    for block in range(3):
        heir, other = (left, right) if rng.random() < 0.5 else (right, left)
        copy_block(state, node, heir, block)
        copy_block(state, node, other, block)
        inherit_block(rng, state, heir, other, block)
        place += log_inheritance(state, heir, other, block)
    likelihood = -log_marginal(state, node, k)
    for child in (left, right):
        draw_booleans(rng, state, child)
        summarise(state, child)
        likelihood += log_marginal(state, child, k)
    prior = log_prior_of_split(state, state.tree[node, DEPTH], k)
    if accept(rng, state, GROW, prior + place + math.log(n_leaves / prunable) + likelihood):
        refresh_lists(state)
        draw_sigma2_beta(rng, state, left, k)
        draw_sigma2_beta(rng, state, right, k)
    else:
        close_children(state, node)


@compiled
def prune(rng: np.random.Generator, state: State, k: float) -> None:
    """Merge two sister leaves chosen uniformly; accept with the inverse of (7.1)."""
    prunable = count_prunable(state)
    if prunable == 0:
        return
    target = pick(rng, prunable)
    node = -1
    for i in range(state.meta[N_INTERNAL]):
        node = state.lists[1, i]
        if is_prunable(state, node):
            if target == 0:
                break
            target -= 1
    left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
    place = 0.0
    for block in range(3):
        heir, other = (left, right) if rng.random() < 0.5 else (right, left)
        copy_block(state, heir, node, block)
        place -= log_inheritance(state, heir, other, block)
    draw_booleans(rng, state, node)
    summarise(state, node)
    likelihood = log_marginal(state, node, k) - log_marginal(state, left, k) - log_marginal(state, right, k)
    variable, cut = state.tree[node, VARIABLE], state.tree[node, CUT]
    split_probabilities(state, node, variable, state.panel)
    place += math.log(state.n_cuts[variable] * state.panel[cut])
    prior = -log_prior_of_split(state, state.tree[node, DEPTH], k)
    choice = math.log(prunable / (state.meta[N_LEAVES] - 1.0))
    if accept(rng, state, PRUNE, prior + place + choice + likelihood):
        close_children(state, node)
        refresh_lists(state)
        draw_sigma2_beta(rng, state, node, k)
