"""Independent pieces of a run: ratio estimates from tours between regenerations, and round trips.

A chain that starts afresh at known times splits into independent tours; ratios of sums over tours need no
batch means (Mykland, Tierney & Yu 1995). A round trip is a journey from the target's rung to the far end and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints

Booleans = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]
NOWHERE, FROM_COLD, FROM_HOT = 0, 1, 2  # which end a chain has seen last, once it has been to the cold one


def tour_ends(
    rung: Integers, proposed: Integers, before: Integers, ends: Sequence[int], *, is_lifted: bool
) -> Booleans:
    """Return the draws with which a tour ends: on a rung of ``ends``, where the next position is drawn afresh.

    ``before`` has the rungs from which the first draws came, shape (chain,). Lifted moves remember a direction, too:
    there a tour ends where the chain turns.
    """
    came_from = np.concatenate([before[:, np.newaxis], rung[:, :-1]], axis=1)
    found = np.zeros(rung.shape, dtype=bool)
    for end in ends:
        turns = (came_from == end) & (proposed == end) if is_lifted else True
        found |= (rung == end) & turns
    return found


class TourWeights(NamedTuple):
    """What the tours of each chain weigh, in sums that can be joined in time, each of shape (chain,)."""

    first: Floats  # up to the first end of a tour, or all there is
    last: Floats  # after the last one
    between: Floats  # of the tours between the two
    squares: Floats  # of the weights of those
    has_end: Booleans

    @classmethod
    def of(cls, weights: Floats, ends: Booleans) -> TourWeights:
        """Sum up weights, shape (chain, draw), of tours that end with the draws ``ends``.

        Examples
        --------
        >>> ends = np.array([[False, True, False, True, False], [False] * 5])
        >>> found = TourWeights.of(np.ones((2, 5)), ends)
        >>> found.first.tolist(), found.last.tolist(), found.squares.tolist()
        ([2.0, 5.0], [1.0, 0.0], [4.0, 0.0])
        >>> found.effective_number  # of tours of 2, 2, 1 and 5
        2.9411764705882355
        """
        piece: Ints = np.cumsum(ends, axis=1, dtype=np.intp) - ends
        n_pieces = int(piece.max(initial=0)) + 1
        n_chains, chain = len(weights), np.arange(len(weights))
        place = chain[:, np.newaxis] * n_pieces + piece
        counted = np.bincount(place.ravel(), weights.ravel(), n_chains * n_pieces)
        of_piece = np.asarray(counted, dtype=np.float64).reshape(n_chains, n_pieces)
        n_ends = ends.sum(axis=1)
        number = np.arange(n_pieces)
        between = (number > 0) & (number < n_ends[:, np.newaxis])
        after = (number >= n_ends[:, np.newaxis]) & (number > 0)
        inner = of_piece * between
        return cls(of_piece[:, 0], (of_piece * after).sum(1), inner.sum(1), (inner**2).sum(1), n_ends > 0)

    def followed_by(self, later: TourWeights) -> TourWeights:
        """Join what comes later in the same chains: a tour may go on from the one to the other."""
        one, other = self.has_end, later.has_end
        joined = np.where(one, self.last, self.first) + later.first  # the tour across
        return TourWeights(
            np.where(one, self.first, joined),
            np.where(other, later.last, np.where(one, joined, 0.0)),
            self.between + later.between + np.where(one & other, joined, 0.0),
            self.squares + later.squares + np.where(one & other, joined**2, 0.0),
            one | other,
        )

    def beside(self, other: TourWeights) -> TourWeights:
        """Put other chains beside these."""
        return TourWeights(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    @property
    def effective_number(self) -> float:
        """How many tours of equal weight, whole or cut off, these are worth."""
        squares = np.sum(self.first**2 + self.last**2 + self.squares)
        return float(np.sum(self.first + self.last + self.between) ** 2 / squares) if squares > 0 else 0.0


@dataclass(frozen=True, eq=False)
class RegenerativeEstimate:
    """A ratio estimate from tours: value, standard error, and how evenly the tours contribute."""

    value: float | Floats
    standard_error: float | Floats
    tour_effectiveness: float
    n_tours: int


def regenerative_ratio(numerators: ArrayLike, denominators: ArrayLike) -> RegenerativeEstimate:
    r"""Estimate E[N] / E[D] from the sums of independent tours.

    .. math:: \hat h = \frac{\sum_b N_b}{\sum_b D_b}, \qquad
              \mathrm{se}^2 = \frac{n}{n - 1} \frac{\sum_b (N_b - \hat h D_b)^2}{(\sum_b D_b)^2}

    For a weighted estimate :math:`N_b` and :math:`D_b` are the tour's sums of :math:`w h` and :math:`w`. Tour
    effectiveness is
    :math:`(\sum_b D_b)^2 / (n \sum_b D_b^2)`: one where all tours weigh the same, near zero where one has it
    all (Syed, Bouchard-Cote, Deligiannidis & Doucet 2022).

    Parameters
    ----------
    numerators : array_like, shape (n_tours, ...)
        Sum of w h over each tour.
    denominators : array_like, shape (n_tours,)
        Sum of w over each tour, not negative.

    Examples
    --------
    >>> result = regenerative_ratio([2.0, 4.0, 0.0], [1.0, 2.0, 0.0])
    >>> float(result.value), float(result.standard_error), result.tour_effectiveness
    (2.0, 0.0, 0.6)
    """
    top = np.asarray(numerators, dtype=np.float64)
    bottom = np.asarray(denominators, dtype=np.float64)
    n = bottom.size
    if bottom.ndim != 1 or top.shape[:1] != bottom.shape or n < 2 or not np.all(bottom >= 0) or not bottom.sum() > 0:
        raise EstimatorError(
            f"At least two tours are needed, one numerator for each denominator >= 0, with a positive sum; "
            f"but the shapes are {top.shape} and {bottom.shape}. Run until the chain has regenerated twice."
        )
    total = bottom.sum()
    value = top.sum(axis=0) / total
    residual = top - np.multiply.outer(bottom, value)
    error = np.sqrt(n / (n - 1) * np.sum(residual**2, axis=0)) / total
    return RegenerativeEstimate(value, error, float(total**2 / (n * np.sum(bottom**2))), n)


def round_trips(rung: Integers, cold: int, hot: int, seen: Integers | None = None) -> tuple[int, Integers]:
    """Count journeys from ``cold`` to ``hot`` and back, of chains with rungs of shape (chain, draw).

    ``seen`` says which end each chain saw last, where they go on from earlier draws; it is returned as it is now.

    Examples
    --------
    >>> rungs = np.array([[0, 1, 2, 1, 0, 1, 0, 1, 2, 1, 0], [2, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2]])
    >>> round_trips(rungs, 0, 2)
    (2, array([1, 2], dtype=int8))
    """
    before = np.full(len(rung), NOWHERE, np.int8) if seen is None else seen
    if cold == hot:
        return 0, np.full(len(rung), NOWHERE, before.dtype)
    chain, draw = np.nonzero((rung == cold) | (rung == hot))
    is_cold = rung[chain, draw] == cold
    is_first = np.diff(chain, prepend=-1) > 0
    was_hot = np.concatenate([[False], ~is_cold[:-1]])[: chain.size]
    was_hot[is_first] = before[chain[is_first]] == FROM_HOT
    has_been_cold = before != NOWHERE
    begins_hot = chain[is_first & ~is_cold & ~has_been_cold[chain]]  # a journey that did not begin at the cold end
    has_been_cold[chain[is_cold]] = True
    n = int(np.sum(is_cold & was_hot)) - int(np.sum(has_been_cold[begins_hot]))
    is_last = np.append(is_first[1:], True)[: chain.size]
    after, ended = before.copy(), chain[is_last]
    after[ended] = np.where(is_cold[is_last], FROM_COLD, np.where(has_been_cold[ended], FROM_HOT, NOWHERE))
    return n, after
