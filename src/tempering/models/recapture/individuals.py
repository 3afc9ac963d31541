"""Individual covariates: birds that have the same ones form a stratum, which has counts of its own.

Covariates are standardised over the birds. Where there are too many different values they are rounded, and a note says
how far.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.layout import Floats, Ints
from tempering.models.recapture.stages import Stages

MOST_STRATA = 120  # the cost of an iteration grows with them
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # standard deviations that values may be rounded to


@dataclass(frozen=True, eq=False)
class Individuals:
    """Strata of birds.

    ``names`` (M,); ``x`` (S, M), standardised; ``counts`` (S,), of each stratum; ``may`` (Q, M), which parameter may
    depend on which covariate; ``notes``, what was done to the values.
    """

    names: tuple[str, ...]
    x: Floats
    counts: tuple[Counts, ...]
    may: Ints
    notes: tuple[str, ...] = ()


def covariates_of(data: Any, names: Sequence[str], missing: Mapping[str, Any]) -> tuple[Floats, tuple[str, ...]]:
    """Return the covariates (bird, M) of histories, standardised, and what was done to missing ones."""
    if not isinstance(data, Histories):
        raise InputError(f"The individual covariate {names[0]!r} needs encounter histories, one line for each bird.")
    columns, notes = [], []
    number = np.abs(data.number).astype(float)
    for name in names:
        x = _numbers(data.columns[name], name)
        lacks = ~np.isfinite(x)
        if lacks.any():
            filled, note = _filled(x, lacks, number, name, missing)
            x = np.where(lacks, filled, x)
            notes.append(note)
        mean = np.average(x, weights=number)
        sd = np.sqrt(np.average((x - mean) ** 2, weights=number))
        if sd == 0:
            raise InputError(f"The covariate {name!r} is the same for all birds. Leave it out.")
        columns.append((x - mean) / sd)
    return np.column_stack(columns), tuple(notes)


def _numbers(column: Any, name: str) -> Floats:
    out = np.full(len(column), np.nan)
    for i, value in enumerate(column):
        text = str(value).strip()
        if text.lower() not in ("", ".", "na", "nan", "none"):
            try:
                out[i] = float(text)
            except ValueError:
                raise InputError(
                    f"The covariate {name!r} must be a number for every bird, but one has {text!r}. Name the column "
                    "in groups= if it tells groups apart."
                ) from None
    return out


def _filled(x: Floats, lacks: Any, number: Floats, name: str, missing: Mapping[str, Any]) -> tuple[float, str]:
    n = int(number[lacks].sum())
    if name not in missing:
        raise InputError(
            f"{n} birds have no {name!r}. Leave them out, or say what they get: missing={{{name!r}: 'mean'}} "
            f"(--missing {name}=mean), or a number."
        )
    if missing[name] == "mean":
        return float(np.average(x[~lacks], weights=number[~lacks])), f"{n} birds without {name} have its mean"
    return float(missing[name]), f"{n} birds without {name} have {float(missing[name]):g}"


def rounded(x: Floats) -> tuple[Floats, str]:
    """Round standardised values until there are few enough different ones; say how far."""
    if len(np.unique(x, axis=0)) <= MOST_STRATA:
        return x, ""
    for step in STEPS:
        coarse = np.round(x / step) * step
        if len(np.unique(coarse, axis=0)) <= MOST_STRATA or step == STEPS[-1]:
            break
    return coarse, f"individual covariates are rounded to {step:g} standard deviations"


def strata_of(
    data: Histories, names: Sequence[str], may: Any, missing: Mapping[str, Any], age_classes: int, stages: Stages = ()
) -> Individuals:
    """Put birds with the same covariates together, and count each stratum."""
    x, notes = covariates_of(data, names, missing)
    x, note = rounded(x)
    keep = _says_something(data)
    distinct, index = np.unique(x[keep], axis=0, return_inverse=True)
    rows = np.flatnonzero(keep)
    parts = [data.taken(rows[np.ravel(index) == s]) for s in range(len(distinct))]
    counts = tuple(part.to_arrays(stages).to_counts(age_classes) for part in parts)
    return Individuals(
        tuple(names), distinct, counts, np.asarray(may, np.int64), (*notes, *([note] if note else []))
    )  # fmt: skip


def _says_something(data: Histories) -> Any:
    """Return which birds are followed at all: not those marked at the last occasion, or taken away when marked."""
    n_met, first = (data.codes > 0).sum(axis=1), (data.codes > 0).argmax(axis=1)
    return (first < data.n_intervals) & ((n_met > 1) | (data.number > 0))
