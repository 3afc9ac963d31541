"""Tours: the independent pieces between visits to the ends of a path, where the state is drawn afresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.estimators import Estimate, RegenerativeEstimate, regenerative_ratio, weighted_variance
from tempering.estimators.pareto import generalised_pareto_shape
from tempering.estimators.regeneration import TourWeights, tour_ends

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws

FEW_ROUND_TRIPS = 20  # of all chains: what lies beyond the rungs between is then known by few of them
FEW_TOURS = 100  # to a place: how much mass it has is then known to a tenth at best, and what lies deeper not at all


@dataclass(frozen=True, eq=False)
class Tours:
    """Which tour each draw belongs to.

    Attributes
    ----------
    index : ndarray of int, shape (chain, draw)
        Number of the tour; -1 before a chain's first regeneration and after its last, where no tour is whole. Nothing
        is dropped for being long.
    n_tours : int
    log_weights : ndarray, shape (chain, draw)
        Towards the cold distribution, with the pseudo-prior taken out, so that tours weigh alike.
    """

    index: NDArray[np.int64]
    n_tours: int
    log_weights: NDArray[np.float64]

    def expect(self, values: Any) -> RegenerativeEstimate:
        """Estimate a cold expectation by the regenerative ratio estimator; values have leading axes (chain, draw)."""
        h = np.asarray(values, dtype=float)
        inside = self.index >= 0
        log_w = self.log_weights[inside]
        w = np.exp(log_w - log_w.max())
        tour = self.index[inside]
        flat = h[inside].reshape(len(w), -1)
        top = np.stack([np.bincount(tour, w * column, self.n_tours) for column in flat.T], axis=1)
        bottom = np.bincount(tour, w, self.n_tours)
        return regenerative_ratio(top.reshape(self.n_tours, *h.shape[2:]), bottom)

    @property
    def effectiveness(self) -> float:
        """How evenly tours contribute: 1 where all weigh the same, near 0 where one has it all."""
        return self.expect(np.zeros(self.index.shape)).tour_effectiveness

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of draws of each tour."""
        return np.bincount(self.index[self.index >= 0], minlength=self.n_tours)


def _ends(draws: TemperedDraws) -> NDArray[np.bool_]:
    assert draws.info is not None
    nowhere, ends = np.full(draws.n_chains, -1), draws.path.ends or (len(draws.path) - 1,)
    is_lifted = draws.info.rung_moves == "lifted"
    return tour_ends(draws.rung, draws.proposed, nowhere, ends, is_lifted=is_lifted)


def effective_pieces(draws: TemperedDraws, weights: NDArray[np.float64]) -> float:
    """Return how many tours, whole or cut off, a run is worth, by the sums of their weights."""
    return TourWeights.of(weights, _ends(draws)).effective_number


def pieces_of(draws: TemperedDraws) -> NDArray[np.int64]:
    """Return the number of the tour, whole or cut off, that each draw belongs to."""
    ends = _ends(draws)
    piece: NDArray[np.int64] = np.cumsum(ends, axis=1, dtype=np.int64) - ends
    return np.asarray(piece + np.concatenate([[0], np.cumsum(piece[:, -1] + 1)[:-1]])[:, np.newaxis])


class ThinPlaces(NamedTuple):
    """Places that few tours have come to, and how much may lie deeper, as a share of the mass that they have."""

    is_thin: NDArray[np.bool_]  # (chain, draw)
    deeper: float


def thinly_covered(draws: TemperedDraws) -> ThinPlaces | None:
    """Return which draws lie where the mixture is so low under the target that only a few tours have come there.

    Fresh draws of the mixture hardly ever lead to such places, and local moves seldom: a funnel's neck. What lies
    deeper still may hold as much again, if the tail of the target over the mixture is heavy; of M tours in a tail of
    the shape k the highest one has, and what is beyond it holds, about M^(k - 1) of the mass. None where there is no
    mixture to tell.
    """
    path = draws.path
    if not path.has_two_legs or not path.references or draws.chains_per_ensemble > 1:
        return None
    log_ratio = path.log_target(draws.terms) - draws.terms[..., -1]
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    piece = pieces_of(draws)
    highest = np.full(int(piece.max()) + 1, -np.inf)
    np.maximum.at(highest, piece.ravel(), log_ratio.ravel())
    if highest.size <= FEW_TOURS:
        return None
    tail = np.partition(highest, -FEW_TOURS)[-FEW_TOURS:]
    return ThinPlaces(np.asarray(log_ratio >= tail.min()), _deeper(np.exp(tail - tail.max())))


def _deeper(tail: NDArray[np.float64]) -> float:
    """Return which part of the mass of a tail lies beyond its last point, its shape being known to two errors."""
    shape = generalised_pareto_shape(tail - tail.min())
    shape += 2.0 * (1.0 + max(shape, 0.0)) / np.sqrt(tail.size)
    return float(tail.size ** (min(max(shape, 0.0), 1.0) - 1.0))


def tours_of(draws: TemperedDraws) -> Tours:
    """Find the regenerations of a run of simulated tempering that draws from its base at k = 0.

    With neighbour moves a draw recorded on the hottest rung ends a tour: the next position is drawn afresh and nothing
    else is remembered. Lifted moves remember a direction, too: there a tour ends where the chain turns at the hot end.
    """
    if draws.info is None or not draws.info.redraws:
        raise EstimatorError(
            "Tours need a run whose path ends where it can be drawn from, but this one does not. Leave path and ladder "
            "out, or give sample_prior and a ladder that ends at 0."
        )
    ends = _ends(draws)
    completed: NDArray[np.int64] = (
        np.cumsum(ends, axis=1, dtype=np.int64) - ends
    )  # ends before this draw: which piece of its chain it is in
    per_chain = ends.sum(axis=1)
    whole = (completed >= 1) & (completed < per_chain[:, None])
    n_whole = np.maximum(per_chain - 1, 0)
    offset = np.concatenate([[0], np.cumsum(n_whole)[:-1]])
    index = np.where(whole, offset[:, None] + completed - 1, -1)
    log_weights = draws.log_weights - draws.log_pseudo_prior[draws.rung]
    n_tours = int(n_whole.sum())
    if n_tours < 2:
        raise EstimatorError(
            f"Tours need at least two returns to k = 0, but there were {n_tours}. Run longer, or use fewer rungs."
        )
    return Tours(index, n_tours, log_weights)


FEWEST_PIECES = 2.0  # fewer say nothing of how far they could have gone apart


def with_doubt(
    found: Estimate, values: Any, weights: Any, n_pieces: float | None, thin: ThinPlaces | None = None
) -> Estimate:
    """Widen standard errors by what an event that none of so many independent pieces has seen could add.

    Such an event has a probability of about 1 / n or less, and moves a mean by so much of the quantity's spread; that
    of an indicator, which is all that a missed mode changes, is taken as 1 even where it never changed. Of what draws
    add whose places are thinly covered, as much may be missing as may lie deeper.
    """
    if n_pieces is None:
        return found
    flat = np.asarray(values, dtype=float).reshape(*weights.shape, -1)
    is_indicator = np.all((flat == 0.0) | (flat == 1.0), axis=(0, 1))
    spread = np.where(is_indicator, 1.0, np.sqrt(weighted_variance(flat, weights)))
    if thin is None:
        return widened(found, spread, n_pieces)
    share = thin.deeper * weights[thin.is_thin] / weights.sum()
    return widened(found, spread, n_pieces, share @ (flat[thin.is_thin] - np.ravel(np.asarray(found.value))))


def widened(found: Estimate, spread: Floats, n_pieces: float, added: Floats | float = 0.0) -> Estimate:
    """Widen standard errors of quantities of such a spread, and by what may be missing beyond."""
    error = np.full(np.shape(found.value), np.inf)
    if n_pieces >= FEWEST_PIECES:
        floor = np.hypot(spread / n_pieces, added).reshape(error.shape)
        error = np.hypot(np.asarray(found.standard_error), floor)
    return Estimate(found.value, float(error) if error.ndim == 0 else error)
