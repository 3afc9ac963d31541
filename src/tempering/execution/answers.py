"""Answers of long calls in a checkpoint: they are written at the interval asked for, in the middle of an iteration.

Without them a record would have to wait until all chains have made the same step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tempering.engines.answers import Answers, Known, answering
from tempering.engines.stopping import AbandonedBlock
from tempering.errors import DamageError
from tempering.io.checkpoint import ANSWERS, Folder, read_part
from tempering.io.encoding import decode, encode
from tempering.io.records import readable


class AnswersOnDisk(Answers):
    """Answers since the last record of a run, beside it.

    Parameters
    ----------
    folder : Folder
        Of the run, which it is known to be of.
    """

    def __init__(self, folder: Folder) -> None:
        super().__init__(_read(folder))
        self._folder: Folder | None = folder
        self._n_written = 0
        self._held: Known = {}
        self._kept = answering(folder.id, self)
        self._kept.__enter__()

    @property
    def is_open(self) -> bool:
        """Whether anything is kept, still."""
        return self._folder is not None

    def asked(self, known: Known) -> Asked:
        """Return what a worker is to know, beside the answers that it had before."""
        assert self._folder is not None
        return Asked(self._folder.id, {**self._past, **known}, self._folder.seconds_left)

    def take(self, found: Known) -> None:
        """Keep answers; write them if it is time."""
        with self._lock:
            super().take(found)
            if self._folder is not None and self._folder.seconds_left <= 0:
                self.write()

    def write(self) -> None:
        """Write what is new."""
        with self._lock:
            if self._folder is not None and len(self._new) > self._n_written:
                known = {**self._held, **self._past, **self._new}
                self._folder.write_answers([encode(b"".join(known)), encode(list(known.values()))])
                self._n_written = len(self._new)

    def hold(self) -> None:
        """Never forget what is known now: chains that go on are started, too, before they are put where they were."""
        with self._lock:
            self._held = {key: self._past[key] for key in self._used} | self._new

    def clear(self) -> None:
        """Forget what comes before a record that has been written."""
        with self._lock:
            self._past, self._new, self._used = {}, {}, set()
            self._n_written = 0
            if self._folder is not None and not self._held:
                with suppress(OSError):  # old ones do no harm
                    (self._folder.path / ANSWERS).unlink(missing_ok=True)

    def close(self) -> None:
        """Write what is new, and nothing more: calls that nobody waits for may still go on elsewhere."""
        with self._lock:
            self._kept.__exit__(None, None, None)
            try:
                self.write()
            finally:
                self._folder = None


class Asked(NamedTuple):
    """What a worker is told of a run's answers: those that are known, and after how long to hand over its own."""

    run: str
    past: Known
    seconds: float


class Answered(NamedTuple):
    """What a worker hands over: what it has done, if it has come to its end, and the answers of long calls."""

    result: Any
    answers: Known
    is_done: bool = True


def answered(asked: Asked, function: Callable[..., Any], *arguments: Any) -> Answered:
    """Do a worker's work, or as much of it as there is time for."""
    with answering(asked.run, Answers(asked.past, asked.seconds)) as answers:
        try:
            return Answered(function(*arguments), answers.new)
        except (AbandonedBlock, Exception) as error:
            if answers.new and (isinstance(error, AbandonedBlock) or AbandonedBlock.__name__ in str(error)):
                return Answered(None, answers.new, is_done=False)
            raise


LENGTH = 16  # bytes of a key


def _read(folder: Folder) -> Known:
    file = folder.path / ANSWERS
    if not file.is_file():
        return {}
    try:
        with readable(file):
            keys, found = (decode(section) for section in read_part(file, ANSWERS, folder.id)[1])
            each = [keys[i : i + LENGTH] for i in range(0, len(keys), LENGTH)]
            return dict(zip(each, found, strict=True))
    except DamageError as error:
        warnings.warn(f"{error} Calls of the iteration under way are made again.", stacklevel=4)
        return {}
