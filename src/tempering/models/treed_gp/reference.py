"""Exact draws from the prior, the distribution at k = 0, and the starting state."""

import math

import numpy as np
from numba import types

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import address_of, compiled, entry, generator_at, sealed
from tempering.models.treed_gp.grow_prune import draw_booleans, draw_parameters
from tempering.models.treed_gp.hierarchy import draw_wishart, samples_precision, start_inverse_scale
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import draw_sigma2_beta
from tempering.models.treed_gp.state_type import STATE
from tempering.models.treed_gp.summary import summarise
from tempering.models.treed_gp.tree import (
    new_node,
    open_children,
    pick,
    pick_column,
    refresh_lists,
    well_sized,
)


@compiled
def plant_root(state: State) -> None:
    """Cut the tree to its root, which holds all data."""
    for i in range(state.tree.shape[0]):
        state.tree[i, at.USED] = 0
    root = new_node(state, -1, 0)
    state.tree[root, at.START] = 0
    state.tree[root, at.END] = state.order.shape[0]
    state.meta[at.ROOT] = root
    refresh_lists(state)


@compiled
def _draw_tree_once(rng: np.random.Generator, state: State) -> bool:
    """Run the branching process; say whether every leaf is large enough."""
    plant_root(state)
    queue = state.lists[2]
    queue[0] = state.meta[at.ROOT]
    taken, size, n_leaves = 0, 1, 1
    while taken < size:
        node = queue[taken]
        taken += 1
        if rng.random() >= state.real[at.ALPHA] * (1.0 + state.tree[node, at.DEPTH]) ** -state.real[at.BETA]:
            continue
        if n_leaves >= state.integer[at.MAX_LEAVES]:
            return False
        variable = pick_column(rng, state)
        state.tree[node, at.VARIABLE] = variable
        state.tree[node, at.CUT] = pick(rng, state.n_cuts[variable])
        open_children(state, node)
        for child in (state.tree[node, at.LEFT], state.tree[node, at.RIGHT]):
            if not well_sized(state, child):
                return False
            queue[size] = child
            size += 1
        n_leaves += 1
    refresh_lists(state)
    return True


@compiled
def draw_tree(rng: np.random.Generator, state: State) -> None:
    """Draw a tree from its prior, by rejection: the process given that all leaves are large enough."""
    while not _draw_tree_once(rng, state):
        pass


@compiled
def _draw_above(rng: np.random.Generator, floor: float, rate: float, start: float) -> float:
    """Draw an exponential beyond ``floor``, or return the fixed value where the rate is 0."""
    return floor + rng.standard_exponential() / rate if rate > 0.0 else start


@compiled
def draw_shared(rng: np.random.Generator, state: State) -> None:
    """Draw the hyper-parameters from their priors."""
    real, shared, m = state.real, state.shared, state.integer[at.N_MEAN]
    shared[at.A_SIGMA] = _draw_above(rng, 2.0, real[at.RATE_A_SIGMA], real[at.START_A_SIGMA])
    shared[at.Q_SIGMA] = _draw_above(rng, at.Q_FLOOR, real[at.RATE_Q_SIGMA], real[at.START_Q_SIGMA])
    shared[at.A_TAU] = _draw_above(rng, 2.0, real[at.RATE_A_TAU], real[at.START_A_TAU])
    shared[at.Q_TAU] = _draw_above(rng, at.Q_FLOOR, real[at.RATE_Q_TAU], real[at.START_Q_TAU])
    fix_beta0(state)
    if not samples_precision(state):
        return
    inverse_scale = state.small
    start_inverse_scale(state, inverse_scale)
    if state.integer[at.SAMPLE_BETA0] != 0:
        for a in range(m):
            shared[at.BETA0 + a] = math.sqrt(real[at.BETA0_VARIANCE]) * rng.standard_normal()
    draw_wishart(rng, state, inverse_scale, real[at.WISHART_DOF])


@compiled
def fix_beta0(state: State) -> None:
    """Set beta0 and W^{-1} to the values they have where they are not sampled."""
    m = state.integer[at.N_MEAN]
    for i in range(m + m * m):
        state.shared[at.BETA0 + i] = state.real[at.REAL_LENGTH + i]
    state.shared[at.LOG_DET_PRECISION] = state.real[at.REAL_LENGTH + m + m * m]


@compiled
def draw_leaves(rng: np.random.Generator, state: State) -> None:
    """Draw the parameters of all leaves from their priors, given the tree and what the leaves share."""
    for i in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, i]
        state.leaf[node, at.TAU2] = state.real[at.START_TAU2]
        draw_parameters(rng, state, node)
        draw_booleans(rng, state, node)
        summarise(state, node)
        draw_sigma2_beta(rng, state, node, 1.0 if state.integer[at.COEFFICIENTS] == at.FLAT else 0.0)


@sealed(types.void(types.intp, STATE))
def draw_reference(address, state):  # type: ignore[no-untyped-def]
    """Overwrite the state by an exact draw from the prior, sealed."""
    rng = generator_at(address)
    draw_tree(rng, state)
    draw_shared(rng, state)
    draw_leaves(rng, state)


@compiled
def fill_reference(rng: np.random.Generator, state: State) -> None:
    """Overwrite the state by an exact draw from the prior."""
    draw_reference(address_of(rng), state)


@entry
def sample_reference(rng: np.random.Generator, state: State) -> State:
    """Overwrite the state by an exact draw from the prior, and return it."""
    fill_reference(rng, state)
    return state


@entry
def draw_below_tree(rng: np.random.Generator, state: State) -> None:
    """Draw all but the tree from their priors, given the tree."""
    draw_shared(rng, state)
    draw_leaves(rng, state)
