"""Covariances of a mixture's components in many dimensions: dense, low rank plus diagonal, or diagonal.

A dense covariance has d (d + 1) / 2 entries to be learnt. Where draws are too few for that, one with a few directions
and a variance for each coordinate describes other draws better.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempering.arrays import Floats
from tempering.learning.reference.from_draws import Split
from tempering.learning.reference.refit import lower_factor
from tempering.path.reference import Reference

DENSE = -1
RANKS = (0, 1, 4, 16)  # directions, tried beside a dense covariance; none: a diagonal


def best_rank(reference: Reference, split: Split) -> int:
    """Return the rank under which draws that were not fitted to are most likely, or `DENSE`."""
    ranks = [rank for rank in RANKS if rank < reference.dimension // 2]
    heights = {rank: split.log_likelihood(with_rank(reference, rank)) for rank in (DENSE, *ranks)}
    return max(heights, key=lambda rank: heights[rank])


def with_rank(reference: Reference, rank: int) -> Reference:
    """Return the mixture with covariances of that rank plus a diagonal; as it is if they are to be dense."""
    if rank == DENSE:
        return reference
    factors = np.array([lower_factor(low_rank(factor @ factor.T, rank)) for factor in reference.factors])
    return replace(reference, factors=factors)


def low_rank(covariance: Floats, rank: int) -> Floats:
    """Return the covariance with its leading directions and its variances, and nothing else.

    The directions are those of the correlations, of whose variance as much is kept as stands out from the others'.

    Examples
    --------
    >>> low_rank(np.array([[4.0, 1.0], [1.0, 9.0]]), 0)
    array([[4., 0.],
           [0., 9.]])
    """
    deviation = np.sqrt(np.diagonal(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    variances, axes = np.linalg.eigh(correlation)
    kept = slice(len(variances) - rank, None)
    noise = variances[: len(variances) - rank].mean()
    found = (axes[:, kept] * np.maximum(variances[kept] - noise, 0.0)) @ axes[:, kept].T
    np.fill_diagonal(found, 1.0)
    return np.asarray(found * np.outer(deviation, deviation))
