"""Sums of several blocks of chains as those of one run: put together in a fixed order, so that no bit depends on who
made them, or when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

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
