"""Priors on the whole line."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special as scipy_special

from tempering.prior.bijections import HalfLine, namespace
from tempering.prior.distribution import Distribution
from tempering.prior.randomness import Source, source_of

if TYPE_CHECKING:
    from tempering.prior.bijections import Array
    from tempering.prior.randomness import Randomness


@dataclass(frozen=True)
class Normal(Distribution):
    """A normal distribution."""

    mean: Any = 0.0
    sd: Any = 1.0
    above_0 = ("sd",)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return -0.5 * ((x - self.mean) / self.sd) ** 2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        return self.mean + self.sd * source.normal(shape)


@dataclass(frozen=True)
class StudentT(Distribution):
    """A Student distribution with a location and a scale."""

    degrees_of_freedom: Any
    location: Any = 0.0
    scale: Any = 1.0
    above_0 = ("degrees_of_freedom", "scale")

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        nu, z = self.degrees_of_freedom, (x - self.location) / self.scale
        constant = scipy_special.gammaln((nu + 1) / 2) - scipy_special.gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        return constant - np.log(self.scale) - (nu + 1) / 2 * xp.log1p(z**2 / nu)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        nu = self.degrees_of_freedom
        log_chi2, xp = source.log_gamma(nu / 2, shape) + np.log(2.0), source.xp
        return self.location + self.scale * source.normal(shape) * xp.exp(0.5 * (np.log(nu) - log_chi2))


@dataclass(frozen=True)
class Cauchy(Distribution):
    """A Cauchy distribution with a location and a scale."""

    location: Any = 0.0
    scale: Any = 1.0
    above_0 = ("scale",)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return -np.log(np.pi * self.scale) - xp.log1p(((x - self.location) / self.scale) ** 2)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return self.location + self.scale * xp.tan(np.pi * (u - 0.5))


@dataclass(frozen=True)
class Positive(Distribution):
    """What priors on positive numbers have in common."""

    bijection = HalfLine()


@dataclass(frozen=True)
class HalfNormal(Positive):
    """The positive half of a normal distribution around 0."""

    scale: Any = 1.0
    above_0 = ("scale",)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return -0.5 * (x / self.scale) ** 2 - np.log(self.scale) + 0.5 * np.log(2 / np.pi)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        return self.scale * abs(source.normal(shape))


@dataclass(frozen=True)
class HalfCauchy(Positive):
    """The positive half of a Cauchy distribution around 0."""

    scale: Any = 1.0
    above_0 = ("scale",)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return np.log(2 / np.pi) - np.log(self.scale) - xp.log1p((x / self.scale) ** 2)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return self.scale * xp.tan(0.5 * np.pi * u)


@dataclass(frozen=True)
class LogNormal(Positive):
    """A number whose log is normal."""

    mean_of_log: Any = 0.0
    sd_of_log: Any = 1.0
    above_0 = ("sd_of_log",)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        z = (xp.log(x) - self.mean_of_log) / self.sd_of_log
        return -0.5 * z**2 - np.log(self.sd_of_log) - 0.5 * np.log(2 * np.pi) - xp.log(x)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        z, xp = source.normal(shape), source.xp
        return xp.exp(self.mean_of_log + self.sd_of_log * z)


@dataclass(frozen=True)
class Gamma(Positive):
    """A gamma distribution with the mean shape_parameter / rate."""

    shape_parameter: Any
    rate: Any = 1.0
    above_0 = ("shape_parameter", "rate")

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        a = self.shape_parameter
        return a * np.log(self.rate) - scipy_special.gammaln(a) + (a - 1) * xp.log(x) - self.rate * x

    def log_density_free(self, free: Array) -> Any:
        """Return the log density of the log: exact where the value underflows."""
        xp, _ = namespace(free)
        a = self.shape_parameter
        return xp.sum(a * np.log(self.rate) - scipy_special.gammaln(a) + a * free - self.rate * xp.exp(free))

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        log_value, xp = source.log_gamma(self.shape_parameter, shape), source.xp
        return xp.exp(log_value - np.log(self.rate))

    def sample_free(self, rng: Randomness) -> Any:
        """Draw the log of a value."""
        return source_of(rng).log_gamma(self.shape_parameter, self.value_shape) - np.log(self.rate)


@dataclass(frozen=True)
class InverseGamma(Positive):
    """The inverse of a gamma number: shape_parameter and scale."""

    shape_parameter: Any
    scale: Any = 1.0
    above_0 = ("shape_parameter", "scale")

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        a = self.shape_parameter
        return a * np.log(self.scale) - scipy_special.gammaln(a) - (a + 1) * xp.log(x) - self.scale / x

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        log_value, xp = np.log(self.scale) - source.log_gamma(self.shape_parameter, shape), source.xp
        return xp.exp(log_value)


@dataclass(frozen=True)
class Exponential(Positive):
    """An exponential distribution with the mean 1 / rate."""

    rate: Any = 1.0
    above_0 = ("rate",)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return np.log(self.rate) - self.rate * x

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return -xp.log(u) / self.rate
