"""Structure of one parameter over ages, groups and time, and its short notation: ``{1}(t) {2,3} {4+}``."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.stages import Stages, split_name

Labels = tuple[int, ...]
CONSTANT, YEARLY, RANDOM = "", "t", "random"
_SET = re.compile(r"\{([^{}]*)\}(?:\(([^()]*)\))?")


class PartitionTable(NamedTuple):
    """Moves between N partitions of C columns: of the partitions ``allowed``, in the numbering of all.

    ``n_splits`` (N,), ``split_to`` (N, S) and ``split_off`` (N, S), the columns that leave as bits; ``pairs`` (Q, 2),
    the first columns of two sets; ``merge_to`` (N, Q), -1 where they may not merge.
    """

    n_splits: NDArray[np.int64]
    split_to: NDArray[np.int64]
    split_off: NDArray[np.int64]
    pairs: NDArray[np.int64]
    merge_to: NDArray[np.int64]


@lru_cache(maxsize=64)
def all_partitions(n_classes: int, contiguous: bool) -> tuple[Labels, ...]:
    """List the partitions of classes 0, ..., n - 1; contiguous groups only, or any.

    Examples
    --------
    >>> all_partitions(3, True)
    ((0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 2))
    >>> len(all_partitions(4, True)), len(all_partitions(4, False)), len(all_partitions(8, False))
    (8, 15, 4140)
    """
    rows: list[Labels] = [(0,)]
    for _ in range(1, n_classes):
        rows = [(*row, label) for row in rows for label in range(row[-1] if contiguous else 0, max(row) + 2)]
    return tuple(rows)


@lru_cache(maxsize=64)
def rectangles(n_classes: int, n_groups: int, contiguous: bool, n_stages: int = 1) -> tuple[Labels, ...]:
    """List the partitions of group x stage x class whose sets are some ages in some stages of some groups.

    Columns go class by class within stage by stage within group by group. With one group and stage these are all
    partitions of the age classes.

    Examples
    --------
    >>> len(rectangles(4, 1, True)), len(rectangles(2, 2, True)), len(rectangles(1, 3, True))
    (8, 8, 5)
    """
    if n_groups * n_stages == 1:
        return all_partitions(n_classes, contiguous)
    rows = all_partitions(n_classes * n_groups * n_stages, False)
    shape = (n_groups, n_stages, n_classes)
    return tuple(row for row in rows if all(_is_rectangle(s, shape, contiguous) for s in sets_of(row)))


def without_doubles(rows: tuple[Labels, ...], idle: tuple[int, ...]) -> tuple[Labels, ...]:
    """Keep one of those partitions that differ only in columns that no bird is ever in: the one with fewest sets.

    Examples
    --------
    >>> without_doubles(((0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (0, 1, 2)), (1,))
    ((0, 0, 0), (0, 0, 1))
    """
    found: dict[Labels, Labels] = {}
    for row in sorted(rows, key=max):
        key = canonical(tuple(label for c, label in enumerate(row) if c not in idle))
        found.setdefault(key, row)
    return tuple(row for row in rows if row in found.values())


def sets_of(row: Labels) -> list[list[int]]:
    """List the columns of each set."""
    return [[c for c, label in enumerate(row) if label == s] for s in range(max(row) + 1)]


def _is_rectangle(columns: list[int], shape: tuple[int, int, int], contiguous: bool) -> bool:
    groups, stages, ages = ({int(x) for x in axis} for axis in np.unravel_index(columns, shape))
    has_gap = contiguous and max(ages) - min(ages) + 1 != len(ages)
    return len(columns) == len(ages) * len(stages) * len(groups) and not has_gap


@lru_cache(maxsize=64)
def partition_table(partitions: tuple[Labels, ...], allowed: tuple[Labels, ...]) -> PartitionTable:
    """Build the moves among the ``allowed`` ones of all ``partitions``."""
    n_columns = len(partitions[0])
    permitted = set(allowed)
    index = {row: i for i, row in enumerate(partitions) if row in permitted}
    splits = [_splits(row, index) if row in index else [] for row in partitions]
    width = max(1, max(map(len, splits)))
    split_to, split_off = np.zeros((2, len(partitions), width), np.int64)
    for i, moves in enumerate(splits):
        for s, (target, off) in enumerate(moves):
            split_to[i, s], split_off[i, s] = target, off
    pairs = np.array(list(combinations(range(n_columns), 2)) or [(0, 0)], np.int64)
    merge_to = np.full((len(partitions), len(pairs)), -1, np.int64)
    for row, i in index.items():
        for q, (a, b) in enumerate(pairs):
            merge_to[i, q] = _merged(row, int(a), int(b), index)
    return PartitionTable(np.array([len(s) for s in splits], np.int64), split_to, split_off, pairs, merge_to)


def canonical(labels: Labels) -> Labels:
    """Number the sets by their first column.

    Examples
    --------
    >>> canonical((2, 0, 2))
    (0, 1, 0)
    """
    order = list(dict.fromkeys(labels))
    return tuple(order.index(label) for label in labels)


def _splits(row: Labels, index: dict[Labels, int]) -> list[tuple[int, int]]:
    moves = []
    for first, *others in sets_of(row):
        del first  # it stays
        for off in (c for size in range(1, len(others) + 1) for c in combinations(others, size)):
            target = canonical(tuple(len(row) if c in off else label for c, label in enumerate(row)))
            if target in index:
                moves.append((index[target], sum(1 << c for c in off)))
    return moves


def _merged(row: Labels, a: int, b: int, index: dict[Labels, int]) -> int:
    if a == b or row.index(row[a]) != a or row.index(row[b]) != b:
        return -1
    return index.get(canonical(tuple(row[a] if label == row[b] else label for label in row)), -1)


@dataclass(frozen=True)
class Structure:
    """A partition of the columns (ages, or ages of groups), each set with its way to vary in time.

    Parameters
    ----------
    labels : tuple of int
        Set of each column, sets numbered by their first column; columns go age by age within group by group.
    times : tuple of str
        How the set of each column varies: ``""`` not at all, ``"t"`` from year to year, or the name of a grouping of
        years, of a covariate, or ``"random"``; ``"t+sex"`` from year to year, with a constant distance between the
        sexes on the logit scale.
    groups : tuple of str
        Names of the groups of birds; one without a name by default.
    stages : tuple of str
        Stages that are told apart: ``groups`` are then those of each group in turn.

    Examples
    --------
    >>> s = Structure.parse("{1}(t) {2,3} {4+}", 4)
    >>> s.labels, s.times
    ((0, 1, 1, 2), ('t', '', '', ''))
    >>> print(s)
    {1}(t) {2,3} {4+}
    >>> print(Structure.parse("{1 female}(t) {1 male} {2+}", 2, ("female", "male")))
    {1 female}(t) {2+} {1 male}
    """

    labels: Labels
    times: tuple[str, ...]
    groups: tuple[str, ...] = ("",)
    stages: Stages = ()

    @property
    def n_classes(self) -> int:
        """Number of age classes."""
        return len(self.labels) // len(self.groups)

    @property
    def timed(self) -> tuple[bool, ...]:
        """Whether each column varies in time at all."""
        return tuple(time != CONSTANT for time in self.times)

    def __str__(self) -> str:
        parts = []
        for columns in sets_of(self.labels):
            time = self.times[columns[0]]
            parts.append(f"{{{self._name(columns)}}}" + (f"({time})" if time else ""))
        return " ".join(parts)

    def _name(self, columns: list[int]) -> str:
        n = self.n_classes
        ages = sorted({c % n for c in columns})
        groups = sorted({c // n for c in columns})
        names = ",".join(f"{j + 1}+" if j == n - 1 else str(j + 1) for j in ages)
        return names if len(groups) == len(self.groups) else f"{names} {_groups_name(groups, self.groups, self.stages)}"

    @property
    def n_groups(self) -> int:
        """Number of sets."""
        return max(self.labels) + 1

    @classmethod
    def parse(cls, text: str, n_classes: int, groups: tuple[str, ...] = ("",), stages: Stages = ()) -> "Structure":
        """Read the notation; every class of every group must stand in exactly one set."""
        found = _SET.findall(text)
        if _SET.sub("", text).strip() or not found:
            raise InputError(
                f"A structure must read like '{{1}}(t) {{2,3}} {{4+}}', but is {text!r}. "
                "Put age classes in braces, and (t) behind sets that vary by year."
            )
        where: dict[int, int] = {}
        for s, (members, _) in enumerate(found):
            for c in _columns(members, text, n_classes, groups, stages):
                if c in where:
                    raise InputError(
                        f"Each class must stand in one set, but {text!r} has {c % n_classes + 1} twice. "
                        "Remove it from one of them."
                    )
                where[c] = s
        missing = sorted({c % n_classes + 1 for c in range(n_classes * len(groups)) if c not in where})
        if missing:
            raise InputError(f"Each class must stand in a set, but {text!r} lacks {missing}. Add it to one.")
        raw = [where[c] for c in range(n_classes * len(groups))]
        order = list(dict.fromkeys(raw))
        times = ["+".join(part.strip() for part in time.split("+")) for _, time in found]
        return cls(tuple(order.index(s) for s in raw), tuple(times[s] for s in raw), groups, stages)


def _groups_name(chosen: list[int], groups: tuple[str, ...], stages: Stages) -> str:
    """Name some groups; all stages of a group by its name, one stage of all groups by the stage's."""
    parts = [split_name(groups[g], stages) for g in chosen]
    names = {split_name(group, stages)[0] for group in groups}
    mine = {name for name, _ in parts}, {stage for _, stage in parts}
    is_product = len(parts) == len(mine[0]) * len(mine[1])
    if is_product and mine[1] == set(stages) and len(stages) > 1:
        return "/".join(dict.fromkeys(name for name, _ in parts))
    if is_product and mine[0] == names and len(names) > 1 and len(stages) > 1:
        return "/".join(dict.fromkeys(stage for _, stage in parts))
    return "/".join(groups[g] for g in chosen)


def _columns(members: str, text: str, n_classes: int, groups: tuple[str, ...], stages: Stages) -> list[int]:
    """Return the columns that ``1,2 female/male`` names."""
    ages, _, names = members.strip().partition(" ")
    wanted = [name.strip() for name in names.split("/")] if names.strip() else list(groups)
    chosen = [group for name in wanted for group in groups if name in (group, *split_name(group, stages))]
    unknown = [name for name in wanted if not any(name in (group, *split_name(group, stages)) for group in groups)]
    if unknown:
        raise InputError(
            f"Groups must be among {', '.join(filter(None, groups)) or 'none'}, but {text!r} has {unknown[0]!r}. "
            "Write ages first, then groups: {1,2 female}."
        )
    return [groups.index(g) * n_classes + _class(age, text, n_classes) for g in chosen for age in ages.split(",")]


def _class(member: str, text: str, n_classes: int) -> int:
    name = member.strip().removesuffix("+")
    if not name.isdigit() or not 1 <= int(name) <= n_classes:
        raise InputError(
            f"Age classes must be 1 to {n_classes}, but {text!r} has {member.strip()!r}. "
            "Remove it, or ask for more age classes."
        )
    if member.strip().endswith("+") and int(name) != n_classes:
        raise InputError(
            f"Only the last class, {n_classes}, is open: {text!r} has {member.strip()!r}. "
            "Write the plus sign there alone."
        )
    return int(name) - 1
