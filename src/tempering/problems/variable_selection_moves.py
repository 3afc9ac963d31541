"""Reversible-jump moves over linear models: birth and death of a covariate with its coefficient.

Each function runs as plain Python and, called from compiled code, under Numba: one source for both.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba.extending import register_jitable

from tempering.problems.problem import FloatArray

_LOG_2PI = np.log(2 * np.pi)
_PROPOSAL_WIDTH = 1.3  # a newborn coefficient is drawn wider than its conditional, so that deaths are not rare
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _jitable(function: _Function) -> _Function:
    register_jitable(function)
    return function


class Data(NamedTuple):
    """What the moves need of data and prior: sums of products, and the hyperparameters."""

    gram: FloatArray  # X'X
    cross: FloatArray  # X'y
    total: float  # y'y
    n_data: int
    log_odds: float  # prior log odds that a covariate is included
    slab: float  # prior variance of a coefficient, in units of the noise variance
    shape: float  # of the inverse gamma prior of the noise variance
    rate: float


class State(NamedTuple):
    """A model and its parameters; moves change the arrays in place."""

    included: FloatArray  # (p,) of 0 and 1
    coefficients: FloatArray  # (p,), 0 where not included
    variance: FloatArray  # (1,)


@_jitable
def residual_sum_of_squares(data: Data, state: State) -> Any:
    """Return |y - X b|^2 from the sums of products."""
    total = data.total
    for i in range(len(data.cross)):
        fitted = 0.0
        for j in range(len(data.cross)):
            fitted += data.gram[i, j] * state.coefficients[j]
        total += state.coefficients[i] * (fitted - 2.0 * data.cross[i])
    return total


@_jitable
def log_likelihood(data: Data, state: State) -> Any:
    """Return the Gaussian log likelihood, the energy of the path."""
    variance = state.variance[0]
    return -0.5 * (data.n_data * (_LOG_2PI + np.log(variance)) + residual_sum_of_squares(data, state) / variance)


@_jitable
def partial_cross(data: Data, state: State, j: int) -> Any:
    """Return x_j'(y - X b) with b_j left out."""
    total = data.cross[j] + data.gram[j, j] * state.coefficients[j]
    for i in range(len(data.cross)):
        total -= data.gram[j, i] * state.coefficients[i]
    return total


@_jitable
def conditional(data: Data, state: State, j: int, k: float) -> tuple[Any, Any]:
    """Return mean and deviation of coefficient j given all else, under prior x likelihood^k."""
    precision = 1.0 / data.slab + k * data.gram[j, j]
    return k * partial_cross(data, state, j) / precision, np.sqrt(state.variance[0] / precision)


@_jitable
def log_likelihood_ratio(data: Data, state: State, j: int, coefficient: float) -> Any:
    """Return the gain in log likelihood by covariate j with this coefficient over the model without it."""
    fit = 2.0 * coefficient * partial_cross(data, state, j) - coefficient**2 * data.gram[j, j]
    return 0.5 * fit / state.variance[0]


@_jitable
def log_prior_ratio(data: Data, state: State, coefficient: float) -> Any:
    """Return the log prior of a covariate with this coefficient over that of leaving it out."""
    variance = data.slab * state.variance[0]
    return data.log_odds - 0.5 * (_LOG_2PI + np.log(variance) + coefficient**2 / variance)


@_jitable
def log_jacobian(scale: float) -> Any:
    """Return the log Jacobian of (b, u) -> (b, b_j = centre + scale u) (Green 1995)."""
    return np.log(scale)


@_jitable
def birth_log_ratio(data: Data, state: State, j: int, u: float, k: float) -> Any:
    """Return the log acceptance ratio for the birth of covariate j from the standard normal ``u``.

    That of the death which undoes it is minus this. Either is tried with probability 1 / p: no factor for it.
    """
    centre, scale = conditional(data, state, j, k)
    scale *= _PROPOSAL_WIDTH
    coefficient = centre + scale * u
    log_proposal = -0.5 * (_LOG_2PI + u**2)
    return (
        k * log_likelihood_ratio(data, state, j, coefficient)
        + log_prior_ratio(data, state, coefficient)
        - log_proposal
        + log_jacobian(scale)
    )


@_jitable
def birth(rng: np.random.Generator, data: Data, state: State, j: int, k: float) -> None:
    """Propose to bring covariate j in, with a coefficient drawn about its conditional mean."""
    u = rng.standard_normal()
    if -rng.standard_exponential() < birth_log_ratio(data, state, j, u, k):
        centre, scale = conditional(data, state, j, k)
        state.included[j] = 1.0
        state.coefficients[j] = centre + _PROPOSAL_WIDTH * scale * u


@_jitable
def death(rng: np.random.Generator, data: Data, state: State, j: int, k: float) -> None:
    """Propose to drop covariate j: the reverse of the `birth` that would have made its coefficient."""
    centre, scale = conditional(data, state, j, k)
    u = (state.coefficients[j] - centre) / (_PROPOSAL_WIDTH * scale)
    if -rng.standard_exponential() < -birth_log_ratio(data, state, j, u, k):
        state.included[j] = 0.0
        state.coefficients[j] = 0.0


@_jitable
def refresh(rng: np.random.Generator, data: Data, state: State, k: float) -> None:
    """Draw each coefficient and then the variance from its conditional under prior x likelihood^k."""
    squares, n_included = 0.0, 0.0
    for j in range(len(data.cross)):
        if state.included[j] > 0.0:
            centre, scale = conditional(data, state, j, k)
            state.coefficients[j] = centre + scale * rng.standard_normal()
            squares += state.coefficients[j] ** 2
            n_included += 1.0
    shape = data.shape + 0.5 * (k * data.n_data + n_included)
    rate = data.rate + 0.5 * (k * residual_sum_of_squares(data, state) + squares / data.slab)
    state.variance[0] = rate / rng.standard_gamma(shape)


@_jitable
def step(rng: np.random.Generator, data: Data, state: State, k: float) -> State:
    """Try one birth or death, then refresh the parameters; ``state`` is changed in place and returned."""
    j = int(rng.integers(0, len(data.cross)))
    if state.included[j] > 0.0:
        death(rng, data, state, j, k)
    else:
        birth(rng, data, state, j, k)
    refresh(rng, data, state, k)
    return state


@_jitable
def draw_prior(rng: np.random.Generator, data: Data) -> State:
    """Draw a model, its coefficients and its variance from the prior."""
    p = len(data.cross)
    state = State(np.zeros(p), np.zeros(p), np.zeros(1))
    state.variance[0] = data.rate / rng.standard_gamma(data.shape)
    for j in range(p):
        if rng.random() < 1.0 / (1.0 + np.exp(-data.log_odds)):
            state.included[j] = 1.0
            state.coefficients[j] = np.sqrt(data.slab * state.variance[0]) * rng.standard_normal()
    return state


@_jitable
def empty_model(data: Data) -> State:
    """Return the model without covariates, its variance the mean square of the data."""
    return State(np.zeros(len(data.cross)), np.zeros(len(data.cross)), np.full(1, data.total / data.n_data))


@_jitable
def concatenate(state: State) -> FloatArray:
    """Return indicators and coefficients in one new array."""
    return np.concatenate((state.included, state.coefficients))
