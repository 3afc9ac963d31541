"""Gaussian mixtures in any number of dimensions, with unequal masses and scales.

The powers of a mixture have no closed form, but for k <= 1 the sum of the powers of its parts lies above:
(sum_j a_j)^k <= sum_j a_j^k. So exact draws come by rejection, accepted with probability n_modes^(k - 1)
or more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy.special import logsumexp, ndtri

from tempering.errors import TargetError
from tempering.problems.problem import Array, FloatArray, check_power, frozen_array, log_sum_exp, namespace_of

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_LOG_QUASI_POINTS = 14  # 2^14 scrambled Sobol points a mode: log Z within 1e-4 (4e-5 measured on the ring)


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    r"""A mixture of Gaussians with diagonal covariances.

    .. math:: \pi(x) = \sum_j w_j \prod_i N(x_i \mid \mu_{ji}, s_{ji}^2)

    Parameters
    ----------
    weights : array_like, shape (n_modes,)
        Positive, summing to one.
    means : array_like, shape (n_modes, dimension)
    sds : array_like, shape (n_modes,) or (n_modes, dimension)
        Standard deviations; one number per mode makes it round.

    Examples
    --------
    >>> problem = GaussianMixture([0.75, 0.25], [[0.0, 0.0], [9.0, 3.0]], [1.0, 0.5])
    >>> problem.mean
    array([2.25, 0.75])
    >>> problem.sample(np.random.default_rng(1), 5, k=0.1).shape
    (5, 2)
    """

    weights: FloatArray
    means: FloatArray
    sds: FloatArray

    def __post_init__(self) -> None:
        weights = frozen_array(self.weights, "weights", 1)
        means = frozen_array(self.means, "means", 2)
        sds = frozen_array(_one_per_coordinate(self.sds, means.shape[1]), "sds", 2)
        if len(weights) != len(means) or sds.shape != means.shape:
            raise TargetError(
                f"There must be one weight, one mean and one scale per mode, but got shapes {weights.shape}, "
                f"{means.shape} and {sds.shape}. Give every mode a row."
            )
        if np.any(weights <= 0) or abs(weights.sum() - 1) > 1e-12 or np.any(sds <= 0):
            raise TargetError(
                f"Weights must be positive and sum to 1 and scales be positive, but got {weights} and {sds}. "
                "Divide the weights by their sum."
            )
        for name, value in (("weights", weights), ("means", means), ("sds", sds)):
            object.__setattr__(self, name, value)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.means.shape[1])

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return len(self.weights)

    @property
    def initial(self) -> FloatArray:
        """The centre of the first mode."""
        return np.array(self.means[0])

    @property
    def mean(self) -> FloatArray:
        """The exact mean."""
        return np.asarray(self.weights @ self.means)

    @property
    def covariance(self) -> FloatArray:
        """The exact covariance."""
        centred = self.means - self.mean
        return np.asarray(np.diag(self.weights @ self.sds**2) + (self.weights[:, None] * centred).T @ centred)

    @property
    def mode_masses(self) -> FloatArray:
        """The share of each mode: of draws that `mode_of` calls its own, but for the modes' overlap."""
        return self.weights

    def mode_of(self, x: Array) -> Any:
        """Return the mode that most probably made ``x``, shape (..., dimension)."""
        return namespace_of(x).argmax(self.log_parts(x), axis=-1)

    def log_density(self, x: Array) -> Any:
        """Return log pi(x) for positions of shape (..., dimension), NumPy or JAX."""
        return log_sum_exp(self.log_parts(x))

    @cached_property
    def log_density_numba(self) -> Callable[[Any], float]:
        """The log density of one position of shape (dimension,), compiled."""
        return _compile_log_density(self.log_heights, self.means, self.sds)

    def log_normaliser(self, k: float) -> float:
        """Return log of the integral of pi^k, by quasi-Monte Carlo under the envelope (exact at k = 1).

        The integrand, pi^k over its envelope, lies in [n_modes^(k - 1), 1], so the error is small at any k.
        """
        if check_power(k) == 1.0:
            return 0.0
        points = self.means[:, None, :] + self._quasi_normals * (self.sds / np.sqrt(k))[:, None, :]
        ratio = np.exp(self._log_acceptance(points, k)).mean(axis=1)
        return float(logsumexp(self._log_part_normalisers(k), b=ratio))

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> FloatArray:
        """Draw ``n`` exact independent positions from pi^k, by rejection from the sum of powers."""
        check_power(k)
        kept: list[FloatArray] = [np.empty((0, self.dimension))]
        while (missing := n - sum(map(len, kept))) > 0:
            proposed = self._sample_envelope(rng, missing + missing // 4 + 16, k)
            accepted = -rng.standard_exponential(len(proposed)) <= self._log_acceptance(proposed, k)
            kept.append(proposed[accepted])
        return np.asarray(np.concatenate(kept)[:n])

    @cached_property
    def log_heights(self) -> FloatArray:
        """Log of weight times height of each mode."""
        return np.asarray(np.log(self.weights) - np.sum(np.log(self.sds) + _LOG_SQRT_2PI, axis=1))

    @cached_property
    def _quasi_normals(self) -> FloatArray:
        from scipy.stats import qmc  # half a second to import

        sobol = qmc.Sobol(self.dimension, rng=np.random.default_rng(2010))  # fixed: log_normaliser is a function
        return np.asarray(ndtri(sobol.random_base2(_LOG_QUASI_POINTS)))

    def log_parts(self, x: Array) -> Any:
        """Return log of weight times density of each mode, shape (..., n_modes)."""
        xp = namespace_of(x)
        z = (xp.expand_dims(xp.asarray(x), -2) - self.means) / self.sds
        return self.log_heights - 0.5 * xp.sum(z * z, axis=-1)

    def _log_part_normalisers(self, k: float) -> FloatArray:
        """Return log of the integral of (w_j N_j)^k, one for each mode."""
        log_scales = np.log(self.sds) + _LOG_SQRT_2PI - 0.5 * np.log(k)
        return np.asarray(k * self.log_heights + np.sum(log_scales, axis=1))

    def _log_acceptance(self, x: FloatArray, k: float) -> FloatArray:
        log_parts = self.log_parts(x)
        return np.asarray(k * log_sum_exp(log_parts) - log_sum_exp(k * log_parts))

    def _sample_envelope(self, rng: np.random.Generator, n: int, k: float) -> FloatArray:
        log_normalisers = self._log_part_normalisers(k)
        mode = rng.choice(self.n_modes, size=n, p=np.exp(log_normalisers - logsumexp(log_normalisers)))
        noise = rng.standard_normal((n, self.dimension)) / np.sqrt(k)
        return np.asarray(self.means[mode] + self.sds[mode] * noise)


def _one_per_coordinate(sds: Any, dimension: int) -> Any:
    array = np.asarray(sds, dtype=np.float64)
    return np.repeat(array[:, None], dimension, axis=1) if array.ndim == 1 else array


def _compile_log_density(log_heights: FloatArray, means: FloatArray, sds: FloatArray) -> Callable[[Any], float]:
    """Compile the log density of one position of a mixture, as a running log-sum-exp over its modes."""
    n_modes, dimension = means.shape

    def log_density(x: Array) -> float:
        largest, total = -np.inf, 0.0
        for j in range(n_modes):
            part = log_heights[j]
            for i in range(dimension):
                part -= 0.5 * ((x[i] - means[j, i]) / sds[j, i]) ** 2
            if part > largest:
                largest, total = part, 1.0 + total * np.exp(largest - part)
            elif part > -np.inf:
                total += np.exp(part - largest)
        return largest + np.log(total) if total > 0.0 else -np.inf

    compiled: Callable[[Any], float] = njit(log_density, nogil=True)
    return compiled


def ring(radius: float = 10.0) -> GaussianMixture:
    """Eight modes of unequal masses and widths on a circle in the plane, neighbours about 7.7 apart."""
    angle = 2 * np.pi * np.arange(8) / 8 + 0.2
    return GaussianMixture(
        weights=np.array([0.05, 0.20, 0.08, 0.17, 0.12, 0.03, 0.25, 0.10]),
        means=radius * np.column_stack([np.cos(angle), np.sin(angle)]),
        sds=np.array([0.5, 0.7, 0.3, 0.6, 0.4, 0.35, 0.65, 0.55]),
    )


def two_modes(dimension: int = 25) -> GaussianMixture:
    """Two modes of masses 0.7 and 0.3 and widths 1 and 0.5, their centres 12 apart, in 25 dimensions.

    Powering up forgets the narrow one: at small k its share is about 0.5^25.
    """
    direction = np.arange(1.0, dimension + 1) / np.linalg.norm(np.arange(1.0, dimension + 1))
    return GaussianMixture(np.array([0.7, 0.3]), np.outer([-4.0, 8.0], direction), np.array([1.0, 0.5]))


def five_modes() -> GaussianMixture:
    """Five modes in 10 dimensions, widths 0.4 to 1.6, the smallest mass 0.04; centres 11 or more apart."""
    means = np.zeros((5, 10))
    for j, height in enumerate([8.0, -9.0, 10.0, -8.0, 9.0]):
        means[j, 2 * j] = height
        means[j, 2 * j + 1] = 2.0 - j
    return GaussianMixture(np.array([0.36, 0.28, 0.20, 0.12, 0.04]), means, np.array([1.0, 0.7, 1.6, 0.4, 0.55]))


def unequal_modes(dimension: int) -> GaussianMixture:
    """Four modes of masses 0.4 to 0.1 and widths 1 to 0.7, for 5 to 50 dimensions; centres 10 or more apart.

    The lightest is the narrowest too: at k near 0 its share under powering up is about 0.7^dimension. Centres lie on
    opposite sides of the origin, so that each mode has points that climb to it.
    """
    index = np.arange(dimension)
    first, second = np.where(index % 2 == 0, 1.0, -0.5), np.where(index % 3 == 0, -1.0, 0.7)
    directions = np.stack([first / np.linalg.norm(first), second / np.linalg.norm(second)])
    radius = 7.0 * np.sqrt(dimension / 5)
    means = radius * np.concatenate([directions, -directions])
    return GaussianMixture(np.array([0.4, 0.3, 0.2, 0.1]), means, np.array([1.0, 0.8, 0.9, 0.7]))
