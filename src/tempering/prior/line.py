"""Priors on the whole line."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special as scipy_special

from tempering.prior.distribution import Distribution
from tempering.prior.randomness import Source

if TYPE_CHECKING:
    from tempering.prior.bijections import Array


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
