"""Runs on disk: saved chunk by chunk, and read when they are asked for.

Writing goes to a folder beside and is renamed when whole. Loading reads what describes a run; each array is read
when it is first asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.io.run_store import ARRAYS, FORMAT, MARK, WHOLE, RunStore, zarr_library
from tempering.kernels.settings import Settings
from tempering.path import Path as TemperingPath
from tempering.runs.draws import RunInfo, TemperedDraws
from tempering.target.layout import Layout


def save(draws: TemperedDraws, path: str | Path) -> None:
    """Write a run; a run that is there already is replaced, anything else is not.

    Parameters
    ----------
    draws : TemperedDraws
        One that was loaded is copied chunk by chunk, and never in memory as a whole.
    path : path
        A folder, by custom named ``*.zarr``.
    """
    zarr = zarr_library()
    target = Path(path)
    if target.exists() and not _is_run(zarr, target):
        raise InputError(
            f"{target} must be new or a run written before, but it is something else. Choose another name."
        )
    partial = target.with_name(target.name + ".partial")
    store = RunStore.create(partial, _piece(draws, 0, 1), draws.n_draws)
    for first in range(0, draws.n_draws, store.chunk):
        store.write(first, _piece(draws, first, first + store.chunk))
    store.finish()
    if target.exists():
        shutil.rmtree(target)
    partial.rename(target)


def load(path: str | Path) -> TemperedDraws:
    """Open a run that `save` wrote, or what a checkpoint has so far.

    Only what describes the run is read; every array (the values by name, energies, rungs) is read from the disk when
    it is first asked for.
    """
    zarr = zarr_library()
    folder = Path(path)
    if (folder / "run.json").is_file():
        from tempering.execution.keeping import load_checkpoint

        return load_checkpoint(folder)
    if not _is_run(zarr, folder):
        raise InputError(f"{path} must be a run written by save, but there is none. Check the path.")
    root = zarr.open_group(folder, mode="r")
    attributes = dict(root.attrs)
    if attributes[MARK] != FORMAT:
        raise InputError(
            f"{path} must be of format {FORMAT}, but it is of format {attributes[MARK]}. Read it with the version of "
            "tempering that wrote it."
        )
    if not attributes.get(WHOLE, True):
        raise InputError(f"{path} must be a whole run, but it is still being written. Load its checkpoint's folder.")
    return open_draws(root, int(root["rung"].shape[1]))


def open_draws(root: Any, n_draws: int) -> StoredDraws:
    """Open the first ``n_draws`` draws of a store."""
    attributes = dict(root.attrs)
    n_settings = len(list(root["settings"].group_keys())) if "settings" in root else 0
    found = {
        "values": StoredValues(root["values"], tuple(attributes["names"]), n_draws),
        "path": TemperingPath.from_description(attributes["path"]),
        "log_pseudo_prior": root["log_pseudo_prior"][...],
        "chains_per_ensemble": attributes["chains_per_ensemble"],
        "layout": _layout(attributes["layout"]),
        "settings": tuple(Settings(**_read_fields(root[f"settings/{i}"])) for i in range(n_settings)),
        "info": _read_info(root["info"]) if "info" in root else None,
    }
    return StoredDraws.of(root, n_draws, found)


class StoredDraws(TemperedDraws):
    """Draws on disk; every array is read when it is first asked for."""

    _root: Any = None
    _length: int = 0

    @classmethod
    def of(cls, root: Any, n_draws: int, found: dict[str, Any]) -> StoredDraws:
        """Make draws of a store, with all but the arrays given."""
        draws = object.__new__(cls)
        for field in fields(TemperedDraws):
            if field.name in found:
                object.__setattr__(draws, field.name, found[field.name])
            elif field.default_factory is not MISSING:
                object.__setattr__(draws, field.name, field.default_factory())
        object.__setattr__(draws, "_root", root)
        object.__setattr__(draws, "_length", n_draws)
        return draws

    rung = cached_property(lambda self: self._array("rung"))
    terms = cached_property(lambda self: self._array("terms"))
    proposed = cached_property(lambda self: self._array("proposed"))
    acceptance = cached_property(lambda self: self._array("acceptance"))

    @property
    def n_chains(self) -> int:
        """Number of rows: chains, or replicas of all ensembles."""
        return super().n_chains if self._root is None else int(self._root["rung"].shape[0])

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return super().n_draws if self._root is None else self._length

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of a draw of each value, without reading any."""
        return super()._shapes() if self._root is None else self.values.shapes()  # type: ignore[attr-defined]

    def piece(self, first: int, last: int) -> TemperedDraws:
        """Read some of the draws, and keep none of them."""
        rows = slice(first, min(last, self._length))
        arrays = {name: self._root[name][:, rows] for name in ARRAYS}
        values = {name: self.values.piece(name, rows) for name in self.values}  # type: ignore[attr-defined]
        kept = {field.name: getattr(self, field.name) for field in fields(TemperedDraws) if field.name not in ARRAYS}
        return TemperedDraws(**(kept | arrays | {"values": values, "_kept": {}}))

    def _array(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = self._root[name][:, : self._length]
        array.setflags(write=False)
        return array


class StoredValues(Mapping[str, NDArray[Any]]):
    """Arrays by name, each read from the store when it is first asked for."""

    def __init__(self, group: Any, names: tuple[str, ...], n_draws: int) -> None:
        self._group, self._names, self._n_draws = group, names, n_draws
        self._read: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            array = self.piece(name, slice(0, self._n_draws))
            array.setflags(write=False)
            self._read[name] = array
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of a draw of each value."""
        return {name: tuple(self._group[str(i)].shape[2:]) for i, name in enumerate(self._names)}

    def piece(self, name: str, rows: slice) -> NDArray[Any]:
        """Read some draws of one value, and keep none of them."""
        array: NDArray[Any] = self._group[str(self._names.index(name))][:, rows]
        return array


def _piece(draws: TemperedDraws, first: int, last: int) -> TemperedDraws:
    """Return some of the draws of every chain."""
    if isinstance(draws, StoredDraws) and draws._root is not None:
        return draws.piece(first, last)
    return rows_of(draws, first, last)


def rows_of(draws: TemperedDraws, first: int, last: int) -> TemperedDraws:
    """Return draws number ``first`` to ``last - 1`` of every chain."""
    arrays = {name: getattr(draws, name)[:, first:last] for name in ARRAYS}
    return replace(draws, values={n: np.asarray(v)[:, first:last] for n, v in draws.values.items()}, _kept={}, **arrays)


def _is_run(zarr: Any, path: Path) -> bool:
    return (path / "zarr.json").is_file() and MARK in zarr.open_group(path, mode="r").attrs


def _read_fields(group: Any) -> dict[str, Any]:
    return dict(group.attrs) | {name: array[...] for name, array in group.arrays()}


def _read_info(group: Any) -> RunInfo:
    from tempering.learning.rounds import Round

    n_rounds = len(list(group["rounds"].group_keys())) if "rounds" in group else 0
    rounds = tuple(Round(**_read_fields(group[f"rounds/{i}"])) for i in range(n_rounds))
    return RunInfo(**_read_fields(group), rounds=rounds)


def _layout(found: dict[str, Any] | None) -> Layout | None:
    if found is None:
        return None
    return Layout.of(_decode(found["container"], found["shapes"]))


def _decode(node: Any, shapes: list[list[int]]) -> Any:
    if isinstance(node, int):
        return np.zeros(shapes[node])
    (kind, children), *_ = node.items()
    if kind == "dict":
        return {name: _decode(child, shapes) for name, child in children.items()}
    decoded = [_decode(child, shapes) for child in children]
    return tuple(decoded) if kind == "tuple" else decoded
