"""Read what other programs write: RMark's tables of ch and freq, and the headed files of E-SURGE and U-CARE."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.history_rows import Line, Rows, could_be_ldld, states_in
from tempering.models.recapture.text_files import separator_of, table_rows, text_of


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
