"""Turn weighted draws into draws of equal weight: for programs that take no weights, and from rung to rung."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints
from tempering.randomness import seed_of

Method = Literal["systematic", "residual"]


def resample(
    weights: ArrayLike,
    n_draws: int,
    *,
    method: Method = "systematic",
    rng: np.random.Generator | int | None = None,
) -> Ints:
    """Choose draws with probabilities proportional to their weights.

    Each draw is taken floor(n w) or more times; expectations are kept exactly. Systematic resampling spends
    one uniform number in all; residual resampling draws the remainders independently (Douc, Cappe & Moulines
    2005).

    Parameters
    ----------
    weights : array_like
        Not negative, with a positive sum; flattened.
    n_draws : int
        How many to take.
    method : {"systematic", "residual"}
        How the fractional parts are drawn.
    rng : Generator, int or None
        Where the randomness comes from.

    Returns
    -------
    ndarray of int, shape (n_draws,)
        Indices into the flattened draws, not decreasing.

    Examples
    --------
    >>> resample([0.5, 0.0, 0.5], 4, rng=1)
    array([0, 0, 2, 2])
    """
    w = np.ravel(np.asarray(weights, dtype=np.float64))
    if w.size == 0 or not np.all(w >= 0) or not 0 < w.sum() < np.inf or n_draws < 0:
        raise EstimatorError(
            f"weights must not be negative and must have a positive, finite sum, and n_draws must not be "
            f"negative, but the sum is {w.sum()} and n_draws {n_draws}. Pass weights, not their logs."
        )
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_of(rng))
    expected = n_draws * (w / w.sum())
    if method == "systematic":
        counts = _systematic(generator, expected, n_draws)
    elif method == "residual":
        counts = _residual(generator, expected, n_draws)
    else:
        raise EstimatorError(f"method must be 'systematic' or 'residual', but got {method!r}. Choose one of them.")
    return np.repeat(np.arange(w.size), counts)


def _systematic(rng: np.random.Generator, expected: Floats, n_draws: int) -> Ints:
    """Count the points of a randomly shifted unit comb that fall to each draw."""
    ends = np.cumsum(expected)
    ends[ends >= ends[-1]] = n_draws  # rounding must not lose the last point
    passed = np.clip(np.ceil(ends - rng.random()), 0, n_draws).astype(np.intp)
    return np.diff(passed, prepend=0)


def _residual(rng: np.random.Generator, expected: Floats, n_draws: int) -> Ints:
    """Take whole parts surely and draw the rest from the fractional parts."""
    whole = np.floor(expected).astype(np.intp)
    rest = n_draws - int(whole.sum())
    if rest > 0:
        fraction = expected - whole
        whole = whole + rng.multinomial(rest, fraction / fraction.sum())
    return whole


def systematic(rng: np.random.Generator, log_weights: Floats, n: int) -> Ints:
    """Resample ``n`` indices: each is drawn n times its weight on average, rounded up or down.

    Examples
    --------
    >>> systematic(np.random.default_rng(1), np.log([0.5, 0.25, 0.25]), 4)
    array([0, 0, 1, 2])
    """
    weights = np.exp(log_weights - logsumexp(log_weights))
    points = (np.arange(n) + rng.random()) / n
    return np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)


def next_inverse_temperature(energy: Floats, k: float, share: float) -> float:
    """Return the largest k' <= 1 at which weights exp((k' - k) energy) keep an effective share of a population.

    Particles outside the support weigh nothing at any k' and are not counted.

    Examples
    --------
    >>> next_inverse_temperature(np.zeros(100), 0.3, 0.5)
    1.0
    >>> round(next_inverse_temperature(np.linspace(-40.0, 0.0, 400), 0.0, 0.5), 2)
    0.1
    """
    inside = energy[energy > -np.inf]

    def effective_share(step: float) -> float:
        return float(np.exp(2 * logsumexp(step * inside) - logsumexp(2 * step * inside))) / len(inside)

    low, high = 0.0, 1.0 - k
    if effective_share(high) >= share:
        return 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective_share(middle) >= share else (low, middle)
    return k + high
