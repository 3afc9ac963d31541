"""Read what other programs write: MARK histories and recovery matrices, RMark tables, headed files of E-SURGE."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.history_rows import Line, Rows, could_be_ldld, group_names, states_in
from tempering.models.recapture.release_arrays import Integers, ReleaseArrays
from tempering.models.recapture.text_files import ages_of, integer, records_of, separator_of, table_rows, text_of


def read_mark(
    path: str | Path,
    *,
    ldld: bool | None = None,
    states: bool = False,
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
    states : bool
        Whether a letter (or digit) says in which state a bird is seen.
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
    >>> _ = file.write_text("A0B 3; BB0 2;")
    >>> read_mark(file, states=True).states
    ('A', 'B')
    """
    lines = []
    for record in records_of(path):
        history, *columns = re.split(r"[\s,]+", record.text.strip())
        lines.append(Line(history, [c for c in columns if c], f"{path}:{record.line}: history {history}"))
    if not lines:
        raise InputError(
            f"{path}: there must be at least one encounter history ending in ';', but there is none. "
            "Check that it is a MARK file."
        )
    names = group_names(lines, groups, path)
    histories = [line.history for line in lines]
    if ldld is None and could_be_ldld(histories):
        how = "ldld=True or ldld=False (--ldld or --no-ldld)" if states else "format mark-live or mark-ldld"
        raise InputError(
            f"{path}: these histories could be live encounters, or pairs of live and dead ones (LDLD). "
            f"Say which: {how}."
        )
    codes = states_in(histories, bool(ldld), path) if states else ()
    rows = Rows(lines, names, bool(ldld), first_year, ages, lengths, codes)
    return rows.histories(path, tail)


_HEADER = re.compile(r"recovery\s+matrix(?:\s+group\s*=\s*(\d+))?", re.IGNORECASE)


def read_recovery_matrix(path: str | Path, *, ages: Sequence[int] = (0,), first_year: int = 1) -> ReleaseArrays:
    """Read ``recovery matrix group=g;``, triangular rows, then a row of releases, for each group.

    ``ages`` gives the completed years at marking of each group; a single one holds for all.
    """
    blocks: list[list[tuple[int, list[int]]]] = []
    for record in records_of(path):
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
        blocks[-1].append((record.line, [integer(x, f"{path}:{record.line}") for x in re.split(r"[\s,]+", text)]))
    if not blocks:
        raise InputError(f"{path}: there must be a recovery matrix, but there is none. Check that it is a MARK file.")
    group_ages = ages_of(ages, len(blocks), path)
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


def read_rmark(
    path: str | Path, *, ldld: bool | None = None, ages: Sequence[int] = (0,), first_year: int = 1, tail: bool = True
) -> Histories:
    """Read a table with a column ``ch`` and optionally ``freq``; all other columns are kept by name.

    Letters in the histories are states. Leading zeros of a history must be there: quote the column if a spreadsheet
    eats them.
    """
    rows = list(table_rows(path, required=("ch",)))
    lines = [
        Line(row.cells["ch"], [row.cells.get("freq", "1")], f"{row.place}: history {row.cells['ch']}") for row in rows
    ]
    histories = [line.history for line in lines]
    if ldld is None and could_be_ldld(histories):
        raise InputError(
            f"{path}: these histories could be live encounters, or pairs of live and dead ones (LDLD). "
            "Say which: ldld=True or ldld=False (--ldld or --no-ldld)."
        )
    has_states = any(c.isalpha() for history in histories for c in history)
    states = states_in(histories, bool(ldld), path) if has_states else ()
    whole = Rows(lines, ("1",), bool(ldld), first_year, ages, None, states).histories(path, tail)
    if len(whole.codes) != len(rows):
        raise InputError(f"{path}: every line must have a frequency that is not 0. Remove the lines without birds.")
    others = [name for name in rows[0].cells if name not in ("ch", "freq")]
    columns = {name: np.array([row.cells[name] for row in rows]) for name in others}
    return replace(whole, columns=columns, notes=())


def read_headed(path: str | Path, *, ages: Sequence[int] = (0,), first_year: int = 1) -> Histories:
    """Read an E-SURGE or U-CARE headed file: ``H:`` columns of a history, ``S:`` frequencies, ``$COV:`` covariates."""
    text = [line for line in text_of(path).splitlines() if line.strip()]
    separator = separator_of(text[0])
    header = [cell.strip() for cell in (text[0].split(separator) if separator else text[0].split()) if cell.strip()]
    kinds = [re.match(r"(H|S|\$COV)\s*:\s*(.*)", cell) for cell in header]
    if not kinds or any(kind is None for kind in kinds):
        raise InputError(
            f"{path}:1: a headed file begins with H:, S: and $COV: for each column, but got {text[0][:60]!r}. "
            "Check the header."
        )
    found = [(kind.group(1), kind.group(2).strip()) for kind in kinds if kind]
    lines = []
    for number, line in enumerate(text[1:], 2):
        cells = [cell.strip().rstrip(";") for cell in (line.split(separator) if separator else line.split())]
        cells = [cell for cell in cells if cell]
        if len(cells) != len(found):
            raise InputError(
                f"{path}:{number}: there must be {len(found)} cells, as in the header, but got {len(cells)}. "
                "Correct that row."
            )
        history = "".join(cell for cell, (kind, _) in zip(cells, found, strict=True) if kind == "H")
        rest = [cell for kind in ("S", "$COV") for cell, (k, _) in zip(cells, found, strict=True) if k == kind]
        lines.append(Line(history, rest, f"{path}:{number}: history {history}"))
    groups = [name or str(n) for n, (kind, name) in enumerate((f for f in found if f[0] == "S"), 1)]
    if not groups:
        raise InputError(f"{path}:1: a headed file must have a column S: of frequencies, but has none. Add one.")
    whole = Rows(lines, tuple(groups), False, first_year, ages, None).histories(path, False)
    names = [name for kind, name in found if kind == "$COV"]
    columns = {name or key: values for name, (key, values) in zip(names, whole.columns.items(), strict=True)}
    return replace(whole, columns=columns, notes=())
