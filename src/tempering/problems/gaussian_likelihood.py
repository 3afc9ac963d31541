"""A Gaussian prior and a Gaussian likelihood with skewed data: the path prior x likelihood^k, exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from tempering.errors import TargetError
from tempering.problems.priors import NormalPrior
from tempering.problems.problem import Array, FloatArray, frozen_array, namespace_of

_LOG_2PI = np.log(2 * np.pi)


@dataclass(frozen=True, eq=False)
class GaussianLikelihood:
    r"""Linear regression with known noise, tempered in its likelihood only.

    .. math:: x \sim N(m, \mathrm{diag}(\tau^2)), \qquad y \mid x \sim N(A x, \sigma^2 I)

    At every k in [0, 1], the prior at 0 included, prior x likelihood^k is Gaussian with a known normaliser.

    Parameters
    ----------
    design : array_like, shape (n_data, dimension)
    data : array_like, shape (n_data,)
    prior_mean, prior_sd : array_like, shape (dimension,)
    noise_sd : float

    Examples
    --------
    >>> problem = GaussianLikelihood([[1.0]], [2.0], [0.0], [1.0], 1.0)
    >>> problem.mean, problem.covariance  # half-way between prior mean and datum
    (array([1.]), array([[0.5]]))
    """

    design: FloatArray
    data: FloatArray
    prior_mean: FloatArray
    prior_sd: FloatArray
    noise_sd: float

    def __post_init__(self) -> None:
        for name, ndim in (("design", 2), ("data", 1), ("prior_mean", 1), ("prior_sd", 1)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, ndim))
        n, d = self.design.shape
        if self.data.shape != (n,) or self.prior_mean.shape != (d,) or self.prior_sd.shape != (d,):
            raise TargetError(
                f"With a design of shape {(n, d)} there must be {n} data and {d} prior means and "
                f"deviations, but got {self.data.shape}, {self.prior_mean.shape} and {self.prior_sd.shape}. "
                "Make their lengths agree."
            )
        if np.any(self.prior_sd <= 0) or self.noise_sd <= 0:
            raise TargetError(
                f"Standard deviations must be positive, but got {self.prior_sd} and {self.noise_sd}. "
                "Pass deviations, not precisions."
            )

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.prior_mean)

    @property
    def initial(self) -> FloatArray:
        """The prior mean."""
        return self.prior_mean.copy()

    @property
    def mean(self) -> FloatArray:
        """The exact posterior mean."""
        return self.posterior(1.0)[0]

    @property
    def covariance(self) -> FloatArray:
        """The exact posterior covariance."""
        return self.posterior(1.0)[1]

    @property
    def log_evidence(self) -> float:
        """The exact log evidence: the log normaliser at k = 1."""
        return self.log_normaliser(1.0)

    @cached_property
    def prior(self) -> NormalPrior:
        """The prior."""
        return NormalPrior(self.prior_mean, self.prior_sd)

    def log_prior(self, x: Array) -> Any:
        """Return the log prior density for positions of shape (..., dimension), NumPy or JAX."""
        return self.prior.log_density(x)

    def log_likelihood(self, x: Array) -> Any:
        """Return the log likelihood for positions of shape (..., dimension), NumPy or JAX."""
        xp = namespace_of(x)
        z = (self.data - xp.asarray(x) @ self.design.T) / self.noise_sd
        return -0.5 * xp.sum(z * z, axis=-1) - len(self.data) * (np.log(self.noise_sd) + 0.5 * _LOG_2PI)

    def log_density(self, x: Array) -> Any:
        """Return log prior + log likelihood: the posterior, not normalised."""
        return self.log_prior(x) + self.log_likelihood(x)

    @cached_property
    def log_likelihood_numba(self) -> Callable[[Any], float]:
        """The log likelihood of one position, compiled."""
        design, data, noise_sd, n_data = self.design, self.data, self.noise_sd, len(self.data)
        constant = n_data * (np.log(noise_sd) + 0.5 * _LOG_2PI)

        def log_likelihood(x: Array) -> Any:
            total = 0.0
            for i in range(n_data):
                residual = data[i]
                for j in range(len(x)):
                    residual -= design[i, j] * x[j]
                total += residual**2
            return -0.5 * total / noise_sd**2 - constant

        compiled: Callable[[Any], float] = njit(log_likelihood, nogil=True)
        return compiled

    @cached_property
    def log_prior_numba(self) -> Callable[[Any], float]:
        """The log prior of one position, compiled."""
        prior_mean, prior_sd = self.prior_mean, self.prior_sd
        constant = np.sum(np.log(prior_sd)) + 0.5 * self.dimension * _LOG_2PI

        def log_prior(x: Array) -> Any:
            total = 0.0
            for j in range(len(x)):
                total += ((x[j] - prior_mean[j]) / prior_sd[j]) ** 2
            return -0.5 * total - constant

        compiled: Callable[[Any], float] = njit(log_prior, nogil=True)
        return compiled

    @cached_property
    def log_density_numba(self) -> Callable[[Any], float]:
        """Log prior + log likelihood of one position, compiled."""
        log_prior, log_likelihood = self.log_prior_numba, self.log_likelihood_numba

        def log_density(x: Array) -> Any:
            return log_prior(x) + log_likelihood(x)

        compiled: Callable[[Any], float] = njit(log_density, nogil=True)
        return compiled

    def sample_prior(self, rng: Any) -> Any:
        """Draw one position from the prior, by a NumPy ``Generator`` or by a JAX key."""
        return self.prior.sample(rng, 1)[0] if isinstance(rng, np.random.Generator) else self.prior.draw(rng)

    def posterior(self, k: float) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of prior x likelihood^k."""
        precision = np.diag(1 / self.prior_sd**2) + _check_k(k) * self.design.T @ self.design / self.noise_sd**2
        shift = self.prior_mean / self.prior_sd**2 + k * self.design.T @ self.data / self.noise_sd**2
        covariance = np.linalg.inv(precision)
        return covariance @ shift, covariance

    def log_normaliser(self, k: float) -> float:
        """Return log of the integral of prior x likelihood^k, in closed form.

        At the mean, posterior = prior x likelihood^k / normaliser, and the posterior density is known.
        """
        mean, covariance = self.posterior(k)
        log_posterior = -0.5 * (self.dimension * _LOG_2PI + np.linalg.slogdet(covariance)[1])
        return float(self.log_prior(mean) + k * self.log_likelihood(mean) - log_posterior)

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> FloatArray:
        """Draw ``n`` exact independent positions from prior x likelihood^k."""
        mean, covariance = self.posterior(k)
        return mean + rng.standard_normal((n, self.dimension)) @ np.linalg.cholesky(covariance).T


def _check_k(k: float) -> float:
    if not 0.0 <= k <= 1.0:
        raise TargetError(
            f"The inverse temperature must lie in [0, 1], but got {k}. 0 is the prior and 1 the posterior."
        )
    return k


def likelihood_gaussian(dimension: int = 3) -> GaussianLikelihood:
    """Return a problem with exponential covariates, skewed residuals and a prior in mild conflict."""
    rng = np.random.default_rng(45)  # the data, part of the problem
    n_data = 20 + 2 * dimension
    index = np.arange(dimension)
    design = rng.standard_exponential((n_data, dimension)) - 0.3
    noise_sd = 1.5
    data = design @ (1.0 - 0.4 * (index % 4)) + noise_sd * (rng.standard_exponential(n_data) - 1)
    return GaussianLikelihood(design, data, 0.5 * (index % 3) - 1.0, 1.0 + 0.5 * (index % 2), noise_sd)
