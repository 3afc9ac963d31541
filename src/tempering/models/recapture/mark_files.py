"""Read the input files of Program MARK: encounter histories (live, LDLD) and recovery matrices."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.release_arrays import Integers, ReleaseArrays

_HEADER = re.compile(r"recovery\s+matrix(?:\s+group\s*=\s*(\d+))?", re.IGNORECASE)


class Record(NamedTuple):
    """What stands before one semicolon, and the line it begins on."""

    line: int
    text: str


def read_mark(
    path: str | Path,
    *,
    ldld: bool = False,
    groups: int | None = None,
    ages: Sequence[int] = (0,),
    first_year: int = 1,
    tail: bool = True,
) -> Histories:
    """Read MARK encounter histories: ``HISTORY f_1 [f_2 ...] [covariate ...];``.

    Parameters
    ----------
    path : path
        An ``.inp`` file; ``/* ... */`` comments may span lines.
    ldld : bool
        Two characters an occasion, alive then dead (Burnham, Barker and recovery models), rather than one.
    groups : int, optional
        Frequency columns, one for each group; what follows them is a covariate. All columns, if left out.
    ages : sequence of int
        Completed years at marking in each group (0 chick, 99 adult); a single one holds for all.
    first_year : int
        The year of the first occasion.
    tail : bool
        With ``ldld``, keep the interval after the last occasion (K = T).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.inp"
    >>> _ = file.write_text("/* two groups */ 1100 5 2; 1010 1 -1;")
    >>> read_mark(file).number
    array([ 5,  2,  1, -1])
    """
    rows: list[tuple[list[int], int, int, int, str]] = []
    n_covariates = 0
    for record in _records(path):
        history, *columns = re.split(r"[\s,]+", record.text.strip())
        place = f"{path}:{record.line}: history {history}"
        frequencies, covariates = _frequencies(columns, groups, place)
        n_covariates = max(n_covariates, covariates)
        codes = _ldld_codes(history, place) if ldld else _live_codes(history, place)
        if rows and len(codes) != len(rows[0][0]):
            raise InputError(
                f"{place}: every history must have as many occasions, but this one differs from the first. "
                "Correct that line."
            )
        if rows and len(frequencies) != rows[-1][3]:
            raise InputError(
                f"{place}: every history must have as many frequencies, but got {len(frequencies)}. Correct that line."
            )
        rows += [(codes, f, g, len(frequencies), place) for g, f in enumerate(frequencies, 1) if f != 0]
    if not rows:
        raise InputError(
            f"{path}: there must be at least one encounter history ending in ';', but there is none. "
            "Check that it is a MARK file."
        )
    return _histories(path, rows, ages, first_year, ldld, tail, n_covariates)


def _histories(
    path: str | Path,
    rows: list[tuple[list[int], int, int, int, str]],
    ages: Sequence[int],
    first_year: int,
    ldld: bool,
    tail: bool,
    n_covariates: int,
) -> Histories:
    codes = np.array([row[0] for row in rows])
    group = np.array([row[2] for row in rows])
    if ldld and not tail:
        if (codes[:, -1] != 0).any():
            where = rows[int(np.flatnonzero(codes[:, -1])[0])][4]
            raise InputError(f"{where}: it is recovered after the last occasion; keep the last interval, tail=True.")
        codes = codes[:, :-1]
    return Histories(
        codes,
        years=first_year + np.arange(codes.shape[1]),
        age=_ages(ages, rows[0][3], path)[group - 1],
        number=np.array([row[1] for row in rows]),
        group=group,
        tail=ldld and tail,
        dead=ldld,
        labels=tuple(row[4] for row in rows),
        notes=(f"{n_covariates} covariate columns are not used",) if n_covariates else (),
    )


def read_recovery_matrix(path: str | Path, *, ages: Sequence[int] = (0,), first_year: int = 1) -> ReleaseArrays:
    """Read ``recovery matrix group=g;``, triangular rows, then a row of releases, for each group.

    ``ages`` gives the completed years at marking of each group; a single one holds for all.
    """
    blocks: list[list[tuple[int, list[int]]]] = []
    for record in _records(path):
        text = record.text.strip()
        if _HEADER.match(text):
            blocks.append([])
            text = _HEADER.sub("", text, count=1).strip()
            if not text:
                continue
        if not blocks:
            raise InputError(
                f"{path}:{record.line}: the file must begin with 'recovery matrix group=1;'. "
                "For encounter histories choose their format."
            )
        blocks[-1].append((record.line, [_integer(x, f"{path}:{record.line}") for x in re.split(r"[\s,]+", text)]))
    if not blocks:
        raise InputError(f"{path}: there must be a recovery matrix, but there is none. Check that it is a MARK file.")
    group_ages = _ages(ages, len(blocks), path)
    parts = [_recovery_rows(block, int(age), path) for block, age in zip(blocks, group_ages, strict=True)]
    n_intervals = parts[0][2].shape[1]
    if any(part[2].shape[1] != n_intervals for part in parts):
        raise InputError(
            f"{path}: every group must have as many years of recovery. "
            "Give every group's matrix the same number of rows."
        )
    interval, age, recovered, never = (np.concatenate(x) for x in zip(*parts, strict=True))
    years = first_year + np.arange(n_intervals)
    return ReleaseArrays(interval, age, np.zeros_like(recovered), recovered, never, years, tail=True, live=False)


def _recovery_rows(block: list[tuple[int, list[int]]], age: int, path: str | Path) -> tuple[Integers, ...]:
    *rows, (line, released) = block
    if not rows or len(released) != len(rows):
        raise InputError(
            f"{path}:{line}: the last row must give the releases, one for each of the {len(rows)} rows above. "
            "Add the row of releases."
        )
    n_intervals = len(rows[0][1])
    recovered = np.zeros((len(rows), n_intervals), np.int64)
    for i, (row_line, row) in enumerate(rows):
        if len(row) != n_intervals - i:
            raise InputError(
                f"{path}:{row_line}: row {i + 1} must have {n_intervals - i} recoveries, but has {len(row)}. "
                "Correct that row."
            )
        if min(row) < 0:
            raise InputError(
                f"{path}:{row_line}: recoveries must be 0 or more, but row {i + 1} has {min(row)}. Correct that row."
            )
        recovered[i, i:] = row
        if sum(row) > released[i]:
            raise InputError(
                f"{path}:{row_line}: {sum(row)} birds recovered of {released[i]} released. "
                "No more can be recovered than were released: correct one of the two."
            )
    never = np.array(released) - recovered.sum(axis=1)
    return np.arange(len(rows)), np.full(len(rows), age), recovered, never


def _records(path: str | Path) -> Iterator[Record]:
    """Yield what ends in a semicolon, comments replaced by blanks so that line numbers stay true."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{path}: the file must be readable, but {error.strerror or error}. Check the path."
        ) from error
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


def _frequencies(columns: list[str], groups: int | None, place: str) -> tuple[list[int], int]:
    columns = [c for c in columns if c]
    n = len(columns) if groups is None else groups
    if not columns or len(columns) < n:
        raise InputError(
            f"{place}: there must be {max(n, 1)} frequencies, but got {len(columns)}. Give one for each group."
        )
    return [_integer(c, place, "; give groups= if covariates follow") for c in columns[:n]], len(columns) - n


def _integer(text: str, place: str, hint: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"{place}: a count must be a whole number, but got {text!r}{hint}. Correct that line."
        ) from None


def _live_codes(history: str, place: str) -> list[int]:
    if set(history) - {"0", "1"}:
        raise InputError(
            f"{place}: a live history must be made of 0 and 1. For live and dead encounters read the file as LDLD."
        )
    return [int(c) for c in history]


def _ldld_codes(history: str, place: str) -> list[int]:
    """Map pairs (L_t, D_t) to codes: L_t = 1 is 1 at t; D_t = 1, dead in interval t, is 2 at t + 1."""
    if set(history) - {"0", "1"} or len(history) % 2:
        raise InputError(
            f"{place}: an LDLD history must be pairs of 0 and 1. "
            "For live encounters alone read the file as live histories."
        )
    live, dead = [int(c) for c in history[::2]], [int(c) for c in history[1::2]]
    codes = [*live, 0]
    for t, recovered in enumerate(dead):
        if recovered:
            if any(live[t + 1 :]) or any(dead[t + 1 :]):
                raise InputError(
                    f"{place}: nothing may follow a recovery, but something follows occasion {t + 1}. "
                    "Correct that history."
                )
            codes[t + 1] = 2
    return codes


def _ages(ages: Sequence[int], n_groups: int, path: str | Path) -> Integers:
    if len(ages) not in (1, n_groups):
        raise InputError(
            f"{path}: there must be one age or one for each of the {n_groups} groups, but got {len(ages)}. "
            "Pass as many ages as there are groups."
        )
    return np.array([ages[0]] * n_groups if len(ages) == 1 else ages)
