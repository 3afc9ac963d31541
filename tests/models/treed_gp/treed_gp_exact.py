"""Exact draws of (parameters, data) from prior x likelihood^k, for tests of invariance (level 4).

The integral of likelihood^k over the data is proportional to |sigma^2 K|^{(1 - k) / 2}. So: draw parameters
from the prior, data from N(F beta, sigma^2 K / k), and weight by that power. Its sigma^2 part makes an
inverse gamma of an inverse gamma, drawn exactly where (a, q) are fixed; the rest is the weight.
"""

import math

import numpy as np

from tempering.models.treed_gp.change_swap import change, exchange_rules, pick_child, settle, swap_or_rotate
from tempering.models.treed_gp.compiled import entry
from tempering.models.treed_gp.factor import stride_of
from tempering.models.treed_gp.grow_prune import grow, merge, pick_prunable, prune
from tempering.models.treed_gp.hierarchy import draw_beta0, draw_precision, update_inverse_gamma
from tempering.models.treed_gp.layout import (
    A_SIGMA,
    A_TAU,
    BETA0,
    CUT,
    DEPTH,
    END,
    LEFT,
    LOG_DET,
    N_INTERNAL,
    N_LEAVES,
    N_MEAN,
    N_ROWS,
    NUGGET,
    PARENT,
    Q_SIGMA,
    Q_TAU,
    RATE_A_SIGMA,
    RATE_A_TAU,
    RATE_Q_SIGMA,
    RATE_Q_TAU,
    RIGHT,
    SIGMA2,
    START,
    SWAP,
    SWAP_REACH,
    TAU2,
    TEMPER_TREE,
    VARIABLE,
)
from tempering.models.treed_gp.leaf import draw_sigma2_beta
from tempering.models.treed_gp.leaf_moves import (
    draw_tau2_given_beta,
    switch_input,
    switch_slopes,
    update_nugget,
    update_ranges,
)
from tempering.models.treed_gp.model import energy, run_round
from tempering.models.treed_gp.reference import sample_reference
from tempering.models.treed_gp.summary import active_of, beta_of, is_linear, noise_of, ranges_of, summarise, used_of
from tempering.models.treed_gp.tree import log_tree_prior, pick
from tempering.models.treed_gp.undo import restore, save

N_STATISTICS = 24


@entry
def draw_sigma2(rng, state, node, k):
    """Redraw sigma^2 from its prior times sigma^{2 n (1 - k) / 2}, beta given it; return the log weight."""
    n, a, q = state.leaf[node, N_ROWS], state.shared[A_SIGMA], state.shared[Q_SIGMA]
    reduced = a - n * (1.0 - k)
    old = state.leaf[node, SIGMA2]
    new = 0.5 * q / rng.standard_gamma(0.5 * reduced)
    state.leaf[node, SIGMA2] = new
    beta = beta_of(state, node)
    for j in range(state.integer[N_MEAN]):
        centre = state.shared[BETA0 + j]
        beta[j] = centre + (beta[j] - centre) * math.sqrt(new / old)
    log_weight = 0.5 * (a - reduced) * math.log(0.5 * q) - math.lgamma(0.5 * a) + math.lgamma(0.5 * reduced)
    # (2 pi)^{n (1 - k) / 2} k^{-n / 2} is the same for every tree: all rows are in some leaf.
    return log_weight + 0.5 * (1.0 - k) * state.leaf[node, LOG_DET]


@entry
def draw_data(rng, state, node, k):
    """Draw the mean response and the sum of squares at the leaf's inputs from N(F beta, sigma^2 K / k)."""
    summarise(state, node)  # leaves the factor of K in the work space
    first = state.tree[node, START]
    n = state.tree[node, END] - first
    sigma2 = state.leaf[node, SIGMA2] / k
    linear, noise_ratio, used = is_linear(state, node), noise_of(state, node), used_of(state, node)
    stride = stride_of(n, state.integer[N_MEAN] + 1)
    noise = rng.standard_normal(n)
    for i in range(n):
        row = state.order[first + i]
        replicates = state.y[row, 0]
        value = beta_of(state, node)[0]
        for j in range(1, state.integer[N_MEAN]):
            value += used[j] * beta_of(state, node)[j] * state.x[row, j - 1]
        if linear:
            value += math.sqrt(sigma2 * noise_ratio / replicates) * noise[i]
        else:
            for j in range(i + 1):
                value += math.sqrt(sigma2) * state.square[j * stride + i] * noise[j]
        state.y[row, 1] = value
        state.y[row, 2] = 0.0
        if replicates > 1.0:
            state.y[row, 2] = sigma2 * noise_ratio * 2.0 * rng.standard_gamma(0.5 * (replicates - 1.0))
    summarise(state, node)


@entry
def draw_joint(rng, state, k):
    """Draw parameters and data; return the log weight. At k = 0 the data stay as they are."""
    sample_reference(rng, state)
    log_weight = (k - 1.0) * log_tree_prior(state) if state.integer[TEMPER_TREE] != 0 else 0.0
    if k == 0.0:
        return log_weight
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        if k != 1.0:
            log_weight += draw_sigma2(rng, state, node, k)
        draw_data(rng, state, node, k)
    return log_weight


@entry
def statistics(state, out):
    """Fill ``out`` with bounded or light-tailed functions of all parameters, and of the data through the
    energy.
    """
    out[:] = 0.0
    total = float(np.sum(state.y[:, 0]))
    n_leaves = state.meta[N_LEAVES]
    out[0] = n_leaves
    out[1] = 1.0 if n_leaves == 1 else 0.0
    out[2] = 1.0 if n_leaves >= 3 else 0.0
    for i in range(n_leaves):
        node = state.lists[0, i]
        share = state.leaf[node, N_ROWS] / total
        out[3] += share * math.log(state.leaf[node, NUGGET] + 1e-3)
        out[4] += share * math.log(ranges_of(state, node)[0])
        out[5] += share * active_of(state, node)[0]
        out[6] += share * math.log(state.leaf[node, SIGMA2])
        out[7] += share * math.tanh(beta_of(state, node)[0])
        out[8] += share * math.tanh(beta_of(state, node)[-1])
        out[9] += share * math.log(state.leaf[node, TAU2])
        out[10] += share * state.tree[node, DEPTH] ** 2
        out[11] += share * abs(math.tanh(beta_of(state, node)[0]))
        out[12] += share * math.log(ranges_of(state, node)[-1])
        out[22] += share * used_of(state, node)[-1]
        out[23] += share * used_of(state, node)[-1] * math.tanh(beta_of(state, node)[-1])
        out[21] += share * active_of(state, node)[-1] * math.log(ranges_of(state, node)[-1])
    for i in range(state.meta[N_INTERNAL]):
        node = state.lists[1, i]
        out[13] += state.tree[node, CUT] / (1.0 + state.tree[node, DEPTH])
        out[14] += state.tree[node, VARIABLE] / (1.0 + state.tree[node, DEPTH])
    out[15] = math.log(state.shared[A_SIGMA]) - math.log(state.shared[Q_SIGMA])
    out[16] = math.log(state.shared[2]) + math.log(state.shared[3])
    out[17] = state.shared[4]
    out[18] = state.shared[BETA0]
    out[19] = math.tanh(energy(state) / total)
    out[20] = state.shared[BETA0] ** 2


MOVES = (
    "grow or prune",
    "change",
    "swap or rotate",
    "ranges",
    "nuggets",
    "coefficients",
    "tau2",
    "beta0",
    "precision",
    "inverse gammas",
    "step",
    "switches",
    "slopes",
    "grow only",
    "tau2 of another prior",
    "prune that takes after the smaller child",
    "swap that moves cuts upwards only",
)


@entry
def move_leaves(rng, state, k, move):
    """Apply a move that concerns one leaf to all of them."""
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        if move == 3:
            update_ranges(rng, state, node, k)
        elif move == 4:
            update_nugget(rng, state, node, k)
        elif move == 11:
            switch_input(rng, state, node, k)
        elif move == 12:
            switch_slopes(rng, state, node, k)
        if move != 6:
            draw_sigma2_beta(rng, state, node, k)
        else:
            draw_tau2_given_beta(rng, state, node)


@entry
def swap_upwards(rng, state, k):
    """Exchange two rules and move both cuts up, as if there were as many ways back."""
    node = pick_child(rng, state)
    if node < 0:
        return
    parent = state.tree[node, PARENT]
    if state.tree[node, VARIABLE] == state.tree[parent, VARIABLE]:
        return
    save(state)
    exchange_rules(state, node, parent)
    for moved in (node, parent):
        state.tree[moved, CUT] += pick(rng, state.integer[SWAP_REACH] + 1)
        if state.tree[moved, CUT] >= state.n_cuts[state.tree[moved, VARIABLE]]:
            restore(state)
            return
    settle(rng, state, parent, k, SWAP)


@entry
def apply_move(rng, state, k, move):
    """Apply the move at this place of `MOVES`; the last four are broken on purpose."""
    real, shared = state.real, state.shared
    if move == 15 and rng.random() < 0.5:
        node = pick_prunable(rng, state)
        if node >= 0:
            left, right = state.tree[node, LEFT], state.tree[node, RIGHT]
            n_left = state.tree[left, END] - state.tree[left, START]
            n_right = state.tree[right, END] - state.tree[right, START]
            merge(rng, state, k, node, left if n_left < n_right else right)
        return
    if move == 0 and rng.random() < 0.5:
        prune(rng, state, k)
    elif move in (0, 13, 15):
        grow(rng, state, k)
    elif move == 1:
        change(rng, state, k)
    elif move == 2:
        swap_or_rotate(rng, state, k)
    elif move <= 6 or move in (11, 12):
        move_leaves(rng, state, k, move)
    elif move == 7:
        draw_beta0(rng, state)
    elif move == 8:
        draw_precision(rng, state)
    elif move == 9:
        update_inverse_gamma(rng, state, SIGMA2, A_SIGMA, Q_SIGMA, real[RATE_A_SIGMA], real[RATE_Q_SIGMA])
        update_inverse_gamma(rng, state, TAU2, A_TAU, Q_TAU, real[RATE_A_TAU], real[RATE_Q_TAU])
    elif move == 10:
        run_round(rng, state, k)
    elif move == 16:
        swap_upwards(rng, state, k)
    else:
        shared[A_TAU] *= 0.7
        move_leaves(rng, state, k, 6)
        shared[A_TAU] /= 0.7


@entry
def differences(rng, state, k, move, k_move, real_move, n_replicates):
    """Return weight times the change of the statistics under one move from an exact draw, one row a
    replicate.

    ``k_move`` and ``real_move`` are what the move is told; the target is that of ``k`` and ``state.real``.
    """
    out = np.empty((n_replicates, N_STATISTICS))
    log_weights = np.empty(n_replicates)
    real = state.real.copy()
    before, after = np.empty(N_STATISTICS), np.empty(N_STATISTICS)
    for i in range(n_replicates):
        log_weights[i] = draw_joint(rng, state, k)
        statistics(state, before)
        state.real[:] = real_move
        for _ in range(2):
            apply_move(rng, state, k_move, move)
        state.real[:] = real
        statistics(state, after)
        out[i] = after - before
    weights = np.exp(log_weights - np.max(log_weights))
    for i in range(n_replicates):
        out[i] *= weights[i] / np.mean(weights)
    return out
