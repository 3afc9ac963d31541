"""How long the next block is, by the clock: long enough to be worth its while, short enough to stop soon.

Neither draws nor tuning depend on where blocks end, so that the clock changes no bit of a result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tempering.engines.trace import QUANTUM

BLOCK = 1.0  # seconds, about: half of what a user should wait for an answer to Ctrl-C
LEAST = 0.02  # seconds, where a checkpoint is to be written all the time, or a bar moved
KEPT = 0.8  # of what earlier blocks say, at each block
DIFFERENT = 1e-3  # variance of lengths over the square of their mean, from where on they tell
MOST_ASIDE = 0.25  # seconds that a block is believed to take whatever its length
FEW = 3.5  # blocks, as they are weighed: the first five
MOST_GROWTH = 16  # times as long one of them may be as that before it, if it took next to no time
LONGEST = {"vector": 1 << 12, "scalar": 1 << 16}  # iterations, if they take next to no time: some megabytes a chain
LONG_RUN = 100_000  # iterations a chain, of which a bar shows enough anyway
REPORTS = 50  # blocks a run is cut into, at the least, for the bar


class Pace:
    """Measures blocks and says how long the next one is to be.

    A block takes some time whatever its length, and some for every iteration. Where asked to, the former is told from
    the latter by a line through the last blocks; iterations take at least as long as it does, or it would be most of a
    run.

    Parameters
    ----------
    seconds : float
        How long a block should take; less where a checkpoint is to be written more often.
    longest : int
        Iterations of a block at the most, however quick they are.
    is_packed : bool
        Whether a block takes long whatever its length, as where states are packed and unpacked.
    """

    def __init__(self, seconds: float = BLOCK, longest: int = LONGEST["scalar"], *, is_packed: bool = False) -> None:
        self.longest, self._is_packed = longest, is_packed
        self._target = min(max(seconds, LEAST), BLOCK)
        self._aside: float | None = None  # seconds, once known
        self._per_iteration = 0.0
        self._last, self._seconds = 1, 0.0
        self._sums = [0.0] * 5  # of the last blocks: 1, lengths, times, squares of lengths, and products

    def next(self, left: int, most: int | None = None) -> int:
        """Return the iterations of the next block, of so many that are left: one at first, then by the clock.

        ``most`` is meant for blocks that take long enough to be told apart.

        Examples
        --------
        >>> pace = Pace()
        >>> pace.next(100)
        1
        >>> pace.took(1, 0.001), pace.next(100)
        (None, 2)
        >>> pace.took(2, 8.0), pace.next(100)
        (None, 1)
        """
        if most is not None and self._per_iteration:  # nobody needs to see blocks that take less
            most = max(most, int(LEAST / self._per_iteration))
        most = self.longest if most is None else min(most, self.longest)
        is_first = self._is_packed and self._sums[0] < FEW  # a short block tells little of how long an iteration takes
        growth = max(2.0, min(MOST_GROWTH, BLOCK / max(self._seconds, LEAST))) if is_first else 2.0
        wanted = min(growth * self._last, self.wanted, most)
        return min(left, max(1, int(wanted)))

    @property
    def wanted(self) -> float:
        """How many iterations would take as long as a block should, by what is known so far."""
        if self._per_iteration == 0:
            return self._last
        aside = self._aside or 0.0
        wanted = max(self._target - aside, aside) / self._per_iteration
        is_untold = self._is_packed and (self._aside is None or self._last == 1)
        return max(wanted, 2 * self._last) if is_untold and 2 * self._seconds < BLOCK else wanted

    def took(self, n: int, seconds: float) -> None:
        """Take note of how long a block took."""
        self._sums = [
            KEPT * old + new for old, new in zip(self._sums, (1.0, n, seconds, n * n, n * seconds), strict=True)
        ]
        weight, ns, times, squares, products = self._sums
        if self._is_packed and (spread := weight * squares - ns**2) > DIFFERENT * ns**2:
            slope = (weight * products - ns * times) / spread
            self._aside = min((times - min(max(slope, 0.0), times / ns) * ns) / weight, MOST_ASIDE)
        self._last, self._seconds = n, seconds
        self._per_iteration = max(seconds - (self._aside or 0.0), 1e-9) / n

    @contextmanager
    def measuring(self, n: int) -> Iterator[None]:
        """Measure a block."""
        started = time.monotonic()
        yield
        self.took(n, time.monotonic() - started)


def longest_block(n: int) -> int | None:
    """Return how long a block of a run of ``n`` draws may be: short runs are cut for the bar."""
    return None if n >= LONG_RUN else QUANTUM * max(1, n // (REPORTS * QUANTUM))
