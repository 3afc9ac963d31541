"""Error bars that cannot say plus or minus nothing: none claims more than the independent pieces of a run support."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.estimators import Estimate, weighted_variance

Floats = NDArray[np.float64]

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
    flat = np.asarray(values, dtype=float).reshape(*weights.shape, -1)
    is_indicator = np.all((flat == 0.0) | (flat == 1.0), axis=(0, 1))
    spread = np.where(is_indicator, 1.0, np.sqrt(weighted_variance(flat, weights)))
    if is_thin is None:
        return widened(found, spread, n_pieces)
    share = weights[is_thin] / weights.sum()
    return widened(found, spread, n_pieces, share @ (flat[is_thin] - np.ravel(np.asarray(found.value))))


def widened(found: Estimate, spread: Floats, n_pieces: float, added: Floats | float = 0.0) -> Estimate:
    """Widen standard errors of quantities of such a spread, and by what may be missing beyond."""
    error = np.full(np.shape(found.value), np.inf)
    if n_pieces >= FEWEST_PIECES:
        floor = np.hypot(spread / n_pieces, added).reshape(error.shape)
        error = np.hypot(np.asarray(found.standard_error), floor)
    return Estimate(found.value, float(error) if error.ndim == 0 else error)
