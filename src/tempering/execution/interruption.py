"""Ctrl-C: the first asks a run to end soon, the second ends it at once. SIGTERM ends it once it is written.

As long as nobody has looked whether to stop, nothing is under way that could be lost: then the first ends it at once.
And what is computed in the middle of a block counts only once the block is done: it is abandoned at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

from tempering.engines.stopping import TERMINATED, AbandonedBlock


class Interruption:
    """Whether somebody has asked the run to stop."""

    def __init__(self) -> None:
        self.by = "Ctrl-C"
        self._is_requested = self._is_heeded = self._is_ended = self._may_abandon = False

    def __call__(self, number: int, frame: Any) -> None:
        """Take note of a signal; the second raises KeyboardInterrupt, or ends the program."""
        is_second, self._is_requested = self._is_requested, True
        if number == signal.SIGTERM:
            self.by = "SIGTERM"
        if is_second or not self._is_heeded:
            self._is_ended = True
            self.end()
        if self._may_abandon:
            raise AbandonedBlock

    @property
    def requested(self) -> bool:
        """Whether somebody has asked the run to stop."""
        self._is_heeded = True
        return self._is_requested

    def is_requested(self) -> bool:
        """Whether somebody has asked the run to stop."""
        return self.requested

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """End the run at once where somebody asks for it meanwhile."""
        if self.requested:
            self.end()
        self._is_heeded = False
        try:
            yield
        finally:
            self._is_heeded = True

    @contextmanager
    def abandoning(self) -> Iterator[None]:
        """Abandon what is computed meanwhile as soon as somebody asks the run to stop, wherever it is."""
        if self.requested:
            raise AbandonedBlock
        self._may_abandon = True
        try:
            yield
        except Exception as error:  # JAX makes one of its own of what was raised in a function that it called
            if self._is_requested and AbandonedBlock.__name__ in str(error):
                raise AbandonedBlock from None
            raise
        finally:
            self._may_abandon = False

    def end(self) -> None:
        """End the run, and the program where SIGTERM has asked for it."""
        self.end_program()
        raise KeyboardInterrupt

    @contextmanager
    def ending(self) -> Iterator[None]:
        """End where a signal has, whatever others have made of it: JAX makes an error of its own of what it called."""
        try:
            yield
        except Exception:
            if self._is_ended:
                self.end()
            raise

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
        with interruption.ending():
            yield interruption
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
