"""Read and write CSV: encounter histories, m- and d-arrays, sufficient statistics."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.histories import ADULT, Histories
from tempering.models.recapture.release_arrays import ReleaseArrays

_AGES = {"chick": 0, "young": 0, "adult": ADULT}
_STATISTICS = {"W": "seen", "Z": "missed", "D": "recovered", "V": "vanished"}


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


def read_histories(path: str | Path, *, tail: bool = False, dead: bool | None = None) -> Histories:
    """Read a line for each bird: ``id``, optionally ``age_at_marking`` or ``cohort``, then a column for each
    year.

    Entries are 0, 1 (alive), 2 (recovered dead in the interval that ends there) or 3, read as 0. Ages are
    completed years, ``chick`` or ``adult``; without the column every bird is a chick. With ``tail`` the last
    column holds recoveries after the last occasion. ``dead=None`` takes recoveries to be collected if there
    are any.
    """
    rows = list(_rows(path, required=("id",)))
    year_columns = _year_columns(rows, r"y?(\d+)", path)
    unknown = set(rows[0].cells) - {"id", "age_at_marking", "cohort", "frequency", *year_columns}
    if unknown:
        raise InputError(f"{path}:1: unknown columns {sorted(unknown)}. Remove them, or check the names of the others.")
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
    n_recoded = int((codes == 3).sum())
    has_dead = bool((codes == 2).any()) if dead is None else dead
    return Histories(
        np.where(codes == 3, 0, codes),
        years,
        age=np.array([_age(row) for row in rows]),
        number=np.array([row.integer("frequency") if "frequency" in row.cells else 1 for row in rows]),
        tail=tail,
        dead=has_dead,
        labels=places,
        notes=(f"{n_recoded} entries of 3 were read as 0",) if n_recoded else (),
    )


def read_arrays(path: str | Path) -> ReleaseArrays:
    """Read ``release_year, age, n_released, recapYEAR..., deadYEAR..., never``; row sums are checked.

    ``age`` (or ``completed_years_at_release``) is in completed years. A ``dead`` year past the last
    ``recap`` year means that recoveries run past the last occasion; no ``dead`` columns, that none were
    collected.
    """
    rows = list(_rows(path, required=("release_year", "n_released", "never")))
    age_column = next((c for c in ("age", "completed_years_at_release") if c in rows[0].cells), None)
    recap = _year_columns(rows, r"recap_?(\d+)", path, optional=True)
    dead = _year_columns(rows, r"dead_?(\d+)", path, optional=True)
    known = {"release_year", "n_released", "never", age_column, *recap, *dead}
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
    table = {
        "recap": np.zeros((len(rows), len(ends)), np.int64),
        "dead": np.zeros((len(rows), len(ends)), np.int64),
    }
    for i, row in enumerate(rows):
        for name, columns in (("recap", recap), ("dead", dead)):
            for column, year in columns.items():
                table[name][i, year - ends[0]] = row.count(column)
        total = table["recap"][i].sum() + table["dead"][i].sum() + row.count("never")
        if total != row.integer("n_released"):
            raise InputError(
                f"{row.place}: n_released is {row.integer('n_released')}, but the row adds up to {total}. "
                "Correct one of the two."
            )
    return ReleaseArrays(
        interval=np.array([row.integer("release_year") for row in rows]) - years[0],
        age=np.array([row.integer(age_column) if age_column else 0 for row in rows]),
        recaptured=table["recap"],
        recovered=table["dead"],
        never=np.array([row.integer("never") for row in rows]),
        years=years,
        tail=bool(recap and dead and max(dead.values()) > max(recap.values())) or not recap,
        live=bool(recap),
        dead=bool(dead),
    )


def read_counts(path: str | Path, *, tail: bool = False) -> Counts:
    """Read ``stat, age_class, interval_start_year, count``, stat being W, Z, D or V.

    Cells not named are 0. A file without any line of D is of a study without recoveries, one without W of a
    study without recaptures. ``tail``: the last interval follows the last occasion.
    """
    rows = list(_rows(path, required=("stat", "age_class", "interval_start_year", "count")))
    entries: dict[tuple[str, int, int], int] = {}
    for row in rows:
        name = row.cells["stat"]
        if name not in _STATISTICS:
            raise InputError(f"{row.place}: stat must be one of W, Z, D, V, but is {name!r}. Correct that cell.")
        age = row.cells["age_class"].rstrip("+")
        if not age.isdigit() or age == "0":
            raise InputError(
                f"{row.place}: age_class must be 1, 2, ..., but is {row.cells['age_class']!r}. Correct that cell."
            )
        key = (_STATISTICS[name], int(age), row.integer("interval_start_year"))
        if key in entries:
            raise InputError(
                f"{row.place}: {name} of class {age} in {key[2]} is given twice. Remove one of the two rows."
            )
        entries[key] = row.count("count")
    first, last = min(k[2] for k in entries), max(k[2] for k in entries)
    matrices = {
        name: np.zeros((max(k[1] for k in entries), last - first + 1), np.int64) for name in _STATISTICS.values()
    }
    for (name, age_class, year), count in entries.items():
        matrices[name][age_class - 1, year - first] = count
    seen, missed, recovered, vanished = (matrices[name] for name in _STATISTICS.values())
    live, dead = (any(key[0] == name for key in entries) for name in ("seen", "recovered"))
    years = np.arange(first, last + 1)
    return Counts(seen, missed, recovered, vanished, years, tail=tail, live=live, dead=dead)


def write_arrays(arrays: ReleaseArrays, path: str | Path) -> None:
    """Write m- and d-arrays in the form that `read_arrays` reads."""
    ends = arrays.years + 1
    live = list(ends[: len(ends) - arrays.tail]) if arrays.live else []
    dead = list(ends) if arrays.dead else []
    header = [
        "release_year",
        "age",
        "n_released",
        *(f"recap{y}" for y in live),
        *(f"dead{y}" for y in dead),
        "never",
    ]
    body = [
        [arrays.years[arrays.interval[i]], arrays.age[i], arrays.released[i],
         *arrays.recaptured[i][: len(live)], *arrays.recovered[i][: len(dead)], arrays.never[i]]
        for i in range(len(arrays.interval))
    ]  # fmt: skip
    _write(path, header, body)


def write_counts(counts: Counts, path: str | Path) -> None:
    """Write W, Z, D and V over the active cells, in the form that `read_counts` reads."""
    cells = np.argwhere(counts.active)
    body = [
        [letter, counts.class_names()[j], counts.years[t], getattr(counts, name)[j, t]]
        for letter, name in _STATISTICS.items()
        if (letter != "D" or counts.dead) and (letter != "W" or counts.live)
        for j, t in cells
    ]
    _write(path, ["stat", "age_class", "interval_start_year", "count"], body)


def _write(path: str | Path, header: list[str], body: list[list[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(body)


def _rows(path: str | Path, required: tuple[str, ...]) -> Iterator[Row]:
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the file must be readable text, but {getattr(error, 'strerror', error)}. "
            "Check the path and the encoding."
        ) from error
    header = [c.strip() for c in next(csv.reader(lines[:1]), [])]
    if len(set(header)) != len(header) or not set(required) <= set(header):
        raise InputError(
            f"{path}:1: the header must name each of {', '.join(required)} once, but is {','.join(header)!r}. "
            "Add or rename the columns."
        )
    body = [(n, next(csv.reader([line]))) for n, line in enumerate(lines[1:], 2) if line.strip()]
    if not body:
        raise InputError(
            f"{path}: there must be a line below the header, but there is none. "
            "Check that the file holds the data you meant."
        )
    for number, cells in body:
        if len(cells) != len(header):
            raise InputError(
                f"{path}:{number}: there must be {len(header)} cells, as in the header, but got {len(cells)}. "
                "Correct that row."
            )
        yield Row(f"{path}:{number}", dict(zip(header, (c.strip() for c in cells), strict=True)))


def _year_columns(rows: list[Row], pattern: str, path: str | Path, *, optional: bool = False) -> dict[str, int]:
    found = {c: int(m.group(1)) for c in rows[0].cells if (m := re.fullmatch(pattern, c))}
    years = list(found.values())
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
