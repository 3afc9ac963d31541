"""One door to every file format, and a sentence about what came through it."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.csv_files import read_arrays, read_counts, read_histories
from tempering.models.recapture.histories import ADULT, Histories
from tempering.models.recapture.mark_files import read_headed, read_mark, read_recovery_matrix, read_rmark
from tempering.models.recapture.movement import counts_by_state
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.stages import Stages
from tempering.models.recapture.text_files import separator_of, text_of

Data = Histories | ReleaseArrays | Counts

FORMATS = (
    "auto", "mark", "mark-live", "mark-ldld", "mark-recovery", "mark-states", "rmark", "headed", "histories",
    "arrays", "counts",
)  # fmt: skip
OF_MARK = {"mark": None, "mark-live": False, "mark-ldld": True}


def read(
    path: str | Path,
    format: str = "auto",
    *,
    groups: int | Sequence[str] | None = None,
    ages: Sequence[int] = (0,),
    first_year: int = 1,
    tail: bool | None = None,
    lengths: Sequence[float] | None = None,
    ldld: bool | None = None,
) -> Data:
    """Read a file of one of the `FORMATS`; gzipped ones too.

    Parameters
    ----------
    path : path
        The file.
    format : str
        ``mark-live`` (MARK's live histories), ``mark-ldld``, ``mark`` (live ones, unless they could be LDLD),
        ``mark-recovery`` (recovery matrices), ``mark-states`` (a letter for each state), ``rmark`` (a table with
        ``ch`` and ``freq``), ``headed`` (E-SURGE, U-CARE), or tables with a header: ``histories``, ``arrays`` (m-
        and d-arrays), ``counts`` (sufficient statistics). By default it is told from the contents.
    groups, ages, first_year, lengths
        For MARK's files, which say none of it; see `read_mark`.
    tail : bool, optional
        Whether recoveries run past the last occasion (K = T); by default only in LDLD files.
    ldld : bool, optional
        Whether the histories of an ``rmark`` table, or of ``mark-states``, are pairs of live and dead encounters.

    Returns
    -------
    Histories, ReleaseArrays or Counts
        Whatever the file holds; `MarkRecapture.fit` takes all of them. `describe` says what was read.
    """
    if format not in FORMATS:
        raise InputError(f"The format must be one of {', '.join(FORMATS)}, but got {format!r}.")
    if format == "auto":
        format = format_of(path)
    keep = True if tail is None else tail
    if format in OF_MARK:
        return read_mark(
            path, ldld=OF_MARK[format], groups=groups, ages=ages, first_year=first_year, tail=keep, lengths=lengths
        )
    if format == "mark-states":
        return read_mark(
            path, ldld=ldld, states=True, groups=groups, ages=ages, first_year=first_year, tail=keep, lengths=lengths
        )
    if format == "mark-recovery":
        return read_recovery_matrix(path, ages=ages, first_year=first_year)
    if format == "rmark":
        return read_rmark(path, ldld=ldld, ages=ages, first_year=first_year, tail=keep)
    if format == "headed":
        return read_headed(path, ages=ages, first_year=first_year)
    if format == "histories":
        return read_histories(path, tail=bool(tail))
    return read_arrays(path) if format == "arrays" else read_counts(path, tail=bool(tail))


def format_of(path: str | Path) -> str:
    """Tell a file's format from its first lines."""
    text = re.sub(r"/\*.*?\*/", " ", text_of(path), flags=re.DOTALL).strip()
    first = text.split("\n", 1)[0].strip()
    separator = separator_of(first)
    header = {cell.strip().strip("\"'") for cell in (first.split(separator) if separator else first.split())}
    if re.match(r"recovery\s+matrix", text, re.IGNORECASE):
        return "mark-recovery"
    if any(cell.startswith("H:") for cell in header):
        return "headed"
    if "ch" in header:
        return "rmark"
    if "stat" in header:
        return "counts"
    if "release_year" in header:
        return "arrays"
    if "id" in header:
        return "histories"
    if re.match(r"[01.]{2,}[\s,]", first) and ";" in text:
        return "mark"
    if re.match(r"(?=[01.]*[A-Z])[01.A-Z]{2,}[\s,]", first) and ";" in text:
        return "mark-states"
    if not text:
        raise InputError(f"{path}: the file is empty. Check that it is the one you meant.")
    raise InputError(
        f"{path}: cannot tell what this file is; it begins with {first[:60]!r}. Tables need a header: histories a "
        "column 'id' and one for each year, RMark's a column 'ch'. MARK's files need a semicolon behind every history; "
        f"where digits or letters are states, say mark-states. Say the format: one of {', '.join(FORMATS[1:])}."
    )


def describe(data: Data) -> str:
    """Say what was read: birds, groups, occasions, encounters, other columns; one line each.

    Examples
    --------
    >>> print(describe(Histories([[1, 0, 1], [1, 2, 0]], years=[1990, 1991, 1992])))
    Birds: 2, all marked as chicks (age 0).
    Occasions: 3, 1990 to 1992.
    Encounters after marking: 1 alive, 1 found dead.
    """
    said = [*_birds(data), *_occasions(data), *_encounters(data)]
    if isinstance(data, Histories) and data.columns:
        said.append(f"Other columns, not used unless named: {', '.join(_column(data, name) for name in data.columns)}.")
    return "\n".join([*said, *(f"Note: {note}." for note in data.notes)])


def _birds(data: Histories | ReleaseArrays | Counts) -> list[str]:
    if not isinstance(data, Histories):
        names = ", ".join(data.groups) if len(data.groups) > 1 else ""
        released = f"Releases: {int(data.released.sum())}." if isinstance(data, ReleaseArrays) else ""
        return [line for line in (released, f"Groups: {names}." if names else "") if line]
    ages = {int(a): int(np.abs(data.number[data.age == a]).sum()) for a in np.unique(data.age)}
    words = {0: "as chicks (age 0)", ADULT: "as adults"}
    named = [f"{n} {words.get(a, f'at age {a}')}" for a, n in ages.items()]
    marked = f"all marked {named[0].split(' ', 1)[1]}" if len(ages) == 1 else f"marked {', '.join(named)}"
    said = [f"Birds: {data.n_birds}, {marked}."]
    kept = int(-data.number[data.number < 0].sum())
    if kept:
        said.append(f"Not released after their last capture: {kept}.")
    if len(data.groups) > 1:
        said.append(f"Groups: {', '.join(f'{name} ({n} birds)' for name, n in data.sizes.items())}.")
    if data.states:
        seen = (data.codes == 1) * np.abs(data.number)[:, None]
        times = [f"{name} (seen {seen[data.seen_in == s].sum()} times)" for s, name in enumerate(data.states)]
        said.append(f"States: {', '.join(times)}.")
    return said


def _occasions(data: Histories | ReleaseArrays | Counts) -> list[str]:
    if isinstance(data, Histories):
        years = data.years[: len(data.years) - data.tail]
        gaps = np.diff(data.years) if data.lengths is None else np.asarray(data.lengths)
        unsampled = [int(data.years[t]) for t in data.unsampled]
    else:
        years = np.append(data.years, data.years[-1] + 1)[: len(data.years) + 1 - data.tail]
        gaps = np.ones(1) if data.lengths is None else np.asarray(data.lengths)
        unsampled = [int(data.years[t]) + 1 for t in data.unsampled]
    said = [f"Occasions: {len(years)}, {years[0]} to {years[-1]}."]
    if data.tail and data.dead:
        said.append("Recoveries after the last occasion are counted.")
    if (gaps != 1).any():
        shown = ", ".join(f"{gap:g}" for gap in gaps)
        said.append(f"Intervals of unequal length ({shown}): survival is per unit of time.")
    if unsampled:
        said.append(f"Nobody looked for birds in {', '.join(map(str, unsampled))}.")
    return said


def _encounters(data: Histories | ReleaseArrays | Counts) -> list[str]:
    if isinstance(data, Histories):
        alive = int((np.abs(data.number) * ((data.codes == 1).sum(axis=1) - 1)).sum())
        found = int((np.abs(data.number) * (data.codes == 2).sum(axis=1)).sum())
    elif isinstance(data, ReleaseArrays):
        alive, found = int(data.recaptured.sum()), int(data.recovered.sum())
    else:
        alive, found = int(data.seen.sum()), int(data.recovered.sum())
    live = isinstance(data, Histories) or data.live
    parts = [f"{alive} alive" if live else "no live ones collected"]
    parts.append(f"{found} found dead" if data.dead else "no recoveries collected")
    return [f"Encounters after marking: {', '.join(parts)}."]


def _column(data: Histories, name: str) -> str:
    values = {str(x) for x in data.columns[name]}
    return f"{name} ({', '.join(sorted(values))})" if len(values) <= 4 else f"{name} ({len(values)} values)"


def as_counts(data: Data, age_classes: int, stages: Stages = ()) -> Counts:
    """Turn any data into sufficient statistics with ``age_classes`` classes, by stages if there are any."""
    if isinstance(data, Histories) and data.states:
        return counts_by_state(data, age_classes)
    if not isinstance(data, Counts):
        return data.staged(stages).to_counts(age_classes)
    if data.stages != stages:
        raise InputError(
            "Trap dependence and transience need encounter histories (or, for traps, an m-array): counts do not say "
            "when birds were last seen."
        )
    if data.n_age_classes != age_classes:
        raise InputError(
            f"The counts have {data.n_age_classes} age classes, but {age_classes} were asked for; "
            "counts cannot be split, so give the histories or age_classes=" + str(data.n_age_classes) + "."
        )
    return data


def grouped(
    data: Histories | ReleaseArrays | Counts, groups: str | None
) -> tuple[Histories | ReleaseArrays | Counts, str]:
    """Return the data in groups, and what the groups are called; pooled, with a note, where none are asked for."""
    if groups is None:
        if len(data.groups) == 1:
            return data, "group"
        if isinstance(data, Counts):
            raise InputError(
                f"These counts come in {len(data.groups)} groups. Ask for them (groups='group'), or pool them yourself."
            )
        names = ", ".join(data.groups)
        note = f"{len(data.groups)} groups ({names}) are pooled; groups='group' (--by group) tells them apart"
        pooled = data.pooled()
        object.__setattr__(pooled, "notes", (*pooled.notes, note))
        return pooled, "group"
    if groups == "group":
        if len(data.groups) == 1:
            raise InputError(
                "The data come in one group only. Name a column that tells groups apart, or leave groups out."
            )
        return data, groups
    if not isinstance(data, Histories):
        raise InputError("Groups by a column need encounter histories. Leave groups out, or give histories.")
    return data.by(groups), groups
