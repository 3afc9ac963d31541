"""Standard errors from batches of chains and of time that were summed as the run went along.

A batch is a group of chains during a stretch of time. Groups are independent of each other; stretches are long. The
sum of influences over a batch has mean zero, and the sum of their squares is the variance of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tempering.estimators.arrays import Floats, Ints
from tempering.estimators.running.bins import BatchSums
from tempering.estimators.standard_error import widened_by_chains

MAXIMUM_BATCHES = 256  # a standard error from 64 to 256 batches is good to 4 to 9 %
ENOUGH = 48  # fewer, longer batches are taken while so many are left
MAXIMUM_GROUPS = 64
ENOUGH_GROUPS = 8  # whose spread is looked at: beyond 2.6 times what batches explain, noise has a chance of 1 %


def batches_in_time(n_groups: int) -> int:
    """Return how many stretches of time are kept apart."""
    return max(2, MAXIMUM_BATCHES // n_groups)


class Batches(Protocol):
    """Sums over batches, a named tuple of arrays with leading axes (group, time)."""

    @property
    def count(self) -> Any:
        """Draws of each rung."""

    def plus(self, other: Any) -> Any:
        """Add batches of the same shape."""

    def __iter__(self) -> Iterator[Any]: ...


Some = TypeVar("Some", bound=Batches)


def followed(early: Some, lengths: Ints, late: Some, later: Ints, n_times: int | None = None) -> tuple[Some, Ints]:
    """Put stretches of time after others, of so many iterations each; return both together.

    A short one is added to the last; neighbours are joined in pairs when there are more than ``n_times``.
    """
    if lengths[-1] + later[0] <= lengths[0] and later.size == 1:
        batches = appended(in_time(early, slice(None, -1)), in_time(early, slice(-1, None)).plus(late))
        lengths = np.append(lengths[:-1], lengths[-1] + later[0])
    else:
        batches, lengths = appended(early, late), np.append(lengths, later)
    most = batches_in_time(len(batches.count)) if n_times is None else n_times
    while lengths.size > most:
        even = lengths.size - lengths.size % 2
        paired = in_time(batches, slice(0, even, 2)).plus(in_time(batches, slice(1, even, 2)))
        batches = appended(paired, in_time(batches, slice(even, None)))
        lengths = np.add.reduceat(lengths, np.arange(0, lengths.size, 2))
    return batches, lengths


def in_time(batches: Some, when: slice) -> Some:
    """Return some stretches of time."""
    return type(batches)(*(part[:, when] for part in batches))


def appended(early: Some, late: Some) -> Some:
    """Put batches one after the other in time."""
    return type(early)(*(np.concatenate(parts, axis=1) for parts in zip(early, late, strict=True)))


def padded(batches: Some, n_groups: int, n_times: int) -> Some:
    """Fill up with empty batches."""

    def fill(part: Floats) -> Floats:
        rest = [(0, 0)] * (part.ndim - 2)
        return np.pad(part, [(0, n_groups - part.shape[0]), (0, n_times - part.shape[1]), *rest])

    return type(batches)(*(fill(part) for part in batches))


def total(batches: BatchSums) -> BatchSums:
    """Sum over all batches."""
    there = batches.weight > 0
    largest = np.max(np.where(there, batches.log_reference, -np.inf), axis=(0, 1))
    reference = np.where(largest > -np.inf, largest, 0.0)
    factor = np.where(there, np.exp(np.minimum(batches.log_reference - reference, 0.0)), 0.0)
    return BatchSums(
        batches.count.sum((0, 1)),
        batches.plain.sum((0, 1)),
        batches.energy.sum((0, 1)),
        reference,
        (batches.weight * factor).sum((0, 1)),
        (batches.weighted * factor[:, :, 0, :, np.newaxis]).sum((0, 1)),
        batches.pooled.sum((0, 1)),
    )


def relative(batches: BatchSums, log_reference: Floats) -> tuple[Floats, Floats]:
    """Return weight (group, time, tilt, rung) and weighted sums of every batch, over exp of one reference each."""
    factor = np.exp(np.minimum(batches.log_reference - log_reference, 700.0))
    factor = np.where(batches.weight > 0, factor, 0.0)
    return batches.weight * factor, batches.weighted * factor[:, :, 0, :, np.newaxis]


def standard_error_of_batches(influence: Floats, used: NDArray[np.bool_]) -> Floats:
    """Return the standard error of the sum of all influences.

    Stretches of time are joined while enough batches are left, and the bias that is left, of order 1 / length, is
    removed upwards only, as in `tempering.estimators.standard_error`: max(v_b, 2 v_b - v_{b/2}). Groups that differ by
    more than that explains are taken as replicates, as chains are there.

    Parameters
    ----------
    influence : ndarray, shape (group, time, ...)
        Sums over batches.
    used : ndarray of bool, shape (group, time)
        Which batches have draws.

    Returns
    -------
    ndarray, shape (...)
        NaN from a single batch.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(64, 4)) / 16
    >>> 0.8 < float(standard_error_of_batches(x, np.ones((64, 4), bool))) < 1.2
    True
    """
    by_group, shorter = influence.sum(axis=1)[used.any(axis=1)], None
    while influence.shape[1] > 1:
        longer, still_used = _paired(influence), _paired(used.astype(float)) > 0
        if still_used.sum() < ENOUGH:
            break
        shorter, influence, used = (influence, used), longer, still_used
    variance = _variance(influence, used)
    if influence.shape[1] > 1 and shorter is not None:
        variance = np.maximum(variance, 2 * variance - _variance(*shorter))
    return np.sqrt(widened_by_chains(variance, by_group, ENOUGH_GROUPS))


def _paired(part: Floats) -> Floats:
    even = part.shape[1] - part.shape[1] % 2
    return np.concatenate([part[:, 0:even:2] + part[:, 1:even:2], part[:, even:]], axis=1)


def _variance(influence: Floats, used: NDArray[np.bool_]) -> Floats:
    n = int(used.sum())
    squares = np.sum(influence**2, axis=(0, 1))
    return np.asarray(squares * (n / (n - 1) if n > 1 else np.nan))


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
