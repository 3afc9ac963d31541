"""Standard errors from batches of chains and of time that were summed as the run went along.

A batch is a group of chains during a stretch of time. Groups are independent of each other; stretches are long. The
sum of influences over a batch has mean zero, and the sum of their squares is the variance of the whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.estimators.arrays import Floats
from tempering.estimators.running.bins import BatchSums, added
from tempering.estimators.standard_error import widened_by_chains

MAXIMUM_BATCHES = 256  # a standard error from 64 to 256 batches is good to 4 to 9 %
ENOUGH = 48  # fewer, longer batches are taken while so many are left
MAXIMUM_GROUPS = 64
ENOUGH_GROUPS = 8  # whose spread is looked at: beyond 2.6 times what batches explain, noise has a chance of 1 %


def batches_in_time(n_groups: int) -> int:
    """Return how many stretches of time are kept apart."""
    return max(2, MAXIMUM_BATCHES // n_groups)


def paired_in_time(batches: BatchSums) -> BatchSums:
    """Merge neighbouring stretches; the last one of an odd number stays by itself."""
    n = batches.count.shape[1]
    even = n - n % 2
    first = BatchSums(*(part[:, 0:even:2] for part in batches))
    second = BatchSums(*(part[:, 1:even:2] for part in batches))
    return appended(added(first, second), BatchSums(*(part[:, even:] for part in batches)))


def appended(early: BatchSums, late: BatchSums) -> BatchSums:
    """Put batches one after the other in time."""
    return BatchSums(*(np.concatenate(parts, axis=1) for parts in zip(early, late, strict=True)))


def padded(batches: BatchSums, n_groups: int, n_times: int) -> BatchSums:
    """Fill up with empty batches."""

    def fill(part: Floats) -> Floats:
        rest = [(0, 0)] * (part.ndim - 2)
        return np.pad(part, [(0, n_groups - part.shape[0]), (0, n_times - part.shape[1]), *rest])

    return BatchSums(*(fill(part) for part in batches))


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
