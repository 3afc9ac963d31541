"""Encounter histories, bird by bird, and what follows from them.

``codes[i, t]`` is 0 (not met), 1 (marked or seen alive at occasion t) or 2 (recovered dead in the interval
that ends at t). Column 0 is the first occasion; there are K + 1 columns for K intervals, also when K = T.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.counts import Counts
from tempering.models.recapture.release_arrays import ReleaseArrays
from tempering.models.recapture.stages import AFTER_CAPTURE, Stages, stage_of_release, staged_names

MOST_STATES = 3
ADULT = 99  # completed years of a bird marked as an adult: past every age class


@dataclass(frozen=True, eq=False)
class Histories:
    """Validated encounter histories.

    Parameters
    ----------
    codes : (n, K + 1) integers
        0, 1 or 2, as in the module's head.
    years : (K + 1,) integers
        The year of each column.
    age : (n,) integers, optional
        Completed years at marking; 0 is a chick, 99 an adult. All chicks if left out.
    number : (n,) integers, optional
        Birds with this history. Negative: so many birds, taken away at their last capture (MARK's
        convention).
    group : (n,) integers, optional
        Group of each line, from 1.
    groups : tuple of str
        Names of the groups; "1", "2", ... if left out.
    columns : mapping of str to (n,) array
        What else is known of each line: text (sex, site) or numbers (mass). `by` makes groups of one.
    lengths : (K,) floats, optional
        Lengths of the intervals; by default the differences of the years.
    unsampled : tuple of int
        Columns, from 0, of occasions at which nobody looked for live birds.
    tail : bool
        Whether the last column holds recoveries after the last occasion only (K = T).
    dead : bool
        Whether recoveries were collected.
    labels : tuple of str, optional
        How error messages call each line.
    notes : tuple of str
        What a reader of the results must know about the data.
    states : tuple of str
        Names of the two or three states that birds move between (`tempering.models.recapture.likelihood`), if any.
    seen_in : (n, K + 1) integers
        The state, from 0, of each live encounter; other entries do not count.

    Examples
    --------
    >>> h = Histories([[1, 0, 1], [1, 2, 0]], years=[1990, 1991, 1992])
    >>> h.to_counts(2).recovered
    array([[1, 0],
           [0, 0]])
    """

    codes: NDArray[np.int8]
    years: NDArray[np.int64]
    age: Any = None
    number: Any = None
    group: Any = None
    tail: bool = False
    dead: bool = True
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    lengths: Any = None
    unsampled: tuple[int, ...] = ()
    states: tuple[str, ...] = ()
    seen_in: Any = None

    def __post_init__(self) -> None:
        codes = np.atleast_2d(np.asarray(self.codes)).astype(np.int8)
        n = len(codes)
        self._store("codes", codes)
        self._store("years", np.asarray(self.years, np.int64))
        self._store("age", np.zeros(n, np.int64) if self.age is None else np.asarray(self.age, np.int64))
        self._store("number", np.ones(n, np.int64) if self.number is None else np.asarray(self.number, np.int64))
        self._store("group", np.ones(n, np.int64) if self.group is None else np.asarray(self.group, np.int64))
        self._store("seen_in", np.asarray(self.seen_in, np.int8) if self.states else np.zeros_like(codes))
        if not self.groups:
            object.__setattr__(self, "groups", tuple(str(g + 1) for g in range(max(self.group.max(initial=1), 1))))
        object.__setattr__(self, "labels", self.labels or tuple(f"bird {i + 1}" for i in range(n)))
        _validate(self)
        late = int(np.abs(self.number[_first(codes) == self.n_intervals]).sum())
        if late:
            note = f"{late} birds were marked at the last occasion, so that they say nothing"
            object.__setattr__(self, "notes", (*self.notes, note))

    def _store(self, name: str, array: NDArray[Any]) -> None:
        array = array.copy()
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    @property
    def n_intervals(self) -> int:
        """Return K."""
        return int(self.codes.shape[1]) - 1

    @property
    def n_birds(self) -> int:
        """Birds in all, those taken away included."""
        return int(np.abs(self.number).sum())

    @property
    def sizes(self) -> dict[str, int]:
        """Birds in each group."""
        return {name: int(np.abs(self.number[self.group == g]).sum()) for g, name in enumerate(self.groups, 1)}

    def by(self, column: str) -> "Histories":
        """Make groups of the birds by a column of text or whole numbers."""
        if column not in self.columns:
            known = ", ".join(self.columns) or "none: the file has no such columns"
            raise InputError(f"Groups must be one of the columns ({known}), but got {column!r}.")
        names = sorted({str(x) for x in self.columns[column]})
        if "" in names or "nan" in names:
            raise InputError(f"Some birds have no {column!r}. Fill it in, or leave those birds out.")
        index = {name: g for g, name in enumerate(names, 1)}
        group = np.array([index[str(x)] for x in self.columns[column]])
        others = {name: values for name, values in self.columns.items() if name != column}
        return replace(self, group=group, groups=tuple(names), columns=others)

    def pooled(self) -> "Histories":
        """Forget the groups."""
        return replace(self, group=np.ones_like(self.group), groups=("1",), notes=self._own_notes)

    @property
    def _own_notes(self) -> tuple[str, ...]:
        return tuple(n for n in self.notes if "last occasion" not in n)  # it is made anew

    def select(self, group: int | str) -> "Histories":
        """Keep the birds of one group, by its name or its number."""
        names = [str(n) for n in range(1, len(self.groups) + 1)]
        if str(group) not in (*self.groups, *names):
            raise InputError(f"The group must be one of {', '.join(self.groups)}, but got {group}.")
        which = self.groups.index(str(group)) if str(group) in self.groups else names.index(str(group))
        keep = self.group == which + 1
        if not keep.any():
            raise InputError(f"Group {group} has no birds. Choose another.")
        notes = (*self._own_notes, f"group {self.groups[which]} only")
        return replace(self.taken(keep), group=np.ones(keep.sum(), int), groups=("1",), notes=notes)

    def taken(self, rows: NDArray[Any]) -> "Histories":
        """Keep some lines, given by their numbers or by whether each is kept."""
        kept = np.arange(len(self.codes))[rows]
        return replace(
            self, codes=self.codes[kept], seen_in=self.seen_in[kept], age=self.age[kept], number=self.number[kept],
            group=self.group[kept], columns={name: column[kept] for name, column in self.columns.items()},
            labels=tuple(self.labels[i] for i in kept), notes=self._own_notes,
        )  # fmt: skip

    def to_arrays(self, stages: Stages = ()) -> ReleaseArrays:
        """Count releases and next encounters, each live encounter being a new release; by ``stages`` if any."""
        n_stages, groups = len(stages) or 1, self.groups if len(self.groups) > 1 else ("",)
        rows: dict[tuple[int, int, int], NDArray[np.int64]] = {}
        n_intervals = self.n_intervals
        for codes, age, number, group in zip(self.codes, self.age, self.number, self.group, strict=True):
            met = np.flatnonzero(codes)
            for here, there in zip(met, [*met[1:], None], strict=True):
                if codes[here] == 2 or here == n_intervals or (there is None and number < 0):
                    continue
                completed = ADULT if age == ADULT else int(age + here - met[0])
                stage = stage_of_release(stages, here == met[0])
                key = ((int(group) - 1) * n_stages + stage, int(here), completed)
                row = rows.setdefault(key, np.zeros(2 * n_intervals + 1, np.int64))
                column = -1 if there is None else there - 1 + (n_intervals if codes[there] == 2 else 0)
                row[column] += abs(number)
        if not rows:
            raise InputError(
                "There must be a bird released before the last occasion, but all were marked at the last one. "
                "Check the order of the columns."
            )
        keys = sorted(rows)
        table = np.array([rows[key] for key in keys])
        return ReleaseArrays(
            interval=np.array([t for _, t, _ in keys]),
            age=np.array([a for _, _, a in keys]),
            recaptured=table[:, :n_intervals],
            recovered=table[:, n_intervals : 2 * n_intervals],
            never=table[:, -1],
            years=self.years[:-1],
            tail=self.tail,
            dead=self.dead,
            notes=self.notes,
            group=np.array([g for g, _, _ in keys]),
            groups=staged_names(groups, stages),
            lengths=np.diff(self.years).astype(float) if self.lengths is None else self.lengths,
            unsampled=tuple(t - 1 for t in self.unsampled if t > 0),
            stages=stages,
        )

    def first_captures(self) -> NDArray[np.int64]:
        """Count the birds of each group first caught at each occasion, (G, K + 1)."""
        out = np.zeros((len(self.groups), self.n_intervals + 1), np.int64)
        np.add.at(out, (self.group - 1, _first(self.codes)), np.abs(self.number))
        return out

    def staged(self, stages: Stages) -> ReleaseArrays:
        """Count releases by the stages that follow captures."""
        return self.to_arrays(stages)

    def to_counts(self, age_classes: int = 4) -> Counts:
        """Build W, Z, D and V with classes 1, 2, ..., ``age_classes`` and older."""
        return self.to_arrays().to_counts(age_classes)


def _first(codes: NDArray[np.int8]) -> NDArray[np.intp]:
    first: NDArray[np.intp] = np.argmax(codes != 0, axis=1)
    return first


def _validate(histories: Histories) -> None:
    codes, n = histories.codes, len(histories.codes)
    if codes.shape[1] < 2:
        raise InputError(
            f"A history must have at least two occasions, but has {codes.shape[1]}. Give one column per occasion."
        )
    if histories.years.shape != (codes.shape[1],):
        raise InputError(
            f"There must be {codes.shape[1]} years, one for each column, but got {histories.years.size}. "
            "Name the year of every occasion."
        )
    if (np.diff(histories.years) <= 0).any():
        raise InputError(f"Years must increase, but are {list(histories.years)}. Sort the columns.")
    for name in ("age", "number", "group", "labels"):
        if len(getattr(histories, name)) != n:
            raise InputError(
                f"There must be one {name!r} for each of the {n} histories, but got {len(getattr(histories, name))}."
            )
    _validate_states(histories)
    for broken, message in _broken_rules(histories):
        if np.any(broken):
            row = int(np.flatnonzero(broken)[0])
            raise InputError(f"{histories.labels[row]}: {message} (history {''.join(map(str, codes[row]))}).")


def _broken_rules(histories: Histories) -> list[tuple[Any, str]]:
    """Return which histories break each rule, and what it says."""
    codes, n = histories.codes, len(histories.codes)
    seen_in, n_states = histories.seen_in, len(histories.states) or 1
    last_live = codes.shape[1] - 1 - (codes[:, ::-1] == 1).argmax(axis=1)
    n_dead = (codes == 2).sum(axis=1)
    dead_at = (codes == 2).argmax(axis=1)
    first_code = codes[np.arange(n), _first(codes)]
    return [
        (~np.isin(codes, (0, 1, 2)).all(axis=1), "every entry must be 0, 1 or 2"),
        (~(codes != 0).any(axis=1), "it was never met; a history must begin with a marking, 1"),
        (first_code == 2, "it is recovered before it is marked; the first entry that is not 0 must be 1"),
        (n_dead > 1, "it is recovered dead more than once"),
        ((n_dead > 0) & (last_live > dead_at), "it is seen alive after it was recovered dead"),
        ((n_dead > 0) & (histories.number < 0), "a negative frequency says it was kept, yet it is recovered"),
        (histories.age < 0, "its age at marking must be 0 or more completed years"),
        (((codes == 1) & ~np.isin(seen_in, range(n_states))).any(axis=1), f"states must be 0 to {n_states - 1}"),
        ((codes[:, list(histories.unsampled)] == 1).any(axis=1), "it is seen at an occasion said not to be sampled"),
        ((codes[:, -1] == 1) & histories.tail, "it is seen alive after the last occasion"),
        ((n_dead > 0) & (not histories.dead), "it is recovered in a study declared to have no recoveries"),
    ]  # fmt: skip


def _validate_states(histories: Histories) -> None:
    states = histories.states
    if states and not 2 <= len(states) <= MOST_STATES:
        raise InputError(f"There must be two or three states, but got {len(states)}: {', '.join(states)}. Join some.")
    if len(set(states)) < len(states) or set(states) & set(AFTER_CAPTURE):
        raise InputError(
            f"States must have different names, other than {', '.join(AFTER_CAPTURE)}, but got {', '.join(states)}. "
            "Rename them."
        )
    if histories.seen_in.shape != histories.codes.shape:
        raise InputError(
            f"There must be a state for each of {histories.codes.shape} entries, but got {histories.seen_in.shape}. "
            "Pass one for each occasion of each history."
        )
