"""Grow and prune: the pair of moves that change the number of leaves (section 7).

Both integrate beta and sigma^2 out, (5.1), and draw them afresh when accepted. One child, the heir, has the parent's
ranges, Booleans, nugget and tau^2; prune keeps an heir's. The other child's are drawn from the prior, or near the
heir's: what fits one side of a cut often fits the other too. Grow and prune choose the heir with the same
probabilities, so that these cancel; the other child's prior over its proposal is left, and no Jacobian.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import draw_sigma2_beta, log_marginal
from tempering.models.treed_gp.leaf_prior import (
    draw_active,
    draw_alternative,
    draw_exponent,
    draw_nugget,
    draw_range,
    draw_used,
    has_switches,
    log_prior_of_nugget,
    log_prior_of_range,
    log_prior_of_slope,
    log_switched,
    n_alternatives,
)
from tempering.models.treed_gp.summary import active_of, ranges_of, summarise, used_of
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

_NEARNESS = 0.7  # standard deviation of the logarithm: a factor of two
_UNLIKE = 0.1  # chance that an input, or a slope, is switched otherwise than in the heir
_LOG_WIDTH = math.log(_NEARNESS) + 0.5 * math.log(2.0 * math.pi)


@compiled
def accept(rng: np.random.Generator, state: State, move: int, log_ratio: float) -> bool:
    """Decide on a proposal, count it, and keep its log ratio; NaN is refused."""
    accepted = math.log(rng.random()) < log_ratio
    state.counters[move, 0] += 1
    if accepted:
        state.counters[move, 1] += 1
    state.log_ratio[0] = log_ratio
    state.log_ratio[1] = 1.0 if accepted else 0.0
    return accepted


@compiled
def draw_tau2(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw tau^2 of a leaf from its prior; a fixed one is left as it is."""
    if state.integer[at.SAMPLE_TAU2] != 0:
        state.leaf[node, at.TAU2] = 0.5 * state.shared[at.Q_TAU] / rng.standard_gamma(0.5 * state.shared[at.A_TAU])


@compiled
def choose_heir(rng: np.random.Generator, state: State, left: int, right: int) -> tuple[int, int]:
    """Choose the child that is like the parent, each by its share of the inputs; return it and the other.

    What fits the parent fits the larger child; to choose parameter by parameter would seldom give it all of them.
    """
    n_left = state.tree[left, at.END] - state.tree[left, at.START]
    n_right = state.tree[right, at.END] - state.tree[right, at.START]
    if rng.random() * (n_left + n_right) < n_left:
        return left, right
    return right, left


@compiled
def copy_parameters(state: State, source: int, target: int) -> None:
    """Copy ranges, Booleans, slopes in use, nugget and tau^2 of a leaf."""
    for j in range(state.integer[at.N_RANGES]):
        ranges_of(state, target)[j] = ranges_of(state, source)[j]
        active_of(state, target)[j] = active_of(state, source)[j]
    for a in range(state.integer[at.N_MEAN]):
        used_of(state, target)[a] = used_of(state, source)[a]
    state.leaf[target, at.NUGGET] = state.leaf[source, at.NUGGET]
    state.leaf[target, at.EXPONENT] = state.leaf[source, at.EXPONENT]
    state.leaf[target, at.TAU2] = state.leaf[source, at.TAU2]


@compiled
def draw_parameters(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw ranges, nugget and tau^2 of a leaf from their prior."""
    for j in range(state.integer[at.N_RANGES]):
        ranges_of(state, node)[j] = draw_range(rng, state)
    state.leaf[node, at.NUGGET] = draw_nugget(rng, state)
    state.leaf[node, at.EXPONENT] = draw_exponent(rng, state)
    draw_tau2(rng, state, node)


@compiled
def draw_other(rng: np.random.Generator, state: State, heir: int, other: int) -> None:
    """Draw ranges, Booleans, nugget and tau^2 of the child that is no heir: from the prior, or near the heir's."""
    draw_parameters(rng, state, other)
    draw_booleans(rng, state, other)
    if rng.random() >= state.real[at.P_ALIKE]:
        return
    if state.integer[at.SAMPLE_RANGE] != 0:
        for j in range(state.integer[at.N_RANGES]):
            ranges_of(state, other)[j] = ranges_of(state, heir)[j] * math.exp(_NEARNESS * rng.standard_normal())
    if state.integer[at.SAMPLE_NUGGET] != 0:
        floor = state.real[at.NUGGET_FLOOR]
        above = state.leaf[heir, at.NUGGET] - floor
        state.leaf[other, at.NUGGET] = floor + above * math.exp(_NEARNESS * rng.standard_normal())
    if has_switches(state):
        for j in range(state.integer[at.N_RANGES]):
            active = active_of(state, heir)[j]
            active_of(state, other)[j] = draw_alternative(rng, state, active) if rng.random() < _UNLIKE else active
    if state.integer[at.SAMPLE_SLOPES] != 0:
        for a in range(1, state.integer[at.N_MEAN]):
            used = used_of(state, heir)[a]
            used_of(state, other)[a] = 1.0 - used if rng.random() < _UNLIKE else used


@compiled
def _log_near(value: float, centre: float) -> float:
    """Return the log density of a proposal near another value, but for a constant: lognormal."""
    away = math.log(value / centre) / _NEARNESS
    return -math.log(value) - _LOG_WIDTH - 0.5 * away * away


@compiled
def log_prior_over_proposal(state: State, heir: int, other: int) -> float:
    """Return the log ratio of the prior of a child's parameters and the density `draw_other` draws them with.

    The proposal is a mixture, (1 - a) prior + a near: the ratio is 1 / (1 - a + a near / prior).
    """
    share = state.real[at.P_ALIKE]
    log_odds = 0.0
    if state.integer[at.SAMPLE_RANGE] != 0:
        for j in range(state.integer[at.N_RANGES]):
            value = ranges_of(state, other)[j]
            log_odds += _log_near(value, ranges_of(state, heir)[j]) - log_prior_of_range(state, value)
    if state.integer[at.SAMPLE_NUGGET] != 0:
        value, floor = state.leaf[other, at.NUGGET], state.real[at.NUGGET_FLOOR]
        log_odds += _log_near(value - floor, state.leaf[heir, at.NUGGET] - floor) - log_prior_of_nugget(state, value)
    if has_switches(state):
        for j in range(state.integer[at.N_RANGES]):
            active = active_of(state, other)[j]
            is_alike = active == active_of(state, heir)[j]
            log_odds += math.log(1.0 - _UNLIKE if is_alike else _UNLIKE / n_alternatives(state))
            log_odds -= log_switched(state, ranges_of(state, other)[j], active)
    if state.integer[at.SAMPLE_SLOPES] != 0:
        for a in range(1, state.integer[at.N_MEAN]):
            used = used_of(state, other)[a]
            log_odds += math.log(1.0 - _UNLIKE if used == used_of(state, heir)[a] else _UNLIKE)
            log_odds -= log_prior_of_slope(state, used)
    if share == 0.0:
        return 0.0
    if log_odds > 0.0:
        return -log_odds - math.log(share + (1.0 - share) * math.exp(-log_odds))
    return -math.log(1.0 - share + share * math.exp(log_odds))


@compiled
def draw_booleans(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw the Booleans of a leaf given its ranges, and its slopes in use."""
    for j in range(state.integer[at.N_RANGES]):
        active_of(state, node)[j] = draw_active(rng, state, ranges_of(state, node)[j])
    draw_used(rng, state, node)


@compiled
def log_prior_of_split(state: State, depth: int, k: float) -> float:
    """Return the log ratio of the tree prior, a split at this depth against a leaf; tempered where asked."""
    log_prior = log_split(state, depth) + 2.0 * log_no_split(state, depth + 1) - log_no_split(state, depth)
    return k * log_prior if state.integer[at.TEMPER_TREE] != 0 else log_prior


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
    n_leaves = state.meta[at.N_LEAVES]
    node = state.lists[0, pick(rng, n_leaves)]
    variable = pick_column(rng, state)
    probabilities = state.panel
    low, high = split_probabilities(state, node, variable, probabilities)
    if n_leaves >= state.integer[at.MAX_LEAVES] or high - low < 2:
        accept(rng, state, at.GROW, -math.inf)
        return
    cut = _choose_cut(rng, probabilities, low, high)
    place = -math.log(state.n_cuts[variable] * probabilities[cut])  # the panel is work space of the leaves too
    # The new split can be pruned; its parent, if it could be, no longer can.
    parent = state.tree[node, at.PARENT]
    prunable = count_prunable(state) + (0 if parent >= 0 and is_prunable(state, parent) else 1)
    state.tree[node, at.VARIABLE] = variable
    state.tree[node, at.CUT] = cut
    open_children(state, node)
    left, right = state.tree[node, at.LEFT], state.tree[node, at.RIGHT]
    if not (well_sized(state, left) and well_sized(state, right)):
        close_children(state, node)
        accept(rng, state, at.GROW, -math.inf)
        return
    heir, other = choose_heir(rng, state, left, right)
    copy_parameters(state, node, heir)
    copy_parameters(state, node, other)
    draw_other(rng, state, heir, other)
    proposal = log_prior_over_proposal(state, heir, other)
    likelihood = -log_marginal(state, node, k)
    for child in (left, right):
        summarise(state, child)
        likelihood += log_marginal(state, child, k)
    prior = log_prior_of_split(state, state.tree[node, at.DEPTH], k)
    if accept(rng, state, at.GROW, prior + place + proposal + math.log(n_leaves / prunable) + likelihood):
        refresh_lists(state)
        draw_sigma2_beta(rng, state, left, k)
        draw_sigma2_beta(rng, state, right, k)
    else:
        close_children(state, node)


@compiled
def prune(rng: np.random.Generator, state: State, k: float) -> None:
    """Merge two sister leaves chosen uniformly; accept with the inverse of (7.1)."""
    node = pick_prunable(rng, state)
    if node >= 0:
        heir, _ = choose_heir(rng, state, state.tree[node, at.LEFT], state.tree[node, at.RIGHT])
        merge(rng, state, k, node, heir)


@compiled
def pick_prunable(rng: np.random.Generator, state: State) -> int:
    """Draw an internal node with two leaf children; -1 where there is none."""
    target = pick(rng, count_prunable(state))
    for i in range(state.meta[at.N_INTERNAL]):
        node = state.lists[1, i]
        if is_prunable(state, node):
            if target == 0:
                return int(node)
            target -= 1
    return -1


@compiled
def merge(rng: np.random.Generator, state: State, k: float, node: int, heir: int) -> None:
    """Propose to make a node a leaf with the parameters of one of its children."""
    left, right = state.tree[node, at.LEFT], state.tree[node, at.RIGHT]
    if state.tree[node, at.END] - state.tree[node, at.START] > state.integer[at.MAX_ROWS]:
        accept(rng, state, at.PRUNE, -math.inf)
        return
    proposal = -log_prior_over_proposal(state, heir, left + right - heir)
    copy_parameters(state, heir, node)
    summarise(state, node)
    likelihood = log_marginal(state, node, k) - log_marginal(state, left, k) - log_marginal(state, right, k)
    variable, cut = state.tree[node, at.VARIABLE], state.tree[node, at.CUT]
    split_probabilities(state, node, variable, state.panel)
    place = math.log(state.n_cuts[variable] * state.panel[cut])
    prior = -log_prior_of_split(state, state.tree[node, at.DEPTH], k)
    choice = math.log(count_prunable(state) / (state.meta[at.N_LEAVES] - 1.0))
    if accept(rng, state, at.PRUNE, prior + place + choice + proposal + likelihood):
        close_children(state, node)
        refresh_lists(state)
        draw_sigma2_beta(rng, state, node, k)
