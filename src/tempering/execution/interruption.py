"""Ctrl-C: the first asks a run to end at its next block, the second ends it at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


class Interruption:
    """Whether somebody has asked the run to stop."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, number: int, frame: Any) -> None:
        """Take note of a signal; the second raises KeyboardInterrupt."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def stop_tuning(self, where: str) -> None:
        """Raise KeyboardInterrupt if asked to stop while there are no draws to return."""
        if self.requested:
            raise KeyboardInterrupt(f"Stopped while tuning, before there were draws to return. {where}")


@contextmanager
def listening() -> Iterator[Interruption]:
    """Listen for Ctrl-C, where nobody else does: in the main thread, and unless a handler is there already."""
    interruption = Interruption()
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interruption
        return
    signal.signal(signal.SIGINT, interruption)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
