"""Runs on disk: saved chunk by chunk, and read when they are asked for.

Writing goes to a folder beside and is renamed when whole. Loading reads what describes a run; each array is read, and
its checksums looked at, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import CheckpointError, DamageError, EstimatorError, InputError
from tempering.io.checkpoint import (
    LATEST,
    RUN,
    STORE,
    id_of,
    is_checkpoint,
    is_of_sums,
    read_identity,
    read_latest,
    writing,
)
from tempering.io.durable_files import PARTIAL, clear, sync_folder
from tempering.io.encoding import decode
from tempering.io.records import readable
from tempering.recorders.quantities import evaluated
from tempering.runs.draws import TemperedDraws
from tempering.runs.store import ABOUT, ARRAYS, RunStore, check_format, is_store, zarr_library

BEFORE = ".before"
LARGE = 2**31  # bytes of values, from which expectations are made piece by piece
PIECE = 2**27  # bytes of values, about, in memory at a time


def save(draws: TemperedDraws, path: str | Path, run: str = "") -> None:
    """Write a run; a run that is there already is replaced, anything else is not.

    Parameters
    ----------
    draws : TemperedDraws
        One that was loaded is copied chunk by chunk, and never in memory as a whole.
    path : path
        A folder, by custom named ``*.zarr``.
    run : str
        The checkpoint's whose draws they are, if it is one's.
    """
    zarr_library()
    target = place_of(path)
    if target.exists() and not is_store(target):
        raise InputError(
            f"{target} must be new or a run written before, but it is something else. Choose another name."
        )
    partial, before = (target.with_name(target.name + end) for end in (PARTIAL, BEFORE))
    for leftover in (partial, partial.with_name(partial.name + PARTIAL)):
        clear(leftover)
    try:
        store = RunStore.create(partial, _piece(draws, 0, 1), draws.n_draws, run=run)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Choose another place.") from error
    for first in range(0, draws.n_draws, store.chunk):
        store.write(first, _piece(draws, first, first + store.chunk))
    store.finish()
    if target.exists():  # at no moment is neither of them there, whole
        clear(before)
        target.rename(before)
    partial.rename(target)
    sync_folder(target.parent)
    clear(before)


def place_of(path: Any) -> Path:
    """Return a path as one, if it is."""
    if not isinstance(path, str | PathLike):
        raise InputError(f"A path must be text or a Path, but got {type(path).__name__}. Write for example 'run.zarr'.")
    return Path(path)


def load(path: str | Path) -> TemperedDraws:
    """Open a run that `save` wrote, or what a checkpoint has so far.

    Only what describes the run is read; every array (the values by name, energies, rungs) is read from the disk when
    it is first asked for. Reading runs no code that a file brings.
    """
    zarr_library()
    folder = place_of(path)
    with readable(folder):
        return load_checkpoint(folder) if is_checkpoint(folder) else _load_saved(folder)


def _load_saved(folder: Path) -> TemperedDraws:
    if not is_store(folder):
        raise InputError(f"{folder} must be a run written by save, but there is none.{_hint(folder)} Check the path.")
    check_format(folder)
    store = RunStore(folder, mode="r")
    if not store.is_whole:
        raise InputError(f"{folder} must be a whole run, but it is still being written. Load its checkpoint's folder.")
    store.check_chunks(store.n_draws)
    return open_draws(store, store.n_draws)


def _hint(folder: Path) -> str:
    """Say where a run is that a kill has left beside its place."""
    for end in (BEFORE, PARTIAL):
        beside = Path(f"{folder.absolute()}{end}")
        if is_store(beside):
            return f" A run that was being replaced is in {beside}."
    return " It is a file, not a folder." if folder.is_file() else ""


def open_draws(store: RunStore, n_draws: int) -> StoredDraws:
    """Open the first ``n_draws`` draws of a store."""
    return StoredDraws.of(store, n_draws, store.about() | {"values": StoredValues(store, n_draws)})


class StoredDraws(TemperedDraws):
    """Draws on disk; every array is read when it is first asked for."""

    _store: RunStore | None = None
    _length: int = 0

    @classmethod
    def of(cls, store: RunStore, n_draws: int, found: dict[str, Any]) -> StoredDraws:
        """Make draws of a store, with all but the arrays given."""
        draws = object.__new__(cls)
        for field in fields(TemperedDraws):
            if field.name in found:
                object.__setattr__(draws, field.name, found[field.name])
            elif field.default_factory is not MISSING:
                object.__setattr__(draws, field.name, field.default_factory())
        object.__setattr__(draws, "_store", store)
        object.__setattr__(draws, "_length", n_draws)
        return draws

    @property
    def n_chains(self) -> int:
        """Number of rows: chains, or replicas of all ensembles."""
        return super().n_chains if self._store is None else self._store.n_chains

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return super().n_draws if self._store is None else self._length

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of a draw of each value, without reading any."""
        return super()._shapes() if self._store is None else self.values.shapes()  # type: ignore[attr-defined]

    def expect(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Estimate the cold expectation of a function of the position, as `TemperedDraws.expect` does.

        Values that are too large to be held in memory are read piece by piece: then the function is called with the
        draws of one piece at a time, and must treat each draw by itself.
        """
        if self._store is None or self.values.nbytes <= LARGE:  # type: ignore[attr-defined]
            return super().expect(function, *arguments, **options)
        step = max(1, PIECE * self._length // self.values.nbytes)  # type: ignore[attr-defined]
        found = []
        for first in range(0, self._length, -(-step // self._store.chunk) * self._store.chunk):
            last = min(first + -(-step // self._store.chunk) * self._store.chunk, self._length)
            values = {name: self.values.piece(name, first, last) for name in self.values}  # type: ignore[attr-defined]
            part = evaluated(function, values, self.layout)  # a copy: no piece is held
            if part.shape[:2] != (self.n_chains, last - first):
                raise EstimatorError(
                    f"The function must return one value (or array) for each draw, leading axes "
                    f"{(self.n_chains, last - first)}, but it returned shape {part.shape}."
                )
            found.append(part)
        return self.estimate(np.concatenate(found, axis=1), *arguments, **options).checked()

    def piece(self, first: int, last: int) -> TemperedDraws:
        """Read some of the draws, and keep none of them."""
        assert self._store is not None
        last = min(last, self._length)
        arrays: dict[str, Any] = {name: self._store.read(name, first, last) for name in ARRAYS}
        values = {name: self.values.piece(name, first, last) for name in self.values}  # type: ignore[attr-defined]
        kept = {field.name: getattr(self, field.name) for field in fields(TemperedDraws) if field.name not in ARRAYS}
        return TemperedDraws(**(kept | arrays | {"values": values, "_kept": {}}))

    def _array(self, name: str) -> NDArray[Any]:
        assert self._store is not None
        array = self._store.read(name, 0, self._length)
        array.setflags(write=False)
        return array


def _read_when_asked_for(name: str) -> None:
    attribute: cached_property[NDArray[Any]] = cached_property(lambda draws: draws._array(name))
    attribute.__set_name__(StoredDraws, name)
    setattr(StoredDraws, name, attribute)


for _name in ARRAYS:
    _read_when_asked_for(_name)


class StoredValues(Mapping[str, NDArray[Any]]):
    """Arrays by name, each read from the store when it is first asked for."""

    def __init__(self, store: RunStore, n_draws: int) -> None:
        self._store, self._n_draws = store, n_draws
        self._read: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._store.names:
            raise KeyError(name)
        if name not in self._read:
            array = self.piece(name, 0, self._n_draws)
            array.setflags(write=False)
            self._read[name] = array
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.names)

    def __len__(self) -> int:
        return len(self._store.names)

    @property
    def nbytes(self) -> int:
        """Memory that all values would take."""
        sizes = [self._store.root["values"][str(i)] for i in range(len(self))]
        return sum(array.dtype.itemsize * int(np.prod(array.shape)) for array in sizes)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of a draw of each value."""
        return {name: tuple(self._store.root["values"][str(i)].shape[2:]) for i, name in enumerate(self)}

    def piece(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Read some draws of one value, and keep none of them."""
        return self._store.read(f"values/{self._store.names.index(name)}", first, last)


def _piece(draws: TemperedDraws, first: int, last: int) -> TemperedDraws:
    """Return some of the draws of every chain."""
    if isinstance(draws, StoredDraws) and draws._store is not None:
        return draws.piece(first, last)
    return rows_of(draws, first, last)


def rows_of(draws: TemperedDraws, first: int, last: int) -> TemperedDraws:
    """Return draws number ``first`` to ``last - 1`` of every chain."""
    arrays: dict[str, Any] = {name: getattr(draws, name)[:, first:last] for name in ARRAYS}
    if draws.positions is not None:
        arrays["positions"] = replace(draws.positions, values=draws.positions.values[:, first:last])
    return replace(draws, values={n: np.asarray(v)[:, first:last] for n, v in draws.values.items()}, _kept={}, **arrays)


def changed(draws: TemperedDraws, **fields: Any) -> TemperedDraws:
    """Return draws with other fields than those of their arrays, none of which is read."""
    found = copy(draws)
    for name, value in fields.items():
        object.__setattr__(found, name, value)
    return found


def first_draws(draws: TemperedDraws, n: int) -> TemperedDraws:
    """Return the first ``n`` draws of every chain; on disk they stay there."""
    is_stored = isinstance(draws, StoredDraws) and draws._store is not None
    found = open_draws(draws._store, n) if is_stored else rows_of(draws, 0, n)  # type: ignore[attr-defined]
    info = draws.info and replace(draws.info, n_iterations=draws.info.n_iterations - draws.n_draws + n)
    return changed(found, info=info)


def is_finished(path: Path, n: int | None = None, *, may_write: bool = False) -> bool:
    """Whether all draws are in the store: those it was begun for, or ``n``."""
    if not (path / STORE).is_dir():
        return False
    with writing(path):
        store = open_store(path, "r+" if may_write else "r")
    return store.is_whole and (n is None or store.n_draws >= n)


def open_store(path: Path, mode: str = "r") -> RunStore:
    """Open the draws of a checkpoint; refuse those of another run."""
    store = RunStore(path / STORE, mode=mode)
    if store.run != id_of(path):
        raise DamageError(path / STORE / ABOUT, "it belongs to another run", "Nothing was changed.")
    return store


def checksums_of(sections: Sequence[bytes]) -> Any:
    """Return the checksums of whole chunks that the last record lists."""
    return decode(sections[3]) if len(sections) > 3 else None


def load_checkpoint(path: Path) -> TemperedDraws:
    """Open the draws that a checkpoint has so far."""
    if read_identity(path) is None:
        raise DamageError(path / RUN, "it is missing, and so is its copy")
    if is_of_sums(path):
        raise CheckpointError(
            f"{path} is the checkpoint of a run that keeps sums, not draws. Write TemperedSums.load({str(path)!r})."
        )
    if is_finished(path):
        return load(path / STORE)
    header, sections = read_latest(path)
    if header is None:
        raise CheckpointError(
            f"The run of the checkpoint {path} has not written any draws yet. Let it go on, or end it by Ctrl-C and "
            "take what it returns."
        )
    if not (path / STORE).is_dir():
        raise DamageError(path / STORE, "it is missing", without_store(path, header["n_stored"]))
    store = open_store(path)
    with readable(path / LATEST):
        store.check_chunks(header["n_stored"], checksums_of(sections))
        stored = open_draws(store, header["n_stored"])
        rest = replace(rows_of(stored, 0, 0), **decode(sections[0]))
        return one_after_the_other(stored, rest)


def one_after_the_other(first: TemperedDraws, second: TemperedDraws) -> TemperedDraws:
    """Return the draws of every chain followed by later ones, in memory."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)], axis=1) for name in ARRAYS
    }
    arrays["values"] = {name: np.concatenate([a, second.values[name]], axis=1) for name, a in first.values.items()}
    kept = {field.name: getattr(second, field.name) for field in fields(TemperedDraws) if field.name not in arrays}
    info = second.info and replace(second.info, n_iterations=second.info.n_iterations + first.n_draws)
    return TemperedDraws(**(kept | arrays | {"info": info, "positions": None, "_kept": {}}))


def without_store(path: Path, n_stored: int) -> str:
    """Say what to do where the store of a checkpoint is gone."""
    return (
        f"The first {n_stored} draws of each chain were in it. Put it back from a backup; or, to draw again from the "
        f"end of tuning, delete {LATEST} and {LATEST}.before in {path} and repeat the call."
    )


def repair(path: str | Path) -> None:
    """Write those damaged files of a checkpoint or a saved run again whose content is known from elsewhere in it.

    What cannot be mended is told as a `tempering.errors.DamageError`.
    """
    folder = Path(path)
    with writing(folder):
        RunStore(folder / STORE if (folder / STORE).is_dir() else folder, mode="r+")
