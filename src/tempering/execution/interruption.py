"""Ctrl-C: the first asks a run to end soon, the second ends it at once. SIGTERM ends it once it is written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

TERMINATED = 128 + signal.SIGTERM  # the exit status that shells give a program ended by it


class Interruption:
    """Whether somebody has asked the run to stop."""

    def __init__(self) -> None:
        self.requested = False
        self.by = "Ctrl-C"

    def __call__(self, number: int, frame: Any) -> None:
        """Take note of a signal; the second raises KeyboardInterrupt, or ends the program."""
        is_second, self.requested = self.requested, True
        if number == signal.SIGTERM:
            self.by = "SIGTERM"
        if is_second:
            self.end_program()
            raise KeyboardInterrupt

    def is_requested(self) -> bool:
        """Whether somebody has asked the run to stop."""
        return self.requested

    def end_program(self) -> None:
        """End the program where SIGTERM has asked for it."""
        if self.by == "SIGTERM":
            raise SystemExit(TERMINATED)

    def stop_tuning(self, where: str) -> None:
        """Raise KeyboardInterrupt if asked to stop while there are no draws to return."""
        if self.requested:
            self.end_program()
            raise KeyboardInterrupt(f"Stopped while tuning, before there were draws to return. {where}")


@contextmanager
def listening(*, also_to_terminate: bool = False) -> Iterator[Interruption]:
    """Listen for Ctrl-C, where nobody else does: in the main thread, and unless a handler is there already.

    SIGTERM is heeded where there is a checkpoint to be written; elsewhere it ends a program at once, as ever.
    """
    interruption = Interruption()
    if current_thread() is not main_thread():
        yield interruption
        return
    usual: dict[int, Any] = {signal.SIGINT: signal.default_int_handler}
    if also_to_terminate:
        usual[signal.SIGTERM] = signal.SIG_DFL
    taken = {number: handler for number, handler in usual.items() if signal.getsignal(number) is handler}
    for number in taken:
        signal.signal(number, interruption)
    try:
        yield interruption
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
