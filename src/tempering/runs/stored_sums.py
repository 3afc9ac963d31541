"""The sums of a run on disk: in one file, or the parts of a checkpoint put together."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import CheckpointError, DamageError
from tempering.estimators.running.batches import in_a_tree
from tempering.estimators.running.mixed import MixedSums
from tempering.io.checkpoint import decoded, is_of_sums, read_latest
from tempering.io.encoding import LENGTH, Classes, decode, encode
from tempering.io.records import read_record, readable, write_record
from tempering.recorders.index_sums import IndexSums
from tempering.recorders.sum_runs import Part
from tempering.runs.sums import TemperedSums, TwoLegSums

KIND = "tempered sums"
QUICK = 1  # zlib's: tables are mostly zeros, and shrink to a tenth at once

Summed = tuple[Any, IndexSums]


def save_sums(sums: TemperedSums, file: Path) -> None:
    """Write the sums to a file; one that is there is replaced at once, or not at all."""
    write_record(file, {"kind": KIND}, [encode(replace(sums, _kept={}))])


def load_sums(path: str | Path) -> TemperedSums:
    """Read the sums that `save_sums` has written, or those that a checkpoint has so far."""
    place = Path(path)
    with readable(place):
        if place.is_file():
            return _read_sums(place)
        found = sums_of_checkpoint(place)[0] if is_of_sums(place) else None
    if found is None:
        raise CheckpointError(
            f"{path} is not the checkpoint of a run with keep=Sums(...), or nothing was written to it yet. Check "
            "the path, or let the run go on for a while."
        )
    return found


def _read_sums(file: Path) -> TemperedSums:
    header, sections = read_record(file)
    if header.get("kind") != KIND or len(sections) != 1:
        raise DamageError(file, "it does not hold the sums of a run")
    with readable(file):
        found = decode(sections[0])
    if not isinstance(found, TemperedSums):
        raise DamageError(file, "it does not hold the sums of a run")
    return found


def sums_of_checkpoint(path: Path) -> tuple[TemperedSums | None, bool]:
    """Open the sums that a checkpoint has so far, if any, and say whether they are those of the whole run."""
    header, sections = read_latest(path)
    if header is None:
        return None, False
    about, _, *kept_parts = sections
    parts = (decoded(path, part, read=from_kept) for part in kept_parts)
    first: Part = next(parts)
    if first.rungs is None:  # in the middle of its first stretch
        return None, False
    return together(chain([first], parts), decoded(path, about), header["seconds"]), bool(header["is_whole"])


def together(parts: Iterable[Part], about: Mapping[str, Any], seconds: float) -> TemperedSums:
    """Return the sums of all parts as those of one run."""

    def add(one: Summed, other: Summed) -> Summed:
        return one[0].beside(other[0]), one[1].added(other[1], in_time=False)

    sums, index = in_a_tree((_summed(part) for part in parts), add)
    info = replace(about["info"], n_iterations=about["info"].n_iterations + index.n_iterations, seconds=seconds)
    kind = TwoLegSums if isinstance(sums, MixedSums) else TemperedSums
    return kind(sums=sums, index=index, **(dict(about) | {"info": info}))


def _summed(part: Part) -> Summed:
    assert part.rungs is not None
    assert part.index is not None
    return part.rungs, part.index


def kept(part: Part, classes: Classes) -> bytes:
    """Return a part as it is kept in a checkpoint: data alone, a fraction of its size."""
    data = encode(replace(part, ends=np.asarray(part.ends)), classes)
    return LENGTH.pack(len(data)) + zlib.compress(data, QUICK)


def from_kept(part: bytes, classes: Classes | None = None) -> Part:
    """Return a part again; raise ValueError where the bytes are none of `kept`'s."""
    try:
        (length,) = LENGTH.unpack_from(part)
        data = zlib.decompressobj().decompress(part[LENGTH.size :], length or 1)
    except (zlib.error, struct.error, OverflowError, MemoryError) as error:
        raise ValueError(f"what it holds cannot be decompressed ({error})") from error
    found: Part = decode(data, classes)
    return found
