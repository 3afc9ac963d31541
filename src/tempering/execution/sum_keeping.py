"""A checkpoint of a run in sums: its parts, and what it takes to make one result of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tempering.errors import CheckpointError, DamageError
from tempering.estimators.running.parts import beside, in_a_tree
from tempering.estimators.running.rungs import Quantities, RunningRungs
from tempering.execution.checkpoint import LATEST, Folder, read_identity, read_latest, write_latest
from tempering.execution.sum_blocks import SumBlocks, from_kept, kept
from tempering.io.encoding import Classes, decode, encode
from tempering.recorders.index_sums import IndexSums
from tempering.recorders.sum_runs import Course, Part
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
        _, begun, parts = _decoded(self._folder.path, sections, self._folder.classes)
        return begun, list(parts), header["n_done"]

    @property
    def is_due(self) -> bool:
        """Whether it is time to write again."""
        return self._folder is not None and self._folder.is_due

    def save(self, at: Standing) -> None:
        """Write the parts, where there is a checkpoint."""
        if self._folder is not None:
            header = {"n_done": at.n_done, "is_whole": at.n_done >= at.begun.course.n}
            parts = [kept(part, self._folder.classes) for part in at.blocks.each(at.parts)]
            write_latest(self._folder, header, [encode(self._about), encode(at.begun), *parts])

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
                    self.save(before)
            raise


def together(parts: Iterable[Part], about: Mapping[str, Any], seconds: float) -> TemperedSums:
    """Return the sums of all parts as those of one run."""

    def add(one: Summed, other: Summed) -> Summed:
        return beside(one[0], other[0]), one[1].added(other[1], in_time=False)

    sums, index = in_a_tree((_summed(part) for part in parts), add)
    info = replace(about["info"], n_iterations=about["info"].n_iterations + index.n_iterations, seconds=seconds)
    return TemperedSums(sums=sums, index=index, **(dict(about) | {"info": info}))


Summed = tuple[RunningRungs, IndexSums]


def _summed(part: Part) -> Summed:
    assert part.rungs is not None
    assert part.index is not None
    return part.rungs, part.index


def is_of_sums(path: Path) -> bool:
    """Whether a checkpoint is of a run in sums."""
    identity = read_identity(path)
    return identity is not None and identity.get("keep") == "sums"


def load_sums(path: Path) -> tuple[TemperedSums | None, bool]:
    """Open the sums that a checkpoint has so far, if any, and say whether they are those of the whole run."""
    header, sections = read_latest(path)
    if header is None:
        return None, False
    about, _, parts = _decoded(path, sections, None)
    first = next(parts)
    if first.rungs is None:  # in the middle of its first stretch
        return None, False
    return together(chain([first], parts), about, header["seconds"]), bool(header["is_whole"])


def _decoded(path: Path, sections: Sequence[bytes], classes: Classes | None) -> tuple[Any, Begun, Iterator[Part]]:
    """Return what describes the run, how it was begun, and its parts one by one."""

    def guarded(read: Callable[..., Any], section: bytes, classes: Classes | None) -> Any:
        try:
            return read(section, classes)
        except ValueError as error:
            raise DamageError(path / LATEST, str(error)) from error

    about, begun, *parts = sections
    each = (guarded(from_kept, part, classes) for part in parts)
    return guarded(decode, about, None), guarded(decode, begun, None), each
