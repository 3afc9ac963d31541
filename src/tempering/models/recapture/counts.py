"""The four count matrices that suffice for the integrated likelihood, and what fidelity needs beside them.

A live bird in age class j at the start of interval t adds one to exactly one of the four, whatever happened
to it before, so that the cost of a likelihood does not grow with the number of birds (Catchpole et al. 1998).
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.stages import Stages

MAX_AGE_CLASSES = 8

Matrix = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """Sufficient statistics of a mark-recapture-recovery study.

    Parameters
    ----------
    seen : (C, K) integers
        W: birds seen alive at the end of interval t which were in column c during it. Columns are the age classes, or
        those of each group in turn.
    missed : (C, K) integers
        Z: birds known from a later encounter to have survived interval t, but not seen at its end.
    recovered : (C, K) integers
        D: birds recovered dead in interval t.
    vanished : (C, K) integers
        V: birds seen alive at the start of interval t and never met again.
    years : (K,) integers
        The year in which each interval starts.
    tail : bool
        Whether the last interval begins at the last occasion (K = T): no bird is recaptured after it.
    live, dead : bool
        Whether the study looked for live birds after marking, and whether it collected recoveries.
    notes : tuple of str
        What a reader of the results must know about the data.
    groups : tuple of str
        Names of the groups of birds; a single one without a name by default.
    lengths : (K,) floats, optional
        Lengths of the intervals, in the unit that survival is for; 1 by default.
    unsampled : tuple of int
        Intervals, from 0, at whose end nobody looked for live birds.
    found : (K, C, K) integers, optional
        Birds released at the start of interval t in column c and next met dead in interval d; fidelity needs them.
    stages : tuple of str
        Stages after a capture, or states (`stages`), if told apart: ``groups`` are then those of each group in turn.
    entered : (C, K) integers, optional
        Birds first caught at the end of interval t, where growth and abundance are asked for; the first interval is
        then one before the first occasion, in which nothing lives (`with_entry`).
    moves : (K, C, K (S + 1) + 1) integers, optional
        Birds released at the start of interval t in column c, by interval and state in which they are next seen, by
        interval in which they are next found dead, and never: the stages are then states (`states`), and the four
        matrices are empty.

    Examples
    --------
    >>> c = Counts(seen=[[5]], missed=[[0]], recovered=[[1]], vanished=[[4]], years=[1990])
    >>> c.n_age_classes, c.n_intervals
    (1, 1)
    """

    seen: Matrix
    missed: Matrix
    recovered: Matrix
    vanished: Matrix
    years: Matrix
    tail: bool = False
    live: bool = True
    dead: bool = True
    notes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("",)
    lengths: Any = None
    unsampled: tuple[int, ...] = ()
    found: Any = None
    stages: Stages = ()
    entered: Any = None
    moves: Any = None

    def __post_init__(self) -> None:
        for field in fields(self)[:4]:
            object.__setattr__(self, field.name, _counts(field.name, getattr(self, field.name), self.shape))
        years = np.array(self.years, np.int64)
        if years.shape != (self.n_intervals,):
            raise InputError(
                f"There must be one year for each of the {self.n_intervals} intervals, but got {years.size}. "
                "Name the year in which each interval starts."
            )
        years.flags.writeable = False
        object.__setattr__(self, "years", years)
        lengths = np.ones(self.n_intervals) if self.lengths is None else np.array(self.lengths, float)
        if lengths.shape != (self.n_intervals,) or not (lengths > 0).all():
            raise InputError(
                f"There must be a positive length for each of the {self.n_intervals} intervals, but got {lengths}. "
                "Pass one number for each."
            )
        object.__setattr__(self, "lengths", lengths)
        self._check()

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and intervals."""
        n_columns, n_intervals = np.atleast_2d(np.asarray(self.seen)).shape
        return n_columns, n_intervals

    @property
    def n_columns(self) -> int:
        """Return C, age classes times groups."""
        return self.shape[0]

    @property
    def n_age_classes(self) -> int:
        """Return A."""
        return self.shape[0] // len(self.groups)

    @property
    def n_intervals(self) -> int:
        """Return K."""
        return self.shape[1]

    @property
    def active(self) -> NDArray[np.bool_]:
        """Cells (c, t) which a marked bird can be in: those with birds, and whatever follows from them."""
        entered = (self.seen + self.missed + self.recovered + self.vanished) > 0
        if self.moves is not None:  # in a state, or wherever it may have moved
            released = self.moves.sum(axis=2).T.reshape(-1, len(self.stages), self.n_age_classes, self.n_intervals) > 0
            entered = np.broadcast_to(released.any(axis=1, keepdims=True), released.shape).reshape(self.shape).copy()
        for t in range(1, self.n_intervals):
            for c, on in enumerate(self.following):
                entered[on, t] |= entered[c, t - 1]
        return entered

    @property
    def following(self) -> list[int]:
        """The column that a bird of each column is in an interval later."""
        a, s = self.n_age_classes, 1 if self.moves is not None else len(self.stages) or 1
        places = (divmod(c, a) for c in range(self.n_columns))
        return [(group - group % s + s - 1) * a + min(age + 1, a - 1) for group, age in places]

    @property
    def idle(self) -> tuple[int, ...]:
        """Columns that no bird is ever in because of the stages: a chick cannot have been missed before."""
        return tuple(np.flatnonzero(~self.active.any(axis=1)).tolist()) if self.stages and self.moves is None else ()

    def with_entry(self, entered: Any) -> "Counts":
        """Add first captures at each occasion (C, K + 1), and an interval before the first occasion."""

        def behind(matrix: Any) -> Any:
            return np.pad(matrix, ((0, 0), (1, 0)))

        found = None if self.found is None else np.pad(self.found, ((1, 0), (0, 0), (1, 0)))
        return replace(
            self, seen=behind(self.seen), missed=behind(self.missed), recovered=behind(self.recovered),
            vanished=behind(self.vanished), years=np.append(self.years[0] - 1, self.years),
            lengths=[1.0, *self.lengths],
            unsampled=tuple(t + 1 for t in self.unsampled), found=found,
            entered=np.array(entered, np.int64)[:, : self.n_intervals + 1],
        )  # fmt: skip

    @property
    def has_unequal_lengths(self) -> bool:
        """Whether intervals differ in length."""
        return bool((self.lengths != 1.0).any())

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that the study can speak of."""
        entry = ("gamma",) if self.entered is not None else ()
        states = ("psi", "to")[: len(self.stages) - 1] if self.moves is not None else ()
        return ("phi", *(("p",) if self.live else ()), *(("lambda",) if self.dead else ()), *entry, *states)

    def class_names(self) -> list[str]:
        """Return "1", "2", ..., with a plus on the last class, which is open."""
        last = self.n_age_classes
        return [f"{j}+" if j == last else str(j) for j in range(1, last + 1)]

    def column_names(self) -> list[tuple[str, str]]:
        """Return group and age class of each column."""
        return [(group, name) for group in self.groups for name in self.class_names()]

    def _check(self) -> None:
        if self.shape[0] % len(self.groups):
            raise InputError(
                f"{len(self.groups)} groups must have equally many age classes, but there are {self.shape[0]} rows. "
                "Give the classes of each group in turn."
            )
        if not 1 <= self.n_age_classes <= MAX_AGE_CLASSES:
            raise InputError(
                f"There must be 1 to {MAX_AGE_CLASSES} age classes, but got {self.n_age_classes}. "
                "Ask for fewer: the last class takes all older birds."
            )
        if self.tail and (self.seen[:, -1].any() or self.missed[:, -1].any()):
            raise InputError(
                "No bird can be known alive after the last interval when that follows the last occasion. "
                "Set the last column of 'known' to zero, or leave the last interval out."
            )
        if not self.dead and self.recovered.any():
            raise InputError(
                f"A study without recoveries must have D = 0, but {self.recovered.sum()} were recovered. "
                "Leave recoveries in the model, or drop those birds' recoveries."
            )
        if not self.live and self.seen.any():
            raise InputError(
                f"A study without recaptures must have W = 0, but {self.seen.sum()} birds were seen again. "
                "Leave recaptures in the model, or drop those sightings."
            )
        if not self.active.any():
            raise InputError(
                "There must be at least one marked bird with an interval to follow, but every count is zero. "
                "Check that the file holds the data you meant."
            )


def _counts(name: str, values: Any, shape: tuple[int, int]) -> Matrix:
    raw = np.atleast_2d(np.asarray(values))
    if raw.shape != shape:
        raise InputError(
            f"The matrix of {name!r} must have the shape {shape} of 'seen', but has {raw.shape}. "
            "Pass all matrices with one row per age class."
        )
    matrix = np.array(raw, np.int64)
    if not np.array_equal(matrix, raw) or (matrix < 0).any():
        raise InputError(
            f"The matrix of {name!r} must hold counts, but has {raw[raw != np.abs(matrix)][:3]}. "
            "Pass whole numbers that are not negative."
        )
    matrix.flags.writeable = False
    return matrix
