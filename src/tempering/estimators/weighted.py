"""Summaries of weighted draws: mean, variance, quantiles, shortest intervals, distribution function, its distance.

Weights need not sum to one. Draws are flattened over (chain, draw); what lies behind belongs to one value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, frozen

CONSTANT = 1e-12  # variance over squared mean, below which it is rounding


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Return the weighted mean over the axes of the weights.

    Parameters
    ----------
    values : array_like, shape (*weights.shape, ...)
        Draws; those of weight zero are not looked at.
    weights : array_like
        Not negative, with a positive sum.

    Returns
    -------
    ndarray, shape (...)

    Examples
    --------
    >>> weighted_mean([[1.0, 2.0], [5.0, 6.0]], [3.0, 1.0])
    array([2., 3.])
    """
    h, w, trailing = _columns(values, weights)
    return (w @ h).reshape(trailing)


def weighted_variance(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Return the weighted variance over the axes of the weights, with divisor sum of weights.

    Parameters are those of `weighted_mean`.

    Examples
    --------
    >>> float(weighted_variance([1.0, 5.0], [3.0, 1.0]))
    3.0
    """
    h, w, trailing = _columns(values, weights)
    deviation = h - w @ h
    deviation *= np.sqrt(w)[:, np.newaxis]  # far draws, whose squares overflow, weigh nothing
    return np.asarray(np.einsum("dq,dq->q", deviation, deviation)).reshape(trailing)


def varies(mean: ArrayLike, variance: ArrayLike) -> NDArray[np.bool_]:
    """Return whether a quantity varies by more than rounding: what is constant has no effective draws and no R-hat.

    Examples
    --------
    >>> varies([0.1, 0.1], [1e-34, 0.01])
    array([False,  True])
    """
    return np.asarray(np.asarray(variance) > CONSTANT * np.maximum(np.asarray(mean) ** 2, CONSTANT))


def weighted_quantile(values: ArrayLike, weights: ArrayLike, probabilities: ArrayLike) -> Floats:
    """Return weighted quantiles: the smallest draw at which the distribution function reaches a probability.

    Parameters
    ----------
    values : array_like, shape (*weights.shape, ...)
        Draws; those of weight zero are not looked at.
    weights : array_like
        Not negative, with a positive sum.
    probabilities : array_like, shape of any number of axes
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (*probabilities.shape, ...)

    Examples
    --------
    >>> weighted_quantile([3.0, 1.0, 2.0], [1.0, 1.0, 2.0], [0.25, 0.5, 1.0])
    array([1., 2., 3.])
    """
    try:
        p = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise EstimatorError(f"probabilities must be numbers, but got {probabilities!r}. Write 0.5.") from None
    if not np.all((p >= 0) & (p <= 1)):
        raise EstimatorError(f"probabilities must lie between 0 and 1, but got {p}. Divide percentages by 100.")
    h, w, trailing = _columns(values, weights)
    columns = [weighted_ecdf(column, w).quantile(p) for column in h.T]
    return np.stack(columns, axis=-1).reshape((*p.shape, *trailing))


def weighted_hdi(values: ArrayLike, weights: ArrayLike, probability: float = 0.9) -> Floats:
    """Return the highest-density interval: the shortest between two draws that holds a probability.

    Parameters
    ----------
    values : array_like, shape (*weights.shape, ...)
        Draws; those of weight zero are not looked at.
    weights : array_like
        Not negative, with a positive sum.
    probability : float
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (2, ...)
        Where it begins and ends. Of a density with several humps it is still one interval.

    Examples
    --------
    >>> weighted_hdi([0.0, 1.0, 2.0, 9.0], [0.1, 0.5, 0.3, 0.1], 0.8)
    array([1., 2.])
    """
    _check_probability(probability)
    h, w, trailing = _columns(values, weights)
    columns = [weighted_ecdf(column, w).shortest(probability) for column in h.T]
    return np.stack(columns, axis=-1).reshape((2, *trailing))


def _check_probability(probability: float) -> None:
    if not 0 < probability < 1:
        raise EstimatorError(f"probability must lie between 0 and 1, but got {probability}. Divide percentages by 100.")


@dataclass(frozen=True, eq=False)
class WeightedEcdf:
    """An empirical distribution function: a step at each draw. Call it to evaluate it."""

    values: Floats
    probabilities: Floats

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the probability of values up to and including x."""
        position = np.searchsorted(self.values, np.asarray(x, dtype=np.float64), side="right")
        return np.concatenate([[0.0], self.probabilities])[position]

    def quantile(self, probabilities: ArrayLike) -> Floats:
        """Return the smallest value at which each probability is reached."""
        # a sum of weights falls short of a round probability by rounding only: do not step to the next draw
        # for it
        position = np.searchsorted(self.probabilities, np.asarray(probabilities) * (1 - 1e-14), side="left")
        return np.asarray(self.values[np.minimum(position, self.values.size - 1)])

    def shortest(self, probability: float) -> Floats:
        """Return both ends of the shortest interval between two draws that holds a probability."""
        _check_probability(probability)
        before = np.concatenate([[0.0], self.probabilities[:-1]])  # what lies below each draw
        wanted = (before + probability) * (1 - 1e-14)  # sums of weights fall short by rounding
        first = np.flatnonzero(wanted <= self.probabilities[-1])
        last = np.searchsorted(self.probabilities, wanted[first], side="left")
        best = int(np.argmin(self.values[last] - self.values[first]))
        return np.array([self.values[first[best]], self.values[last[best]]])


def weighted_ecdf(values: ArrayLike, weights: ArrayLike) -> WeightedEcdf:
    """Return the weighted empirical distribution function of scalar draws.

    Parameters
    ----------
    values, weights : array_like, of one shape
        Scalar draws and their weights.

    Examples
    --------
    >>> weighted_ecdf([2.0, 1.0], [3.0, 1.0])([0.5, 1.0, 2.0])
    array([0.  , 0.25, 1.  ])
    """
    h, w, _ = _columns(values, weights)
    if h.shape[1] != 1:
        raise EstimatorError(
            f"values must be scalars, one for each weight, but their shape is {np.shape(values)} for weights "
            f"of shape {np.shape(weights)}. Choose one component."
        )
    x = h[:, 0]
    if not w.all():
        x, w = x[w > 0], w[w > 0]
    order = np.argsort(x)
    return WeightedEcdf(frozen(x[order]), frozen(np.minimum(np.cumsum(w[order]), 1.0)))


def ks_distance(values: ArrayLike, weights: ArrayLike, cdf: Callable[[Floats], ArrayLike]) -> float:
    """Return the Kolmogorov-Smirnov distance of weighted scalar draws to a distribution function.

    Parameters
    ----------
    values, weights : array_like, of one shape
        Scalar draws and their weights.
    cdf : callable
        The distribution function, for an array of sorted values.

    Examples
    --------
    >>> ks_distance([0.25, 0.75], [1.0, 1.0], lambda x: x)
    0.25
    """
    ecdf = weighted_ecdf(values, weights)
    last = np.append(ecdf.values[1:] > ecdf.values[:-1], True)  # of a run of ties only the last is a step's top
    x, above = ecdf.values[last], ecdf.probabilities[last]
    truth = np.asarray(cdf(x), dtype=np.float64)
    below = np.concatenate([[0.0], above[:-1]])
    return float(max(np.max(above - truth), np.max(truth - below)))


def _columns(values: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats, tuple[int, ...]]:
    """Return values (draw, quantity), weights (draw,) summing to one, and the shape of one value."""
    w = np.asarray(weights, dtype=np.float64)
    h = np.asarray(values, dtype=np.float64)
    if h.shape[: w.ndim] != w.shape or w.size == 0:
        raise EstimatorError(
            f"values must have the weights' axes first, {w.shape}, and at least one draw, but their shape is "
            f"{h.shape}. Pass one weight for each draw."
        )
    if not np.all(w >= 0) or not 0 < w.sum() < np.inf:
        raise EstimatorError(
            f"weights must not be negative and must have a positive, finite sum, but the smallest is "
            f"{w.min()} and the sum {w.sum()}. Pass weights, not their logs."
        )
    flat = w.ravel()
    columns = h.reshape(flat.size, -1)
    if not flat.all():
        columns = np.where(flat[:, np.newaxis] > 0, columns, 0.0)
    return columns, flat / flat.sum(), h.shape[w.ndim :]
