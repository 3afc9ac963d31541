r"""The shape of the tail of importance weights: Pareto :math:`\hat k`.

Vehtari, Simpson, Gelman, Yao & Gabry (2024, Pareto smoothed importance sampling) with the estimator of
Zhang & Stephens (2009, Technometrics 51). Below 0.7 an average over the weights can be trusted.
"""

import numpy as np
from numpy.typing import ArrayLike

from tempering.estimators.arrays import Floats, as_log, as_rung, count_rungs

# Vehtari et al. (2024), appendix: ten pseudo-observations at 0.5 steady the estimate from few draws
PRIOR_DRAWS, PRIOR_SHAPE = 10, 0.5
MINIMUM_TAIL = 5
# Weights whose largest is below so many times their mean have no tail to speak of: their sample size is at least a
# third of the draws, for E w^2 <= max(w) E w. A law fitted to such weights describes their steps, not a tail: weights
# of two values, as of a mixture over two models, had k-hat 3.09 with a largest of 1.37 times the mean.
BOUNDED = 3.0


def generalised_pareto_shape(exceedances: ArrayLike) -> float:
    r"""Estimate the shape :math:`k` of a generalised Pareto law from exceedances over its threshold.

    The quasi-Bayesian estimator of Zhang & Stephens (2009), their Eqs. 5 to 8, with the sign of Vehtari et
    al.:
    :math:`k > 0` is a heavy tail of which moments below :math:`1/k` exist.

    Parameters
    ----------
    exceedances : array_like, shape (n,)
        Values minus threshold, not negative, in any order.

    Examples
    --------
    >>> u = (np.arange(4000) + 0.5) / 4000
    >>> round(generalised_pareto_shape((u**-0.3 - 1) / 0.3), 1)
    0.3
    """
    x = np.sort(np.asarray(exceedances, dtype=np.float64))
    n = x.size
    quartile = x[max(int(n / 4 + 0.5) - 1, 0)]
    if not quartile > 1e-15 * x[-1]:
        return np.inf  # a few draws tower over all others by more than a double can hold
    n_grid = 30 + int(np.sqrt(n))
    j = np.arange(1, n_grid + 1)
    theta = 1.0 / x[-1] + (1.0 - np.sqrt(n_grid / (j - 0.5))) / (3.0 * quartile)  # all below 1 / max(x)
    shape = np.mean(np.log1p(-theta[:, np.newaxis] * x), axis=1)
    theta, shape = theta[shape != 0.0], shape[shape != 0.0]  # theta = 0 has no likelihood of this form
    log_likelihood = n * (np.log(-theta / shape) - shape - 1.0)
    weight = np.exp(log_likelihood - log_likelihood.max())
    best = float(np.sum(theta * weight) / np.sum(weight))
    return float(np.mean(np.log1p(-best * x)))


def pareto_k(log_weights: ArrayLike) -> float:
    r"""Return Pareto :math:`\hat k` of one set of importance weights.

    The :math:`\min(T/5, 3 \sqrt T)` largest weights are the tail. Minus infinity for weights without a tail: the
    largest is below three times the mean, or all are equal in their tail. Infinity for too few draws to tell.

    Examples
    --------
    >>> pareto_k(np.zeros(100))
    -inf
    >>> pareto_k(np.random.default_rng(1).exponential(0.2, size=10_000)) < 0.5
    True
    """
    flat = np.ravel(np.asarray(log_weights, dtype=np.float64))
    return _shape_of_tail(as_log("log_weights", flat, flat.shape))


def pareto_k_per_rung(log_weights: ArrayLike, rung: ArrayLike, n_rungs: int | None = None) -> Floats:
    """Return Pareto k-hat of the weights of each rung; infinity for a rung too little visited to tell.

    Parameters
    ----------
    log_weights, rung : array_like, shape (draw,) or (chain, draw)
        Log weight and rung of each draw.
    n_rungs : int, optional
        Number of rungs.

    Returns
    -------
    ndarray, shape (n_rungs,)
    """
    rung = as_rung(rung)
    m = count_rungs(rung, n_rungs)
    log_w = as_log("log_weights", log_weights, rung.shape).ravel()
    small = rung.ravel().astype(np.uint16 if m <= 1 << 16 else np.intp)  # 16 bits: NumPy sorts by radix, in O(T)
    grouped = log_w[np.argsort(small, kind="stable")]
    ends = np.cumsum(np.bincount(small, minlength=m))
    return np.array([_shape_of_tail(part) for part in np.split(grouped, ends[:-1])])


def _shape_of_tail(log_w: Floats) -> float:
    n = log_w.size
    if n == 0 or log_w.max() == -np.inf:
        return np.inf
    if log_w.max() - log_w.min() <= 1e-9:  # equal up to the rounding of an energy: the cold rung
        return -np.inf
    n_tail = min(n // 5, int(np.ceil(3 * np.sqrt(n))))
    if n_tail < MINIMUM_TAIL:
        return np.inf
    tail = np.partition(log_w, n - n_tail - 1)[n - n_tail - 1 :]
    if tail.max() - tail[0] <= 1e-9:
        return -np.inf
    relative = np.exp(tail - tail.max())
    if 1.0 < BOUNDED * np.mean(np.exp(log_w - tail.max())):
        return -np.inf
    shape = generalised_pareto_shape(relative[1:] - relative[0])
    return (n_tail * shape + PRIOR_DRAWS * PRIOR_SHAPE) / (n_tail + PRIOR_DRAWS)
