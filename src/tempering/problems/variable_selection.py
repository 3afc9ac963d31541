"""Variable selection in a linear model: a state whose dimension changes, and yet exact answers.

The conjugate prior lets likelihood^k be integrated in closed form, so all 2^p models are known at every k.
The moves, in `variable_selection_moves`, walk over models and coefficients by reversible jump (Green 1995).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import gammaln, logsumexp

from tempering.errors import TargetError
from tempering.problems import variable_selection_moves as moves
from tempering.problems.problem import FloatArray, frozen_array
from tempering.problems.variable_selection_moves import Data, State

_LOG_2PI = np.log(2 * np.pi)


class CompiledModel(NamedTuple):
    """The five functions of the model, compiled by Numba, and what `record` records."""

    initial: Callable[[np.random.Generator], State]
    step: Callable[[np.random.Generator, State, float], State]
    energy: Callable[[State], float]
    record: Callable[[State], FloatArray]
    sample_reference: Callable[[np.random.Generator], State]
    names: tuple[str, ...]


class _Posterior(NamedTuple):
    """The conjugate posterior of one model at one k; both moments are 0 for covariates left out."""

    mean: FloatArray
    root: FloatArray  # root @ root.T * variance is the covariance of the coefficients
    log_volume: float  # log of |I + v k X'X|^(-1/2)
    rate: float  # of the inverse gamma posterior of the variance


@dataclass(frozen=True, eq=False)
class VariableSelection:
    r"""Which of p covariates belong in a linear model, with likelihood tempering.

    .. math:: y \sim N(X_\gamma \beta_\gamma, \sigma^2), \quad \gamma_j \sim \mathrm{Bernoulli}(q), \quad
              \beta_j \mid \sigma^2 \sim N(0, v \sigma^2), \quad \sigma^2 \sim IG(a, b)

    Parameters
    ----------
    covariates : array_like, shape (n_data, p)
    response : array_like, shape (n_data,)
    inclusion : float
        q, the prior probability of each covariate.
    slab, shape, rate : float
        v, a and b.

    Examples
    --------
    >>> problem = variable_selection()
    >>> problem.model_probabilities(1.0).shape
    (256,)
    >>> rng = np.random.default_rng(1)
    >>> state = problem.step(rng, problem.initial(rng), 0.5)
    >>> problem.record(state).shape
    (16,)
    """

    covariates: FloatArray
    response: FloatArray
    inclusion: float = 0.3
    slab: float = 1.0
    shape: float = 3.0
    rate: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariates", frozen_array(self.covariates, "covariates", 2))
        object.__setattr__(self, "response", frozen_array(self.response, "response", 1))
        if len(self.covariates) != len(self.response):
            raise TargetError(
                f"There must be one response per row of the covariates, but got {len(self.response)} and "
                f"{len(self.covariates)}. Drop the rows without a response."
            )
        if not 0 < self.inclusion < 1 or min(self.slab, self.shape, self.rate) <= 0:
            raise TargetError(
                f"inclusion must lie in (0, 1) and slab, shape and rate be positive, "
                f"but got {self.inclusion}, {self.slab}, {self.shape} and {self.rate}. "
                "Leave them out for the defaults."
            )

    @property
    def n_covariates(self) -> int:
        """Number of covariates, p."""
        return int(self.covariates.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """What the entries of a `record` are: included_1, ..., coefficient_1, ..."""
        number = range(1, self.n_covariates + 1)
        return (*(f"included_{i}" for i in number), *(f"coefficient_{i}" for i in number))

    @cached_property
    def models(self) -> FloatArray:
        """All 2^p models, one row of indicators each: row i is i in binary, lowest bit first."""
        index = np.arange(2**self.n_covariates)[:, None]
        return ((index >> np.arange(self.n_covariates)) & 1).astype(np.float64)

    @cached_property
    def data(self) -> Data:
        """Sums of products and hyperparameters, as the moves take them."""
        x, y = np.asarray(self.covariates), np.asarray(self.response)
        log_odds = float(np.log(self.inclusion / (1 - self.inclusion)))
        return Data(x.T @ x, x.T @ y, float(y @ y), len(y), log_odds, self.slab, self.shape, self.rate)

    def initial(self, rng: np.random.Generator) -> State:
        """Return the model without covariates."""
        return moves.empty_model(self.data)

    def step(self, rng: np.random.Generator, state: State, k: float) -> State:
        """Apply one step that leaves prior x likelihood^k invariant; ``state`` is changed in place."""
        return moves.step(rng, self.data, state, k)

    def energy(self, state: State) -> float:
        """Return the log likelihood."""
        return float(moves.log_likelihood(self.data, state))

    def record(self, state: State) -> FloatArray:
        """Return the p indicators and then the p coefficients."""
        return moves.concatenate(state)

    def sample_reference(self, rng: np.random.Generator) -> State:
        """Draw a state from the prior, which is the path at k = 0."""
        return moves.draw_prior(rng, self.data)

    @cached_property
    def compiled(self) -> CompiledModel:
        """The same five functions, compiled."""
        data = self.data

        def initial(rng: np.random.Generator) -> State:
            return moves.empty_model(data)

        def step(rng: np.random.Generator, state: State, k: float) -> State:
            return moves.step(rng, data, state, k)

        def energy(state: State) -> float:
            return moves.log_likelihood(data, state)  # type: ignore[no-any-return]

        def record(state: State) -> FloatArray:
            return moves.concatenate(state)

        def sample_reference(rng: np.random.Generator) -> State:
            return moves.draw_prior(rng, data)

        return CompiledModel(
            initial=njit(initial, nogil=True),
            step=njit(step, nogil=True),
            energy=njit(energy, nogil=True),
            record=njit(record, nogil=True),
            sample_reference=njit(sample_reference, nogil=True),
            names=self.names,
        )

    def log_normaliser(self, k: float) -> float:
        """Return log of prior x likelihood^k summed over all models: at k = 1 the log evidence."""
        return float(logsumexp(self._log_joint(k)))

    def model_probabilities(self, k: float) -> FloatArray:
        """Return the exact probability of each of the `models` under prior x likelihood^k."""
        log_joint = self._log_joint(k)
        return np.asarray(np.exp(log_joint - logsumexp(log_joint)))

    def mean_record(self, k: float) -> FloatArray:
        """Return the exact mean of `record`: inclusion probabilities, then model-averaged coefficients."""
        coefficients = np.array([self._posterior(model, k).mean for model in self.models])
        return np.asarray(self.model_probabilities(k) @ np.hstack([self.models, coefficients]))

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> list[State]:
        """Draw ``n`` exact independent states from prior x likelihood^k."""
        chosen = rng.choice(len(self.models), size=n, p=self.model_probabilities(k))
        posteriors = {i: self._posterior(self.models[i], k) for i in np.unique(chosen)}
        return [self._sample_parameters(rng, self.models[i], posteriors[i], k) for i in chosen]

    def _posterior(self, model: FloatArray, k: float) -> _Posterior:
        data, inside = self.data, np.flatnonzero(model)
        precision = np.eye(len(inside)) / data.slab + k * data.gram[np.ix_(inside, inside)]
        tril = np.linalg.cholesky(precision)
        mean, root = np.zeros(len(model)), np.zeros((len(model), len(model)))
        mean[inside] = np.linalg.solve(precision, k * data.cross[inside])
        root[np.ix_(inside, inside)] = np.linalg.inv(tril).T
        log_volume = -float(np.sum(np.log(np.diag(tril)))) - 0.5 * len(inside) * np.log(data.slab)
        rate = data.rate + 0.5 * k * (data.total - float(data.cross @ mean))
        return _Posterior(mean, root, log_volume, rate)

    def _sample_parameters(self, rng: np.random.Generator, model: FloatArray, posterior: _Posterior, k: float) -> State:
        variance = posterior.rate / rng.standard_gamma(self.shape + 0.5 * k * self.data.n_data, size=1)
        noise = np.sqrt(variance) * (posterior.root @ rng.standard_normal(len(model)))
        return State(model.copy(), posterior.mean + noise, variance)

    def _log_joint(self, k: float) -> FloatArray:
        """Return log prior + log of the integral of likelihood^k over the parameters, for each model."""
        if not 0.0 <= k <= 1.0:
            raise TargetError(
                f"The inverse temperature must lie in [0, 1], but got {k}. 0 is the prior and 1 the posterior."
            )
        half = 0.5 * k * self.data.n_data
        log_constant = self.shape * np.log(self.rate) - gammaln(self.shape) - half * _LOG_2PI
        posteriors = [self._posterior(model, k) for model in self.models]
        log_rate = np.log([posterior.rate for posterior in posteriors])
        log_variance_integral = gammaln(self.shape + half) - (self.shape + half) * log_rate
        log_volume = np.array([posterior.log_volume for posterior in posteriors])
        n_inside = self.models.sum(axis=1)
        log_prior = n_inside * self.data.log_odds + self.n_covariates * np.log1p(-self.inclusion)
        return np.asarray(log_prior + log_constant + log_volume + log_variance_integral)


def variable_selection() -> VariableSelection:
    """Return eight skewed covariates, six of them twins two by two: 256 models, many of which compete.

    The twins take each other's place in the model, so a chain without tempering crosses rarely.
    """
    rng = np.random.default_rng(1996)  # the data, part of the problem
    n_data = 60
    factors = rng.standard_normal((n_data, 5)) @ (np.eye(5) + 0.4 * np.eye(5, k=1))
    twins = factors[:, :3] + 0.25 * rng.standard_normal((n_data, 3))
    covariates = np.exp(0.6 * np.hstack([factors, twins]))
    covariates = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    effect = np.array([0.7, 0.0, -0.5, 0.3, 0.0, 0.0, 0.4, 0.0])
    response = covariates @ effect + rng.standard_exponential(n_data) - 1.0
    return VariableSelection(covariates, response - response.mean())
