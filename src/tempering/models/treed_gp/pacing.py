"""How many rounds to run before looking up: about a second's worth, so that Ctrl-C and the bar are answered."""

from __future__ import annotations

import time

PIECE = 0.5  # seconds that a piece should take
FIRST = 16  # rounds of the first piece; each further one at most doubles


class Pace:
    """Cut a run into pieces of about half a second. Chains do not depend on where they are cut."""

    def __init__(self, multiple: int = 1) -> None:
        self._multiple = multiple
        self._n = self._round(FIRST)
        self._started = time.perf_counter()
        self._given = 0

    def _round(self, n: float) -> int:
        return self._multiple * max(1, int(n) // self._multiple)

    def next(self, left: int) -> int:
        """Return the rounds of the next piece, when so many are left; the time since the last call says how long."""
        now = time.perf_counter()
        if self._given:
            a_round = max((now - self._started) / self._given, 1e-9)
            self._n = self._round(min(2 * self._n, PIECE / a_round))
        self._started = now
        self._given = min(self._n, left)
        return self._given
