r"""Weights calibrated by what is known: of a density among the states some integrals are known exactly.

Let m be the mixture that all draws come from, q a density whose normaliser is that of a state, and f functions whose
mean under q is zero. Then :math:`g = f q / m` sums to about zero over the draws, and by how much it does not tells
what chance has done: too many draws of one mode, say. The likelihood of such integrals (Tan 2004, *On a likelihood
approach for Monte Carlo integration*; Owen's empirical likelihood) multiplies the weight of each draw by
:math:`1 / (1 + \lambda \cdot g)`, with :math:`\lambda` so that the sum is zero. To first order this is the regression
on control variates: what is left of the variance is what the functions do not explain, and the standard error is that
of the residuals. Nothing is assumed of the target: where q misses some of it, g is small, and weights stay as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.estimators.arrays import Floats

ENTRIES = 1 << 24  # of the functions of all draws, four bytes each
DRAWS_PER_FUNCTION = 50  # each takes about a draw off the others' error: 2 % of the variance at the most
MOST_FUNCTIONS = 64  # the time for them grows with their square: then it is about that of solving for the normalisers
NULL = 1e-9  # scaled curvature below which functions are combinations of others
STEPS, SETTLED = 20, 1e-4  # of Newton's method; squared standard errors that are left
ROUNDING = 1e-3  # of a sum of logarithms of single precision


class Known(NamedTuple):
    """A density at the draws, and functions whose mean under it is zero."""

    log_density: Floats  # (draw,)
    functions: Callable[[int], NDArray[np.float32]]  # at most so many -> (draw, function)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What weights are multiplied by, and what of an influence the functions explain."""

    factor: Floats  # (draw,)
    controls: NDArray[np.float32]  # (draw, function): g
    inverse: Floats  # of the sum of g g'

    def residual(self, influences: Floats) -> Floats:
        """Return influences, shape (quantity, draw), less what the functions explain of them; the array is used up."""
        for row in influences:
            scale = np.abs(row).max() or 1.0  # single precision has a small range
            slope = self.inverse @ ((row / scale).astype(np.float32) @ self.controls)
            row -= scale * (self.controls @ slope.astype(np.float32)) * self.factor
        return influences


def calibrated(log_mixture: Floats, possible: NDArray[np.bool_], known: Known) -> Calibration | None:
    """Return what the weights of draws of a mixture are multiplied by; None where too little is known.

    Examples
    --------
    Draws of a normal distribution, of which the mean is known to be 0:

    >>> x = np.random.default_rng(1).normal(size=10_000)
    >>> log_density = -0.5 * x**2
    >>> known = Known(log_density, lambda most: x[:, np.newaxis].astype(np.float32))
    >>> found = calibrated(log_density, np.ones(x.size, bool), known)
    >>> print(f"{np.mean(x):.4f} becomes {abs(np.mean(found.factor * x)):.4f}")
    -0.0109 becomes 0.0000
    """
    ratio = np.where(possible, known.log_density - log_mixture, -np.inf)
    largest = ratio.max()
    if not np.isfinite(largest):
        return None
    ratio = np.exp(ratio - largest)
    effective = np.sum(ratio) ** 2 / np.sum(ratio**2)
    most = int(min(effective / DRAWS_PER_FUNCTION, ENTRIES // ratio.size, MOST_FUNCTIONS))
    if most < 1:
        return None
    g = known.functions(most)
    g *= ratio[:, np.newaxis].astype(np.float32)
    g = g[:, _is_known_by_enough(g)]
    if g.shape[1] == 0:
        return None
    g /= np.sqrt(np.einsum("ti,ti->i", g, g, dtype=np.float64) / len(g)).astype(np.float32)
    inverse = _inverse((g.T @ g).astype(np.float64))
    factor = _factor(g, inverse)
    return None if factor is None else Calibration(factor, g, inverse)


def _is_known_by_enough(g: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which functions are more than the few draws where they are large."""
    square = g**2
    total = square.sum(axis=0, dtype=np.float64)
    return np.asarray(total**2 > DRAWS_PER_FUNCTION * np.einsum("ti,ti->i", square, square, dtype=np.float64))


def _inverse(curvature: Floats) -> Floats:
    value, vector = np.linalg.eigh(curvature)
    kept = value > NULL * value[-1]
    return np.asarray((vector[:, kept] / value[kept]) @ vector[:, kept].T)


def _factor(g: NDArray[np.float32], inverse: Floats) -> Floats | None:
    """Return 1 / (1 + lambda . g) with which g sums to zero: the maximum of the sum of the logs of 1 + lambda . g.

    None if there is none near.
    """
    solution, height, factor = np.zeros(g.shape[1]), 0.0, np.ones(len(g))
    for _ in range(STEPS):
        missing = (factor.astype(np.float32) @ g).astype(np.float64)
        step = inverse @ missing
        if missing @ step < SETTLED:
            return factor
        for _ in range(STEPS):
            divisor = 1.0 + (g @ (solution + step).astype(np.float32)).astype(np.float64)
            if divisor.min() > 0.0 and (higher := float(np.sum(np.log(divisor)))) > height - ROUNDING:
                break
            step /= 2.0
        else:
            return None
        solution, height, factor = solution + step, higher, 1.0 / divisor
        scaled = g * factor.astype(np.float32)[:, np.newaxis]
        inverse = _inverse((scaled.T @ scaled).astype(np.float64))
    return None
