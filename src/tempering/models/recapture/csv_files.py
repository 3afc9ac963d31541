"""Read and write CSV: encounter histories, m- and d-arrays, sufficient statistics."""

import csv
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.histories import ADULT, Histories
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.text_files import Row, table_rows

_AGES = {"chick": 0, "young": 0, "adult": ADULT}
_STATISTICS = {"W": "seen", "Z": "missed", "D": "recovered", "V": "vanished"}


def read_histories(path: str | Path, *, tail: bool = False, dead: bool | None = None) -> Histories:
    """Read a line for each bird: ``id``, optionally ``age_at_marking`` or ``cohort``, then a column for each
    year.

    Entries are 0, 1 (alive), 2 (recovered dead in the interval that ends there) or 3, read as 0. Ages are
    completed years, ``chick`` or ``adult``; without the column every bird is a chick. Other columns (sex, site, mass)
    are kept: `Histories.by` makes groups of one. Years that are missing make longer intervals. With ``tail`` the last
    column holds recoveries after the last occasion. ``dead=None`` takes recoveries to be collected if there are any.
    """
    rows = list(table_rows(path, required=("id",)))
    year_columns = _year_columns(rows, r"[yYX]?(\d+)", path, consecutive=False)
    others = [c for c in rows[0].cells if c not in {"id", "age_at_marking", "cohort", "frequency", *year_columns}]
    codes = np.array([[_code(row, c) for c in year_columns] for row in rows])
    years = np.array(list(year_columns.values()))
    places = tuple(f"{row.place}: bird {row.cells['id']}" for row in rows)
    first = (codes != 0).argmax(axis=1)
    for row, place, start in zip(rows, places, first, strict=True):
        if "cohort" in row.cells and row.integer("cohort") != years[start]:
            raise InputError(
                f"{place}: its cohort is {row.cells['cohort']}, but it is first met in {years[start]}. "
                "Correct one of the two."
            )
    n_recoded, n_repeated = int((codes == 3).sum()), len(rows) - len({row.cells["id"] for row in rows})
    notes = {
        f"entries of 3 read as 0: {n_recoded}": n_recoded,
        f"rows whose id occurred before, each read as a bird of its own: {n_repeated}": n_repeated,
    }
    has_dead = bool((codes == 2).any()) if dead is None else dead
    return Histories(
        np.where(codes == 3, 0, codes),
        years,
        age=np.array([_age(row) for row in rows]),
        number=np.array([row.integer("frequency") if "frequency" in row.cells else 1 for row in rows]),
        tail=tail,
        dead=has_dead,
        labels=places,
        notes=tuple(note for note, n in notes.items() if n),
        columns={name: np.array([row.cells[name] for row in rows]) for name in others},
    )


def read_arrays(path: str | Path) -> ReleaseArrays:
    """Read ``release_year, [group,] age, n_released, recapYEAR..., deadYEAR..., never``; row sums are checked.

    ``age`` (or ``completed_years_at_release``) is in completed years. A ``dead`` year past the last
    ``recap`` year means that recoveries run past the last occasion; no ``dead`` columns, that none were
    collected.
    """
    rows = list(table_rows(path, required=("release_year", "n_released", "never")))
    age_column = next((c for c in ("age", "completed_years_at_release") if c in rows[0].cells), None)
    recap = _year_columns(rows, r"recap_?(\d+)", path, optional=True)
    dead = _year_columns(rows, r"dead_?(\d+)", path, optional=True)
    known = {"release_year", "n_released", "never", "group", age_column, *recap, *dead}
    if set(rows[0].cells) - known:
        raise InputError(
            f"{path}:1: unknown columns {sorted(set(rows[0].cells) - known)}. "
            "Remove them, or check the names of the others."
        )
    ends = sorted({*recap.values(), *dead.values()})
    if not ends or ends != list(range(ends[0], ends[-1] + 1)):
        raise InputError(
            f"{path}:1: recap and dead columns must cover consecutive years, but cover {ends}. "
            "Add the years that are missing, with zeros."
        )
    years = np.array(ends) - 1
    groups = tuple(dict.fromkeys(row.cells.get("group", "") for row in rows))
    recaptured, recovered = _encounters(rows, recap, dead, ends)
    return ReleaseArrays(
        interval=np.array([row.integer("release_year") for row in rows]) - years[0],
        age=np.array([row.integer(age_column) if age_column else 0 for row in rows]),
        recaptured=recaptured,
        recovered=recovered,
        never=np.array([row.integer("never") for row in rows]),
        years=years,
        tail=bool(recap and dead and max(dead.values()) > max(recap.values())) or not recap,
        live=bool(recap),
        dead=bool(dead),
        group=np.array([groups.index(row.cells.get("group", "")) for row in rows]),
        groups=groups,
    )


def _encounters(rows: list[Row], recap: dict[str, int], dead: dict[str, int], ends: list[int]) -> NDArray[np.int64]:
    """Return the birds of each row next met alive, and next met dead, by year."""
    table = np.zeros((2, len(rows), len(ends)), np.int64)
    for i, row in enumerate(rows):
        for kind, columns in enumerate((recap, dead)):
            for column, year in columns.items():
                table[kind, i, year - ends[0]] = row.count(column)
        total = table[:, i].sum() + row.count("never")
        if total != row.integer("n_released"):
            raise InputError(
                f"{row.place}: n_released is {row.integer('n_released')}, but the row adds up to {total}. "
                "Correct one of the two."
            )
    return table


def read_counts(path: str | Path, *, tail: bool = False) -> Counts:
    """Read ``stat, age_class, interval_start_year, count``, stat being W, Z, D or V.

    Cells not named are 0. A file without any line of D is of a study without recoveries, one without W of a
    study without recaptures. ``tail``: the last interval follows the last occasion.
    """
    rows = list(table_rows(path, required=("stat", "age_class", "interval_start_year", "count")))
    entries: dict[tuple[str, str, int, int], int] = {}
    for row in rows:
        name = row.cells["stat"]
        if name not in _STATISTICS:
            raise InputError(f"{row.place}: stat must be one of W, Z, D, V, but is {name!r}. Correct that cell.")
        age = row.cells["age_class"].rstrip("+")
        if not age.isdigit() or age == "0":
            raise InputError(
                f"{row.place}: age_class must be 1, 2, ..., but is {row.cells['age_class']!r}. Correct that cell."
            )
        key = (_STATISTICS[name], row.cells.get("group", ""), int(age), row.integer("interval_start_year"))
        if key in entries:
            raise InputError(
                f"{row.place}: {name} of class {age} in {key[3]} is given twice. Remove one of the two rows."
            )
        entries[key] = row.count("count")
    first, last = min(k[3] for k in entries), max(k[3] for k in entries)
    groups = tuple(dict.fromkeys(k[1] for k in entries))
    n_classes = max(k[2] for k in entries)
    shape = (n_classes * len(groups), last - first + 1)
    matrices = {name: np.zeros(shape, np.int64) for name in _STATISTICS.values()}
    for (name, group, age_class, year), count in entries.items():
        matrices[name][groups.index(group) * n_classes + age_class - 1, year - first] = count
    seen, missed, recovered, vanished = (matrices[name] for name in _STATISTICS.values())
    live, dead = (any(key[0] == name for key in entries) for name in ("seen", "recovered"))
    years = np.arange(first, last + 1)
    return Counts(seen, missed, recovered, vanished, years, tail=tail, live=live, dead=dead, groups=groups)


def write_arrays(arrays: ReleaseArrays, path: str | Path) -> None:
    """Write m- and d-arrays in the form that `read_arrays` reads."""
    ends = arrays.years + 1
    live = list(ends[: len(ends) - arrays.tail]) if arrays.live else []
    dead = list(ends) if arrays.dead else []
    grouped = len(arrays.groups) > 1
    header = ["release_year", *(["group"] if grouped else []), "age", "n_released"]
    header += [*(f"recap{y}" for y in live), *(f"dead{y}" for y in dead), "never"]
    body = [
        [arrays.years[arrays.interval[i]], *([arrays.groups[arrays.group[i]]] if grouped else []), arrays.age[i],
         arrays.released[i], *arrays.recaptured[i][: len(live)], *arrays.recovered[i][: len(dead)], arrays.never[i]]
        for i in range(len(arrays.interval))
    ]  # fmt: skip
    _write(path, header, body)


def write_counts(counts: Counts, path: str | Path) -> None:
    """Write W, Z, D and V over the active cells, in the form that `read_counts` reads; groups in a column more."""
    cells, names = np.argwhere(counts.active), counts.column_names()
    grouped = len(counts.groups) > 1
    body = [
        [letter, *([names[c][0]] if grouped else []), names[c][1], counts.years[t], getattr(counts, name)[c, t]]
        for letter, name in _STATISTICS.items()
        if (letter != "D" or counts.dead) and (letter != "W" or counts.live)
        for c, t in cells
    ]
    _write(path, ["stat", *(["group"] if grouped else []), "age_class", "interval_start_year", "count"], body)


def _write(path: str | Path, header: list[str], body: list[list[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(body)


def _year_columns(
    rows: list[Row], pattern: str, path: str | Path, *, optional: bool = False, consecutive: bool = True
) -> dict[str, int]:
    found = {c: int(m.group(1)) for c in rows[0].cells if (m := re.fullmatch(pattern, c))}
    years = list(found.values())
    if not consecutive and len(years) > 1 and years == sorted(years):
        return found
    if (not years and not optional) or years != list(range(years[0], years[0] + len(years)) if years else []):
        raise InputError(
            f"{path}:1: the year columns must be consecutive and in order, but are {list(found)}. "
            "Sort them, and add the years that are missing."
        )
    return found


def _code(row: Row, column: str) -> int:
    text = row.cells[column]
    if text not in ("0", "1", "2", "3"):
        raise InputError(
            f"{row.place}: bird {row.cells['id']}: {column} must be 0, 1, 2 or 3, but is {text!r}. Correct that cell."
        )
    return int(text)


def _age(row: Row) -> int:
    text = row.cells.get("age_at_marking", "chick")
    return _AGES[text] if text in _AGES else row.integer("age_at_marking")
