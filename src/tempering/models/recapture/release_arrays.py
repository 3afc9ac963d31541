"""m- and d-arrays: releases, and where and how each was next met (product-multinomial form)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.counts import MAX_AGE_CLASSES, Counts
from tempering.models.recapture.stages import Stages, staged_names

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ReleaseArrays:
    """One row for each (interval of release, age); columns are the intervals of the next encounter.

    Parameters
    ----------
    interval : (R,) integers
        The interval, from 0, at whose start the birds of a row were released.
    age : (R,) integers
        Completed years at release.
    recaptured, recovered : (R, K) integers
        Birds next met alive at the end of an interval, and next met dead within it.
    never : (R,) integers
        Birds never met again.
    years : (K,) integers
        The year in which each interval starts.
    tail, live, dead, notes, groups, lengths, unsampled, stages
        As in `Counts`.
    group : (R,) integers, optional
        Group of each row, from 0.

    Examples
    --------
    >>> arrays = ReleaseArrays([0], [0], recaptured=[[3]], recovered=[[1]], never=[6], years=[1990])
    >>> arrays.released
    array([10])
    """

    interval: Integers
    age: Integers
    recaptured: Integers
    recovered: Integers
    never: Integers
    years: Integers
    tail: bool = False
    live: bool = True
    dead: bool = True
    notes: tuple[str, ...] = ()
    group: Any = None
    groups: tuple[str, ...] = ("",)
    lengths: Any = None
    unsampled: tuple[int, ...] = ()
    stages: Stages = ()

    def __post_init__(self) -> None:
        if self.group is None:
            object.__setattr__(self, "group", np.zeros(len(self.interval), np.int64))
        for name in ("interval", "age", "recaptured", "recovered", "never", "years", "group"):
            array = np.array(getattr(self, name), np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._check()

    @property
    def n_intervals(self) -> int:
        """Return K."""
        return len(self.years)

    @property
    def released(self) -> Any:
        """Birds released in each row."""
        return self.recaptured.sum(axis=1) + self.recovered.sum(axis=1) + self.never

    def _check(self) -> None:
        shape = (len(self.interval), self.n_intervals)
        if self.recaptured.shape != shape or self.recovered.shape != shape:
            raise InputError(
                f"The arrays must be {shape}, but are {self.recaptured.shape} and {self.recovered.shape}. "
                "Give both one row per release and one column per interval."
            )
        if self.age.shape != shape[:1] or self.never.shape != shape[:1]:
            raise InputError(
                f"'age' and 'never' must have one entry for each of the {shape[0]} rows. "
                "Give both as many entries as the arrays have rows."
            )
        early = np.arange(self.n_intervals) < self.interval[:, None]
        for row in range(shape[0]):
            place = f"Releases of {self._year(row)}, age {self.age[row]}"
            entries = np.concatenate([self.recaptured[row], self.recovered[row], [self.never[row]]])
            if (entries < 0).any():
                raise InputError(f"{place}: counts must not be negative, but one is {entries.min()}. Correct that row.")
            if self.recaptured[row][early[row]].any() or self.recovered[row][early[row]].any():
                raise InputError(
                    f"{place}: birds cannot be met before their release. Put those counts at later intervals."
                )
            if self.age[row] < 0 or not 0 <= self.interval[row] < self.n_intervals:
                raise InputError(
                    f"{place}: the age must be 0 or more and the interval one of the {self.n_intervals}. "
                    "Correct that row."
                )

    def _year(self, row: int) -> Any:
        t = int(self.interval[row])
        return self.years[t] if 0 <= t < self.n_intervals else f"interval {t}"

    def classes(self, age_classes: int) -> Integers:
        """Return the age class, from 0, of each row."""
        return np.minimum(self.age, age_classes - 1)

    def columns(self, age_classes: int) -> Integers:
        """Return the column, from 0, of each row: its group's classes in turn."""
        return np.asarray(self.group * age_classes + self.classes(age_classes))

    def path(self, row: int, age_classes: int) -> Integers:
        """Return the columns that birds of a row are in, interval by interval, until they are met again."""
        group, s = int(self.group[row]), len(self.stages) or 1
        steps = np.arange(self.n_intervals - self.interval[row])
        groups = np.where(steps == 0, group, group - group % s + s - 1)
        return np.asarray(groups * age_classes + np.minimum(self.age[row] + steps, age_classes - 1))

    def staged(self, stages: Stages) -> "ReleaseArrays":
        """Tell birds just seen from birds that were missed."""
        if stages == self.stages:
            return self
        if "new" in stages or self.stages:
            raise InputError(
                "Arrays do not say which birds were newly marked, so that transients cannot be told apart. Fit "
                "encounter histories."
            )
        group = self.group * len(stages)
        return replace(self, group=group, groups=staged_names(self.groups, stages), stages=stages)

    def pooled(self) -> "ReleaseArrays":
        """Forget the groups."""
        return replace(self, group=np.zeros_like(self.group), groups=("",))

    def to_counts(self, age_classes: int = 4) -> Counts:
        """Build the sufficient statistics W, Z, D, V with the given number of age classes."""
        if not 1 <= age_classes <= MAX_AGE_CLASSES:
            raise InputError(
                f"There must be 1 to {MAX_AGE_CLASSES} age classes, but got {age_classes}. "
                "Ask for fewer: the last class takes all older birds."
            )
        n_columns, k = age_classes * len(self.groups), self.n_intervals
        seen, missed, recovered, vanished = np.zeros((4, n_columns, k), np.int64)
        found = np.zeros((k, n_columns, k), np.int64)
        for row, (start, column) in enumerate(zip(self.interval, self.columns(age_classes), strict=True)):
            intervals, path = np.arange(start, k), self.path(row, age_classes)
            met = self.recaptured[row, start:] + self.recovered[row, start:]
            seen[path, intervals] += self.recaptured[row, start:]
            recovered[path, intervals] += self.recovered[row, start:]
            missed[path, intervals] += met[::-1].cumsum()[::-1] - met
            vanished[column, start] += self.never[row]
            found[start, column] += self.recovered[row]
        return Counts(
            seen, missed, recovered, vanished, self.years, self.tail, self.live, self.dead, self.notes, self.groups,
            self.lengths, self.unsampled, found, self.stages,
        )  # fmt: skip
