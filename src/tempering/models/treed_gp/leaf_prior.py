"""Priors of a leaf's correlation: draws and log densities of range, Boolean and nugget (sections 3 and 4)."""

import math

import numpy as np

from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import (
    ALWAYS_LINEAR,
    GAMMA1,
    GAMMA2,
    GAMMA3,
    LINEAR,
    NEVER_LINEAR,
    NUGGET_FLOOR,
    NUGGET_PRIOR,
    RANGE_PRIOR,
    SAMPLE_NUGGET,
    SAMPLE_RANGE,
    START_NUGGET,
    START_RANGE,
    State,
)


@compiled
def _log_gamma_mixture(x: float, prior: Array) -> float:
    """Return the log density of an equal mixture of two gammas, (shape, rate) twice."""
    density = 0.0
    for i in range(0, 4, 2):
        shape, rate = prior[i], prior[i + 1]
        density += 0.5 * math.exp(shape * math.log(rate) + (shape - 1.0) * math.log(x) - rate * x - math.lgamma(shape))
    return math.log(density)


@compiled
def _draw_gamma_mixture(rng: np.random.Generator, prior: Array) -> float:
    i = 0 if rng.random() < 0.5 else 2
    return float(rng.standard_gamma(prior[i]) / prior[i + 1])


@compiled
def log_prior_of_range(state: State, value: float) -> float:
    """Return the log prior density of one range."""
    return _log_gamma_mixture(value, state.real[RANGE_PRIOR : RANGE_PRIOR + 4])


@compiled
def draw_range(rng: np.random.Generator, state: State) -> float:
    """Draw one range from its prior, or return the fixed value."""
    if state.integer[SAMPLE_RANGE] == 0:
        return float(state.real[START_RANGE])
    return _draw_gamma_mixture(rng, state.real[RANGE_PRIOR : RANGE_PRIOR + 4])


@compiled
def log_prior_of_nugget(state: State, value: float) -> float:
    """Return the log prior density of the nugget."""
    return _log_gamma_mixture(value - NUGGET_FLOOR, state.real[NUGGET_PRIOR : NUGGET_PRIOR + 4])


@compiled
def draw_nugget(rng: np.random.Generator, state: State) -> float:
    """Draw the nugget from its prior, or return the fixed value."""
    if state.integer[SAMPLE_NUGGET] == 0:
        return float(state.real[START_NUGGET])
    return NUGGET_FLOOR + _draw_gamma_mixture(rng, state.real[NUGGET_PRIOR : NUGGET_PRIOR + 4])


@compiled
def probability_linear(state: State, value: float) -> float:
    """Return P(b = 0 | d), the prior probability that a dimension of this range is switched off."""
    mode = state.integer[LINEAR]
    if mode == NEVER_LINEAR:
        return 0.0
    if mode == ALWAYS_LINEAR:
        return 1.0
    return float(state.real[GAMMA2] + state.real[GAMMA3] / (1.0 + math.exp(-state.real[GAMMA1] * (value - 0.5))))


@compiled
def draw_active(rng: np.random.Generator, state: State, value: float) -> float:
    """Draw the Boolean b of a dimension given its range."""
    return 0.0 if rng.random() < probability_linear(state, value) else 1.0
