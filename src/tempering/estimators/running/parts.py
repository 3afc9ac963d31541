"""Sums of several blocks of chains as those of one run: put together in a fixed order, so that no bit depends on who
made them, or when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tempering.estimators.running.bins import BatchSums
from tempering.estimators.running.rungs import RunningRungs, Totals, moved_to

Sums = TypeVar("Sums")


def in_a_tree(parts: Iterable[Sums], add: Callable[[Sums, Sums], Sums]) -> Sums:
    """Add neighbours, then neighbouring pairs, and so on: the order depends on the number of parts alone.

    Parts are taken one by one, and only a few sums are held at a time.

    Examples
    --------
    >>> in_a_tree(iter("abcdefg"), lambda one, other: f"({one}{other})")
    '(((ab)(cd))((ef)g))'
    """
    waiting: list[tuple[int, Sums]] = []  # with the level each has reached
    for part in parts:
        level, sums = 0, part
        while waiting and waiting[-1][0] == level:
            level, sums = level + 1, add(waiting.pop()[1], sums)
        waiting.append((level, sums))
    _, whole = waiting.pop()
    while waiting:
        whole = add(waiting.pop()[1], whole)
    return whole


def beside(one: RunningRungs, other: RunningRungs) -> RunningRungs:
    """Add the sums of other chains that ran as long; their batches stay apart from these.

    Where the energies of one rose out of the bins of the other, both are kept in the higher ones.
    """
    assert np.array_equal(one.lengths, other.lengths), "chains of one run are summed in step"
    bins = max(one.bins, other.bins, key=lambda bins: (bins.centre, bins.scale))
    first, second = (moved_to(part, bins, one.quantities) for part in (one, other))
    totals = Totals(*(a + b for a, b in zip(first.totals, second.totals, strict=True)))
    batches = BatchSums(*(np.concatenate(pair) for pair in zip(first.batches, second.batches, strict=True)))
    return replace(first, totals=totals, batches=batches)
