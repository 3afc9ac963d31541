r"""Pareto :math:`\hat k` and other tails from counts in bins."""

from __future__ import annotations

import numpy as np

from tempering.estimators.arrays import Floats
from tempering.estimators.pareto import BOUNDED, MINIMUM_TAIL, PRIOR_DRAWS, PRIOR_SHAPE, generalised_pareto_shape
from tempering.estimators.running.bins import EnergyBins, middles, widths

STAND_INS = 4000  # at most, for the tail of one rung


def binned_pareto_k(joint: Floats, bins: EnergyBins, power: Floats) -> Floats:
    """Return Pareto k-hat of the weights exp(power * E) of each rung, as `pareto_k_per_rung` of its draws.

    Draws are spread evenly over their bins, which are narrow where a tail matters; a long tail is stood for by
    evenly spaced draws of it.

    Parameters
    ----------
    joint : ndarray, shape (rung, bin, 3)
    bins : EnergyBins
    power : ndarray, shape (rung,)
    """
    middle, width = middles(np, bins), widths(np, bins)
    return np.array([_shape(row[:, 0], middle, width, p) for row, p in zip(joint, power, strict=True)])


def _shape(count: Floats, middle: Floats, width: Floats, power: float) -> float:
    n = float(count.sum())
    if n == 0:
        return np.inf
    filled = np.flatnonzero(count)
    if power == 0.0 or (filled.size == 1 and width[filled[0]] * abs(power) < 1e-6):
        return -np.inf
    n_tail = int(min(n // 5, np.ceil(3 * np.sqrt(n))))
    if n_tail < MINIMUM_TAIL:
        return np.inf
    order = filled[::-1] if power > 0 else filled  # from the largest weight down
    side = np.sign(power)
    cumulated = np.concatenate([[0.0], np.cumsum(count[order])])
    start = middle[order] + side * width[order] / 2
    rank = np.append((np.arange(m := min(n_tail, STAND_INS)) + 0.5) * n_tail / m, n_tail + 0.5)
    at = np.minimum(np.searchsorted(cumulated, rank, side="right") - 1, order.size - 1)
    energy = start[at] - side * width[order][at] * (rank - cumulated[at]) / count[order][at]
    log_w = power * energy
    if log_w[0] - log_w[-1] <= 1e-9:
        return -np.inf
    if 1.0 < BOUNDED * float(count @ np.exp(power * middle - log_w[0])) / n:
        return -np.inf
    relative = np.exp(log_w - log_w[0])
    shape = generalised_pareto_shape(relative[:-1] - relative[-1])
    return float((n_tail * shape + PRIOR_DRAWS * PRIOR_SHAPE) / (n_tail + PRIOR_DRAWS))
