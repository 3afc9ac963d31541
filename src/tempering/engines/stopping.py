"""How an engine is told to stop in the middle of a block: for log densities that take seconds, a block takes too long.

What was computed of the block is dropped; whoever asked for it has the states from before it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from tempering.target.gradients import WithGradient, gradient_of


class AbandonedBlock(BaseException):
    """A block that was not run to its end; no `Exception`, so that no user's function takes it for one of its own."""


IsStopped = Callable[[], bool]
TERMINATED = 128 + signal.SIGTERM  # the exit status that shells give a program ended by it


def is_of_user(error: BaseException) -> bool:
    """Whether a function may have raised it, sys.exit included, rather than a signal."""
    return isinstance(error, Exception) or (isinstance(error, SystemExit) and error.code != TERMINATED)


def never() -> bool:
    """Go on."""
    return False


def watched(function: object, is_stopped: IsStopped) -> Any:
    """Return a function that first looks whether to stop; numbers in the place of functions are left alone."""
    if not callable(function):
        return function

    def of(call: Callable[..., Any]) -> Callable[..., Any]:
        def look_and_call(*arguments: Any) -> Any:
            if is_stopped():
                raise AbandonedBlock
            return call(*arguments)

        return look_and_call

    gradient = gradient_of(function)
    return of(function) if gradient is None else WithGradient(of(function), of(gradient))
