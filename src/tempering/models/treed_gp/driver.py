"""The compiled loop: simulated tempering of one chain, with running sums per rung.

The memory of a run does not grow with its length. For every rung there are sums of weights, weighted sums
of what is asked, and a weighted resample of whole trees. Weights are relative to the largest of their rung.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.models.treed_gp.compiled import Array, Ints, compiled, inlined
from tempering.models.treed_gp.layout import (
    CUT,
    LOG_DET,
    MAX_LEAVES,
    N_INTERNAL,
    N_LEAVES,
    N_ROWS,
    RUNG,
    TEMPER_TREE,
    VARIABLE,
    State,
)
from tempering.models.treed_gp.leaf import draw_sigma2_beta, is_linear, log_marginal
from tempering.models.treed_gp.model import energy, step
from tempering.models.treed_gp.prediction import predict_tree
from tempering.models.treed_gp.records import record_into, record_length
from tempering.models.treed_gp.reference import sample_reference
from tempering.models.treed_gp.tree import log_places_prior, log_tree_prior


class Sums(NamedTuple):
    """Running sums of one chain, one row a rung; weights are relative to exp(peak)."""

    n_draws: NDArray[np.int64]
    peak: NDArray[np.float64]
    """Largest log weight so far; a column for every draw, one for the draws that were predicted."""
    total: NDArray[np.float64]
    """Sums of weights, same columns."""
    squares: NDArray[np.float64]
    """Sum of squared weights."""
    features: NDArray[np.float64]
    """Weighted sums: number of leaves (one entry each), splits by column, share of linear rows, cuts."""
    predictions: NDArray[np.float64]
    """Weighted sums of mean, mean squared, surface and noise variance, shape (n_rungs, 4, n_points)."""
    kept: NDArray[np.float64]
    """Weighted resample of recorded trees, shape (n_rungs, n_slots, record length)."""
    best: NDArray[np.float64]
    """Recorded tree of the largest posterior."""
    best_value: NDArray[np.float64]
    """Its log posterior, up to a constant."""


def n_features(state: State) -> int:
    """Return how many features are summed."""
    return int(state.integer[MAX_LEAVES]) + len(state.n_cuts) + 1 + int(state.n_cuts.sum())


def empty_sums(state: State, n_rungs: int, n_slots: int, n_points: int) -> Sums:
    """Return the sums of no draws."""
    length = int(record_length(state))
    return Sums(
        n_draws=np.zeros(n_rungs, np.int64),
        peak=np.full((n_rungs, 2), -np.inf),
        total=np.zeros((n_rungs, 2)),
        squares=np.zeros(n_rungs),
        features=np.zeros((n_rungs, n_features(state))),
        predictions=np.zeros((n_rungs, 4, n_points)),
        kept=np.zeros((n_rungs, n_slots, length)),
        best=np.zeros(length),
        best_value=np.full(1, -np.inf),
    )


@compiled
def move_rung(
    rng: np.random.Generator,
    walk: Ints,
    inverse_temperatures: Array,
    log_pseudo_prior: Array,
    energy_here: float,
) -> int:
    """Propose the next rung in the current direction, and turn round after a rejection; return the proposal.

    The lifted walk keeps (rung, direction) invariant with both directions equally likely, so that no factor
    is due at the ends, where the proposal beyond is a rejection.
    """
    here, there = walk[0], walk[0] + walk[1]
    if there < 0 or there >= inverse_temperatures.shape[0]:
        walk[1] = -walk[1]
        return int(here)
    log_ratio = (inverse_temperatures[there] - inverse_temperatures[here]) * energy_here
    log_ratio += log_pseudo_prior[there] - log_pseudo_prior[here]
    if math.log(rng.random()) < log_ratio:
        walk[0] = there
    else:
        walk[1] = -walk[1]
    return int(there)


@inlined
def advance(rng: np.random.Generator, state: State, k: float) -> None:
    """Run one round, or draw from the prior itself where k = 0: then a new tour begins."""
    if k == 0.0 and state.integer[TEMPER_TREE] == 0:
        sample_reference(rng, state)
    else:
        step(rng, state, k)


@compiled
def log_weight_of(state: State, k: float) -> float:
    """Return the log importance weight towards k = 1 with beta and sigma^2 integrated out: log m_1 - log m_k.

    It is the log of the mean of L^(1 - k) over their conditional at k, so that it varies less. It belongs to the
    other parameters; beta and sigma^2 are then drawn at k = 1.
    """
    if k == 1.0:
        return 0.0
    total = 0.0
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        if not state.leaf[node, LOG_DET] < math.inf:
            return -math.inf
        total += log_marginal(state, node, 1.0) - log_marginal(state, node, k)
    if state.integer[TEMPER_TREE] != 0:
        total += (1.0 - k) * log_tree_prior(state)
    return total


@compiled
def rescale(sums: Sums, rung: int, column: int, log_weight: float) -> float:
    """Move the peak of a rung's sums up where needed; return the relative weight of a draw."""
    old = sums.peak[rung, column]
    if log_weight == -math.inf:
        return 0.0
    if log_weight > old:
        factor = math.exp(old - log_weight)
        sums.peak[rung, column] = log_weight
        sums.total[rung, column] *= factor
        if column == 0:
            sums.squares[rung] *= factor * factor
            sums.features[rung] *= factor
        else:
            sums.predictions[rung] *= factor
        return 1.0
    return math.exp(log_weight - old)


@compiled
def add_features(state: State, sums: Sums, rung: int, weight: float) -> None:
    """Add number of leaves, splits by column, share of linear rows, and each cut."""
    features = sums.features[rung]
    first = state.integer[MAX_LEAVES]
    n_columns = state.n_cuts.shape[0]
    features[state.meta[N_LEAVES] - 1] += weight
    for i in range(state.meta[N_INTERNAL]):
        node = state.lists[1, i]
        variable = state.tree[node, VARIABLE]
        features[first + variable] += weight
        at = first + n_columns + 1 + state.tree[node, CUT]
        for j in range(variable):
            at += state.n_cuts[j]
        features[at] += weight
    linear, rows = 0.0, 0.0
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        rows += state.leaf[node, N_ROWS]
        if is_linear(state, node):
            linear += state.leaf[node, N_ROWS]
    features[first + n_columns] += weight * linear / rows


@compiled
def resample_into(rng: np.random.Generator, state: State, sums: Sums, rung: int, weight: float) -> None:
    """Put the draw into each slot with probability weight / total: a slot is a draw from the weighted
    past.
    """
    if weight == 0.0:
        return
    chance = weight / sums.total[rung, 0]
    first = -1
    for slot in range(sums.kept.shape[1]):
        if rng.random() < chance:
            if first < 0:
                first = slot
                record_into(state, sums.kept[rung, slot])
            else:
                sums.kept[rung, slot] = sums.kept[rung, first]


@compiled
def log_posterior(state: State) -> float:
    """Return the log posterior of tree and correlations at k = 1, beta and sigma^2 integrated out."""
    total = log_tree_prior(state) + log_places_prior(state)
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        if not state.leaf[node, LOG_DET] < math.inf:
            return -math.inf
        total += log_marginal(state, node, 1.0)
    return total


@compiled
def add_draw(rng: np.random.Generator, state: State, sums: Sums, rung: int, log_weight: float) -> None:
    """Add one draw to all sums but the predictions."""
    sums.n_draws[rung] += 1
    weight = rescale(sums, rung, 0, log_weight)
    sums.total[rung, 0] += weight
    sums.squares[rung] += weight * weight
    add_features(state, sums, rung, weight)
    resample_into(rng, state, sums, rung, weight)
    value = log_posterior(state)
    if value > sums.best_value[0]:
        sums.best_value[0] = value
        record_into(state, sums.best)


@compiled
def add_prediction(state: State, sums: Sums, rung: int, log_weight: float, points: Array, work: Array) -> None:
    """Add one draw's predictions at the given points."""
    predict_tree(state, points, work[0], work[1], work[2])
    weight = rescale(sums, rung, 1, log_weight)
    sums.total[rung, 1] += weight
    out = sums.predictions[rung]
    for i in range(points.shape[0]):
        out[0, i] += weight * work[0, i]
        out[1, i] += weight * work[0, i] ** 2
        out[2, i] += weight * work[1, i]
        out[3, i] += weight * work[2, i]


class Trace(NamedTuple):
    """Energy, log weight, rung, proposed rung and number of leaves after each round of a block."""

    energy: NDArray[np.float64]
    log_weight: NDArray[np.float64]
    rung: NDArray[np.int32]
    proposed: NDArray[np.int32]
    n_leaves: NDArray[np.int32]


def empty_trace(n_rounds: int) -> Trace:
    """Return an unwritten trace."""
    whole = [np.zeros(n_rounds, np.int32) for _ in range(3)]
    return Trace(np.zeros(n_rounds), np.zeros(n_rounds), *whole)


@compiled
def run_block(
    rng: np.random.Generator,
    state: State,
    walk: Ints,
    inverse_temperatures: Array,
    log_pseudo_prior: Array,
    moves: bool,
    gains: Array,
    trace: Trace,
    sums: Sums,
    thin: int,
    points: Array,
    predict_every: int,
) -> None:
    """Run as many rounds as the trace holds; ``thin`` 0 keeps no sums, ``predict_every`` 0 no predictions.

    Where there are gains, the pseudo-prior is learnt in place by stochastic approximation (section 11.3): each
    round lowers the log pseudo-prior of its rung by the gain. Where the number of leaves changes abruptly with
    k, a chain crosses seldom; a pseudo-prior that yields while the chain waits drives it across.
    """
    work = np.empty((3, points.shape[0]))
    for t in range(trace.energy.shape[0]):
        state.meta[RUNG] = walk[0]
        advance(rng, state, inverse_temperatures[walk[0]])
        e = energy(state)
        trace.proposed[t] = walk[0]
        if moves:
            trace.proposed[t] = move_rung(rng, walk, inverse_temperatures, log_pseudo_prior, e)
        rung = walk[0]
        if gains.shape[0] > 0:
            log_pseudo_prior += gains[t] / log_pseudo_prior.shape[0]
            log_pseudo_prior[rung] -= gains[t]
        trace.energy[t] = e
        trace.rung[t] = rung
        trace.n_leaves[t] = state.meta[N_LEAVES]
        adds, predicts = thin > 0 and t % thin == 0, predict_every > 0 and t % predict_every == 0
        if thin > 0:
            trace.log_weight[t] = log_weight_of(state, inverse_temperatures[rung])
        if adds or predicts:
            for i in range(state.meta[N_LEAVES]):  # the next round draws them anew before it uses them
                draw_sigma2_beta(rng, state, state.lists[0, i], 1.0)
        if adds:
            add_draw(rng, state, sums, rung, trace.log_weight[t])
        if predicts:
            add_prediction(state, sums, rung, trace.log_weight[t], points, work)
