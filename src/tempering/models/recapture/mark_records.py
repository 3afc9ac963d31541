"""What MARK's input files are made of: records that end in a semicolon, comments, whole numbers."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.release_arrays import Integers
from tempering.models.recapture.text_files import text_of


class Record(NamedTuple):
    """What stands before one semicolon, and the line it begins on."""

    line: int
    text: str


def records_of(path: str | Path) -> Iterator[Record]:
    """Yield what ends in a semicolon, comments replaced by blanks so that line numbers stay true."""
    text = text_of(path)
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)
    if "/*" in text:
        raise InputError(
            f"{path}:{text[: text.index('/*')].count(chr(10)) + 1}: this comment is never closed with '*/'. Close it."
        )
    line = 1
    *pieces, rest = text.split(";")
    for piece in pieces:
        start = line + piece[: len(piece) - len(piece.lstrip())].count("\n")
        line += piece.count("\n")
        if piece.strip():
            yield Record(start, piece)
    if rest.strip():
        start = line + rest[: len(rest) - len(rest.lstrip())].count("\n")
        raise InputError(
            f"{path}:{start}: a record must end with ';', but the file ends first: {rest.strip()[:40]!r}. End it so."
        )


def integer(text: str, place: str, hint: str = "") -> int:
    """Return a whole number, or say where there is none."""
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"{place}: a count must be a whole number, but got {text!r}{hint}. Correct that line."
        ) from None


def ages_of(ages: Sequence[int], n_groups: int, path: str | Path) -> Integers:
    """Return the age at marking of each group; a single one holds for all."""
    if len(ages) not in (1, n_groups):
        raise InputError(
            f"{path}: there must be one age or one for each of the {n_groups} groups, but got {len(ages)}. "
            "Pass as many ages as there are groups."
        )
    return np.array([ages[0]] * n_groups if len(ages) == 1 else ages)
