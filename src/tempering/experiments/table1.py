r"""Table 1: which single tempered distribution is the best importance sampler for a Gaussian mean. Exact.

For pi = N(mu, sigma^2) and draws from pi_k = N(mu, sigma^2 / k), the weighted draw w theta has
second moment, with w = pi / pi_k, E_k[w^2 theta^2] = (mu^2 + sigma^2 / (2 - k)) / sqrt(k (2 - k)).
"""

import math

from scipy.optimize import brentq

from tempering.errors import InputError
from tempering.experiments import Report, Row

RATIOS = {"1/16": 1 / 16, "1/4": 1 / 4, "1": 1.0, "4": 4.0, "16": 16.0}
PAPER_BEST = (1.00, 0.95, 0.70, 0.52, 0.50)
PAPER_LEAST = (0.99, 0.89, 0.42, 0.18, 0.16)


def variance(k: float, ratio: float) -> float:
    r"""Return the variance of one weighted draw in units of sigma^2; 1 at k = 1.

    Parameters
    ----------
    k : float
        Inverse temperature in (0, 2); the variance is infinite outside.
    ratio : float
        sigma / mu, in (0, inf]; inf stands for mu = 0.

    Examples
    --------
    >>> variance(1.0, 0.25)
    1.0
    """
    _check(ratio)
    if not 0.0 < k < 2.0:
        return math.inf
    volume = 1 / math.sqrt(k * (2 - k))
    # volume - 1 without cancellation, since k (2 - k) = 1 - (1 - k)^2
    excess = math.expm1(-0.5 * math.log1p(-((1 - k) ** 2)))
    return excess / ratio**2 + volume / (2 - k)


def best_power(ratio: float) -> float:
    r"""Return k*, the inverse temperature of least variance (Eq. 1).

    Examples
    --------
    >>> round(best_power(1.0), 2), best_power(math.inf)
    (0.7, 0.5)
    """
    _check(ratio)
    if math.isinf(ratio):
        return 0.5
    square = ratio**2
    return 1.5 + square - 0.5 * math.sqrt(1 + 8 * square + 4 * square**2)


def least_power(ratio: float) -> float:
    r"""Return k-, below which importance sampling from pi_k is worse than sampling pi, by root finding.

    Examples
    --------
    >>> round(least_power(1.0), 2)
    0.42
    """
    best = best_power(ratio)
    return float(brentq(lambda k: variance(k, ratio) - 1.0, 1e-12, best, xtol=1e-14))


def run() -> Report:
    """Compute Table 1; nothing is random.

    Examples
    --------
    >>> run()["k- 1/4"].paper
    0.89
    """
    best = [
        Row(f"k* {name}", paper, best_power(ratio))
        for (name, ratio), paper in zip(RATIOS.items(), PAPER_BEST, strict=True)
    ]
    least = [
        Row(f"k- {name}", paper, least_power(ratio))
        for (name, ratio), paper in zip(RATIOS.items(), PAPER_LEAST, strict=True)
    ]
    notes = ("k* minimises the variance (Eq. 1), below k- tempering hurts; by sigma / mu. Exact: no sampling.",)
    return Report("Table 1: importance sampling of a Gaussian mean from its k-th power", (*best, *least), notes)


def _check(ratio: float) -> None:
    if not ratio > 0:
        raise InputError(f"sigma / mu must be positive, but got {ratio}. The sign of mu does not matter.")
