"""Where draws are kept while they are made: in memory, or in a checkpoint, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempering.engines.trace import Trace, joined, shortened
from tempering.errors import CheckpointError, SamplerError
from tempering.execution.blocks import WholeEngine
from tempering.execution.checkpoint import Folder, read_latest, write_latest, writing
from tempering.execution.pickling import pack, unpack
from tempering.execution.sum_keeping import is_of_sums
from tempering.io.run_store import ARRAYS, RunStore, draws_in_chunk, zarr_library
from tempering.io.zarr_store import load, open_draws, rows_of
from tempering.runs.draws import TemperedDraws

STORE = "draws.zarr"

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

    def save(self, states: Any) -> None:  # noqa: B027 - there is nothing to do in memory
        """Write what there is, where it is kept on disk."""

    @contextmanager
    def keeping(self, states: Any) -> Iterator[None]:
        """Hand the draws so far over with an error that stops the run, and write them."""
        try:
            yield
        except SamplerError as error:
            if self.n_done:
                error.draws = self.so_far()
                if not isinstance(error, CheckpointError):
                    self.save(states)
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

    def longer(self, n: int) -> KeptInMemory:
        """Return a keeper of ``n`` draws that has those of this one already, the last block whole."""
        keeper = KeptInMemory(self._as_draws, n)
        keeper._traces, keeper.n_done = list(self._traces), self.n_done
        return keeper

    def so_far(self) -> TemperedDraws:
        """Return the draws there are."""
        return self._as_draws(shortened(joined(self._traces), self._n))

    def finish(self, states: Any) -> TemperedDraws:
        """Return all draws."""
        return self.so_far()


class KeptOnDisk(Keeper):
    """Draws in a checkpoint: whole chunks in a store, the rest beside the states that belong to them."""

    def __init__(self, folder: Folder, engine: WholeEngine, as_draws: AsDraws, n: int) -> None:
        super().__init__(as_draws, n)
        self._folder, self._engine = folder, engine
        self._store: RunStore | None = None
        self._new: list[Trace] = []  # not yet in the store
        self._n_stored = 0
        header, sections = read_latest(folder.path)
        if header is not None:
            self.n_done, self._n_stored = header["n_done"], header["n_stored"]
            folder.seconds_before = header["seconds"]
            self._new = [unpack(sections[1])]
            self.states = engine.unpacked(unpack(sections[2]))

    def add(self, trace: Trace, states: Any) -> None:
        """Keep a block of draws; write if it is time."""
        self._new.append(trace)
        self.n_done += trace.rung.shape[1]
        if self._folder.is_due:
            self.save(states)

    def save(self, states: Any) -> None:
        """Write whole chunks, then the states with what is left: only this makes the chunks count."""
        rest = shortened(joined(self._new), self._n - self._n_stored)
        chunk = draws_in_chunk(rest.rung.shape[0], _width(rest))
        self._open_store(rest, chunk)
        while rest.rung.shape[1] >= chunk:
            self._write_chunk(shortened(rest, chunk))
            rest = _without(rest, chunk)
            self._new = [rest]
        tail = self._as_draws(rest)
        named = {name: getattr(tail, name) for name in ARRAYS} | {"values": dict(tail.values)}
        sections = [pack(named), pack(rest), pack(self._engine.packed(states))]
        write_latest(self._folder, {"n_done": self.n_done, "n_stored": self._n_stored}, sections)
        self._new = [rest]

    def so_far(self) -> TemperedDraws:
        """Return the draws there are, on disk and in memory."""
        rest = self._as_draws(shortened(joined(self._new), self._n - self._n_stored))
        return rest if self._n_stored == 0 else _one_after_the_other(self._stored(), rest)

    def finish(self, states: Any) -> TemperedDraws:
        """Write the last chunk and return the whole run, to be read from the disk when asked for."""
        self.save(states)
        rest = self._new[0]
        assert self._store is not None
        if rest.rung.shape[1]:
            self._write_chunk(rest)
        info = self._as_draws(shortened(rest, 0)).info
        assert info is not None
        with writing(self._folder.path):
            n_iterations = info.n_iterations + self._n
            self._store.finish(replace(info, n_iterations=n_iterations, seconds=self._folder.seconds_spent))
        return load(self._folder.path / STORE)

    def _open_store(self, like: Trace, chunk: int) -> None:
        path = self._folder.path / STORE
        if self._store is None:
            is_there = (path / "zarr.json").is_file()
            with writing(self._folder.path):
                self._store = RunStore(path) if is_there else self._created(path, like, chunk)

    def _created(self, path: Path, like: Trace, chunk: int) -> RunStore:
        return RunStore.create(path, self._as_draws(shortened(like, 1)), self._n, chunk)

    def _write_chunk(self, trace: Trace) -> None:
        assert self._store is not None
        draws = self._as_draws(trace)
        with writing(self._folder.path):
            self._store.write(self._n_stored, draws)
        self._n_stored += trace.rung.shape[1]

    def _stored(self) -> TemperedDraws:
        root = zarr_library().open_group(self._folder.path / STORE, mode="r")
        return open_draws(root, self._n_stored)


def is_finished(path: Path) -> bool:
    """Whether all draws are in the store."""
    store = path / STORE
    return (store / "zarr.json").is_file() and bool(zarr_library().open_group(store, mode="r").attrs["is_whole"])


def load_checkpoint(path: Path) -> TemperedDraws:
    """Open the draws that a checkpoint has so far."""
    if is_of_sums(path):
        raise CheckpointError(
            f"{path} must hold draws to be loaded, but its run keeps sums. Write TemperedSums.load({str(path)!r})."
        )
    if is_finished(path):
        return load(path / STORE)
    header, sections = read_latest(path)
    if header is None:
        raise CheckpointError(
            f"{path} must hold draws to be loaded, but its run has not written any yet. Let it go on, or end it by "
            "Ctrl-C and take what it returns."
        )
    stored = open_draws(zarr_library().open_group(path / STORE, mode="r"), header["n_stored"])
    rest = replace(rows_of(stored, 0, 0), **unpack(sections[0]))
    return _one_after_the_other(stored, rest)


def _one_after_the_other(first: TemperedDraws, second: TemperedDraws) -> TemperedDraws:
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)], axis=1) for name in ARRAYS
    }
    arrays["values"] = {name: np.concatenate([a, second.values[name]], axis=1) for name, a in first.values.items()}
    kept = {field.name: getattr(second, field.name) for field in fields(TemperedDraws) if field.name not in arrays}
    info = second.info and replace(second.info, n_iterations=second.info.n_iterations + first.n_draws)
    return TemperedDraws(**(kept | arrays | {"info": info, "_kept": {}}))


def _width(trace: Trace) -> int:
    """Return how many numbers a draw of the widest array has."""
    arrays = trace.values.values() if isinstance(trace.values, dict) else [trace.values]
    return max(int(np.prod(array.shape[2:])) for array in [*arrays, trace.acceptance])


def _without(trace: Trace, n: int) -> Trace:
    """Leave out the first ``n`` draws of every chain."""
    keep: Any = lambda a: {k: v[:, n:] for k, v in a.items()} if isinstance(a, dict) else a[:, n:]  # noqa: E731
    return Trace(*(keep(part) for part in trace))
