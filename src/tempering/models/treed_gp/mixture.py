"""Mixtures of normals, one component a tree: what a treed GP predicts at a point."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from tempering.arrays import Floats

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
_MOST_STEPS = 60  # as many halvings as a float has digits
_CLOSE = 1e-4  # of the mixture's deviation: a last step so small leaves its square
_COARSE = ndtri((np.arange(9) + 0.5) / 9)  # a normal in nine points


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

    The distribution function is inverted by Newton's steps, which begin where nine points of each component say; if a
    step would leave what is known to hold the quantile, that is halved instead.

    Examples
    --------
    >>> quantiles(np.ones((2, 1)), np.ones((2, 1)), [0.5, 0.975]).round(2)
    array([[1.  , 2.96]])
    """
    p = np.asarray(levels, np.float64)
    points = np.sort((mean + _COARSE[:, None, None] * deviation).reshape(-1, mean.shape[1]), axis=0)
    at = np.clip((p * len(points)).astype(int), 0, len(points) - 1)
    x = points[at].T.ravel()
    reach = (12.0 + np.abs(ndtri(p)).max()) * deviation.max(axis=0)
    low, high = (np.repeat(end, p.size) for end in (mean.min(axis=0) - reach, mean.max(axis=0) + reach))
    level, which = np.tile(p, mean.shape[1]), np.repeat(np.arange(mean.shape[1]), p.size)
    close = _CLOSE * np.repeat(moments(mean, deviation**2)[1], p.size)
    left = np.arange(x.size)  # quantiles that still move
    for _ in range(_MOST_STEPS):
        here, scale = x[left], deviation[:, which[left]]
        z = (here - mean[:, which[left]]) / scale
        excess = ndtr(z).mean(axis=0) - level[left]
        low[left] = np.where(excess < 0, here, low[left])
        high[left] = np.where(excess < 0, high[left], here)
        with np.errstate(divide="ignore", invalid="ignore"):
            there = here - excess * _ROOT_2PI / (np.exp(-0.5 * z * z) / scale).mean(axis=0)
        there = np.where((there > low[left]) & (there < high[left]), there, (low[left] + high[left]) / 2)
        x[left] = np.where(excess == 0.0, here, there)
        left = left[np.abs(x[left] - here) > close[left]]
        if left.size == 0:
            break
    return np.asarray(x.reshape(-1, p.size))
