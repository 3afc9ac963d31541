"""A record: one file with a header and sections of bytes, each with a checksum. Damage is found, never read.

A first line with the name of the format, a second with the header as JSON, a third with the header's checksum; then
the sections, whose lengths and checksums are in the header.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tempering.errors import DamageError, TemperingError
from tempering.io.durable_files import write_atomically

FIRST_LINE = b"tempering record 1\n"
LENGTHS, CHECKSUMS = "section lengths", "section checksums"
LONGEST_HEADER = 1 << 26  # bytes: no header of ours comes near it


def write_record(file: Path, header: Mapping[str, Any], sections: Sequence[bytes], before: Path | None = None) -> None:
    """Write a record; the one it replaces is kept as ``before``, if named."""
    known = {LENGTHS: [len(s) for s in sections], CHECKSUMS: [zlib.crc32(s) for s in sections]}
    line = json.dumps(dict(header) | known).encode() + b"\n"
    write_atomically(file, FIRST_LINE, line, _checksum_line(line), *sections, before=before)


def read_record(file: Path) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header and the sections of a record; raise `DamageError` where they are not what was written."""
    with readable(file):
        with opened(file) as source:
            if source.readline(len(FIRST_LINE)) != FIRST_LINE:
                raise DamageError(file, "it does not begin as a record does")
            line = source.readline(LONGEST_HEADER)
            if source.readline(16) != _checksum_line(line):
                raise DamageError(file, "the checksum of its header does not match")
            header = json.loads(line)
            lengths, checksums = header.pop(LENGTHS), header.pop(CHECKSUMS)
            surplus = os.fstat(source.fileno()).st_size - source.tell() - sum(lengths)
            if surplus:  # before anything is read: a length may be any number
                raise DamageError(file, "it ends too early" if surplus < 0 else "it goes on after its end")
            return header, [_section(file, source.read(n), c) for n, c in zip(lengths, checksums, strict=True)]


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one error that names it: bytes may be wrong in any way."""
    try:
        yield
    except TemperingError:
        raise
    except Exception as error:
        raise DamageError(file, why(error)) from error


def why(error: BaseException) -> str:
    """Say what is wrong with a file, as part of a sentence."""
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror or error})"
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def opened(file: Path) -> BinaryIO:
    """Open a file for reading, and nothing else: a pipe would wait for ever, a device never end."""
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise OSError(errno.EINVAL, "It is not a file.")
    return file.open("rb")


def copy_of(file: Path) -> Path:
    """Return where the second copy of a file is kept."""
    return file.with_name(file.name + ".copy")


def write_twice(file: Path, header: Mapping[str, Any], sections: Sequence[bytes]) -> None:
    """Write a record that nothing could take the place of, and a copy of it."""
    for target in (copy_of(file), file):
        write_record(target, header, sections)


def read_either(file: Path) -> tuple[dict[str, Any], list[bytes]]:
    """Return a record that was written twice; where the first is damaged, say so and take the copy."""
    try:
        return read_record(file)
    except DamageError as damage:
        try:
            found = read_record(copy_of(file))
        except DamageError:
            raise damage from None
        warnings.warn(f"{damage} Its copy, {copy_of(file).name}, is whole and is used instead.", stacklevel=3)
        return found


def _section(file: Path, data: bytes, checksum: int) -> bytes:
    if zlib.crc32(data) != checksum:
        raise DamageError(file, "the checksum of a section does not match")
    return data


def _checksum_line(line: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(line)
