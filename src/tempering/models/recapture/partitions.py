"""Partitions of age classes, as tables that a compiled chain can index.

A partition is a row of labels: ``labels[j]`` is the group of class j, groups being numbered by their
youngest class. All that a split or a merge needs is looked up; nothing is searched for while sampling.
"""

from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = tuple[int, ...]


class PartitionTable(NamedTuple):
    """N partitions of A classes and the moves between them.

    ``labels`` (N, A); ``youngest`` (N, A), the youngest class in the group of each class; ``n_groups`` (N,);
    ``n_splits`` (N,), ``split_to`` (N, S) and ``split_off`` (N, S, A), the classes that leave; ``pairs`` (Q,
    2), the youngest classes of two groups; ``can_merge`` (N, Q) and ``merge_to`` (N, Q).
    """

    labels: NDArray[np.int32]
    youngest: NDArray[np.int32]
    n_groups: NDArray[np.int32]
    n_splits: NDArray[np.int32]
    split_to: NDArray[np.int32]
    split_off: NDArray[np.bool_]
    pairs: NDArray[np.int32]
    can_merge: NDArray[np.bool_]
    merge_to: NDArray[np.int32]


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
def partition_table(
    partitions: tuple[Labels, ...], allowed: tuple[Labels, ...], contiguous: bool, width: int
) -> PartitionTable:
    """Build the moves among the ``allowed`` ones of all ``partitions``, with room for ``width`` splits."""
    labels = np.array(partitions, np.int32)
    n_classes = labels.shape[1]
    index = {row: i for i, row in enumerate(partitions) if row in set(allowed)}
    splits = [_splits(row, contiguous, index) if row in index else [] for row in partitions]
    split_to = np.zeros((len(labels), width), np.int32)
    split_off = np.zeros((len(labels), width, n_classes), bool)
    for i, moves in enumerate(splits):
        for s, (target, off) in enumerate(moves):
            split_to[i, s], split_off[i, s] = target, off
    pairs = np.array(list(combinations(range(n_classes), 2)) or [(0, 0)], np.int32)
    merge_to = np.full((len(labels), len(pairs)), -1, np.int32)
    for i, row in enumerate(partitions):
        for q, (a, b) in enumerate(pairs):
            if row in index:
                merge_to[i, q] = _merged(row, int(a), int(b), contiguous, index)
    return PartitionTable(
        labels=labels,
        youngest=np.array([[row.index(label) for label in row] for row in partitions], np.int32),
        n_groups=labels.max(axis=1).astype(np.int32) + 1,
        n_splits=np.array([len(s) for s in splits], np.int32),
        split_to=split_to,
        split_off=split_off,
        pairs=pairs,
        can_merge=merge_to >= 0,
        merge_to=np.maximum(merge_to, 0),
    )


def most_splits(n_classes: int, contiguous: bool) -> int:
    """Return the largest number of splits of a partition: those of a single group."""
    return max(1, n_classes - 1 if contiguous else 2 ** (n_classes - 1) - 1)


def canonical(labels: Labels) -> Labels:
    """Number the groups by their youngest class.

    Examples
    --------
    >>> canonical((2, 0, 2))
    (0, 1, 0)
    """
    order = list(dict.fromkeys(labels))
    return tuple(order.index(label) for label in labels)


def _splits(row: Labels, contiguous: bool, index: dict[Labels, int]) -> list[tuple[int, NDArray[np.bool_]]]:
    moves = []
    for group in range(max(row) + 1):
        others = [j for j, label in enumerate(row) if label == group][1:]
        if contiguous:
            leaving = [tuple(others[i:]) for i in range(len(others))]
        else:
            leaving = [c for size in range(1, len(others) + 1) for c in combinations(others, size)]
        for off in leaving:
            target = canonical(tuple(len(row) if j in off else label for j, label in enumerate(row)))
            if target in index:
                moves.append((index[target], np.isin(np.arange(len(row)), off)))
    return moves


def _merged(row: Labels, a: int, b: int, contiguous: bool, index: dict[Labels, int]) -> int:
    if a == b or row.index(row[a]) != a or row.index(row[b]) != b or (contiguous and row[b] != row[a] + 1):
        return -1
    return index.get(canonical(tuple(row[a] if label == row[b] else label for label in row)), -1)
