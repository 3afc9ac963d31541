"""Partitions of columns into sets, as tables that a compiled chain can index.

A column is an age class of a group of birds. A partition is a row of labels: ``labels[c]`` is the set of column c,
sets being numbered by their first column. All that a split or a merge needs is looked up; nothing is searched for
while sampling.
"""

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = tuple[int, ...]


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
