"""Moves of correlations that have more to them than ranges: an exponent, or the signs of a single index.

They are compiled where such a correlation is chosen, not for others.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import called, compiled
from tempering.models.treed_gp.grow_prune import accept
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import draw_sigma2_beta, log_fit
from tempering.models.treed_gp.leaf_moves import switch_input
from tempering.models.treed_gp.leaf_prior import log_prior_of_range, log_switched
from tempering.models.treed_gp.model import begin_round, end_round, is_prior, run_round
from tempering.models.treed_gp.reference import fill_reference
from tempering.models.treed_gp.summary import active_of, ranges_of, summarise_again
from tempering.models.treed_gp.tree import pick
from tempering.models.treed_gp.undo import keep_leaf, restore_leaf


@compiled
def move_exponent(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Move the exponent, and the ranges with it so that correlations fall to 1/e where they did: d becomes d^(p*/p).

    The log-odds of p - 1 go a normal step. beta and sigma^2 are integrated out.
    """
    before = state.leaf[node, at.EXPONENT]
    position = math.log((before - 1.0) / (2.0 - before)) + rng.standard_normal()
    after = 1.0 + 1.0 / (1.0 + math.exp(-position))
    if not 1.0 < after < 2.0:
        return
    keep_leaf(state, node)
    power = after / before
    log_ratio = math.log((after - 1.0) * (2.0 - after) / ((before - 1.0) * (2.0 - before))) - log_fit(state, node, k)
    state.leaf[node, at.EXPONENT] = after
    for j in range(state.integer[at.N_RANGES] if state.integer[at.SAMPLE_RANGE] != 0 else 0):
        old, active = ranges_of(state, node)[j], active_of(state, node)[j]
        new = old**power
        log_ratio += log_prior_of_range(state, new) - log_prior_of_range(state, old)
        log_ratio += log_switched(state, new, active) - log_switched(state, old, active)
        log_ratio += math.log(power) + (power - 1.0) * math.log(old)  # the volume that the power stretches
        ranges_of(state, node)[j] = new
    summarise_again(state, node)
    log_ratio += log_fit(state, node, k)
    if not accept(rng, state, at.RANGE_MOVE, log_ratio):
        restore_leaf(state, node)


@compiled
def turn_sign(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Turn the sign of one input of a single index; beta and sigma^2 are integrated out."""
    j = pick(rng, state.integer[at.N_RANGES])
    keep_leaf(state, node)
    log_ratio = -log_fit(state, node, k)
    active_of(state, node)[j] *= -1.0
    summarise_again(state, node)
    log_ratio += log_fit(state, node, k)
    if not accept(rng, state, at.SWITCH_MOVE, log_ratio):
        restore_leaf(state, node)


@compiled
def move_shapes(rng: np.random.Generator, state: State, k: float) -> None:
    """Move the exponents or signs of all leaves, and draw what was integrated out."""
    has_signs = state.integer[at.CORRELATION] == at.SINGLE_INDEX and state.integer[at.LINEAR] != at.ALWAYS_LINEAR
    for i in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, i]
        if state.integer[at.SAMPLE_EXPONENT] != 0 and state.integer[at.LINEAR] != at.ALWAYS_LINEAR:
            move_exponent(rng, state, node, k)
            draw_sigma2_beta(rng, state, node, k)
        if has_signs:
            turn_sign(rng, state, node, k)
            if state.integer[at.LINEAR] == at.NEVER_LINEAR and rng.random() < state.real[at.P_SWITCH]:
                switch_input(rng, state, node, k)
            draw_sigma2_beta(rng, state, node, k)


@called
def step_with_shapes(rng: np.random.Generator, state: State, k: float) -> State:
    """Run one round at inverse temperature k, in place, exponents and signs too, and return the state."""
    begin_round(state, k)
    if is_prior(state, k):
        fill_reference(rng, state)
    else:
        run_round(rng, state, k)
        move_shapes(rng, state, k)
    end_round(rng, state)
    return state
