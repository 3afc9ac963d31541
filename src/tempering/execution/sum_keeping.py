"""A checkpoint of a run in sums: its parts, and what it takes to make one result of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tempering.errors import CheckpointError
from tempering.estimators.running.rungs import Quantities
from tempering.execution.sum_blocks import SumBlocks
from tempering.io.checkpoint import Folder, decoded, read_latest, write_latest
from tempering.io.encoding import encode
from tempering.recorders.sum_runs import Course, Part
from tempering.runs.stored_sums import from_kept, kept, together
from tempering.runs.sums import TemperedSums


@dataclass(frozen=True, eq=False)
class Begun:
    """How a run in sums was cut, and where."""

    sizes: tuple[int, ...]  # chains, or ensembles, of each part
    course: Course
    quantities: Quantities


@dataclass(frozen=True, eq=False)
class Standing:
    """How far a run in sums has come."""

    blocks: SumBlocks
    begun: Begun
    parts: Sequence[Any]  # as the blocks hold them
    n_done: int  # iterations of each chain

    def advanced(self, n_stretches: float) -> Standing:
        """Go on by so many stretches, to the end of the last, or by a fraction of one."""
        length = self.begun.course.length
        ahead = max(1, int(n_stretches * length))
        if n_stretches >= 1:
            ahead -= (self.n_done + ahead) % length
        parts, n_done = self.blocks.advance(self.parts, ahead)
        return replace(self, parts=parts, n_done=n_done)


class SumKeeper:
    """Where sums are kept while a run goes on: in a checkpoint, or nowhere but in memory.

    Parameters
    ----------
    folder : Folder or None
    about : mapping
        Fields of the result that no sum is in.
    started : float
        When the run began, by `time.perf_counter`.
    """

    def __init__(self, folder: Folder | None, about: Mapping[str, Any], started: float) -> None:
        self._folder, self._about, self._started = folder, dict(about), started

    def read(self) -> tuple[Begun, list[Part], int] | None:
        """Return how the run was begun, its parts, and how far they have come, where it was begun before."""
        header, sections = (None, []) if self._folder is None else read_latest(self._folder.path)
        if header is None:
            return None
        assert self._folder is not None
        self._folder.seconds_before = header["seconds"]
        path, (_, begun, *parts) = self._folder.path, sections
        found = [decoded(path, part, self._folder.classes, from_kept) for part in parts]
        return decoded(path, begun), found, header["n_done"]

    @property
    def is_due(self) -> bool:
        """Whether it is time to write again."""
        return self._folder is not None and self._folder.is_due

    def save(self, at: Standing, *, is_between_turns: bool = True) -> None:
        """Write the parts, where there is a checkpoint."""
        if self._folder is not None:
            header = {"n_done": at.n_done, "is_whole": at.n_done >= at.begun.course.n}
            parts = [kept(part, self._folder.classes) for part in at.blocks.each(at.parts)]
            write_latest(self._folder, header, [encode(self._about), encode(at.begun), *parts])
            if is_between_turns:
                self._folder.pass_answers()

    def result(self, at: Standing) -> TemperedSums:
        """Put all parts together."""
        seconds = time.perf_counter() - self._started if self._folder is None else self._folder.seconds_spent
        return together(at.blocks.closed(at.parts), self._about, seconds)

    @contextmanager
    def keeping(self, before: Standing) -> Iterator[None]:
        """Hand the sums so far over with an error that stops the run, whatever its class, and write them."""
        try:
            yield
        except Exception as error:
            if before.n_done:
                error.draws = self.result(before)  # type: ignore[attr-defined]
                if not isinstance(error, CheckpointError):
                    self.save(before, is_between_turns=False)
            raise
