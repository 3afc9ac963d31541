"""The index process in sums: exchanges, acceptance of moves, and round trips, without the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.engines.trace import Trace
from tempering.estimators.regeneration import round_trips
from tempering.path import Path


@dataclass(frozen=True, eq=False)
class IndexSums:
    """Sums over all chains.

    Attributes
    ----------
    exchanges : ndarray, shape (rung, 2)
        Rung moves between i and i + 1: tried, accepted.
    moves : ndarray, shape (rung, simple kernel, 2)
        Moves on each rung: number, sum of their acceptances.
    n_round_trips : int
        Journeys from the cold rung to the hottest and back.
    n_iterations : int
        Of each chain.
    """

    exchanges: Floats
    moves: Floats
    n_round_trips: int
    n_iterations: int

    def added(self, other: IndexSums, *, in_time: bool = True) -> IndexSums:
        """Add the sums of a later stretch, or of another run (whose iterations are those of other chains)."""
        n = self.n_iterations + other.n_iterations if in_time else max(self.n_iterations, other.n_iterations)
        trips = self.n_round_trips + other.n_round_trips
        return IndexSums(self.exchanges + other.exchanges, self.moves + other.moves, trips, n)

    @property
    def exchange_acceptance(self) -> Floats:
        """Share of accepted rung moves between rungs i and i + 1; NaN where none was tried."""
        tried, accepted = self.exchanges[:-1].T
        return np.where(tried > 0, accepted / np.maximum(tried, 1), np.nan)

    @property
    def move_acceptance(self) -> Floats:
        """Mean acceptance of the moves on each rung, over the simple kernels that have one; NaN where none was."""
        n, total = self.moves[..., 0], self.moves[..., 1]
        mean = np.where(n > 0, total / np.maximum(n, 1), 0.0)
        known = (n > 0).sum(axis=1)
        return np.where(known > 0, mean.sum(axis=1) / np.maximum(known, 1), np.nan)


def sums_of_trace(
    trace: Trace, before: NDArray[Any], phase: NDArray[Any], path: Path
) -> tuple[IndexSums, NDArray[Any]]:
    """Sum a trace that goes on from rungs ``before`` with ends seen ``phase``; return the new phase too.

    Journeys are those from the target to the far end and back.
    """
    m = len(path)
    came_from = np.concatenate([before[:, np.newaxis], trace.rung[:, :-1]], axis=1)
    tried = trace.proposed != came_from
    lower = np.minimum(came_from, trace.proposed)[tried]
    accepted = (trace.rung == trace.proposed)[tried]
    exchanges = np.stack([np.bincount(lower, minlength=m), np.bincount(lower[accepted], minlength=m)], axis=-1)
    moves = np.zeros((m, trace.acceptance.shape[-1], 2))
    for leaf in range(trace.acceptance.shape[-1]):
        share = trace.acceptance[..., leaf]
        known = ~np.isnan(share)
        moves[:, leaf, 0] = np.bincount(came_from[known], minlength=m)
        moves[:, leaf, 1] = np.bincount(came_from[known], share[known], m)
    trips, after = round_trips(trace.rung, path.target, path.far_end, phase)
    return IndexSums(exchanges.astype(float), moves, trips, trace.rung.shape[1]), after
