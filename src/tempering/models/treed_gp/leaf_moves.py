"""Updates of one leaf: ranges, Booleans, nugget, then sigma^2, beta and tau^2 (section 8)."""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import compiled
from tempering.models.treed_gp.grow_prune import accept
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import draw_sigma2_beta, log_fit
from tempering.models.treed_gp.leaf_prior import (
    draw_alternative,
    draw_range,
    log_prior_of_nugget,
    log_prior_of_range,
    log_prior_of_slope,
    log_switched,
)
from tempering.models.treed_gp.summary import active_of, beta_of, centre_of, ranges_of, summarise_again, used_of
from tempering.models.treed_gp.tree import pick
from tempering.models.treed_gp.undo import keep_leaf, restore_leaf


@compiled
def propose_scaled(rng: np.random.Generator, state: State, value: float) -> float:
    """Propose from U[value / c, c value], c the window; q(value | new) / q(new | value) = value / new."""
    window = state.real[at.WINDOW]
    return float(value * (1.0 / window + (window - 1.0 / window) * rng.random()))


@compiled
def propose_far(rng: np.random.Generator, state: State, value: float) -> float:
    """Propose up to a factor away, small ones more often; q(value | new) / q(new | value) = new / value.

    The logarithm moves by a cube, symmetric about 0: a third of the proposals stay within a tenth, a third go beyond a
    factor of e.
    """
    return float(value * math.exp(state.real[at.LOG_FAR] * (2.0 * rng.random() - 1.0) ** 3))


@compiled
def propose_positive(rng: np.random.Generator, state: State, value: float) -> tuple[float, float]:
    """Propose near or far, whatever the value; return the proposal and the log ratio of the densities back and there.

    Ranges and nuggets spread over several powers of ten, through which steps of the window alone take long.
    """
    if rng.random() < state.real[at.P_FAR]:
        new = propose_far(rng, state, value)
        return new, math.log(new / value)
    new = propose_scaled(rng, state, value)
    return new, math.log(value / new)


@compiled
def move_idle_ranges(rng: np.random.Generator, state: State, node: int) -> int:
    """Move the ranges of inputs that are switched off, which no data see; return how many inputs are on."""
    n_active = 0
    for j in range(state.integer[at.N_RANGES]):
        if active_of(state, node)[j] != 0.0:
            n_active += 1
            continue
        before = ranges_of(state, node)[j]
        after, log_ratio = propose_positive(rng, state, before)
        log_ratio += log_prior_of_range(state, after) - log_prior_of_range(state, before)
        log_ratio += log_switched(state, after, 0.0) - log_switched(state, before, 0.0)
        if math.log(rng.random()) < log_ratio:
            ranges_of(state, node)[j] = after
    return n_active


@compiled
def update_ranges(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Multiply the range of one input that is switched on, or of all of them, by a factor.

    beta and sigma^2 are integrated out. Inputs stay on or off. To draw that anew with each range, as tgp does, would
    refuse nine of ten proposals of long ranges, and nearly all where several inputs have them.
    """
    if state.integer[at.SAMPLE_RANGE] == 0:
        return
    n_active = move_idle_ranges(rng, state, node)
    if n_active == 0:
        return
    factor, log_ratio = propose_positive(rng, state, 1.0)
    chosen = pick(rng, n_active)
    if n_active > 1 and rng.random() < state.real[at.P_JOINT]:
        chosen = -1
        log_ratio += (n_active - 1) * math.log(factor)  # the volume that a common factor stretches
    keep_leaf(state, node)
    for j in range(state.integer[at.N_RANGES]):
        if active_of(state, node)[j] == 0.0:
            continue
        if chosen <= 0:
            before = ranges_of(state, node)[j]
            after = before * factor
            log_ratio += log_prior_of_range(state, after) - log_prior_of_range(state, before)
            log_ratio += log_switched(state, after, 1.0) - log_switched(state, before, 1.0)
            ranges_of(state, node)[j] = after
            if chosen == 0:
                break
        chosen -= 1
    log_ratio -= log_fit(state, node, k)
    summarise_again(state, node)
    log_ratio += log_fit(state, node, k)
    if not accept(rng, state, at.RANGE_MOVE, log_ratio):
        restore_leaf(state, node)


@compiled
def switch_input(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Switch one input otherwise, its range drawn from the prior; beta and sigma^2 integrated out."""
    j = pick(rng, state.integer[at.N_RANGES])
    before, active = ranges_of(state, node)[j], active_of(state, node)[j]
    after, other = draw_range(rng, state), draw_alternative(rng, state, active)
    keep_leaf(state, node)
    log_ratio = log_switched(state, after, other) - log_switched(state, before, active) - log_fit(state, node, k)
    ranges_of(state, node)[j] = after
    active_of(state, node)[j] = other
    summarise_again(state, node)
    log_ratio += log_fit(state, node, k)
    if not accept(rng, state, at.SWITCH_MOVE, log_ratio):
        restore_leaf(state, node)


@compiled
def switch_slopes(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Propose for every input in turn to put its slope into the mean, or to take it out; no new factor is needed."""
    used, here = used_of(state, node), log_fit(state, node, k)
    for a in range(1, state.integer[at.N_MEAN]):
        before = used[a]
        used[a] = 1.0 - before
        there = log_fit(state, node, k)
        log_prior = log_prior_of_slope(state, used[a]) - log_prior_of_slope(state, before)
        if accept(rng, state, at.SLOPE_MOVE, there - here + log_prior):
            here = there
        else:
            used[a] = before


@compiled
def update_nugget(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Move the nugget; beta and sigma^2 integrated out."""
    before, floor = state.leaf[node, at.NUGGET], state.real[at.NUGGET_FLOOR]
    above_floor, log_back = propose_positive(rng, state, before - floor)
    after = floor + above_floor
    keep_leaf(state, node)
    log_ratio = log_prior_of_nugget(state, after) - log_prior_of_nugget(state, before)
    log_ratio += log_back - log_fit(state, node, k)
    state.leaf[node, at.NUGGET] = after
    state.meta[at.KEEP] = 1
    summarise_again(state, node)
    state.meta[at.KEEP] = 0
    log_ratio += log_fit(state, node, k)
    if not accept(rng, state, at.NUGGET_MOVE, log_ratio):
        restore_leaf(state, node)


@compiled
def scaled_distance(state: State, node: int) -> float:
    """Return (beta - beta0)' W^{-1} (beta - beta0) / sigma^2."""
    m = state.integer[at.N_MEAN]
    beta, centre = beta_of(state, node), centre_of(state, node)
    total = 0.0
    for a in range(m):
        for b in range(m):
            left, right = beta[a] - centre[a], beta[b] - centre[b]
            total += left * state.shared[at.BETA0 + m + a * m + b] * right
    return float(total / state.leaf[node, at.SIGMA2])


@compiled
def draw_tau2_given_beta(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw tau^2 from its full conditional, which the likelihood does not enter."""
    shape = 0.5 * (state.shared[at.A_TAU] + state.integer[at.N_MEAN])
    scale = 0.5 * (state.shared[at.Q_TAU] + scaled_distance(state, node))
    state.leaf[node, at.TAU2] = scale / rng.standard_gamma(shape)


@compiled
def update_leaf(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Run steps 1 to 5 on one leaf."""
    if rng.random() < state.real[at.P_RANGE]:
        update_ranges(rng, state, node, k)
    if state.integer[at.LINEAR] == at.JUMPS_TO_LINEAR and rng.random() < state.real[at.P_SWITCH]:
        switch_input(rng, state, node, k)
    if state.integer[at.SAMPLE_NUGGET] != 0 and rng.random() < state.real[at.P_NUGGET]:
        update_nugget(rng, state, node, k)
    if state.integer[at.SAMPLE_SLOPES] != 0:
        switch_slopes(rng, state, node, k)
    draw_sigma2_beta(rng, state, node, k)
    if state.integer[at.SAMPLE_TAU2] != 0:
        draw_tau2_given_beta(rng, state, node)
