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
from tempering.path import weighted_terms

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
    nowhere, ends = np.full(draws.n_chains, -1), draws.path.ends or (draws.path.far_end,)
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
    """Return which draws lie where the path's ends are so low under the target that tours are few by their weights.

    Fresh draws hardly ever lead to such places, and local moves seldom: a funnel's neck. A tail that the mixture lacks
    and the safe end has is none. What lies deeper still may hold as much again, if the tail of the target over both
    is heavy; of M tours in a tail of the shape k the highest one has, and what is beyond it holds, about M^(k - 1) of
    the mass. None where there is no mixture to tell, and where the whole run is worth no more tours than such a place.
    """
    path = draws.path
    if not path.has_two_legs or not path.references or draws.chains_per_ensemble > 1:
        return None
    fresh = np.stack([weighted_terms(leg.end, draws.terms) for leg in path.legs if leg.redraws])
    log_ratio = path.log_target(draws.terms) - np.logaddexp.reduce(fresh)
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    piece = pieces_of(draws)
    deepest = _deepest(log_ratio.ravel(), np.asarray(draws.weights()).ravel(), piece.ravel())
    if deepest is None:
        return None
    is_thin = np.zeros(log_ratio.size, bool)
    is_thin[deepest] = True
    highest = np.full(int(piece.max()) + 1, -np.inf)
    np.maximum.at(highest, piece.ravel()[deepest], log_ratio.ravel()[deepest])
    tail = np.partition(highest, -FEW_TOURS)[-FEW_TOURS:]
    return ThinPlaces(is_thin.reshape(log_ratio.shape), _deeper(np.exp(tail - tail.max())))


def _deepest(log_ratio: Floats, weights: Floats, piece: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """Return the draws of the highest ratios, so many that their tours are worth `FEW_TOURS` by their weights there.

    Tours that stay for long in a narrow place have most of its mass: by their number they seem to be many.
    """
    for n in (log_ratio.size >> 6, log_ratio.size >> 3, log_ratio.size):  # the few highest are enough, as a rule
        top = np.argpartition(-log_ratio, n - 1)[:n] if n else np.arange(0)
        top = top[np.argsort(-log_ratio[top], kind="stable")]
        first = np.flatnonzero(_effective_numbers(weights[top], piece[top]) >= FEW_TOURS)
        if first.size:
            return np.asarray(top[: first[0] + 1])
    return None


def _effective_numbers(weights: Floats, piece: NDArray[np.int64]) -> Floats:
    """Return how many tours the first draw, the first two, ... are worth: squared sum over sum of squares by tour."""
    order = np.argsort(piece, kind="stable")
    mine, total = piece[order], np.cumsum(weights[order])
    begins = np.concatenate([[True], mine[1:] != mine[:-1]])[: mine.size]
    before = np.empty(weights.size)  # that the same tour has had
    before[order] = total - weights[order] - np.repeat((total - weights[order])[begins], _run_lengths(begins))
    squares = np.cumsum(weights * (weights + 2.0 * before))
    return np.asarray(np.cumsum(weights) ** 2 / np.maximum(squares, np.finfo(float).tiny))


def _run_lengths(begins: NDArray[np.bool_]) -> NDArray[np.intp]:
    return np.diff(np.append(np.flatnonzero(begins), begins.size))


def _deeper(tail: NDArray[np.float64]) -> float:
    """Return which part of the mass of a tail lies beyond its last point, its shape being larger by one error."""
    shape = generalised_pareto_shape(tail - tail.min())
    shape += (1.0 + max(shape, 0.0)) / np.sqrt(tail.size)
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
    of an indicator, which is all that a missed mode changes, is taken as 1 even where it never changed. What may lie
    deeper than thinly covered places is as far from the mean as these are, whichever way.
    """
    if n_pieces is None:
        return found
    flat = np.asarray(values, dtype=float).reshape(*weights.shape, -1)
    is_indicator = np.all((flat == 0.0) | (flat == 1.0), axis=(0, 1))
    spread = np.where(is_indicator, 1.0, np.sqrt(weighted_variance(flat, weights)))
    if thin is None:
        return widened(found, spread, n_pieces)
    share = weights[thin.is_thin] / weights.sum()
    away = np.sqrt(share.sum() * (share @ (flat[thin.is_thin] - np.ravel(np.asarray(found.value))) ** 2))
    return widened(found, spread, n_pieces, thin.deeper * away)


def widened(found: Estimate, spread: Floats, n_pieces: float, added: Floats | float = 0.0) -> Estimate:
    """Widen standard errors of quantities of such a spread, and by what may be missing beyond."""
    error = np.full(np.shape(found.value), np.inf)
    if n_pieces >= FEWEST_PIECES:
        floor = np.hypot(spread / n_pieces, added).reshape(error.shape)
        error = np.hypot(np.asarray(found.standard_error), floor)
    return Estimate(found.value, float(error) if error.ndim == 0 else error)
