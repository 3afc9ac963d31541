"""Ways of damaging a checkpoint or a saved run, and what may come of it."""

import json
import os
import shutil
import struct
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from damaged_kinds import KINDS

from statistical import seeded_rng
from tempering.errors import TemperingError
from tempering.io import records


def files_of(path):
    """Return the files that hold something."""
    if path.is_file():
        return [path]
    kept = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "lock"]
    return [file for file in kept if not file.name.endswith(".partial")]


def flip(rng, data):
    where = int(rng.integers(8 * len(data)))
    changed = bytearray(data)
    changed[where // 8] ^= 1 << where % 8
    return bytes(changed)


def zero(rng, data):
    """Lose a sector of the disk."""
    start = int(rng.integers(max(1, len(data))))
    return data[:start] + bytes(min(512, len(data) - start)) + data[start + 512 :]


def nonsense(rng, data):
    """Put numbers that are none into a text, or whatever stands there."""
    digits = [i for i, byte in enumerate(data) if 48 <= byte < 58] or [0]
    where = digits[int(rng.integers(len(digits)))]
    return data[:where] + b"NaN" + data[where + 1 :]


def endless(rng, data):
    """Write a record, with right checksums, of a section that no memory would hold."""
    header = {records.LENGTHS: [1 << 60], records.CHECKSUMS: [0], "n_done": 1, "n_stored": 1, "seconds": 1.0}
    line = json.dumps(header).encode() + b"\n"
    return records.FIRST_LINE + line + b"%08x\n" % zlib.crc32(line) + data


def deep(rng, data):
    return b'{"format":' * 100_000 + b"1" + b"}" * 100_000


CHANGES = {
    "flip": flip,
    "zero": zero,
    "truncate": lambda rng, data: data[: int(rng.integers(len(data)))],
    "empty": lambda rng, data: b"",
    "reverse": lambda rng, data: data[::-1],
    "append": lambda rng, data: data + bytes([int(rng.integers(256))]),
    "not a number": nonsense,
    "endless record": endless,
    "huge length": lambda rng, data: struct.pack("<Q", 1 << 62) + data[8:],
    "deep nesting": deep,
}


def remove(path):
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def put(source, target):
    """Put a copy of a file, or of a folder, in the place of another."""
    if os.path.lexists(target):
        remove(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, symlinks=True) if source.is_dir() else shutil.copy(source, target)


def folder_there(rng, file, bench):
    file.unlink()
    file.mkdir()


def loop(rng, file, bench):
    file.unlink()
    file.symlink_to(file.name)


def swap(rng, file, bench):
    """Let two files of the run change places."""
    others = [other for other in files_of(bench.copy) if other != file and other.read_bytes() != file.read_bytes()]
    alike = [other for other in others if other.stat().st_size == file.stat().st_size]
    others = alike or others
    if others:
        other = others[int(rng.integers(len(others)))]
        file.rename(file.with_name("aside"))
        other.rename(file)
        file.with_name("aside").rename(other)


def from_elsewhere(source):
    """Take the file, or a folder it is in, from another run, or from the same run some time ago."""

    def take(rng, file, bench):
        if bench.copy.is_file():  # then another is a run of its own
            return
        inside = file.relative_to(bench.copy)
        places = [inside, *inside.parents][:-1] or [inside]
        place = places[int(rng.integers(len(places)))]
        there = getattr(bench, source) / place
        if there.exists():
            put(there, bench.copy / place)

    return take


PLACES = {
    "delete": lambda rng, file, bench: file.unlink(),
    "a folder in its place": folder_there,
    "a loop of links": loop,
    "swap two files": swap,
    "from another run": from_elsewhere("other"),
    "from before": from_elsewhere("older"),
}


@dataclass(frozen=True)
class Bench:
    """An intact run, another one, the same one some time ago, and the copy that is damaged."""

    intact: Path
    other: Path
    older: Path
    copy: Path

    @classmethod
    def of(cls, kind, folder):
        """Make them all."""
        intact, other, older, copy = (folder / place / kind.name for place in ("intact", "other", "older", "copy"))
        for path in (intact, other, older, copy):
            path.parent.mkdir()
        kind.make(other, seed=6)
        if kind.stopped_at is None:
            kind.make(intact)
            put(intact, older)
        else:
            kind.make(intact, stopped_at=kind.stopped_at // 2)
            put(intact, older)
            kind.make(intact)
        return cls(intact, other, older, copy)


def damage(rng, bench):
    """Damage the copy of a run; return what was done."""
    files = [file for file in files_of(bench.copy) if file.stat().st_size]
    tuning = [file for file in files if file.parent.name == "tuning"]  # of which there may be dozens, all alike
    files = [file for file in files if file not in tuning or file in (tuning[0], tuning[-1])]
    file = files[int(rng.integers(len(files)))]
    ways = [*CHANGES, *PLACES, "flip", "flip", "truncate", "from another run", "swap two files"]
    how = ways[int(rng.integers(len(ways)))]
    if how in CHANGES:
        file.write_bytes(CHANGES[how](rng, file.read_bytes()))
    else:
        PLACES[how](rng, file, bench)
    return f"{how}: {file.relative_to(bench.copy.parent)}"


def outcome(use, path, *known):
    """Use what was damaged: "right", "told" with the name of what is damaged, or what is wrong."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            found = use(path)
        except TemperingError as error:
            return "told" if str(path) in str(error) else f"no file is named: {error}"
        except Exception as error:
            return f"raw: {type(error).__name__}: {error}"
    wrong = [difference(found, arrays) for arrays in known]
    return "right" if "" in wrong else f"silent: {wrong[0]} differs"


def difference(found, known):
    """Return the name of an array that is not the known one, or its first draws; "" where all are."""
    for name, array in found.items():
        whole = known[name]
        if np.ndim(whole) > 1 and np.shape(array)[:2] != np.shape(whole)[:2]:
            whole = whole[:, : np.shape(array)[1]]
        if not np.array_equal(array, whole, equal_nan=np.asarray(whole).dtype.kind == "f"):
            return name
    return ""


def answers(kind, bench):
    """Return what the run may say of itself: all of it, or what it had at either of its last two records."""
    whole = kind.read(bench.intact) if kind.call is None else kind.call(None)
    if kind.read is None:
        return [whole]
    put(bench.intact, bench.copy)
    found = [whole, kind.read(bench.copy)]
    if (bench.copy / "latest.before").exists():
        (bench.copy / "latest.before").rename(bench.copy / "latest")
        found.append(kind.read(bench.copy))
    return found


def sweep(name, folder, numbers):
    """Damage one kind in many ways, each with a number; return what came of each, by the way it was used."""
    kind = KINDS[name]
    bench = Bench.of(kind, folder)
    known = answers(kind, bench)
    for number in numbers:
        yield from one_damage(kind, bench, known, seeded_rng(f"damage {name} {number}"))


def one_damage(kind, bench, known, rng):
    """Damage a copy once; return what came of it, by the way it was used."""
    put(bench.intact, bench.copy)
    what = damage(rng, bench)
    results = []
    for use in (kind.read, kind.call):
        if use is not None and not (use is kind.read and is_another_run(bench, kind.part)):
            came = outcome(use, bench.copy, *known)
            results.append((what, came))
    if came == "told":
        results.append((f"put back after {what}", put_back(kind, bench, known)))
    return results


def is_another_run(bench, part):
    """Whether the part of a study that is read by itself is, file by file, that of another study: a whole run."""
    here, there = (
        {file.relative_to(root / part): file.read_bytes() for file in files_of(root / part)}
        for root in (bench.copy, bench.other)
    )
    return part != "" and here == there


def put_back(kind, bench, known):
    """Put back what was damaged: nothing else may have been lost meanwhile."""
    for file in files_of(bench.intact):
        there = bench.copy / file.relative_to(bench.intact)
        there.parent.mkdir(parents=True, exist_ok=True)
        if there.name == "latest" or not there.is_file() or there.read_bytes() != file.read_bytes():
            put(file, there)
    return outcome(kind.read or kind.call, bench.copy, *known)


def counted(results):
    """Count what came of damages."""
    return dict(Counter(came.split(":")[0] for _, came in results))
