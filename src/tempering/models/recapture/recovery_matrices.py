"""Read the recovery matrices of Program MARK."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.mark_records import ages_of, integer, records_of
from tempering.models.recapture.release_arrays import Integers, ReleaseArrays

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
