"""The recorder of sums: the parts of a run, in memory or in a checkpoint, and what makes one result of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tempering.execution.pace import BLOCK, Pace
from tempering.execution.sum_blocks import SumBlocks
from tempering.io.checkpoint import Folder, decoded, read_latest, write_latest
from tempering.io.encoding import encode
from tempering.recorders.sum_runs import Part, SumPlan
from tempering.runs.stored_sums import from_kept, kept, together
from tempering.runs.sums import TemperedSums


class Parts(NamedTuple):
    """The parts of a run, and how far they have come."""

    plan: SumPlan
    parts: Sequence[Part]
    n_done: int = 0  # iterations of each chain


def read_parts(folder: Folder | None) -> Parts | None:
    """Return the parts of a run that was begun before, from its checkpoint."""
    header, sections = (None, []) if folder is None else read_latest(folder.path)
    if folder is None or header is None:
        return None
    folder.seconds_before = header["seconds"]
    _, plan, *parts = sections
    found = [decoded(folder.path, part, folder.classes, from_kept) for part in parts]
    return Parts(decoded(folder.path, plan), found, header["n_done"])


class SumRecorder:
    """Sums while a run goes on: in a checkpoint, or nowhere but in memory.

    Blocks of iterations end where a stretch does, if they are long enough. How long they are changes no bit.

    Parameters
    ----------
    folder : Folder or None
    blocks : SumBlocks
    at : Parts
    about : mapping
        Fields of the result that no sum is in.
    started : float
        When the run began, by `time.perf_counter`.
    """

    def __init__(
        self, folder: Folder | None, blocks: SumBlocks, at: Parts, about: Mapping[str, Any], started: float
    ) -> None:
        self.n, self.length, self.n_done = at.plan.n, at.plan.length, at.n_done
        self.pace = Pace(BLOCK if folder is None else folder.seconds, self.n, is_packed=True)
        self._folder, self._blocks, self._about, self._started = folder, blocks, dict(about), started
        self._plan, self._parts = at.plan, blocks.taken(at.parts)

    def next(self, left: int) -> int:
        """Return how many iterations the next block has, of so many that are left."""
        n = self.pace.next(left)
        return n if n < self.length or n == left else n - (self.n_done + n) % self.length

    def run(self, n: int) -> tuple[list[Any], int]:
        """Go on with every part; return the parts after it, and how many iterations they have made."""
        return self._blocks.advance(self._parts, n)

    def keep(self, block: tuple[list[Any], int]) -> None:
        """Take the parts after a block for those of the run; write them if it is time."""
        self._parts, self.n_done = block
        if self._folder is not None and self._folder.is_due and self.n_done < self.n:
            self.save()

    def save(self, *, is_between_blocks: bool = True) -> None:
        """Write the parts, where there is a checkpoint."""
        if self._folder is not None:
            header = {"n_done": self.n_done, "is_whole": self.n_done >= self.n}
            parts = [kept(part, self._folder.classes) for part in self._blocks.each(self._parts)]
            write_latest(self._folder, header, [encode(self._about), encode(self._plan), *parts])
            if is_between_blocks:
                self._folder.pass_answers()

    def so_far(self) -> TemperedSums:
        """Put all parts together."""
        seconds = time.perf_counter() - self._started if self._folder is None else self._folder.seconds_spent
        return together(self._blocks.closed(self._parts), self._about, seconds)

    def finish(self) -> TemperedSums:
        """Write the parts for the last time, and put them together."""
        self.save()
        return self.so_far()
