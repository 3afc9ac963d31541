"""The sums of a run in one file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tempering.errors import DamageError
from tempering.io.encoding import decode, encode
from tempering.io.records import read_record, write_record
from tempering.runs.sums import TemperedSums

KIND = "tempered sums"


def save_sums(sums: TemperedSums, file: Path) -> None:
    """Write the sums to a file; one that is there is replaced at once, or not at all."""
    write_record(file, {"kind": KIND}, [encode(replace(sums, _kept={}))])


def read_sums(file: Path) -> TemperedSums:
    """Read what `save_sums` has written."""
    header, sections = read_record(file)
    if header.get("kind") != KIND or len(sections) != 1:
        raise DamageError(file, "it does not hold the sums of a run")
    try:
        found = decode(sections[0])
    except ValueError as error:
        raise DamageError(file, str(error)) from error
    if not isinstance(found, TemperedSums):
        raise DamageError(file, "it does not hold the sums of a run")
    return found
