"""Error bars that cannot say plus or minus nothing: none claims more than the independent pieces of a run support."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.estimators import Estimate, weighted_variance

FEWEST_PIECES = 2.0  # fewer say nothing of how far they could have gone apart


def with_doubt(
    found: Estimate, values: Any, weights: Any, n_pieces: float | None, is_thin: NDArray[np.bool_] | None = None
) -> Estimate:
    """Widen standard errors by what an event that none of so many independent pieces has seen could add.

    Such an event has a probability of about 1 / n or less, and moves a mean by so much of the quantity's spread; that
    of an indicator, which is all that a missed mode changes, is taken as 1 even where it never changed. What draws add
    whose places are thinly covered may be missing once more.
    """
    if n_pieces is None:
        return found
    if n_pieces < FEWEST_PIECES:
        unknown = np.full(np.shape(found.value), np.inf)
        return Estimate(found.value, float(unknown) if unknown.ndim == 0 else unknown)
    h = np.asarray(values, dtype=float)
    flat = h.reshape(*weights.shape, -1)
    mean = np.ravel(np.asarray(found.value))
    is_indicator = np.all((flat == 0.0) | (flat == 1.0), axis=(0, 1))
    floor = np.where(is_indicator, 1.0, np.sqrt(weighted_variance(flat, weights))) / n_pieces
    if is_thin is not None:
        share = weights[is_thin] / weights.sum()
        floor = np.hypot(floor, share @ (flat[is_thin] - mean))
    error = np.hypot(np.asarray(found.standard_error), floor.reshape(np.shape(found.value)))
    return Estimate(found.value, float(error) if np.ndim(error) == 0 else error)
