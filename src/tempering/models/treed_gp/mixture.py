"""Mixtures of normals, one component a tree: what a treed GP predicts at a point."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

_HALVINGS = 60


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

    The distribution function is inverted by bisection, between the smallest and the largest of the
    components' own quantiles.

    Examples
    --------
    >>> quantiles(np.ones((2, 1)), np.ones((2, 1)), [0.5, 0.975]).round(2)
    array([[1.  , 2.96]])
    """
    p = np.asarray(levels, np.float64)
    reach = 10.0 * deviation.max(axis=0)
    low = np.repeat((mean.min(axis=0) - reach)[:, None], p.size, axis=1)
    high = np.repeat((mean.max(axis=0) + reach)[:, None], p.size, axis=1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = ndtr((middle - mean[..., None]) / deviation[..., None]).mean(axis=0) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)
