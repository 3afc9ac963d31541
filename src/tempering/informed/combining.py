"""Combine the rungs of chains without rejections.

Their weights vary on the cold rung too, and on a discrete space they have ties, which a Pareto fit takes for a heavy
tail. So rungs are screened against the cold one: a rung takes part if its draws are worth at least a fifth as much.
All other rules are those of `tempering.estimators`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.estimators import Estimate, RungSums, combine, combined_ess, combined_log_weights, weighted_estimate

Floats = NDArray[np.float64]
WORTH_OF_COLD = 0.2


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights of all draws, summing to one; shares of the rungs; effective sample size of the weights."""

    weights: Floats
    shares: Floats
    ess: float
    chains_per_ensemble: int = 1

    def expect(self, values: ArrayLike) -> Estimate:
        """Estimate a mean, the leading axes of the values being those of the draws."""
        found = weighted_estimate(values, self.weights, chains_per_ensemble=self.chains_per_ensemble)
        if np.ndim(found.value) == 0:
            return Estimate(float(found.value), float(found.standard_error))
        return found


def weigh(
    log_weights: Floats, rung: NDArray[np.intp], n_rungs: int, rule: str = "screened", chains_per_ensemble: int = 1
) -> Weighing:
    """Weigh draws, shape (chain, draw), towards the target by a rule.

    Examples
    --------
    >>> weigh(np.zeros((1, 4)), np.array([[0, 0, 1, 1]]), 2).shares
    array([0.5, 0.5])
    """
    sums = RungSums.from_log_weights(log_weights, rung, n_rungs)
    if rule == "screened":
        shares = screened_by_cold(sums)
    else:
        k = np.linspace(1.0, 0.0, n_rungs) if n_rungs > 1 else np.ones(1)  # tells their number, no more
        shares = combine(log_weights, log_weights, rung, rule, inverse_temperatures=k).shares
    weights = np.exp(combined_log_weights(log_weights, rung, shares, sums))
    return Weighing(weights, np.asarray(shares), combined_ess(sums, shares), chains_per_ensemble)


def screened_by_cold(sums: RungSums) -> Floats:
    """Share by effective sample size among the rungs whose draws are worth a fifth of a cold one or more."""
    worth = np.where(sums.n_draws > 0, sums.kish_ess / np.maximum(sums.n_draws, 1), 0.0)
    visited = np.flatnonzero(worth > 0)
    used = worth >= WORTH_OF_COLD * worth[visited[0]]  # the coldest that was visited
    ell = np.where(used, sums.kish_ess, 0.0)
    return np.asarray(ell / ell.sum())
