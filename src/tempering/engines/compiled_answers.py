"""Compiled functions that take long, called from compiled loops: looked at before and after each call.

The function stays as it was compiled, so that no bit changes; going through Python on the way costs some microseconds,
and is for calls that take thousands of times as long. Meanwhile a run that is to stop need not wait for an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.engines.answers import answers_of
from tempering.engines.stopping import AbandonedBlock, IsStopped


class _Looks:
    """What is done before a call, and after it."""

    def __init__(self, run: str, name: str, is_stopped: IsStopped) -> None:
        self._run, self._name, self._is_stopped = run, name, is_stopped
        self._here = local()  # compiled chains run on threads

    def begin(self, x: NDArray[np.float64]) -> tuple[bool, float]:
        """Return whether the answer is known, and the answer."""
        if self._is_stopped():
            raise AbandonedBlock
        answers = answers_of(self._run)
        call = None if answers is None else answers.begun(self._name, (x,))
        self._here.answers, self._here.call = answers, call
        return (False, 0.0) if call is None or call.known is None else (True, float(call.known))

    def end(self, value: float) -> None:
        """Take note of an answer."""
        if self._here.call is not None:
            self._here.answers.ended(self._here.call, value)


_looks: list[_Looks] = []  # by number: Numba writes down what compiled code refers to


def begin(number: int, x: NDArray[np.float64]) -> tuple[bool, float]:
    """Look at a call that is about to be made."""
    return _looks[number].begin(x)


def end(number: int, value: float) -> None:
    """Look at a call that has been made."""
    _looks[number].end(value)


def _watched(x: NDArray[np.float64]) -> Any:
    with objmode(is_known="boolean", value="float64"):  # type: ignore[name-defined] # noqa: F821
        is_known, value = begin(number, x)  # type: ignore[name-defined] # noqa: F821
    if is_known:
        return value
    value = original(x)  # type: ignore[name-defined] # noqa: F821
    with objmode():  # type: ignore[name-defined] # noqa: F821
        end(number, value)  # type: ignore[name-defined] # noqa: F821
    return value


def looked_at(function: Callable[..., Any], run: str, name: str, is_stopped: IsStopped) -> Any:
    """Return a compiled function of a vector that does the same, and is looked at."""
    import numba

    _looks.append(_Looks(run, name, is_stopped))
    scope = {"objmode": numba.objmode, "begin": begin, "end": end, "original": function, "number": len(_looks) - 1}
    copy = FunctionType(_watched.__code__, scope, name)
    return numba.njit(numba.float64(numba.float64[::1]))(copy)
