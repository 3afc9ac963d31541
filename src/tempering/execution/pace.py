"""How long the next block is, by the clock: long enough to be worth its while, short enough to stop soon.

Neither draws nor tuning depend on where blocks end, so that the clock changes no bit of a result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tempering.engines.trace import QUANTUM

BLOCK = 1.0  # seconds, about: half of what a user should wait for an answer to Ctrl-C
LEAST = 0.02  # seconds, where a checkpoint is to be written all the time
MOST_ASIDE = 0.25  # seconds that a block is believed to take whatever its length
LONGEST = {"vector": 1 << 12, "scalar": 1 << 16}  # iterations, if they take next to no time: some megabytes a chain
LONG_RUN = 100_000  # iterations a chain, of which a bar shows enough anyway
REPORTS = 50  # blocks a run is cut into, at the least, for the bar


class Pace:
    """Measures blocks and says how long the next one is to be.

    A block takes some time whatever its length, and some for every iteration. The former is told from the latter where
    two blocks in a row differ in length; iterations take at least as long as it does, or it would be most of a run.

    Parameters
    ----------
    seconds : float
        How long a block should take; less where a checkpoint is to be written more often.
    longest : int
        Iterations of a block at the most, however quick they are.
    multiple : int
        Blocks are of a multiple of so many iterations, but for the last.
    """

    def __init__(self, seconds: float = BLOCK, longest: int = LONGEST["scalar"], multiple: int = 1) -> None:
        self.longest, self._multiple = longest, multiple
        self._target = min(max(seconds, LEAST), BLOCK)
        self._aside: float | None = None  # seconds, once known
        self._per_iteration = 0.0
        self._last, self._seconds = multiple, 0.0

    def next(self, left: int, most: int | None = None) -> int:
        """Return the iterations of the next block, of so many that are left: one at first, then by the clock.

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
        most = self.longest if most is None else min(most, self.longest)
        wanted = min(2 * self._last, self.wanted, most)
        return min(left, self._multiple * max(1, int(wanted / self._multiple)))

    @property
    def wanted(self) -> float:
        """How many iterations would take as long as a block should, by what is known so far."""
        if self._per_iteration == 0:
            return self._last
        aside = self._aside or 0.0
        wanted = max(self._target - aside, aside) / self._per_iteration
        is_quick = self._aside is None and 2 * self._seconds < BLOCK
        return max(wanted, 2 * self._last) if is_quick else wanted  # another length, to tell them apart

    def took(self, n: int, seconds: float) -> None:
        """Take note of how long a block took."""
        if self._per_iteration > 0 and n != self._last:
            slope = (seconds - self._seconds) / (n - self._last)
            self._aside = min(seconds - n * min(max(slope, 0.0), seconds / n), MOST_ASIDE)
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
