"""Skewed, correlated paths base + k * energy in three dimensions, with exact draws at any k, 0 included."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numba import njit

from tempering import Target, problems

TRIL = np.array([[1.0, 0.0, 0.0], [0.7, 0.6, 0.0], [-0.4, 0.5, 1.3]])
INVERSE = np.linalg.inv(TRIL)


SKEWED = problems.skewed(3)


@dataclass(frozen=True)
class PoweredUp:
    """The skewed problem of the package, raised to powers."""

    temperatures: tuple[float, ...] = (1.0, 0.4, 0.08)
    problem: Any = SKEWED

    def draw(self, rng, n, k):
        return self.problem.sample(rng, n, k)

    @cached_property
    def traced(self):
        return Target(self.problem.log_density)

    @cached_property
    def compiled(self):
        return Target(self.problem.log_density_numba)


@dataclass(frozen=True)
class LogRates:
    """Log rates of Poisson counts under log-gamma priors: x = TRIL y, with y a log gamma at any k."""

    temperatures: tuple[float, ...] = (1.0, 0.3, 0.0)
    shapes: tuple[float, ...] = (1.0, 2.5, 4.0)
    counts: tuple[float, ...] = (5.0, 0.0, 2.0)
    exposure: float = 1.5

    def draw(self, rng, n, k):
        gamma = rng.standard_gamma(np.add(self.shapes, np.multiply(k, self.counts)), size=(n, 3))
        return np.log(gamma / (1.0 + k * self.exposure)) @ TRIL.T

    @cached_property
    def traced(self):
        def log_prior(x):
            y = INVERSE @ x
            return jnp.sum(jnp.asarray(self.shapes) * y - jnp.exp(y))

        def log_likelihood(x):
            y = INVERSE @ x
            return jnp.sum(jnp.asarray(self.counts) * y - self.exposure * jnp.exp(y))

        return Target.from_likelihood(log_likelihood, log_prior)

    @cached_property
    def compiled(self):
        shapes, counts, exposure = np.array(self.shapes), np.array(self.counts), self.exposure

        def log_prior(x):
            y = INVERSE @ x
            return np.sum(shapes * y - np.exp(y))

        def log_likelihood(x):
            y = INVERSE @ x
            return np.sum(counts * y - exposure * np.exp(y))

        return Target.from_likelihood(njit(log_likelihood), njit(log_prior))


@dataclass(frozen=True)
class Logistic:
    """A Gaussian prior and five one-sided logistic observations; exact draws by rejection from the prior."""

    temperatures: tuple[float, ...] = (1.0, 0.3, 0.0)
    mean: tuple[float, ...] = (0.5, -0.3, 0.0)

    @cached_property
    def covariance(self):
        return TRIL @ TRIL.T

    @cached_property
    def directions(self):
        return np.array([[2.0, 0.5, 0.0], [1.5, -1.0, 0.7], [0.3, 2.5, -1.0], [-0.5, 0.2, 2.0], [1.0, 1.0, 1.0]])

    def log_likelihood(self, x):
        return -np.sum(np.logaddexp(0.0, -x @ self.directions.T), axis=-1)

    def draw(self, rng, n, k):
        kept = np.empty((0, 3))
        while len(kept) < n:
            x = np.asarray(self.mean) + rng.standard_normal((4 * n, 3)) @ TRIL.T
            kept = np.concatenate([kept, x[rng.random(4 * n) < np.exp(k * self.log_likelihood(x))]])
        return kept[:n]

    @cached_property
    def traced(self):
        def log_prior(x):
            z = INVERSE @ (x - jnp.asarray(self.mean))
            return -0.5 * jnp.sum(z**2)

        def log_likelihood(x):
            return jnp.sum(jax.nn.log_sigmoid(self.directions @ x))

        return Target.from_likelihood(log_likelihood, log_prior)


def coefficients_at(path, k):
    """Return what the rung at k is made of: one power, or (likelihood, prior)."""
    return np.array([k] if path.traced.base is None else [k, 1.0])


def terms_of(energy, base=None):
    """Return the terms of a flat vector, as the vector engine has them."""

    def density(x):
        return jnp.stack([energy(x)] if base is None else [energy(x), base(x)])

    return density


NO_REFERENCES = (np.zeros(1, np.int64), np.empty(0), np.empty((0, 3)), np.empty((0, 3, 3)), np.empty(0), np.empty(0),
                 np.empty((0, 3, 3)))  # fmt: skip


def statistics(x, scale_by):
    """Return first, second and mixed moments of coordinates, scaled to unit variance by exact draws."""
    z = (np.asarray(x) - scale_by.mean(axis=0)) / scale_by.std(axis=0)
    mixed = z[:, [0, 0, 1]] * z[:, [1, 2, 2]]
    return np.hstack([z, z**2, mixed, np.tanh(2 * z)])
