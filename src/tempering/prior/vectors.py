"""Priors of vectors whose parts depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special as scipy_special

from tempering.prior.bijections import Simplex, namespace
from tempering.prior.distribution import Distribution
from tempering.prior.randomness import Source, source_of

if TYPE_CHECKING:
    from tempering.prior.bijections import Array
    from tempering.prior.randomness import Randomness


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Positive numbers that sum to one."""

    concentration: Any
    above_0 = ("concentration",)

    def _check(self) -> None:
        self._must(np.ndim(self.concentration) == 1 and np.size(self.concentration) > 1, "two numbers are needed")
        self._must(self.shape == (), "copies are not possible: use several names")

    bijection = Simplex()

    @property
    def _constant(self) -> float:
        alpha = np.asarray(self.concentration)
        return float(scipy_special.gammaln(alpha.sum()) - scipy_special.gammaln(alpha).sum())

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return self._constant + xp.sum((self.concentration - 1.0) * xp.log(x))

    def log_density_free(self, free: Array) -> Any:
        """Return the log density of the log ratios: exact next to the edges."""
        xp, _ = namespace(free)
        return self._constant + xp.sum(self.concentration * self.bijection.log_forward(free))

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        log_gamma = source.log_gamma(self.concentration, shape)
        return self.bijection.forward(log_gamma[:-1] - log_gamma[-1:])

    def sample_free(self, rng: Randomness) -> Any:
        """Draw the log ratios of a value."""
        log_gamma = source_of(rng).log_gamma(self.concentration, self.value_shape)
        return log_gamma[:-1] - log_gamma[-1:]


@dataclass(frozen=True)
class MultivariateNormal(Distribution):
    """A normal distribution of several numbers, with their covariance."""

    mean: Any
    covariance: Any

    def _check(self) -> None:
        mean, cov = np.asarray(self.mean), np.asarray(self.covariance)
        self._must(mean.ndim == 1 and cov.shape == (mean.size, mean.size), "mean (d,) and covariance (d, d) are needed")
        self._must(np.allclose(cov, cov.T) and np.all(np.linalg.eigvalsh(cov) > 0), "covariance must be positive")

    @cached_property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a value."""
        return np.shape(self.mean)

    @cached_property
    def _root(self) -> Any:
        return np.linalg.cholesky(self.covariance)

    @cached_property
    def _inverse_root(self) -> Any:
        return np.linalg.inv(self._root)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        z = self._inverse_root @ (x - self.mean)
        constant = np.sum(np.log(np.diag(self._root))) + 0.5 * np.size(self.mean) * np.log(2 * np.pi)
        return -0.5 * xp.sum(z**2) - constant

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        return self.mean + self._root @ source.normal(shape)
