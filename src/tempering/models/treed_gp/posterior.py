"""What a fit knows: numbers about every draw with their weights, trees drawn by them, and averages over all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.engines.trace import trimmed_rows
from tempering.estimators import resample
from tempering.models.treed_gp import records
from tempering.models.treed_gp.layout import MAX_LEAVES, MOVES
from tempering.models.treed_gp.surfaces import predict_joined
from tempering.path import Ladder
from tempering.runs.draws import TemperedDraws

if TYPE_CHECKING:
    from tempering.models.treed_gp.model import TreedGPModel

N_TREES_AT_ONCE = 256  # predicted at given points, before they are averaged


@dataclass(frozen=True)
class Posterior:
    """What a fit knows. Its draws have lost their trees; ``rows`` are trees drawn from them by their weights."""

    draws: TemperedDraws
    """The run, its value ``leaves`` the number of leaves of each draw: rungs, energies, evidence, verdict."""
    rule: str
    """By which the rungs are combined."""
    rows: Floats
    """Recorded trees, a sample of the posterior, equally weighted."""
    best_leaves: NDArray[np.int64]
    """The numbers of leaves that were seen."""
    best_rows: Floats
    """Recorded tree of the largest posterior density among those of so many leaves."""
    leaf_probabilities: Floats
    """P(1, 2, ... leaves)."""
    leaf_probability_errors: Floats
    """Their standard errors."""
    linear_share: float
    """Expected share of the rows in leaves that are linear."""
    cut_probabilities: tuple[Floats, ...]
    """Expected number of splits at each candidate of each column."""
    acceptance: dict[str, Floats]
    """Share of accepted proposals of each move, by rung; NaN where none was tried."""
    predictions: Floats | None = None
    """Mean, variance of the surface and variance of the noise at the fit's points, shape (3, n)."""
    prediction_r_hat: float = float("nan")
    """How far the chains' predictions are apart, in predictive deviations: sqrt(1 + gap^2); NaN for one chain."""

    @property
    def ladder(self) -> Ladder:
        """The inverse temperatures."""
        return self.draws.ladder

    @property
    def n_round_trips(self) -> int:
        """Journeys from the cold rung to the hottest and back, of all chains."""
        return self.draws.n_round_trips

    @property
    def seconds(self) -> float:
        """How long the chains took."""
        return 0.0 if self.draws.info is None else self.draws.info.seconds

    @property
    def combined_ess(self) -> float:
        """Effective sample size of the combined weights, ESS(w^lambda), of Eq. 3."""
        return self.draws.ess(self.rule)

    @property
    def shares(self) -> Floats:
        """Share of each rung in every estimate, lambda_i."""
        return self.draws.shares(self.rule)

    @property
    def splits_per_tree(self) -> Floats:
        """Expected number of splits on each column."""
        return np.array([cuts.sum() for cuts in self.cut_probabilities])

    @property
    def map_leaves(self) -> int:
        """The number of leaves of the largest posterior probability."""
        return int(self.best_leaves[np.argmax(self.leaf_probabilities[self.best_leaves - 1])])

    @property
    def map_row(self) -> Floats:
        """The recorded tree of the largest posterior density among those of so many leaves."""
        return np.asarray(self.best_rows[np.flatnonzero(self.best_leaves == self.map_leaves)[0]])

    def leaf_probabilities_at(self, rung: int) -> Floats:
        """Return P(1, 2, ... leaves) at a rung's own temperature, without weights."""
        leaves = self.draws.values["leaves"][self.draws.rung == rung].astype(int)
        return np.asarray(np.bincount(leaves - 1, minlength=len(self.leaf_probabilities)) / max(leaves.size, 1))


def posterior_of(
    model: TreedGPModel,
    run: TemperedDraws,
    rule: str,
    n_trees: int,
    rng: np.random.Generator,
    points: Floats | None = None,
    predict_every: int = 1,
) -> Posterior:
    """Average over all draws, and draw trees by their weights; ``points`` are scaled inputs to predict at."""
    recorded, weights = recorded_by(run), run.weights(rule)
    head, rows = recorded[..., : records.HEAD], recorded[..., records.HEAD :]
    leaves = head[..., records.LEAVES].astype(np.int64)
    each = rows.reshape(-1, rows.shape[-1])
    found = run.estimate(leaves[..., None] == np.arange(1, leaves.max() + 1), rule)
    values = {"leaves": head[..., records.LEAVES].copy()}
    small = replace(run, values=values, go_on=None, model=None, _kept={rule: run._kept[rule]})
    seen, best = best_of_each(leaves.ravel(), head[..., records.LOG_POSTERIOR].ravel())
    return Posterior(
        draws=small,
        rule=rule,
        rows=each[resample(weights, n_trees, rng=rng)],
        best_leaves=seen,
        best_rows=each[best],
        leaf_probabilities=_padded(found.value, model),
        leaf_probability_errors=_padded(found.standard_error, model),
        linear_share=float(np.sum(weights * head[..., records.LINEAR_SHARE])),
        cut_probabilities=cuts_of(model, each, leaves.ravel(), weights.ravel()),
        acceptance=acceptance_of(head, run.ladder),
        predictions=None if points is None else predictions_of(model, rows, weights, points, predict_every),
    )


def recorded_by(run: TemperedDraws) -> Floats:
    """Return what a run has recorded, (chain, draw, number), cut after the longest row; on disk, piece by piece."""
    return trimmed_rows(run.values["x"])


def best_of_each(leaves: NDArray[np.int64], log_posterior: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of leaves seen, and the draw of the largest posterior density of each.

    Examples
    --------
    >>> best_of_each(np.array([2, 1, 2]), np.array([0.0, 5.0, 1.0]))
    (array([1, 2]), array([1, 2]))
    """
    order = np.lexsort((log_posterior, leaves))
    last = np.flatnonzero(np.diff(leaves[order], append=0))
    return leaves[order[last]], order[last]


def cuts_of(model: TreedGPModel, rows: Floats, leaves: NDArray[np.int64], weights: Floats) -> tuple[Floats, ...]:
    """Return the expected number of splits at each candidate of each column."""
    n_cuts = model.data.n_cuts
    used = np.flatnonzero(weights > 0)
    nodes = records.nodes_of(rows[used], model.integer, model.n_shared)
    is_split = (np.arange(nodes.shape[1]) < 2 * leaves[used, None] - 1) & (nodes[..., 0] >= 0)
    column, cut = (nodes[..., i][is_split].astype(np.int64) for i in (0, 1))
    first = np.concatenate([[0], np.cumsum(n_cuts)])
    weight = np.broadcast_to(weights[used, None], is_split.shape)[is_split]
    total = np.bincount(first[column] + cut, weight, first[-1])
    return tuple(np.split(total, first[1:-1]))


def acceptance_of(head: Floats, ladder: Ladder) -> dict[str, Floats]:
    """Return the share of accepted proposals of each move by the rung on which they were made."""
    k = ladder.inverse_temperatures
    rung = np.argmin(np.abs(np.subtract.outer(head[..., records.MADE_AT].ravel(), k)), axis=1)
    counts = head[..., records.COUNTS :].reshape(-1, len(MOVES), 2)
    total = np.stack([counts[rung == r].sum(axis=0) for r in range(len(k))])
    with np.errstate(invalid="ignore"):
        return {name: total[:, i, 1] / total[:, i, 0] for i, name in enumerate(MOVES)}


def predictions_of(model: TreedGPModel, rows: Floats, weights: Floats, points: Floats, every: int) -> Floats:
    """Return mean, variance of the surface and variance of the noise at points, over every so many draws."""
    weight = weights[:, ::every].ravel()
    used = np.flatnonzero(weight > 0)
    chosen = rows[:, ::every].reshape(weight.size, -1)
    total = np.zeros((4, len(points)))
    for first in range(0, len(used), N_TREES_AT_ONCE):
        part = used[first : first + N_TREES_AT_ONCE]
        mean, surface, noise = np.moveaxis(predict_joined(model, chosen[part], points), 1, 0)
        total += np.stack([weight[part] @ quantity for quantity in (mean, mean**2, surface, noise)])
    mean, square, surface, noise = total / weight.sum()
    return np.stack([mean, surface + np.maximum(square - mean**2, 0.0), noise])


def _padded(values: float | Floats, model: TreedGPModel) -> Floats:
    return np.pad(np.atleast_1d(values), (0, int(model.integer[MAX_LEAVES]) - np.size(values)))
