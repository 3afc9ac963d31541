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
        The vector engine has one program for 32 iterations and one for 4096, which may round differently: which of
        them runs must not depend on the clock. The scalar engine runs any number.
    seconds : float
        How long a block should take; less where a checkpoint is to be written more often.
    """

    def __init__(self, is_vector: bool, seconds: float = BLOCK) -> None:
        self.is_vector = is_vector
        self._target = min(max(seconds, LEAST), BLOCK)
        self._per_iteration = 0.0
        self._last = QUANTUM if is_vector else 1

    def next(self, left: int, most: int | None = None, *, is_long: bool = False) -> int:
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
        quantum = (LONG_BLOCK if is_long else QUANTUM) if self.is_vector else 1
        wanted = self._last if self._per_iteration == 0 else min(2 * self._last, self._target / self._per_iteration)
        whole = -(-left // quantum) * quantum
        n = max(quantum, int(min(whole, wanted if most is None else min(wanted, most))) // quantum * quantum)
        if self.is_vector and not is_long and n % LONG_BLOCK == 0:
            n -= QUANTUM  # or the other program would run it
        return n

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
