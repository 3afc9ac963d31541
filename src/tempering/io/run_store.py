"""A run's arrays in a Zarr store, one array a quantity, cut along the draws; chunks are added as they come.

Arrays have their full length from the start: adding a chunk writes new files and changes none, so that whatever
happens while it is written, what was there before stays as it was. xarray can open the store too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError

if TYPE_CHECKING:
    from tempering.runs.draws import RunInfo, TemperedDraws
    from tempering.target.layout import Layout

FORMAT = 2  # 1: one energy a draw, and a ladder
MARK = "tempering_format"
WHOLE = "is_whole"
CHUNK = 2**20  # numbers in the largest chunk, about: 8 MB
ARRAYS = ("rung", "terms", "proposed", "acceptance")


def draws_in_chunk(n_chains: int, width: int) -> int:
    """Return how many draws of all chains a chunk holds.

    Parameters
    ----------
    n_chains, width : int
        Rows of the arrays, and numbers a draw of the widest.
    """
    return max(1, CHUNK // max(1, n_chains * width))


class RunStore:
    """A store open for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._root = zarr_library().open_group(path, mode="r+")
        self.chunk = int(self._root["rung"].chunks[1])
        self._names: list[str] = list(self._root.attrs["names"])

    @classmethod
    def create(cls, path: Path, like: TemperedDraws, n_draws: int, chunk: int | None = None) -> RunStore:
        """Make the store of a run of ``n_draws`` draws, with names, types and settings as in ``like``."""
        partial = path.with_name(path.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        root = zarr_library().open_group(partial, mode="w")
        if chunk is None:
            sizes = [int(np.prod(np.shape(like.values[name])[2:])) for name in like.values]
            chunk = draws_in_chunk(like.n_chains, max([*sizes, like.acceptance.shape[-1]]))
        values = root.create_group("values")
        for i, (name, value) in enumerate(like.values.items()):  # by number: names may be anything, separators too
            _create(values, str(i), _numbers(name, value), dimensions(name, value), n_draws, chunk)
            values[str(i)].attrs["name"] = name
        for name in ARRAYS:
            array = getattr(like, name)
            _create(root, name, array, dimensions(name, array), n_draws, chunk)
        _write(root, "log_pseudo_prior", like.log_pseudo_prior, ("rungs",))
        for i, settings in enumerate(like.settings):
            _write_fields(root.create_group(f"settings/{i}"), settings._asdict())
        if like.info is not None:
            write_info(root.create_group("info"), like.info)
        layout = None if like.layout is None else _describe(like.layout)
        common = {"chains_per_ensemble": like.chains_per_ensemble, "path": like.path.described(), "layout": layout}
        root.attrs.update({MARK: FORMAT, WHOLE: False, "names": list(like.values), **common})
        shutil.rmtree(path, ignore_errors=True)
        partial.rename(path)
        return cls(path)

    def write(self, first: int, draws: TemperedDraws) -> None:
        """Write draws from number ``first`` on, which begins a chunk; see them to the disk."""
        assert first % self.chunk == 0, "chunks are never changed"
        rows = slice(first, first + draws.n_draws)
        with zarr_library().config.set({"array.write_empty_chunks": True}):  # a chunk of -0.0 is no chunk of zeros
            for i, name in enumerate(self._names):
                self._root["values"][str(i)][:, rows] = draws.values[name]
            for name in ARRAYS:
                self._root[name][:, rows] = getattr(draws, name)
        arrays = [*(f"values/{i}" for i in range(len(self._names))), *ARRAYS]
        for number in range(first // self.chunk, -(-rows.stop // self.chunk)):
            for array in arrays:
                _sync(self.path / array / "c" / "0" / str(number))

    def finish(self, info: RunInfo | None = None) -> None:
        """Say that all draws are there."""
        if info is not None:
            self._root["info"].attrs.update({"seconds": info.seconds, "n_iterations": info.n_iterations})
        self._root.attrs[WHOLE] = True


def zarr_library() -> Any:
    """Import Zarr, or say how to install it."""
    try:
        import zarr
    except ImportError as error:
        raise InputError(
            "Runs are kept as Zarr stores, but zarr is not installed. Run: pip install 'tempering[zarr]'."
        ) from error
    return zarr


def dimensions(name: str, array: Any) -> tuple[str, ...]:
    """Name the dimensions of an array for xarray."""
    return ("chain", "draw", *(f"{name}_dim_{i}" for i in range(np.ndim(array) - 2)))


def write_info(group: Any, info: RunInfo) -> None:
    """Write how a run came about."""
    _write_fields(group, {f.name: getattr(info, f.name) for f in fields(info) if f.name != "rounds"})
    for i, done in enumerate(info.rounds):
        _write_fields(group.create_group(f"rounds/{i}"), {f.name: getattr(done, f.name) for f in fields(done)})


def _numbers(name: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"Values must be numbers to be kept, but {name!r} has type {array.dtype}. Record numbers.")
    return array


def _create(group: Any, name: str, like: NDArray[Any], names: tuple[str, ...], n_draws: int, chunk: int) -> None:
    """Make an array of full length; what is missing in it reads as zero."""
    shape = (like.shape[0], n_draws, *like.shape[2:])
    chunks = (shape[0], min(chunk, n_draws), *shape[2:])
    whole = tuple(max(1, size) for size in chunks)
    squeezed = "auto" if like.dtype.kind != "f" else None  # digits of random numbers cannot be squeezed
    group.create_array(name, shape=shape, dtype=like.dtype, chunks=whole, dimension_names=names, compressors=squeezed)


def _write(group: Any, name: str, array: Any, names: tuple[str, ...] | None = None) -> None:
    group.create_array(name, data=np.asarray(array), dimension_names=names)


def _write_fields(group: Any, found: Mapping[str, Any]) -> None:
    """Write arrays as arrays, and whatever JSON can hold as attributes."""
    for name, value in found.items():
        if isinstance(value, np.ndarray):
            _write(group, name, value)
        else:
            group.attrs[name] = value


def _sync(chunk: Path) -> None:
    """See a chunk, a file or folders with one, to the disk with its name."""
    for path in [chunk.parent, chunk, *chunk.rglob("*")]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _describe(layout: Layout) -> dict[str, Any] | None:
    """Return shapes and container as JSON; None for containers of a user's own."""
    import jax

    skeleton = jax.tree_util.tree_unflatten(layout.treedef, range(len(layout.shapes)))
    try:
        container = _encode(skeleton)
    except TypeError:
        return None
    return {"shapes": [list(shape) for shape in layout.shapes], "container": container}


def _encode(node: Any) -> Any:
    if type(node) is dict and all(isinstance(name, str) for name in node):
        return {"dict": {name: _encode(child) for name, child in node.items()}}
    if type(node) in (list, tuple):
        return {type(node).__name__: [_encode(child) for child in node]}
    if isinstance(node, int):
        return node
    raise TypeError(type(node).__name__)
