"""Open a user's text file whatever it comes in: gzip, a byte order mark, old encodings; and tables of any separator."""

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.release_arrays import Integers

SEPARATORS = (",", ";", "\t")


def text_of(path: str | Path) -> str:
    """Return the text of a file, unpacked if it is gzipped, without its byte order mark."""
    try:
        raw = Path(path).read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (OSError, EOFError) as error:
        raise InputError(
            f"{path}: the file must be readable, but {getattr(error, 'strerror', None) or error}. Check the path."
        ) from error
    if raw[:4] in (b"PK\x03\x04",):
        raise InputError(f"{path}: this is a zip archive (or an Excel file). Unpack it, or save the sheet as CSV.")
    for encoding in ("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "cp1252"):
        try:
            text = raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
        return re.sub(r"\Asep=.\n", "\n", text)  # Excel's own line above a table
    raise InputError(f"{path}: the file must be text, but is not. Save it as text in UTF-8.")


class Row(NamedTuple):
    """One line of a table: where it stands, and its cells by column."""

    place: str
    cells: dict[str, str]

    def integer(self, column: str) -> int:
        """Return a cell as a whole number, or say where it is not one."""
        try:
            return int(self.cells[column])
        except ValueError:
            raise InputError(
                f"{self.place}: {column} must be a whole number, but is {self.cells[column]!r}. Correct that cell."
            ) from None

    def count(self, column: str) -> int:
        """Return a cell as a number of birds, or say where it is not one."""
        number = self.integer(column)
        if number < 0:
            raise InputError(f"{self.place}: {column} must be 0 or more, but is {number}. Correct that cell.")
        return number


def separator_of(header: str) -> str | None:
    """Return what separates the cells of a table; None is any run of blanks.

    Examples
    --------
    >>> separator_of("id;1990;1991"), separator_of("ch freq sex")
    (';', None)
    """
    best = max(SEPARATORS, key=header.count)
    return best if header.count(best) else None


def table_rows(path: str | Path, required: tuple[str, ...]) -> Iterator[Row]:
    """Yield the lines of a table with a header; cells are separated by commas, semicolons, tabs or blanks."""
    lines = text_of(path).splitlines()
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    separator = separator_of(lines[first]) if lines else ","
    header = _cells(lines[first], separator) if lines else []
    if len(set(header)) != len(header) or not set(required) <= set(header):
        raise InputError(
            f"{path}:{first + 1}: the header must name each of {', '.join(required)} once, but is "
            f"{','.join(header)!r}. Add or rename the columns."
        )
    body = [(n, _cells(line, separator)) for n, line in enumerate(lines[first + 1 :], first + 2) if line.strip()]
    if not body:
        raise InputError(
            f"{path}: there must be a line below the header, but there is none. "
            "Check that the file holds the data you meant."
        )
    if all(len(cells) == len(header) + 1 for _, cells in body):  # R's write.table puts row names in front
        body = [(number, cells[1:]) for number, cells in body]
    for number, cells in body:
        if len(cells) != len(header):
            raise InputError(
                f"{path}:{number}: there must be {len(header)} cells, as in the header, but got {len(cells)}. "
                "Correct that row."
            )
        yield Row(f"{path}:{number}", dict(zip(header, cells, strict=True)))


def _cells(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return [cell.strip("\"'") for cell in line.split()]
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


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
