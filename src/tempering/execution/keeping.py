"""Where draws are kept while they are made: in memory, or in a checkpoint, chunk by chunk."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempering.engines.trace import Trace, joined, shortened
from tempering.errors import CheckpointError, DamageError
from tempering.execution.blocks import WholeEngine
from tempering.execution.probes import write_probes
from tempering.io.checkpoint import LATEST, STORE, Folder, read_latest, write_latest, writing
from tempering.io.encoding import decode, encode
from tempering.io.records import readable
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


class Keeper(ABC):
    """What both ways of keeping draws have in common."""

    def __init__(self, as_draws: AsDraws, n: int) -> None:
        self._as_draws, self._n = as_draws, n
        self.n_done = 0
        self.states: Any = None  # to go on from; None: those at the end of tuning

    @abstractmethod
    def add(self, trace: Trace, states: Any) -> None:
        """Keep a block of draws, and the states after it."""

    @abstractmethod
    def so_far(self) -> TemperedDraws:
        """Return the draws there are."""

    @abstractmethod
    def finish(self, states: Any) -> TemperedDraws:
        """Return all draws."""

    @abstractmethod
    def longer(self, n: int, folder: Folder | None) -> Keeper:
        """Return a keeper of ``n`` draws that has those of this one already; on disk, in its folder opened again."""

    def save(self, states: Any) -> None:  # noqa: B027 - there is nothing to do in memory
        """Write what there is, where it is kept on disk."""

    def frozen(self, states: Any) -> Any:
        """Return states as they are now, however they are changed in place, where they may have to be written."""
        return None

    def save_frozen(self, frozen: Any) -> None:  # noqa: B027 - there is nothing to do in memory
        """Write what there is, with states as they were."""

    @contextmanager
    def keeping(self, states: Any, frozen: Any = None) -> Iterator[None]:
        """Hand the draws so far over with an error that stops the run, whatever its class, and write them."""
        before = self.frozen(states) if frozen is None else frozen
        try:
            yield
        except Exception as error:
            if self.n_done:
                error.draws = self.so_far()  # type: ignore[attr-defined]
                if not isinstance(error, CheckpointError):
                    self.save_frozen(before)
            raise


class KeptInMemory(Keeper):
    """All draws in memory, until the run ends."""

    def __init__(self, as_draws: AsDraws, n: int) -> None:
        super().__init__(as_draws, n)
        self._traces: list[Trace] = []

    def add(self, trace: Trace, states: Any) -> None:
        """Keep a block of draws."""
        self._traces.append(trace)
        self.n_done += trace.rung.shape[1]

    def longer(self, n: int, folder: Folder | None) -> KeptInMemory:
        """Return a keeper of ``n`` draws that has those of this one already, the last block whole."""
        keeper = KeptInMemory(self._as_draws, n)
        keeper._traces, keeper.n_done = list(self._traces), self.n_done
        return keeper

    def so_far(self) -> TemperedDraws:
        """Return the draws there are."""
        if not self._traces:
            raise KeyboardInterrupt("Stopped before there were draws to return.")
        return self._as_draws(shortened(joined(self._traces), self._n))

    def finish(self, states: Any) -> TemperedDraws:
        """Return all draws."""
        return self.so_far()


class KeptOnDisk(Keeper):
    """Draws in a checkpoint: whole chunks in a store, the rest beside the states that belong to them.

    Engines make whole blocks: what they made beyond the draws asked for is kept too, for a run that is gone on with.
    """

    def __init__(self, folder: Folder, engine: WholeEngine, as_draws: AsDraws, n: int) -> None:
        super().__init__(as_draws, n)
        self._folder, self._engine = folder, engine
        self._store: RunStore | None = None
        self._new: list[Trace] = []  # not yet in the store
        self._n_stored = 0
        header, sections = read_latest(folder.path)
        if header is not None:
            with readable(folder.path / LATEST):
                self.n_done, self._n_stored = header["n_done"], header["n_stored"]
                folder.seconds_before = header["seconds"]
                self._new = [decode(sections[1], folder.classes)]
                self.states = engine.from_parts(decode(sections[2], folder.classes))
                checksums = checksums_of(sections)
            self._open_store(checksums)

    def longer(self, n: int, folder: Folder | None) -> KeptOnDisk:
        """Return a keeper of ``n`` draws that has those of the folder already."""
        assert folder is not None
        return KeptOnDisk(folder, self._engine, self._as_draws, n)

    def add(self, trace: Trace, states: Any) -> None:
        """Keep a block of draws; write if it is time."""
        self._new.append(trace)
        self.n_done += trace.rung.shape[1]
        if self._folder.is_due:
            self.save(states)

    def frozen(self, states: Any) -> Any:
        """Return states as they are now; those of other engines than the scalar one never change."""
        return self._encoded(states) if isinstance(states, list) and not _are_bytes(states) else states

    def save_frozen(self, frozen: Any) -> None:
        """Write what there is, with states as they were."""
        self._save(frozen if isinstance(frozen, bytes) else self._encoded(frozen))

    def save(self, states: Any) -> None:
        """Write what there is; the answers of calls that led there need not be kept any more."""
        if self._new:
            self._save(self._encoded(states))
            self._folder.pass_answers()

    def _encoded(self, states: Any) -> bytes:
        return encode(self._engine.parts(states), self._folder.classes)

    def _save(self, states: bytes) -> None:
        """Write whole chunks, then the states with what is left: only this makes the chunks count."""
        if not self._new:
            return
        rest = joined(self._new)
        if self._store is None:
            self._open_store()
        chunk = self._chunk(rest)
        while min(rest.rung.shape[1], self._n - self._n_stored) >= chunk:
            self._write_chunk(shortened(rest, chunk))
            rest = _without(rest, chunk)
            self._new = [rest]
        assert self._store is not None
        tail = self._as_draws(self._wanted(rest))
        named = {name: getattr(tail, name) for name in ARRAYS} | {"values": dict(tail.values)}
        sections = [encode(named), encode(rest), states, encode(self._store.checksums[: self._n_stored // chunk])]
        write_probes(self._folder, rest)
        write_latest(self._folder, {"n_done": self.n_done, "n_stored": self._n_stored}, sections)
        self._new = [rest]

    def so_far(self) -> TemperedDraws:
        """Return the draws there are, on disk and in memory."""
        if not self._new:
            raise KeyboardInterrupt("Stopped before there were draws to return.")
        rest = self._as_draws(self._wanted(joined(self._new)))
        if self._n_stored == 0:
            return rest
        assert self._store is not None
        return one_after_the_other(open_draws(self._store, self._n_stored), rest)

    def finish(self, states: Any) -> TemperedDraws:
        """Write the last chunk and return the whole run, to be read from the disk when asked for."""
        self.save(states)
        rest, n_stored = self._wanted(self._new[0]), self._n_stored
        assert self._store is not None
        if rest.rung.shape[1]:
            self._write_chunk(rest)
            self._n_stored = n_stored  # a chunk that is not full does not count: it will be written again
        info = self._as_draws(shortened(rest, 0)).info
        assert info is not None
        with writing(self._folder.path):
            n, n_invalid = info.n_iterations + self._n, self._engine.n_invalid(states)
            self._store.finish(replace(info, n_iterations=n, seconds=self._folder.seconds_spent, n_invalid=n_invalid))
            shutil.rmtree(self._set_aside, ignore_errors=True)
        return load(self._folder.path / STORE)

    def _wanted(self, rest: Trace) -> Trace:
        """Leave out what was made beyond the draws asked for."""
        return shortened(rest, self._n - self._n_stored)

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
                if store.n_draws < self._n and self._n_stored == 0:  # its few draws are all in the last record
                    shutil.rmtree(self._set_aside, ignore_errors=True)
                    path.rename(self._set_aside)
                elif store.n_draws < self._n:
                    store.reopen(self._n)
                    self._store = store
                else:
                    self._store = store
            elif self._n_stored:
                raise DamageError(path, "it is missing", without_store(self._folder.path, self._n_stored))
            if self._store is None:
                like = joined(self._new)
                self._store = RunStore.create(
                    path, self._as_draws(shortened(like, 1)), self._n, self._chunk(like), self._folder.id
                )

    def _write_chunk(self, trace: Trace) -> None:
        assert self._store is not None
        draws = self._as_draws(trace)
        with writing(self._folder.path):
            self._store.write(self._n_stored, draws)
        self._n_stored += trace.rung.shape[1]


def _are_bytes(states: list[Any]) -> bool:
    return bool(states) and isinstance(states[0], bytes)


def _width(trace: Trace) -> int:
    """Return how many numbers a draw of the widest array has."""
    arrays = trace.values.values() if isinstance(trace.values, dict) else [trace.values]
    return max(int(np.prod(array.shape[2:])) for array in [*arrays, trace.acceptance])


def _without(trace: Trace, n: int) -> Trace:
    """Leave out the first ``n`` draws of every chain."""
    keep: Any = lambda a: {k: v[:, n:] for k, v in a.items()} if isinstance(a, dict) else a[:, n:]  # noqa: E731
    return Trace(*(keep(part) for part in trace))
