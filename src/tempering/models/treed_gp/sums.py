"""Running sums of a chain's draws: the memory of a run does not grow with its length.

For every rung, or stretch of energies, there are sums of weights, weighted sums of what is asked, and a weighted
resample of whole trees. Weights are relative to the largest of their row.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.models.treed_gp.compiled import Array, allocating, compiled
from tempering.models.treed_gp.layout import (
    CUT,
    MAX_LEAVES,
    N_INTERNAL,
    N_LEAVES,
    N_ROWS,
    PLACE,
    Q_SIGMA,
    SIGMA2,
    VARIABLE,
    State,
)
from tempering.models.treed_gp.leaf import draw_sigma2_beta, posterior_of_beta, shape_of_sigma2
from tempering.models.treed_gp.prediction import predict_tree
from tempering.models.treed_gp.records import record_into, record_size
from tempering.models.treed_gp.summary import is_linear
from tempering.models.treed_gp.undo import restore, save

_GOLDEN, _SILVER = 0.6180339887498949, 0.4142135623730951


class Sums(NamedTuple):
    """Running sums of one chain; weights are relative to exp(peak).

    One row a stratum: a rung, or for the rule ``mbar``, whose weights are functions of the energy, a stretch of
    energies.
    """

    n_draws: NDArray[np.int64]
    """Draws of each rung."""
    n_in_row: NDArray[np.int64]
    """Draws of each row."""
    peak: NDArray[np.float64]
    """Largest log weight so far; a column for every draw, one for the draws that were predicted."""
    total: NDArray[np.float64]
    """Sums of weights, same columns."""
    squares: NDArray[np.float64]
    """Sum of squared weights."""
    features: NDArray[np.float64]
    """Weighted sums: number of leaves (one entry each), splits by column, share of linear rows, cuts."""
    predictions: NDArray[np.float64]
    """Weighted sums of mean, mean squared, surface and noise variance, shape (n_strata, 4, n_points)."""
    kept: NDArray[np.float64]
    """Weighted resample of recorded trees, shape (n_strata, n_slots, record length)."""
    best: NDArray[np.float64]
    """Recorded tree of the largest posterior density among those of 1, 2, ... leaves, shape (n_best, record length)."""
    best_value: NDArray[np.float64]
    """Their log posterior densities, up to a constant."""


MOST_BEST = 64  # numbers of leaves for which the best tree is kept; all larger ones share the last place


def n_features(state: State) -> int:
    """Return how many features are summed."""
    return int(state.integer[MAX_LEAVES]) + len(state.n_cuts) + 1 + int(state.n_cuts.sum())


def empty_sums(state: State, n_rungs: int, n_strata: int, n_slots: int, n_points: int) -> Sums:
    """Return the sums of no draws."""
    length = record_size(state)
    n_best = min(int(state.integer[MAX_LEAVES]), MOST_BEST)
    return Sums(
        n_draws=np.zeros(n_rungs, np.int64),
        n_in_row=np.zeros(n_strata, np.int64),
        peak=np.full((n_strata, 2), -np.inf),
        total=np.zeros((n_strata, 2)),
        squares=np.zeros(n_strata),
        features=np.zeros((n_strata, n_features(state))),
        predictions=np.zeros((n_strata, 4, n_points)),
        kept=np.zeros((n_strata, n_slots, length)),
        best=np.zeros((n_best, length)),
        best_value=np.full(n_best, -np.inf),
    )


@compiled
def rescale(sums: Sums, row: int, column: int, log_weight: float) -> float:
    """Move the peak of a row of sums up where needed; return the relative weight of a draw."""
    old = sums.peak[row, column]
    if log_weight == -math.inf:
        return 0.0
    if log_weight <= old:
        return math.exp(log_weight - old)
    factor = math.exp(old - log_weight)
    sums.peak[row, column] = log_weight
    sums.total[row, column] *= factor
    if column == 0:
        sums.squares[row] *= factor * factor
        for i in range(sums.features.shape[1]):
            sums.features[row, i] *= factor
    else:
        for j in range(sums.predictions.shape[1]):
            for i in range(sums.predictions.shape[2]):
                sums.predictions[row, j, i] *= factor
    return 1.0


@compiled
def add_features(state: State, sums: Sums, row: int, weight: float) -> None:
    """Add number of leaves, splits by column, share of linear rows, and each cut."""
    features = sums.features[row]
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
def _record_at_one(rng: np.random.Generator, state: State, out: Array) -> None:
    """Record the tree with sigma^2 and beta drawn at k = 1; the next round draws them anew before it uses them.

    Cuts get their places too, which nothing but predictions reads.
    """
    for i in range(state.meta[N_INTERNAL]):
        state.leaf[state.lists[1, i], PLACE] = rng.random()
    for i in range(state.meta[N_LEAVES]):
        draw_sigma2_beta(rng, state, state.lists[0, i], 1.0)
    record_into(state, out)


@compiled
def resample_into(rng: np.random.Generator, state: State, sums: Sums, row: int, weight: float) -> None:
    """Put the draw into each slot with probability weight / total: a slot is a draw from the weighted past.

    How many slots are left out between two is geometric, so that most draws cost one logarithm.
    """
    if weight == 0.0:
        return
    chance = weight / sums.total[row, 0]
    log_rest = math.log1p(-chance) if chance < 1.0 else -math.inf
    n_slots = sums.kept.shape[1]
    first, slot = -1, 0
    while True:
        if chance < 1.0:
            slot += int(min(math.log(1.0 - rng.random()) / log_rest, float(n_slots)))
        if slot >= n_slots:
            return
        if first < 0:
            first = slot
            _record_at_one(rng, state, sums.kept[row, slot])
        else:
            for i in range(sums.kept.shape[2]):
                sums.kept[row, slot, i] = sums.kept[row, first, i]
        slot += 1


@compiled
def add_draw(
    rng: np.random.Generator, state: State, sums: Sums, row: int, log_weight: float, log_posterior: float
) -> None:
    """Add one draw to all sums but the predictions."""
    weight = rescale(sums, row, 0, log_weight)
    sums.n_in_row[row] += 1
    sums.total[row, 0] += weight
    sums.squares[row] += weight * weight
    add_features(state, sums, row, weight)
    resample_into(rng, state, sums, row, weight)
    rank = min(state.meta[N_LEAVES], sums.best.shape[0]) - 1
    if log_posterior > sums.best_value[rank]:
        sums.best_value[rank] = log_posterior
        _record_at_one(rng, state, sums.best[rank])


@compiled
def _place_cuts(state: State, sums: Sums) -> None:
    """Give the cuts places that are spread evenly over the draws: steps of the golden ratio, nothing random."""
    count = 0
    for i in range(sums.n_in_row.shape[0]):
        count += sums.n_in_row[i]
    for i in range(state.meta[N_INTERNAL]):
        state.leaf[state.lists[1, i], PLACE] = (count * _GOLDEN + i * _SILVER) % 1.0


@allocating
def add_prediction(state: State, sums: Sums, row: int, log_weight: float, points: Array, work: Array) -> None:
    """Add one draw's predictions at the given points, sigma^2 at its mean given the rest at k = 1."""
    save(state)  # predicting summarises the leaves anew, with other rounding
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        scale = 0.5 * (state.shared[Q_SIGMA] + max(posterior_of_beta(state, node, 1.0), 0.0))
        state.leaf[node, SIGMA2] = scale / (shape_of_sigma2(state, node, 1.0) - 1.0)
    _place_cuts(state, sums)
    predict_tree(state, points, work[0], work[1], work[2])
    restore(state)
    weight = rescale(sums, row, 1, log_weight)
    sums.total[row, 1] += weight
    out = sums.predictions[row]
    for i in range(points.shape[0]):
        out[0, i] += weight * work[0, i]
        out[1, i] += weight * work[0, i] ** 2
        out[2, i] += weight * work[1, i]
        out[3, i] += weight * work[2, i]
