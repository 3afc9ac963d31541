"""Read the input files of Program MARK: encounter histories (live, LDLD) and recovery matrices."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.release_arrays import Integers, ReleaseArrays
from tempering.models.recapture.states import StateHistories
from tempering.models.recapture.text_files import text_of

_HEADER = re.compile(r"recovery\s+matrix(?:\s+group\s*=\s*(\d+))?", re.IGNORECASE)


class Record(NamedTuple):
    """What stands before one semicolon, and the line it begins on."""

    line: int
    text: str


class Line(NamedTuple):
    """One history with its columns, and where it stands."""

    history: str
    columns: list[str]
    place: str


def read_mark(
    path: str | Path,
    *,
    ldld: bool | None = None,
    groups: int | Sequence[str] | None = None,
    ages: Sequence[int] = (0,),
    first_year: int = 1,
    tail: bool = True,
    lengths: Sequence[float] | None = None,
) -> Histories:
    """Read MARK encounter histories: ``HISTORY f_1 [f_2 ...] [covariate ...];``.

    Parameters
    ----------
    path : path
        An ``.inp`` file; ``/* ... */`` comments may span lines. A dot in all histories is an occasion without sampling.
    ldld : bool, optional
        Whether there are two characters an occasion, alive then dead (Burnham, Barker and recovery models), rather
        than one. Left out, live histories are read, and a file that could be either is refused.
    groups : int or names, optional
        How many columns are frequencies, one for each group, or the names of the groups; what follows is a covariate.
        It may be left out where one column follows the history, or where each line has one bird in one group.
    ages : sequence of int
        Completed years at marking in each group (0 chick, 99 adult); a single one holds for all.
    first_year : int
        The year of the first occasion.
    tail : bool
        With ``ldld``, keep the interval after the last occasion (K = T).
    lengths : sequence of float, optional
        Lengths of the intervals between occasions; 1 by default.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.inp"
    >>> _ = file.write_text("/* two groups */ 11000 5 2; 10100 1 -1;")
    >>> read_mark(file, groups=2).number
    array([ 5,  2,  1, -1])
    """
    lines = []
    for record in _records(path):
        history, *columns = re.split(r"[\s,]+", record.text.strip())
        lines.append(Line(history, [c for c in columns if c], f"{path}:{record.line}: history {history}"))
    if not lines:
        raise InputError(
            f"{path}: there must be at least one encounter history ending in ';', but there is none. "
            "Check that it is a MARK file."
        )
    names = group_names(lines, groups, path)
    if ldld is None and could_be_ldld([line.history for line in lines]):
        raise InputError(
            f"{path}: these histories could be live encounters, or pairs of live and dead ones (LDLD). "
            "Say which: format mark-live or mark-ldld."
        )
    rows = Rows(lines, names, bool(ldld), first_year, ages, lengths)
    return rows.histories(path, tail)


def read_states(path: str | Path, *, first_year: int = 1) -> StateHistories:
    """Read MARK's multistate histories: a letter (or a digit) for the state a bird is seen in, 0 where it is not.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "sites.inp"
    >>> _ = file.write_text("A0B 3; BB0 2;")
    >>> read_states(file).states
    ('A', 'B')
    """
    records = list(_records(path))
    cells = [[cell for cell in re.split(r"[\s,]+", record.text.strip()) if cell] for record in records]
    if not records:
        raise InputError(f"{path}: there must be at least one history ending in ';', but there is none.")
    n = len(cells[0][0])
    for record, row in zip(records, cells, strict=True):
        if len(row) != 2 or len(row[0]) != n or not re.fullmatch(r"-?\d+", row[1]):
            raise InputError(
                f"{path}:{record.line}: there must be a history of {n} occasions and one frequency, but the line reads "
                f"{record.text.strip()!r}. Groups and covariates are not read with states."
            )
    states = tuple(sorted({code for row in cells for code in row[0]} - {"0"}))
    codes = [["0", *states].index(code) for row in cells for code in row[0]]
    number = np.array([int(row[1]) for row in cells])
    return StateHistories(np.reshape(codes, (len(cells), n)), first_year + np.arange(n), states, number)


def group_names(lines: list[Line], groups: int | Sequence[str] | None, path: str | Path) -> tuple[str, ...]:
    """Return the names of the groups, whose frequencies come first; refuse to guess."""
    if groups is not None:
        names = tuple(str(g + 1) for g in range(groups)) if isinstance(groups, int) else tuple(groups)
        for line in lines:
            if len(line.columns) < len(names) or not names:
                raise InputError(
                    f"{line.place}: there must be {max(len(names), 1)} frequencies, but got {len(line.columns)}. "
                    "Give one for each group."
                )
        return names
    widths = {len(line.columns) for line in lines}
    if widths == {0}:
        raise InputError(f"{lines[0].place}: there must be 1 frequencies, but got 0. Give one for each group.")
    if len(widths) > 1:
        odd = next(line for line in lines if len(line.columns) != len(lines[0].columns))
        raise InputError(
            f"{odd.place}: every history must have as many columns, but got {len(odd.columns)}. Correct that line."
        )
    n = widths.pop()
    if n > 1 and any(has_birds(lines, g) for g in range(1, n)):
        raise InputError(
            f"{path}: {n} columns follow each history, such as {' '.join(lines[0].columns)!r}. They could be "
            f"frequencies of {n} groups, or a frequency and {n - 1} covariate{'s' * (n > 2)}: say how many groups "
            f"there are (groups={n} or groups=1; on the command line --frequencies {n} or --frequencies 1)."
        )
    return tuple(str(g + 1) for g in range(n))


def has_birds(lines: list[Line], n: int) -> bool:
    """Whether every history has a bird in some group if the first columns are the frequencies of so many groups."""
    return all(any(column.strip("+-0.") for column in line.columns[:n]) for line in lines)


def could_be_ldld(histories: list[str]) -> bool:
    """Whether all histories obey the rules of pairs: marked alive, found dead once, nothing after.

    Live histories of more than a handful of birds break them: some bird is marked at an even occasion.

    Examples
    --------
    >>> could_be_ldld(["1000", "1100", "0011"]), could_be_ldld(["1000", "0110"])
    (True, False)
    """
    if any(len(h) % 2 or set(h) - {"0", "1"} for h in histories):
        return False
    for h in histories:
        dead = [t for t in range(1, len(h), 2) if h[t] == "1"]
        if h.find("1") % 2 or len(dead) > 1 or (dead and "1" in h[dead[0] + 1 :]):
            return False
    return True


class Rows(NamedTuple):
    """Checked lines, and what a user said about them."""

    lines: list[Line]
    names: tuple[str, ...]
    ldld: bool
    first_year: int
    ages: Sequence[int]
    lengths: Sequence[float] | None

    def histories(self, path: str | Path, tail: bool) -> Histories:
        """Turn each line into a row for each group that has birds on it."""
        codes, unsampled = self._codes()
        if self.ldld and not tail:
            late = np.flatnonzero(codes[:, -1] != 0)
            if late.size:
                where = self.lines[int(late[0])].place
                raise InputError(f"{where}: recovered after the last occasion; keep the last interval, tail=True.")
            codes = codes[:, :-1]
        n = len(self.names)
        numbers = np.array(
            [[_integer(c, line.place, "; give groups= if covariates follow") for c in line.columns[:n]]
             for line in self.lines]
        )  # fmt: skip
        line, group = np.nonzero(numbers)
        ages = _ages(self.ages, n, path)
        return Histories(
            codes[line],
            years=self._years(codes.shape[1]),
            age=ages[group],
            number=numbers[line, group],
            group=group + 1,
            tail=self.ldld and tail,
            dead=self.ldld,
            labels=tuple(self.lines[i].place for i in line),
            groups=self.names,
            columns=self._covariates(line),
            lengths=self._lengths(codes.shape[1]),
            unsampled=unsampled,
        )

    def _covariates(self, line: Integers) -> dict[str, Any]:
        n = len(self.names)
        width = min(len(row.columns) for row in self.lines) - n
        return {f"covariate{j + 1}": np.array([self.lines[i].columns[n + j] for i in line]) for j in range(width)}

    def _codes(self) -> tuple[Any, tuple[int, ...]]:
        """Return the codes, and the occasions that are a dot in every history."""
        width = len(self.lines[0].history)
        for line in self.lines:
            if len(line.history) != width:
                raise InputError(
                    f"{line.place}: every history must have as many occasions, but this one differs from the first. "
                    "Correct that line."
                )
        dots = [t for t in range(width) if all(line.history[t] == "." for line in self.lines)]
        texts = ["".join("0" if t in dots else c for t, c in enumerate(line.history)) for line in self.lines]
        parts = zip(texts, self.lines, strict=True)
        if self.ldld:
            return np.array([_ldld_codes(text, line.place) for text, line in parts]), tuple(
                t // 2 for t in dots if t % 2 == 0
            )
        return np.array([_live_codes(text, line.place) for text, line in parts]), tuple(dots)

    def _lengths(self, n_columns: int) -> Any:
        if self.lengths is None:
            return np.ones(n_columns - 1)
        given = np.asarray(self.lengths, float)
        if self.ldld and given.size == n_columns - 2:
            given = np.append(given, 1.0)
        if given.shape != (n_columns - 1,) or not (given > 0).all():
            raise InputError(
                f"There must be {n_columns - 1} lengths of intervals, all positive, but got {list(given)}. "
                "Give the time between each occasion and the next."
            )
        return given

    def _years(self, n_columns: int) -> Any:
        """Return whole years that increase, whatever the lengths."""
        ends = np.concatenate([[0.0], np.cumsum(self._lengths(n_columns))])
        whole = np.floor(ends + 1e-9).astype(np.int64)
        return self.first_year + (whole if (np.diff(whole) > 0).all() else np.arange(n_columns))


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
    group = np.concatenate([np.full(len(part[0]), g) for g, part in enumerate(parts)])
    names = tuple(str(g + 1) for g in range(len(parts))) if len(parts) > 1 else ("",)
    n_intervals = parts[0][2].shape[1]
    if any(part[2].shape[1] != n_intervals for part in parts):
        raise InputError(
            f"{path}: every group must have as many years of recovery. "
            "Give every group's matrix the same number of rows."
        )
    interval, age, recovered, never = (np.concatenate(x) for x in zip(*parts, strict=True))
    years = first_year + np.arange(n_intervals)
    return ReleaseArrays(
        interval, age, np.zeros_like(recovered), recovered, never, years, tail=True, live=False, group=group,
        groups=names,
    )  # fmt: skip


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


def _integer(text: str, place: str, hint: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"{place}: a count must be a whole number, but got {text!r}{hint}. Correct that line."
        ) from None


def _live_codes(history: str, place: str) -> list[int]:
    if "." in history:
        raise InputError(
            f"{place}: a dot is read only where all histories have one, an occasion without sampling. "
            "Write 0 where a single bird was not looked for, or leave that bird out."
        )
    if set(history) - {"0", "1"}:
        raise InputError(
            f"{place}: a live history must be made of 0 and 1. For live and dead encounters choose the format "
            "mark-ldld, for states with letters mark-states."
        )
    return [int(c) for c in history]


def _ldld_codes(history: str, place: str) -> list[int]:
    """Map pairs (L_t, D_t) to codes: L_t = 1 is 1 at t; D_t = 1, dead in interval t, is 2 at t + 1."""
    if set(history) - {"0", "1"} or len(history) % 2:
        raise InputError(
            f"{place}: an LDLD history must be pairs of 0 and 1. For live encounters alone choose the format mark-live."
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
