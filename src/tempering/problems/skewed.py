"""A skewed, correlated density in any dimension whose powers are of the same family.

Symmetric targets hide errors of sign; this one has no symmetry, and everything about it is exact at any k.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy.linalg import solve_triangular
from scipy.special import digamma, gammaincc, gammaln, polygamma

from tempering.errors import TargetError
from tempering.problems.problem import Array, FloatArray, OneMode, check_power, frozen_array, namespace_of


@dataclass(frozen=True, eq=False)
class Skewed(OneMode):
    r"""A linear image of independent logarithms of gamma variables: x = location + tril y.

    .. math:: \pi(y) = \prod_i \exp(a_i y_i - e^{y_i}) / \Gamma(a_i), \qquad
              \pi(y)^k \propto \prod_i \exp(k a_i y_i - k e^{y_i})

    so y under pi^k is log(G / k) with G gamma of shape k a. The smaller the shape, the longer the left tail.

    Parameters
    ----------
    shapes : array_like, shape (dimension,)
        Positive; skewness -1.1 at 1, -0.5 at 4.
    location : array_like, shape (dimension,)
    tril : array_like, shape (dimension, dimension)
        Lower triangular with a positive diagonal.

    Examples
    --------
    >>> problem = Skewed([1.0], [0.0], [[1.0]])
    >>> problem.mean.round(4)  # minus Euler's constant
    array([-0.5772])
    >>> problem.log_normaliser(1.0)
    0.0
    """

    shapes: FloatArray
    location: FloatArray
    tril: FloatArray

    def __post_init__(self) -> None:
        for name, ndim in (("shapes", 1), ("location", 1), ("tril", 2)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, ndim))
        d = len(self.shapes)
        if self.location.shape != (d,) or self.tril.shape != (d, d) or np.any(self.shapes <= 0):
            raise TargetError(
                "There must be one positive shape and one location per coordinate and a square tril, "
                f"but got {self.shapes}, {self.location} and a tril of shape {self.tril.shape}. "
                "Make their lengths agree."
            )
        if np.any(np.triu(self.tril, 1) != 0) or np.any(np.diag(self.tril) <= 0):
            raise TargetError(
                f"tril must be lower triangular with a positive diagonal, but got {self.tril}. Pass a Cholesky factor."
            )

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.shapes)

    @property
    def initial(self) -> FloatArray:
        """The mode."""
        return self.location + self.tril @ np.log(self.shapes)

    @property
    def mean(self) -> FloatArray:
        """The exact mean, from the digamma function."""
        return np.asarray(self.location + self.tril @ digamma(self.shapes))

    @property
    def covariance(self) -> FloatArray:
        """The exact covariance, from the trigamma function."""
        return np.asarray((self.tril * polygamma(1, self.shapes)) @ self.tril.T)

    def log_density(self, x: Array) -> Any:
        """Return log pi(x) for positions of shape (..., dimension), NumPy or JAX."""
        xp = namespace_of(x)
        y = (xp.asarray(x) - self.location) @ self._inverse_tril.T
        return xp.sum(self.shapes * y - xp.exp(y), axis=-1) - self._log_constant

    @cached_property
    def log_density_numba(self) -> Callable[[Any], float]:
        """The log density of one position, compiled."""
        shapes, location, inverse, constant = (
            self.shapes,
            self.location,
            self._inverse_tril,
            self._log_constant,
        )
        dimension = self.dimension

        def log_density(x: Array) -> float:
            total = -constant
            for i in range(dimension):
                y = 0.0
                for j in range(i + 1):
                    y += inverse[i, j] * (x[j] - location[j])
                total += shapes[i] * y - np.exp(y)
            return total

        compiled: Callable[[Any], float] = njit(log_density, nogil=True)
        return compiled

    def cdf(self, x: Array) -> FloatArray:
        """Return the exact distribution function of a one-dimensional problem, for ``x`` of any shape."""
        if self.dimension != 1:
            raise TargetError(
                f"A distribution function needs dimension 1, but this problem has {self.dimension}. "
                "Compare moments instead."
            )
        y = (np.asarray(x, dtype=np.float64) - self.location[0]) / self.tril[0, 0]
        return np.asarray(1 - gammaincc(self.shapes[0], np.exp(y)))

    def log_normaliser(self, k: float) -> float:
        """Return log of the integral of pi^k, in closed form."""
        powered = check_power(k) * self.shapes
        log_parts = gammaln(powered) - powered * np.log(k)
        return float(np.sum(log_parts + np.log(np.diag(self.tril))) - k * self._log_constant)

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> FloatArray:
        """Draw ``n`` exact independent positions from pi^k."""
        powered = check_power(k) * self.shapes
        # log of a gamma of small shape: boost the shape by one and add log(U) / shape, which cannot underflow
        log_gamma = np.log(rng.standard_gamma(powered + 1, size=(n, self.dimension)))
        log_gamma -= rng.standard_exponential((n, self.dimension)) / powered
        return np.asarray(self.location + (log_gamma - np.log(k)) @ self.tril.T)

    @cached_property
    def _inverse_tril(self) -> FloatArray:
        return np.asarray(solve_triangular(self.tril, np.eye(self.dimension), lower=True))

    @cached_property
    def _log_constant(self) -> float:
        return float(np.sum(gammaln(self.shapes) + np.log(np.diag(self.tril))))


def skewed(dimension: int = 5) -> Skewed:
    """Return a skewed density with shapes from 1 to 4, unequal scales and neighbours correlated."""
    index = np.arange(dimension)
    tril = np.diag(1.0 + 0.3 * (index % 3)) + np.diag(np.full(dimension - 1, 0.6), -1)
    return Skewed(1.0 + index % 4, 0.5 * (index % 5) - 1.0, tril)
