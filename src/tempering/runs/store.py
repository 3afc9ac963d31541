"""A run's arrays in a Zarr store, one array a quantity, cut along the draws; chunks are added as they come.

Arrays have their full length from the start: adding a chunk writes new files and changes none, so that whatever
happens while it is written, what was there before stays as it was. Every chunk carries a checksum. All else that
describes the run is in the record ``about/record``: the text of Zarr's own files, so that damage to them is found and
mended, and once the run is whole the checksums of all chunks, so that none can take the place of another. xarray can
open the store too.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import CheckpointError, DamageError, InputError
from tempering.io.durable_files import PARTIAL, clear, sync_files, sync_folder, sync_tree, write_atomically
from tempering.io.encoding import decode, encode
from tempering.io.records import copy_of, opened, read_either, readable, why, write_twice

if TYPE_CHECKING:
    from tempering.runs.draws import RunInfo, TemperedDraws
    from tempering.target.layout import Layout

FORMAT = 2  # 1: one energy a draw, and a ladder
MARK = "tempering_format"
ABOUT = "about/record"  # in the folder of an empty array: Zarr looks at no other files there
CHUNK = 2**20  # numbers in the largest chunk, about: 8 MB
ARRAYS = ("rung", "terms", "proposed", "acceptance")
TEXT = re.compile(r"(\w+/)*zarr\.json")
CODECS = {"bytes", "zstd", "crc32c"}
CHECKSUM = 4  # bytes: crc32c's, the last of a chunk
NOT_ABOUT = {*ARRAYS, "values", "positions", "rounds", "go_on", "_kept"}


def draws_in_chunk(n_chains: int, width: int) -> int:
    """Return how many draws of all chains a chunk holds.

    Parameters
    ----------
    n_chains, width : int
        Rows of the arrays, and numbers a draw of the widest.
    """
    return max(1, CHUNK // max(1, n_chains * width))


class RunStore:
    """A store that is known to be sound, but for its chunks: these are looked at when they are read."""

    def __init__(self, path: Path, *, mode: str = "r+") -> None:
        self.path = path
        with readable(path / ABOUT):
            self._header, self._sections = _read_about(path)
            self._take_header()
            texts = dict(json.loads(self._sections[1]))
            known = decode(self._sections[2]) if self.is_whole and len(self._sections) > 2 else None
        _check_texts(path, texts, may_write=mode != "r")
        with readable(path / "zarr.json"):
            self.root = zarr_library().open_group(path, mode=mode, zarr_format=3)
            self.names: tuple[str, ...] = tuple(self.root.attrs["names"])
            self.n_chains, self.chunk = (int(self.root["rung"].shape[0]), int(self.root["rung"].chunks[1]))
            for array in self.arrays:
                _check_array(self.root[array], self.n_chains, self.n_draws, self.chunk)
        self.checksums = np.zeros((0, len(self.arrays)), np.uint32) if known is None else known  # a row a chunk

    def _take_header(self) -> None:
        self.n_draws = int(self._header["n_draws"])  # of each chain, for which there is room
        self.is_whole = bool(self._header["is_whole"])  # whether all of them are there
        self.run = str(self._header.get("run", ""))  # the checkpoint's whose draws they are

    @property
    def arrays(self) -> list[str]:
        """Where the arrays are that have a row a chain and a column a draw."""
        return [*(f"values/{i}" for i in range(len(self.names))), *ARRAYS]

    def about(self) -> dict[str, Any]:
        """Return the fields of the run that are no arrays of draws."""
        with readable(self.path / ABOUT):
            return _with_layout(decode(self._sections[0]))

    @classmethod
    def create(cls, path: Path, like: TemperedDraws, n_draws: int, chunk: int | None = None, run: str = "") -> RunStore:
        """Make the store of a run of ``n_draws`` draws, with names, types and settings as in ``like``."""
        if path.exists():
            raise CheckpointError(f"{path} is there already, and a store is never made anew over another one.")
        partial = path.with_name(path.name + PARTIAL)
        clear(partial)
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
        root.create_array("about", shape=(0,), chunks=(1,), dtype="u1", dimension_names=("about_dim",))
        root.attrs.update({MARK: FORMAT, "names": list(like.values)})
        write_twice(
            partial / ABOUT,
            {"format": FORMAT, "n_draws": n_draws, "is_whole": False, "run": run},
            [encode(_described(like)), json.dumps(_texts(partial)).encode()],
        )
        sync_tree(partial)
        partial.rename(path)
        sync_folder(path.parent)
        return cls(path)

    def write(self, first: int, draws: TemperedDraws) -> None:
        """Write draws from number ``first`` on, which begins a chunk; see them to the disk."""
        assert first % self.chunk == 0, "chunks are never changed"
        rows = slice(first, first + draws.n_draws)
        with zarr_library().config.set({"array.write_empty_chunks": True}):  # a chunk of -0.0 is no chunk of zeros
            for i, name in enumerate(self.names):
                self.root["values"][str(i)][:, rows] = draws.values[name]
            for name in ARRAYS:
                self.root[name][:, rows] = getattr(draws, name)
        numbers = range(first // self.chunk, -(-rows.stop // self.chunk))
        sync_files(self.chunk_file(array, number) for number in numbers for array in self.arrays)
        for number in numbers:
            self.seal(number)

    def seal(self, number: int) -> None:
        """Take note of the checksums of a chunk that has been written: from now on no other may take its place."""
        row = [_checksum_of(self.chunk_file(array, number)) for array in self.arrays]
        self.checksums = np.vstack([self.checksums[:number], np.array([row], np.uint32)])

    def finish(self, info: RunInfo | None = None) -> None:
        """Say that all draws are there."""
        about = decode(self._sections[0])
        if info is not None:
            about["info"] = info
        self._write_about({"is_whole": True}, encode(about))

    def reopen(self, n_draws: int) -> None:
        """Make room for more draws than the run was begun with."""
        about = decode(self._sections[0])
        self._write_about({"is_whole": False}, encode(about))
        for name in self.arrays:
            array = self.root[name]
            array.resize((array.shape[0], n_draws, *array.shape[2:]))
        sync_files(self.path / name for name in _texts(self.path))
        self._sections[1] = json.dumps(_texts(self.path)).encode()
        self._write_about({"n_draws": n_draws}, self._sections[0])

    def _write_about(self, header: dict[str, Any], described: bytes) -> None:
        self._header, self._sections = self._header | header, [described, self._sections[1], encode(self.checksums)]
        self._take_header()
        write_twice(self.path / ABOUT, self._header, self._sections)

    def chunk_file(self, array: str, number: int) -> Path:
        """Return where a chunk of draws is."""
        others = ("0",) * (self.root[array].ndim - 2)
        return self.path.joinpath(array, "c", "0", str(number), *others)

    def check_chunks(self, n_draws: int, checksums: Any = None) -> None:
        """Refuse a store that lacks chunks of its first ``n_draws`` draws, or has others than those, where known."""
        if checksums is not None:
            self.checksums = checksums
        for number in range(-(-n_draws // self.chunk)):
            for array in self.arrays:
                self._check_chunk(array, number)

    def read(self, array: str, first: int, last: int) -> NDArray[Any]:
        """Read draws ``first`` to ``last - 1`` of every chain; raise `DamageError` where they are not as written."""
        try:
            return self._read(array, first, last)
        except DamageError:
            if not self._has_caught_up():
                raise
            return self._read(array, first, last)

    def _read(self, array: str, first: int, last: int) -> NDArray[Any]:
        numbers = range(first // self.chunk, -(-last // self.chunk)) if last > first else range(0)
        for number in numbers:
            self._check_chunk(array, number)
        try:
            return np.asarray(self.root[array][:, first:last])
        except Exception:  # codecs fail each in a way of its own
            for number in numbers:
                with self._looking_at(array, number):
                    self.root[array][:, number * self.chunk : (number + 1) * self.chunk]
            raise

    def _check_chunk(self, array: str, number: int) -> None:
        with self._looking_at(array, number):
            found = _checksum_of(self.chunk_file(array, number))
            if number < len(self.checksums) and found != self.checksums[number, self.arrays.index(array)]:
                raise ValueError("it is not what was written in this place")

    def _has_caught_up(self) -> bool:
        """Open the store again where its run has gone on since: then its last chunk, which was not full, is another."""
        now = RunStore(self.path, mode="r")
        is_longer = now.n_draws > self.n_draws
        if is_longer:
            vars(self).update(vars(now))
        return is_longer

    @contextmanager
    def _looking_at(self, array: str, number: int) -> Iterator[None]:
        """Turn whatever goes wrong with a chunk into one error, with the draws before it."""
        try:
            yield
        except Exception as error:
            left = self._what_is_left(number * self.chunk)
            damage = DamageError(self.chunk_file(array, number), why(error), left)
            damage.draws = self._opened(number * self.chunk)
            raise damage from error

    def _what_is_left(self, n: int) -> str:
        if n == 0:
            return "It holds the first draws; nothing on disk was changed."
        return f"The {n} draws of each chain before it can still be read: they are the error's `draws`."

    def _opened(self, n: int) -> Any:
        from tempering.runs.stored import open_draws

        return open_draws(self, n) if n else None


def _read_about(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """Read what describes a run."""
    header, sections = read_either(path / ABOUT)
    if header.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {header.get('format')}, but this version reads format {FORMAT}. Read it with the "
            "version of tempering that wrote it."
        )
    return header, sections


def _check_texts(path: Path, texts: dict[str, str], *, may_write: bool) -> None:
    """Compare Zarr's own files with what they were; put them right, where files may be written."""
    for name, text in texts.items():
        file = path / name
        if not TEXT.fullmatch(name) or not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(path)):
            raise DamageError(path / ABOUT, f"it names a file, {name}, that is no part of a store")
        if file.is_file() and file.read_bytes() == text.encode():
            continue
        if not may_write:
            raise DamageError(
                file,
                "it has changed" if file.is_file() else "it is missing",
                f"No draw is lost: tempering.execution.repair({str(path)!r}) writes again what it held.",
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
        warnings.warn(f"{file} was damaged. It has been restored from {ABOUT}; no draw is lost.", stacklevel=4)


def _texts(path: Path) -> dict[str, str]:
    """Return Zarr's own files by name."""
    return {file.relative_to(path).as_posix(): file.read_text() for file in sorted(path.rglob("zarr.json"))}


def _described(draws: TemperedDraws) -> dict[str, Any]:
    """Return the fields of a run that are no arrays of draws, its layout as plain data."""
    found = {f.name: getattr(draws, f.name) for f in fields(draws) if f.name not in NOT_ABOUT}
    return found | {"layout": None if draws.layout is None else _describe(draws.layout)}


def _with_layout(found: dict[str, Any]) -> dict[str, Any]:
    from tempering.target.layout import Layout

    layout = found["layout"]
    return found | {"layout": None if layout is None else Layout.of(_example(layout["container"], layout["shapes"]))}


def _check_array(array: Any, n_chains: int, n_draws: int, chunk: int) -> None:
    """Refuse arrays that no run is made of: Zarr knows many more, and codecs that run what they read."""
    codecs = {codec.to_dict()["name"] for codec in array.metadata.codecs}
    if (
        not codecs <= CODECS
        or array.dtype.kind not in "fiub"
        or array.shape[:2] != (n_chains, n_draws)
        or array.chunks != tuple(max(1, size) for size in (n_chains, chunk, *array.shape[2:]))
    ):
        raise ValueError(f"the array {array.path} is none of a run's")


def _checksum_of(file: Path) -> int:
    """Return the checksum that a chunk ends with; whether its bytes agree with it is seen when they are read."""
    with opened(file) as source:
        if source.seek(0, os.SEEK_END) < CHECKSUM:
            raise ValueError("it ends too early")
        source.seek(-CHECKSUM, os.SEEK_END)
        return int.from_bytes(source.read(CHECKSUM), "little")


def is_store(path: Path) -> bool:
    """Whether a folder is, or was, a store of ours, however damaged."""
    return (path / ABOUT).is_file() or copy_of(path / ABOUT).is_file() or _mark_of(path) is not None


def check_format(path: Path) -> None:
    """Refuse stores of other formats, which have no record of what they hold."""
    mark = _mark_of(path)
    if mark not in (None, FORMAT) and not (path / ABOUT).is_file():
        raise InputError(
            f"{path} has format {mark}, but this version reads format {FORMAT}. Read it with the version of tempering "
            "that wrote it."
        )


def _mark_of(path: Path) -> Any:
    try:
        with opened(path / "zarr.json") as file:
            return json.load(file)["attributes"][MARK]
    except Exception:  # any file may have this name
        return None


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


def _numbers(name: str, value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"Values must be numbers to be kept, but {name!r} has type {array.dtype}. Record numbers.")
    return array


def _create(group: Any, name: str, like: NDArray[Any], names: tuple[str, ...], n_draws: int, chunk: int) -> None:
    """Make an array of full length, with a checksum on every chunk."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    shape = (like.shape[0], n_draws, *like.shape[2:])
    chunks = (shape[0], min(chunk, n_draws), *shape[2:])
    whole = tuple(max(1, size) for size in chunks)
    squeezed: list[Any] = [ZstdCodec()] if like.dtype.kind != "f" else []  # random digits cannot be squeezed
    group.create_array(
        name, shape=shape, dtype=like.dtype, chunks=whole, dimension_names=names, compressors=[*squeezed, Crc32cCodec()]
    )


def _describe(layout: Layout) -> dict[str, Any] | None:
    """Return shapes and container as JSON; None for containers of a user's own."""
    try:
        container = _encode(layout.built(range(len(layout.shapes))))
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


def _example(node: Any, shapes: list[list[int]]) -> Any:
    """Return a position with the container and the shapes described."""
    if isinstance(node, int):
        return np.zeros(shapes[node])
    (kind, children), *_ = node.items()
    if kind == "dict":
        return {name: _example(child, shapes) for name, child in children.items()}
    decoded = [_example(child, shapes) for child in children]
    return tuple(decoded) if kind == "tuple" else decoded
