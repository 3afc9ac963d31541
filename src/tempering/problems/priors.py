"""Priors that any sampler can use: boxes, normals and heavy tails, each with its unit-cube transform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from tempering.errors import TargetError
from tempering.problems.problem import Array, FloatArray, frozen_array, namespace_of

_LOG_2PI = np.log(2 * np.pi)


class Prior(Protocol):
    """A normalised density that is reached from the unit cube, and so can be drawn from."""

    @property
    def dimension(self) -> int:
        """Number of coordinates."""

    def log_density(self, x: Array) -> Any:
        """Return the log density for positions of shape (..., dimension), NumPy or JAX."""

    def from_unit_cube(self, u: Array) -> Any:
        """Turn points that are uniform in the unit cube into draws of the prior."""

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw ``n`` positions."""
        return np.asarray(self.from_unit_cube(rng.random((n, self.dimension))))

    def draw(self, key: Any) -> Any:
        """Draw one position with a JAX key."""
        import jax

        return self.from_unit_cube(jax.random.uniform(key, (self.dimension,), minval=1e-12))  # no quantile is infinite


def normal_quantile(u: Array) -> Any:
    """Return quantiles of the standard normal, for NumPy and JAX arrays alike."""
    if namespace_of(u) is np:
        return ndtri(u)
    import jax

    return jax.scipy.special.ndtri(u)


@dataclass(frozen=True, eq=False)
class UniformPrior(Prior):
    """Independent uniform distributions: a box.

    Examples
    --------
    >>> box = UniformPrior.cube(-1.0, 1.0, 3)
    >>> float(box.log_density(np.zeros(3)).round(4)), float(box.log_density(np.full(3, 2.0)))
    (-2.0794, -inf)
    """

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, 1))
        if self.lower.shape != self.upper.shape or np.any(self.lower >= self.upper):
            raise TargetError(
                f"Each lower end must lie below its upper end, but got {self.lower} and {self.upper}. Swap them."
            )

    @classmethod
    def cube(cls, lower: float, upper: float, dimension: int) -> UniformPrior:
        """Return a box with the same ends for every coordinate."""
        return cls(np.full(dimension, lower), np.full(dimension, upper))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.lower)

    @cached_property
    def _log_height(self) -> float:
        return -float(np.sum(np.log(self.upper - self.lower)))

    def log_density(self, x: Array) -> Any:
        """Return the log density, minus infinity outside; positions of shape (..., dimension), NumPy or JAX."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        inside = xp.all((x >= self.lower) & (x <= self.upper), axis=-1)
        return xp.where(inside, self._log_height, -np.inf)

    def from_unit_cube(self, u: Array) -> Any:
        """Stretch the unit cube to the box."""
        return self.lower + (self.upper - self.lower) * u


@dataclass(frozen=True, eq=False)
class CauchyPrior(Prior):
    """Independent Cauchy distributions, wide enough for targets with heavy tails.

    Examples
    --------
    >>> wide = CauchyPrior(np.zeros(1), np.ones(1))
    >>> wide.from_unit_cube(np.array([0.75])).round(6)
    array([1.])
    """

    location: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        for name in ("location", "scale"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, 1))

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.location)

    def log_density(self, x: Array) -> Any:
        """Return the log density for positions of shape (..., dimension), NumPy or JAX."""
        xp = namespace_of(x)
        z = (xp.asarray(x) - self.location) / self.scale
        return -xp.sum(xp.log1p(z * z), axis=-1) - float(np.sum(np.log(np.pi * self.scale)))

    def from_unit_cube(self, u: Array) -> Any:
        """Return the quantiles at ``u``."""
        xp = namespace_of(u)
        return self.location + self.scale * xp.tan(np.pi * (u - 0.5))


@dataclass(frozen=True, eq=False)
class NormalPrior(Prior):
    """Independent normal distributions.

    Examples
    --------
    >>> prior = NormalPrior(np.zeros(2), np.array([1.0, 3.0]))
    >>> prior.sample(np.random.default_rng(1), 4).shape
    (4, 2)
    """

    mean: FloatArray
    sd: FloatArray

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.mean)

    @cached_property
    def _log_height(self) -> float:
        return float(-np.sum(np.log(self.sd)) - 0.5 * self.dimension * _LOG_2PI)

    def log_density(self, x: Array) -> Any:
        """Return the log density for positions of shape (..., dimension), NumPy or JAX."""
        xp = namespace_of(x)
        z = (xp.asarray(x) - self.mean) / self.sd
        return self._log_height - 0.5 * xp.sum(z * z, axis=-1)

    def from_unit_cube(self, u: Array) -> Any:
        """Return the quantiles at ``u``, NumPy or JAX."""
        return self.mean + self.sd * normal_quantile(u)
