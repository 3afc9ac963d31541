"""How long the next block is, by the clock: long enough to be worth its while, short enough to stop soon.

Neither draws nor tuning depend on where blocks end, so that the clock changes no bit of a result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tempering.engines.trace import LONG_BLOCK, QUANTUM

BLOCK = 1.0  # seconds, about: half of what a user should wait for an answer to Ctrl-C
LEAST = 0.02  # seconds, where a checkpoint is to be written all the time
LONGEST_SCALAR = 1 << 16  # iterations, where they take next to no time: some megabytes a chain
LONG_RUN = 100_000  # iterations a chain, from which longer blocks pay for their compilation
REPORTS = 50  # blocks a run is cut into, at the least, for the bar


class Pace:
    """Measures blocks and says how long the next one is to be.

    Parameters
    ----------
    is_vector : bool
        The vector engine has programs for 1, 32 and 4096 iterations; the scalar engine runs any number.
    seconds : float
        How long a block should take; less where a checkpoint is to be written more often.
    """

    def __init__(self, is_vector: bool, seconds: float = BLOCK) -> None:
        self.is_vector = is_vector
        self._quantum = QUANTUM if is_vector else 1
        self._target = min(max(seconds, LEAST), BLOCK)
        self._per_iteration = 0.0
        self._last = self._quantum

    def next(self, left: int, most: int | None = None) -> int:
        """Return the iterations of the next block, of so many that are left; vectors may make some more than that.

        Examples
        --------
        >>> pace = Pace(is_vector=False)
        >>> pace.next(100)
        1
        >>> pace.took(1, 0.001), pace.next(100)
        (None, 2)
        >>> pace.took(2, 8.0), pace.next(100)
        (None, 1)
        """
        wanted = self._last if self._per_iteration == 0 else min(2 * self._last, self._target / self._per_iteration)
        if self._per_iteration * self._quantum > 2 * BLOCK:  # so slow that a program of single iterations is worth it
            return max(1, min(left, int(wanted)))
        whole = -(-left // self._quantum) * self._quantum
        n = min(whole, wanted if most is None else min(wanted, most))
        return max(self._quantum, int(n) // self._quantum * self._quantum)

    def took(self, n: int, seconds: float) -> None:
        """Take note of how long a block took."""
        self._last, self._per_iteration = n, max(seconds, 1e-9) / n

    @contextmanager
    def measuring(self, n: int) -> Iterator[None]:
        """Measure a block."""
        started = time.monotonic()
        yield
        self.took(n, time.monotonic() - started)


def longest_block(n: int, *, is_vector: bool) -> int:
    """Return how long a block of a run of ``n`` draws may be: short runs are cut for the bar."""
    if n >= LONG_RUN:
        return LONG_BLOCK if is_vector else LONGEST_SCALAR
    return QUANTUM * max(1, n // (REPORTS * QUANTUM))
