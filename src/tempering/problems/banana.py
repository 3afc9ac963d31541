"""A banana: a curved ridge in the plane whose powers have a closed form."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from tempering.errors import TargetError
from tempering.problems.problem import Array, FloatArray, OneMode, check_power, namespace_of


@dataclass(frozen=True)
class Banana(OneMode):
    r"""A normal first coordinate, and a second one that is normal about its square.

    .. math:: x_1 \sim N(m, s_1^2), \qquad x_2 \mid x_1 \sim N(b x_1^2, s_2^2)

    pi^k is of the same form with both variances divided by k. With m other than 0 the banana is lopsided.

    Parameters
    ----------
    location, spread : float
        m and s_1.
    bend, thickness : float
        b and s_2.

    Examples
    --------
    >>> Banana().mean
    array([1.  , 1.25])
    """

    location: float = 1.0
    spread: float = 2.0
    bend: float = 0.25
    thickness: float = 0.5

    def __post_init__(self) -> None:
        if self.spread <= 0 or self.thickness <= 0:
            raise TargetError(
                f"spread and thickness must be positive, but got {self.spread} and {self.thickness}. "
                "They are standard deviations."
            )

    @property
    def dimension(self) -> int:
        """Two."""
        return 2

    @property
    def initial(self) -> FloatArray:
        """The mode."""
        return np.array([self.location, self.bend * self.location**2])

    @property
    def mean(self) -> FloatArray:
        """The exact mean."""
        return np.array([self.location, self.bend * (self.location**2 + self.spread**2)])

    @property
    def covariance(self) -> FloatArray:
        """The exact covariance: Cov(x, x^2) = 2 m s^2 and Var(x^2) = 2 s^4 + 4 m^2 s^2."""
        variance = self.spread**2
        across = 2 * self.bend * self.location * variance
        up = self.thickness**2 + self.bend**2 * (2 * variance**2 + 4 * self.location**2 * variance)
        return np.array([[variance, across], [across, up]])

    def log_density(self, x: Array) -> Any:
        """Return log pi(x) for positions of shape (..., 2), NumPy or JAX."""
        x = namespace_of(x).asarray(x)
        along = (x[..., 0] - self.location) / self.spread
        across = (x[..., 1] - self.bend * x[..., 0] ** 2) / self.thickness
        return -0.5 * (along**2 + across**2) - self._log_constant

    @cached_property
    def log_density_numba(self) -> Callable[[Any], float]:
        """The log density of one position, compiled."""
        location, spread, bend, thickness = self.location, self.spread, self.bend, self.thickness
        constant = self._log_constant

        def log_density(x: Array) -> Any:
            along = (x[0] - location) / spread
            across = (x[1] - bend * x[0] ** 2) / thickness
            return -0.5 * (along**2 + across**2) - constant

        compiled: Callable[[Any], float] = njit(log_density, nogil=True)
        return compiled

    def log_normaliser(self, k: float) -> float:
        """Return log of the integral of pi^k, in closed form."""
        return float((1 - check_power(k)) * self._log_constant - np.log(k))

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> FloatArray:
        """Draw ``n`` exact independent positions from pi^k."""
        z = rng.standard_normal((n, 2)) / np.sqrt(check_power(k))
        first = self.location + self.spread * z[:, 0]
        return np.column_stack([first, self.bend * first**2 + self.thickness * z[:, 1]])

    @property
    def _log_constant(self) -> float:
        return float(np.log(2 * np.pi * self.spread * self.thickness))
