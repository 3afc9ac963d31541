"""Recorders of draws: in memory, or in a checkpoint, chunk by chunk."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempering.engines.trace import Schedule, Trace, by_array, joined, shortened, thinned, trimmed
from tempering.errors import DamageError
from tempering.execution.blocks import WholeEngine
from tempering.execution.journal import JournalEngine
from tempering.execution.pace import longest_block
from tempering.execution.probes import write_probes
from tempering.io.checkpoint import LATEST, STORE, Folder, read_latest, write_latest, writing
from tempering.io.encoding import decode, encode
from tempering.io.records import readable
from tempering.learning.rounds import check_spread
from tempering.runs.draws import TemperedDraws
from tempering.runs.store import ARRAYS, RunStore, draws_in_chunk
from tempering.runs.stored import (
    BEFORE,
    checksums_of,
    load,
    one_after_the_other,
    open_draws,
    open_store,
    without_store,
)

AsDraws = Callable[[Trace], TemperedDraws]


@dataclass(frozen=True, eq=False)
class Chains:
    """Chains with everything frozen: how they go on, and what becomes of their traces."""

    engine: JournalEngine
    schedule: Schedule
    states: Any  # where they are
    as_draws: AsDraws
    is_powered: bool  # then hot rungs may have no density that can be normalised
    every: int = 1  # iterations from one draw that is kept to the next
    is_ragged: bool = False  # whether zeros fill up the rows of a model's records: in memory they are cut


class DrawRecorder(ABC):
    """What both ways of keeping draws have in common."""

    def __init__(self, chains: Chains, n: int) -> None:
        self.n, self.n_done, self.pace = n, 0, chains.engine.pace
        self.chains, self.states = chains, chains.states
        self._engine: WholeEngine = chains.engine.engine
        self._new: list[Trace] = []  # in memory: on disk, what is not yet in the store

    def next(self, left: int) -> int:
        """Return how many iterations the next block has, of so many that are left."""
        return self.pace.next(left, longest_block(self.n))

    def run(self, n: int) -> tuple[Any, Trace]:
        """Run a block; return the states after it, and its draws."""
        states, trace = self._engine.run(self.states, self.chains.schedule, n * self.chains.every)
        return states, thinned(trace, self.chains.every)

    def keep(self, block: tuple[Any, Trace]) -> None:
        """Keep a block of draws, and the states after it."""
        states, trace = block
        if self.chains.is_powered:
            check_spread(trace, self.chains.schedule)
        self.states = states
        self._new.append(trace)
        self.n_done += trace.rung.shape[1]

    @abstractmethod
    def save(self, *, is_between_blocks: bool = True) -> None:
        """Write what there is, where it is kept on disk."""

    @abstractmethod
    def so_far(self) -> TemperedDraws:
        """Return the draws there are."""

    @abstractmethod
    def finish(self) -> TemperedDraws:
        """Return all draws."""

    @abstractmethod
    def longer(self, n: int, folder: Folder | None) -> DrawRecorder:
        """Return a recorder of ``n`` draws that has those of this one already; on disk, in its folder opened again."""

    def _as_draws(self, trace: Trace, n: int) -> TemperedDraws:
        return self.chains.as_draws(shortened(trace, n))


class DrawsInMemory(DrawRecorder):
    """All draws in memory, until the run ends."""

    def keep(self, block: tuple[Any, Trace]) -> None:
        """Keep a block of draws; of rows that zeros fill up, no more than the longest has."""
        super().keep(block)
        if self.chains.is_ragged:
            self._new[-1] = trimmed(self._new[-1])

    def save(self, *, is_between_blocks: bool = True) -> None:
        """Write nothing."""

    def longer(self, n: int, folder: Folder | None) -> DrawsInMemory:
        """Return a recorder of ``n`` draws that goes on from copies of the states, the last block whole."""
        recorder = DrawsInMemory(replace(self.chains, states=self._engine.copied(self.states)), n)
        recorder._new, recorder.n_done = list(self._new), self.n_done
        return recorder

    def so_far(self) -> TemperedDraws:
        """Return the draws there are; what is kept here, to be gone on with, is these same arrays."""
        self._new = [joined(self._new)]
        return self._as_draws(self._new[0], self.n)

    def finish(self) -> TemperedDraws:
        """Return all draws."""
        return self.so_far()


class DrawsOnDisk(DrawRecorder):
    """Draws in a checkpoint: whole chunks in a store, the rest beside the states that belong to them.

    Engines make whole blocks: what they made beyond the draws asked for is kept too, for a run that is gone on with.
    """

    def __init__(self, chains: Chains, n: int, folder: Folder) -> None:
        super().__init__(chains, n)
        self._folder = folder
        self._store: RunStore | None = None
        self._n_stored = 0
        self._before: bytes | None = None  # states that a block under way changes in place
        header, sections = read_latest(folder.path)
        if header is not None:
            with readable(folder.path / LATEST):
                self.n_done, self._n_stored = header["n_done"], header["n_stored"]
                folder.seconds_before = header["seconds"]
                self._new = [decode(sections[1], folder.classes)]
                self.states = self._engine.from_parts(decode(sections[2], folder.classes))
                checksums = checksums_of(sections)
            self._open_store(checksums)

    def longer(self, n: int, folder: Folder | None) -> DrawsOnDisk:
        """Return a recorder of ``n`` draws that has those of the folder already."""
        assert folder is not None
        return DrawsOnDisk(self.chains, n, folder)

    def run(self, n: int) -> tuple[Any, Trace]:
        """Run a block; remember where it began if states are changed in place, as the scalar engine's are."""
        self._before = self._encoded(self.states) if self._engine.changes_in_place(self.states) else None
        return super().run(n)

    def keep(self, block: tuple[Any, Trace]) -> None:
        """Keep a block of draws; write if it is time."""
        super().keep(block)
        self._before = None
        if self._folder.is_due:
            self.save()

    def save(self, *, is_between_blocks: bool = True) -> None:
        """Write what there is; between blocks, answers of calls that led there need not be kept any more."""
        if self._new:
            self._save(self._encoded(self.states) if self._before is None else self._before)
            if is_between_blocks:
                self._folder.pass_answers()

    def _encoded(self, states: Any) -> bytes:
        return encode(self._engine.parts(states), self._folder.classes)

    def _save(self, states: bytes) -> None:
        """Write whole chunks, then the states with what is left: only this makes the chunks count."""
        rest = joined(self._new)
        if self._store is None:
            self._open_store()
        chunk = self._chunk(rest)
        while min(rest.rung.shape[1], self.n - self._n_stored) >= chunk:
            self._write_chunk(self._as_draws(rest, chunk))
            rest = by_array(lambda a: a[:, chunk:], rest)
            self._new = [rest]
        assert self._store is not None
        tail = self._wanted(rest)
        named = {name: getattr(tail, name) for name in ARRAYS} | {"values": dict(tail.values)}
        sections = [encode(named), encode(rest), states, encode(self._store.checksums[: self._n_stored // chunk])]
        write_probes(self._folder, rest)
        write_latest(self._folder, {"n_done": self.n_done, "n_stored": self._n_stored}, sections)
        self._new = [rest]

    def so_far(self) -> TemperedDraws:
        """Return the draws there are, on disk and in memory."""
        rest = self._wanted(joined(self._new))
        if self._n_stored == 0:
            return rest
        assert self._store is not None
        return one_after_the_other(open_draws(self._store, self._n_stored), rest)

    def finish(self) -> TemperedDraws:
        """Write the last chunk and return the whole run, to be read from the disk when asked for."""
        self.save()
        rest, n_stored = self._wanted(self._new[0]), self._n_stored
        assert self._store is not None
        if rest.n_draws:
            self._write_chunk(rest)
            self._n_stored = n_stored  # a chunk that is not full does not count: it will be written again
        info = self._as_draws(self._new[0], 0).info
        assert info is not None
        with writing(self._folder.path):
            n, n_invalid = info.n_iterations + self.n, self._engine.n_invalid(self.states)
            self._store.finish(replace(info, n_iterations=n, seconds=self._folder.seconds_spent, n_invalid=n_invalid))
            shutil.rmtree(self._set_aside, ignore_errors=True)
        return load(self._folder.path / STORE)

    def _wanted(self, rest: Trace) -> TemperedDraws:
        """Leave out what was made beyond the draws asked for."""
        return self._as_draws(rest, self.n - self._n_stored)

    def _chunk(self, rest: Trace) -> int:
        if self._n_stored:
            assert self._store is not None
            return self._store.chunk
        return draws_in_chunk(rest.rung.shape[0], _width(rest))

    @property
    def _set_aside(self) -> Path:
        return self._folder.path / (STORE + BEFORE)

    def _open_store(self, checksums: Any = None) -> None:
        """Open the store, or make it where no draw has been stored yet; one with too little room is given more."""
        path = self._folder.path / STORE
        with writing(self._folder.path):
            if path.is_dir():
                store = open_store(self._folder.path, "r+")
                store.check_chunks(self._n_stored, checksums)
                if store.n_draws < self.n and self._n_stored == 0:  # its few draws are all in the last record
                    shutil.rmtree(self._set_aside, ignore_errors=True)
                    path.rename(self._set_aside)
                elif store.n_draws < self.n:
                    store.reopen(self.n)
                    self._store = store
                else:
                    self._store = store
            elif self._n_stored:
                raise DamageError(path, "it is missing", without_store(self._folder.path, self._n_stored))
            if self._store is None:
                like = joined(self._new)
                self._store = RunStore.create(path, self._as_draws(like, 1), self.n, self._chunk(like), self._folder.id)

    def _write_chunk(self, draws: TemperedDraws) -> None:
        assert self._store is not None
        with writing(self._folder.path):
            self._store.write(self._n_stored, draws)
        self._n_stored += draws.n_draws


def _width(trace: Trace) -> int:
    """Return how many numbers a draw of the widest array has."""
    arrays = trace.values.values() if isinstance(trace.values, dict) else [trace.values]
    return max(int(np.prod(array.shape[2:])) for array in [*arrays, trace.acceptance])
