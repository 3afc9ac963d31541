"""Rounds for responses of two classes: a treed GP of log-odds, sampled with Polya-Gamma variables.

The log-odds psi of the distinct inputs have the prior that responses have in regression without noise, leaf by leaf:
F beta plus a Gaussian process of variance sigma^2. Tempered is the logistic likelihood of psi, to the power k. A round
draws omega given psi at each input, PG(k n, psi), after which psi has the likelihood of a response k kappa / omega with
noise of variance 1 / omega. Tree, leaves and what they share then move as in regression, psi integrated out; psi is
drawn last. omega is integrated out of everything else: energies are those of psi.

sigma^2 is 1 / nugget, which is sampled: so nugget / omega is the noise over sigma^2, as replicates would make it.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, called, compiled, entry
from tempering.models.treed_gp.factor import stride_of
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.model import begin_round, end_round, is_prior, run_round
from tempering.models.treed_gp.polya_gamma import draw_polya_gamma
from tempering.models.treed_gp.records import LOG_POSTERIOR, record
from tempering.models.treed_gp.reference import fill_reference
from tempering.models.treed_gp.shape_moves import move_shapes
from tempering.models.treed_gp.summary import beta_of, is_linear, summarise, used_of
from tempering.models.treed_gp.system import solve_leaf
from tempering.models.treed_gp.tree import log_places_prior, log_tree_prior

_JITTER = 1e-9  # of the process over its precisions, so that it has a factor: no data can tell


@compiled
def draw_weights(rng: np.random.Generator, state: State, k: float) -> None:
    """Draw omega of every input given its log-odds, set the responses that stand for classes, and summarise leaves."""
    for i in range(state.y.shape[0]):
        weight = draw_polya_gamma(rng, k * state.y[i, at.COUNT], state.y[i, at.LOG_ODDS])
        state.y[i, at.WEIGHT] = weight
        state.y[i, at.MEAN] = k * state.y[i, at.KAPPA] / weight
    for i in range(state.meta[at.N_LEAVES]):
        summarise(state, state.lists[0, i])


@compiled
def _add_process(rng: np.random.Generator, state: State, node: int) -> None:
    """Add a draw of the leaf's process, given nothing but its parameters, to the log-odds of its inputs."""
    first, nugget, noise = state.tree[node, at.START], state.leaf[node, at.NUGGET], state.panel
    n, jitter = state.tree[node, at.END] - first, _JITTER
    state.leaf[node, at.NUGGET] = jitter
    while not solve_leaf(state, node) < math.inf:
        jitter *= 10.0
        state.leaf[node, at.NUGGET] = jitter
    state.leaf[node, at.NUGGET] = nugget
    stride, sigma = stride_of(n, state.integer[at.N_MEAN] + 1), math.sqrt(state.leaf[node, at.SIGMA2])
    for j in range(n):
        noise[j] = sigma * rng.standard_normal()
    for j in range(n):
        for i in range(j, n):
            state.y[state.order[first + i], at.LOG_ODDS] += state.square[j * stride + i] * noise[j]


@compiled
def _move_to_data(rng: np.random.Generator, state: State, node: int) -> None:
    """Turn a draw of log-odds given nothing into one given the responses (Matheron): add K S^-1 (y - draw - noise)."""
    first, nugget, left = state.tree[node, at.START], state.leaf[node, at.NUGGET], state.panel
    n = state.tree[node, at.END] - first
    solve_leaf(state, node)
    stride, square = stride_of(n, state.integer[at.N_MEAN] + 1), state.square
    for i in range(n):
        row = state.order[first + i]
        left[i] = (
            state.y[row, at.MEAN]
            - state.y[row, at.LOG_ODDS]
            - rng.standard_normal() / math.sqrt(state.y[row, at.WEIGHT])
        )
        state.y[row, at.LOG_ODDS] += left[i]
    for j in range(n):
        left[j] /= square[j * stride + j]
        for i in range(j + 1, n):
            left[i] -= square[j * stride + i] * left[j]
    for j in range(n - 1, -1, -1):
        for i in range(j + 1, n):
            left[j] -= square[j * stride + i] * left[i]
        left[j] /= square[j * stride + j]
        row = state.order[first + j]
        state.y[row, at.LOG_ODDS] -= nugget / state.y[row, at.WEIGHT] * left[j]  # K = S - nugget / omega


@compiled
def draw_log_odds(rng: np.random.Generator, state: State, is_posterior: bool) -> None:
    """Draw the log-odds of all inputs given the leaves' parameters, and given omega or without any data."""
    for index in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, index]
        beta, used = beta_of(state, node), used_of(state, node)
        for i in range(state.tree[node, at.START], state.tree[node, at.END]):
            row = state.order[i]
            state.y[row, at.LOG_ODDS] = beta[0]
            for j in range(1, state.integer[at.N_MEAN]):
                state.y[row, at.LOG_ODDS] += used[j] * beta[j] * state.x[row, j - 1]
        if not is_linear(state, node):
            _add_process(rng, state, node)
            if is_posterior:
                _move_to_data(rng, state, node)


@entry
def begin_log_odds(rng: np.random.Generator, state: State) -> None:
    """Draw the log-odds from their prior given the leaves' parameters, called from Python."""
    draw_log_odds(rng, state, False)


@called
def step_of_classes(rng: np.random.Generator, state: State, k: float) -> State:
    """Run one round at inverse temperature k, in place, and return the state.

    Last comes an omega for each input at k = 1: with it a draw predicts as a regression does.
    """
    begin_round(state, k)
    if is_prior(state, k):
        fill_reference(rng, state)
        draw_log_odds(rng, state, False)
    else:
        draw_weights(rng, state, k)
        run_round(rng, state, 1.0)
        move_shapes(rng, state, 1.0)
        draw_log_odds(rng, state, True)
    first = state.shared.shape[0] - state.y.shape[0]
    for i in range(state.y.shape[0]):
        state.shared[first + i] = draw_polya_gamma(rng, state.y[i, at.COUNT], state.y[i, at.LOG_ODDS])
    end_round(rng, state)
    return state


@called
def energy_of_classes(state: State) -> float:
    """Return the log likelihood of the classes given their log-odds."""
    total = 0.0
    for i in range(state.y.shape[0]):
        size = abs(state.y[i, at.LOG_ODDS])
        total += state.y[i, at.KAPPA] * state.y[i, at.LOG_ODDS]
        total -= state.y[i, at.COUNT] * (0.5 * size + math.log1p(math.exp(-size)))
    return total


@called
def record_of_classes(state: State) -> Array:
    """Return the draw as one row of numbers; best is the tree whose log-odds fit best, its prior included."""
    out = record(state)
    out[LOG_POSTERIOR] = energy_of_classes(state) + log_tree_prior(state) + log_places_prior(state)
    return out
