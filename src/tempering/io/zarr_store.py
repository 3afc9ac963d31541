"""Runs on disk: a Zarr store, one array a quantity, which xarray can open too.

Writing goes to a folder beside and is renamed when whole. Reading takes the rungs and energies at once and each named
value when it is first asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError

if TYPE_CHECKING:
    from tempering.draws import RunInfo, TemperedDraws
    from tempering.layout import Layout

FORMAT = 1
MARK = "tempering_format"
CHUNK = 2**20  # numbers in a chunk, about: 8 MB


def save(draws: TemperedDraws, path: str | Path) -> None:
    """Write a run; a run that is there already is replaced, anything else is not.

    Parameters
    ----------
    draws : TemperedDraws
    path : path
        A folder, by custom named ``*.zarr``.
    """
    zarr = _zarr()
    target = Path(path)
    if target.exists() and not _is_run(zarr, target):
        raise InputError(
            f"{target} must be new or a run written before, but it is something else. Choose another name."
        )
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    root = zarr.open_group(partial, mode="w")
    _write_values(root.create_group("values"), draws.values)
    for name in ("rung", "energy", "proposed", "acceptance"):
        _write(root, name, getattr(draws, name), _dimensions(name, getattr(draws, name)))
    _write(root, "inverse_temperatures", draws.ladder.inverse_temperatures, ("rungs",))
    _write(root, "log_pseudo_prior", draws.log_pseudo_prior, ("rungs",))
    for i, settings in enumerate(draws.settings):
        _write_fields(root.create_group(f"settings/{i}"), settings._asdict())
    if draws.info is not None:
        _write_info(root.create_group("info"), draws.info)
    layout = None if draws.layout is None else _describe(draws.layout)
    common = {"chains_per_ensemble": draws.chains_per_ensemble, "is_powered": draws.is_powered, "layout": layout}
    root.attrs.update({MARK: FORMAT, "names": list(draws.values), **common})
    if target.exists():
        shutil.rmtree(target)
    partial.rename(target)


def load(path: str | Path) -> TemperedDraws:
    """Read a run that `save` wrote; named values are read when they are first asked for."""
    from tempering.draws import TemperedDraws
    from tempering.kernels.settings import Settings
    from tempering.ladder import Ladder

    zarr = _zarr()
    if not _is_run(zarr, Path(path)):
        raise InputError(f"{path} must be a run written by save, but there is none. Check the path.")
    root = zarr.open_group(Path(path), mode="r")
    attributes = dict(root.attrs)
    if attributes[MARK] != FORMAT:
        raise InputError(
            f"{path} must be of format {FORMAT}, but it is of format {attributes[MARK]}. Read it with the version of "
            "tempering that wrote it."
        )
    arrays = {name: root[name][...] for name in ("rung", "energy", "log_pseudo_prior", "proposed", "acceptance")}
    n_settings = len(list(root["settings"].group_keys())) if "settings" in root else 0
    settings = tuple(Settings(**_read_fields(root[f"settings/{i}"])) for i in range(n_settings))
    return TemperedDraws(
        values=StoredValues(root["values"], tuple(attributes["names"])),
        ladder=Ladder(root["inverse_temperatures"][...]),
        chains_per_ensemble=attributes["chains_per_ensemble"],
        layout=_layout(attributes["layout"]),
        settings=settings,
        is_powered=attributes["is_powered"],
        info=_read_info(root["info"]) if "info" in root else None,
        **arrays,
    )


class StoredValues(Mapping[str, NDArray[Any]]):
    """Arrays by name, each read from the store when it is first asked for."""

    def __init__(self, group: Any, names: tuple[str, ...]) -> None:
        self._group, self._names = group, names
        self._read: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            array = self._group[str(self._names.index(name))][...]
            array.setflags(write=False)
            self._read[name] = array
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise InputError(
            "Runs are kept as Zarr stores, but zarr is not installed. Run: pip install 'tempering[zarr]'."
        ) from error
    return zarr


def _is_run(zarr: Any, path: Path) -> bool:
    return (path / "zarr.json").is_file() and MARK in zarr.open_group(path, mode="r").attrs


def _write_values(group: Any, values: Mapping[str, NDArray[Any]]) -> None:
    """Write each value under its number: any name at all is allowed, a path's separators too."""
    for i, (name, value) in enumerate(values.items()):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise InputError(f"Values must be numbers to be kept, but {name!r} has type {array.dtype}. Record numbers.")
        _write(group, str(i), array, _dimensions(name, array))
        group[str(i)].attrs["name"] = name


def _dimensions(name: str, array: NDArray[Any]) -> tuple[str, ...]:
    return ("chain", "draw", *(f"{name}_dim_{i}" for i in range(np.ndim(array) - 2)))


def _write(group: Any, name: str, array: Any, dimensions: tuple[str, ...] | None = None) -> None:
    data = np.asarray(array)
    chunks = list(data.shape)
    if data.size > CHUNK:  # long arrays are cut along the draws
        along = 1 if data.ndim > 1 else 0
        chunks[along] = max(1, CHUNK * data.shape[along] // data.size)
    chunks = [max(1, size) for size in chunks]
    group.create_array(name, data=data, chunks=tuple(chunks), dimension_names=dimensions)


def _write_fields(group: Any, found: Mapping[str, Any]) -> None:
    """Write arrays as arrays, and whatever JSON can hold as attributes."""
    for name, value in found.items():
        if isinstance(value, np.ndarray):
            _write(group, name, value)
        else:
            group.attrs[name] = value


def _read_fields(group: Any) -> dict[str, Any]:
    return dict(group.attrs) | {name: array[...] for name, array in group.arrays()}


def _write_info(group: Any, info: RunInfo) -> None:
    _write_fields(group, {f.name: getattr(info, f.name) for f in fields(info) if f.name != "rounds"})
    for i, done in enumerate(info.rounds):
        _write_fields(group.create_group(f"rounds/{i}"), {f.name: getattr(done, f.name) for f in fields(done)})


def _read_info(group: Any) -> RunInfo:
    from tempering.draws import RunInfo
    from tempering.tuning.rounds import Round

    n_rounds = len(list(group["rounds"].group_keys())) if "rounds" in group else 0
    rounds = tuple(Round(**_read_fields(group[f"rounds/{i}"])) for i in range(n_rounds))
    return RunInfo(**_read_fields(group), rounds=rounds)


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


def _layout(found: dict[str, Any] | None) -> Layout | None:
    from tempering.layout import Layout

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
