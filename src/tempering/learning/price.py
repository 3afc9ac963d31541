"""What an iteration costs in evaluations of the log density, and what is saved where those are dear."""

from __future__ import annotations

from dataclasses import dataclass

from tempering.engines.trace import QUANTUM
from tempering.learning.limits import (
    BLOCKS,
    CALLS_OF_A_SEARCH,
    ENOUGH_TRIPS,
    ENOUGH_TRIPS_IN,
    LEAST_BLOCK,
    SHARE_OF_A_SEARCH,
)


@dataclass(frozen=True)
class Price:
    """What a local move costs, and how much of the time that is.

    Examples
    --------
    >>> dear, cheap = Price(16.0, 0.75), Price(16.0, 0.25)
    >>> [price.block(400) for price in (dear, cheap)], [price.enough_trips(625) for price in (dear, cheap)]
    ([8, 32], [3.0, 24.0])
    >>> [price.most_searched(32_000.0) for price in (dear, cheap)], [price.calls(2) for price in (dear, cheap)]
    ([8250, 22750], [34.0, 34.0])
    """

    calls_of_a_move: float = 1.0  # evaluations that a local move is worth
    dearness: float = 0.0  # the share of an iteration's time that these evaluations take

    @property
    def is_dear(self) -> bool:
        """Whether most of the time is spent in the log density."""
        return self.dearness > 0.5

    def calls(self, n: int, local_every: int = 1) -> float:
        """Return how many evaluations so many iterations of a chain are worth."""
        return n * (1.0 + self.calls_of_a_move / local_every)

    def block(self, n_iterations: int) -> int:
        """Return the length of a pilot's blocks, in a tuning of so many iterations."""
        return min(QUANTUM, max(LEAST_BLOCK, n_iterations // BLOCKS)) if self.is_dear else QUANTUM

    def enough_trips(self, n_iterations: int) -> float:
        """Return the round trips below which such a tuning is gone on with."""
        return ENOUGH_TRIPS * (n_iterations / ENOUGH_TRIPS_IN if self.is_dear else 1.0)

    def most_searched(self, calls: float) -> int:
        """Return how many evaluations a search may take: of a dear density a share of what the last round made."""
        dear = (1.0 - self.dearness) * CALLS_OF_A_SEARCH + self.dearness * SHARE_OF_A_SEARCH * calls
        return int(min(CALLS_OF_A_SEARCH, dear))
