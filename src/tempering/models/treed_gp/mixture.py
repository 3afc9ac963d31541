"""Mixtures of normals, one component a tree: what a treed GP predicts at a point."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
_MOST_STEPS = 60  # as many halvings as a float has digits
_CLOSE = 1e-9  # of the mixture's deviation


def moments(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of equal mixtures over the first axis.

    Examples
    --------
    >>> moments(np.array([[-1.0], [1.0]]), np.array([[3.0], [3.0]]))
    (array([0.]), array([2.]))
    """
    centre = mean.mean(axis=0)
    return centre, np.sqrt(variance.mean(axis=0) + ((mean - centre) ** 2).mean(axis=0))


def quantiles(mean: Floats, deviation: Floats, levels: Sequence[float]) -> Floats:
    """Return quantiles of equal mixtures of normals over the first axis, shape (n_points, n_levels).

    The distribution function is inverted by Newton's steps from the quantiles of one normal; where a step would leave
    what is known to hold the quantile, that is halved instead.

    Examples
    --------
    >>> quantiles(np.ones((2, 1)), np.ones((2, 1)), [0.5, 0.975]).round(2)
    array([[1.  , 2.96]])
    """
    p = np.asarray(levels, np.float64)
    reach = np.maximum(10.0, 1.0 + np.abs(ndtri(p)).max()) * deviation.max(axis=0)
    low = np.repeat((mean.min(axis=0) - reach)[:, None], p.size, axis=1)
    high = np.repeat((mean.max(axis=0) + reach)[:, None], p.size, axis=1)
    centre, spread = moments(mean, deviation**2)
    x = np.clip(centre[:, None] + spread[:, None] * ndtri(p), low, high)
    open_ = np.arange(len(x))  # points some quantile of which still moves
    for _ in range(_MOST_STEPS):
        here, scale = x[open_], deviation[:, open_, None]
        z = (here - mean[:, open_, None]) / scale
        excess = ndtr(z).mean(axis=0) - p
        low[open_] = np.where(excess < 0, here, low[open_])
        high[open_] = np.where(excess < 0, high[open_], here)
        with np.errstate(divide="ignore", invalid="ignore"):
            there = here - excess / ((np.exp(-0.5 * z * z) / scale).mean(axis=0) / _ROOT_2PI)
        inside = ((there > low[open_]) & (there < high[open_])) | (excess == 0.0)
        x[open_] = np.where(inside, there, (low[open_] + high[open_]) / 2)
        moved = np.max(np.abs(x[open_] - here), axis=1)
        open_ = open_[moved > _CLOSE * spread[open_]]
        if open_.size == 0:
            break
    return x
