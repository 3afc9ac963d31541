"""Answers of a user's functions whose calls take long: what a call has found is not lost with the iteration it is of.

A log density may take a minute, and an iteration of all chains an hour. So what long calls return is kept by the bytes
of what they were called with; a run that goes on from the record before them finds it, and is where it was. Functions
are taken to be pure, as they must be for the same run to the bit.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from tempering.engines.stopping import AbandonedBlock
from tempering.target.gradients import WithGradient, gradient_of

LONG = 1e-3  # seconds of a call that is kept: a thousand times what keeping it costs
KEPT_TYPES = (float, int, bytes, np.generic, np.ndarray)

Known = Mapping[bytes, Any]


class Call(NamedTuple):
    """A call under way: of which function, by what key its answer is kept, and the answer where it is known."""

    name: str
    key: bytes
    known: Any
    started: float


class Answers:
    """Answers from before a kill, and those since.

    Parameters
    ----------
    past : mapping
        Answers by key.
    seconds : float
        How long to go on: the call after that is not made, the block abandoned, and what there is handed over.
    """

    def __init__(self, past: Known | None = None, seconds: float = np.inf) -> None:
        self._past: dict[bytes, Any] = dict(past or {})
        self._new: dict[bytes, Any] = {}
        self._quick: set[str] = set()  # functions whose last call took next to no time
        self.long: set[str] = set()  # and those whose last call took long, or was known
        self._used: set[bytes] = set()
        self._until = time.monotonic() + seconds
        self._lock = RLock()

    @property
    def new(self) -> dict[bytes, Any]:
        """Those that were not known before."""
        with self._lock:
            return dict(self._new)

    def of(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return what a function answers, from memory if it can."""
        if name in self._quick and not self._past:
            started = time.monotonic()
            found = function(*arguments)
            if time.monotonic() - started >= LONG:
                self._quick.discard(name)
            return found
        call = self.begun(name, arguments)
        return self.ended(call, function(*arguments)) if call.known is None else call.known

    def begun(self, name: str, arguments: tuple[Any, ...]) -> Call:
        """Look for an answer before a call is made; abandon the block if it is time to hand over what there is."""
        key = _key(name, arguments)
        known = self._past.get(key)
        if known is not None:
            self._used.add(key)
            self.long.add(name)
        elif self._new and time.monotonic() >= self._until:
            raise AbandonedBlock
        return Call(name, key, deepcopy(known), time.monotonic())

    def ended(self, call: Call, found: Any) -> Any:
        """Take note of an answer, and return it."""
        if time.monotonic() - call.started < LONG:
            self._quick.add(call.name)
            self.long.discard(call.name)
            self._new.pop(call.key, None)  # of a function that was held up by something else before
        else:
            self.long.add(call.name)
            if _can_be_kept(found):
                self.take({call.key: deepcopy(found)})
        return found

    def take(self, found: Known) -> None:
        """Keep answers."""
        with self._lock:
            self._new.update(found)


def _key(name: str, arguments: tuple[Any, ...]) -> bytes:
    known = hashlib.blake2b(name.encode(), digest_size=16)
    for argument in arguments:
        array = np.asarray(argument)
        known.update(f"{array.dtype.str}{array.shape}".encode())
        known.update(np.ascontiguousarray(array).tobytes())
    return known.digest()


def _can_be_kept(found: object) -> bool:
    parts = found if isinstance(found, tuple) else (found,)
    return all(isinstance(part, KEPT_TYPES) for part in parts)


_open: dict[str, Answers] = {}  # by the run whose functions they are of


def answers_of(run: str) -> Answers | None:
    """Return where the answers of a run's functions are kept; None where they are not."""
    return _open.get(run)


@contextmanager
def answering(run: str, answers: Answers) -> Iterator[Answers]:
    """Keep the answers of a run's functions for as long as this lasts."""
    _open[run] = answers
    try:
        yield answers
    finally:
        _open.pop(run, None)


@dataclass(frozen=True)
class Kept:
    """A function of a run whose answers are kept while somebody keeps them."""

    function: Callable[..., Any]
    run: str
    name: str

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function answers."""
        answers = answers_of(self.run)
        return self.function(*arguments) if answers is None else answers.of(self.name, self.function, arguments)


def kept(function: Callable[..., Any], run: str, name: str) -> Any:
    """Return a function of arrays, with its gradient if it has one, whose answers are kept; "" is no run's name."""
    if not run or not callable(function) or isinstance(function, Kept):
        return function
    gradient, value = gradient_of(function), Kept(function, run, name)
    return value if gradient is None else WithGradient(value, Kept(gradient, run, f"gradient of {name}"))
