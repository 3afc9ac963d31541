"""Priors of a leaf's correlation: draws and log densities of range, Boolean and nugget (sections 3 and 4)."""

import math

import numpy as np

from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import (
    A_TAU,
    ALWAYS_LINEAR,
    GAMMA1,
    GAMMA2,
    GAMMA3,
    JUMPS_TO_LINEAR,
    LINEAR,
    N_MEAN,
    N_RANGES,
    NEVER_LINEAR,
    NUGGET,
    NUGGET_CONSTANTS,
    NUGGET_FLOOR,
    NUGGET_LEAST,
    NUGGET_PRIOR,
    Q_TAU,
    RANGE_CONSTANTS,
    RANGE_PRIOR,
    SAMPLE_NUGGET,
    SAMPLE_RANGE,
    SAMPLE_SLOPES,
    SAMPLE_TAU2,
    SLOPE,
    START_NUGGET,
    START_RANGE,
    TAU2,
    State,
)
from tempering.models.treed_gp.summary import active_of, ranges_of, used_of


@compiled
def _log_gamma_mixture(x: float, prior: Array, constants: Array) -> float:
    """Return the log density of an equal mixture of two gammas, (shape, rate) twice, given their constants."""
    log_x = math.log(x)
    first = constants[0] + (prior[0] - 1.0) * log_x - prior[1] * x
    second = constants[1] + (prior[2] - 1.0) * log_x - prior[3] * x
    return float(max(first, second) + math.log1p(math.exp(-abs(first - second))))


@compiled
def _draw_gamma_mixture(rng: np.random.Generator, prior: Array) -> float:
    i = 0 if rng.random() < 0.5 else 2
    return float(rng.standard_gamma(prior[i]) / prior[i + 1])


@compiled
def log_prior_of_range(state: State, value: float) -> float:
    """Return the log prior density of one range."""
    return _log_gamma_mixture(value, state.real[RANGE_PRIOR:], state.real[RANGE_CONSTANTS:])


@compiled
def draw_range(rng: np.random.Generator, state: State) -> float:
    """Draw one range from its prior, or return the fixed value."""
    if state.integer[SAMPLE_RANGE] == 0:
        return float(state.real[START_RANGE])
    return _draw_gamma_mixture(rng, state.real[RANGE_PRIOR : RANGE_PRIOR + 4])


@compiled
def log_prior_of_nugget(state: State, value: float) -> float:
    """Return the log prior density of the nugget, which ends a little above its floor."""
    if value - NUGGET_FLOOR < NUGGET_LEAST:
        return -math.inf
    return _log_gamma_mixture(value - NUGGET_FLOOR, state.real[NUGGET_PRIOR:], state.real[NUGGET_CONSTANTS:])


@compiled
def draw_nugget(rng: np.random.Generator, state: State) -> float:
    """Draw the nugget from its prior, or return the fixed value."""
    if state.integer[SAMPLE_NUGGET] == 0:
        return float(state.real[START_NUGGET])
    above = 0.0
    while NUGGET_FLOOR + above - NUGGET_FLOOR < NUGGET_LEAST:
        above = _draw_gamma_mixture(rng, state.real[NUGGET_PRIOR : NUGGET_PRIOR + 4])
    return NUGGET_FLOOR + above


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


@compiled
def draw_used(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw which coefficients of a leaf are used: the intercept always."""
    used = used_of(state, node)
    for a in range(state.integer[N_MEAN]):
        used[a] = 1.0
        if a > 0 and state.integer[SAMPLE_SLOPES] != 0 and rng.random() >= state.real[SLOPE]:
            used[a] = 0.0


@compiled
def log_prior_of_slope(state: State, used: float) -> float:
    """Return the log prior probability that a slope is used, or not."""
    return math.log(state.real[SLOPE] if used != 0.0 else 1.0 - state.real[SLOPE])


@compiled
def log_prior_of_leaf(state: State, node: int) -> float:
    """Return the log prior density of a leaf's ranges, Booleans, slopes in use, nugget and tau^2, if sampled."""
    total = 0.0
    for j in range(state.integer[N_RANGES]):
        value = ranges_of(state, node)[j]
        if state.integer[SAMPLE_RANGE] != 0:
            total += log_prior_of_range(state, value)
        if state.integer[LINEAR] == JUMPS_TO_LINEAR:
            off = probability_linear(state, value)
            total += math.log(1.0 - off if active_of(state, node)[j] != 0.0 else off)
    if state.integer[SAMPLE_SLOPES] != 0:
        for a in range(1, state.integer[N_MEAN]):
            total += log_prior_of_slope(state, used_of(state, node)[a])
    if state.integer[SAMPLE_NUGGET] != 0:
        total += log_prior_of_nugget(state, state.leaf[node, NUGGET])
    if state.integer[SAMPLE_TAU2] != 0:
        shape, scale, tau2 = 0.5 * state.shared[A_TAU], 0.5 * state.shared[Q_TAU], state.leaf[node, TAU2]
        total += shape * math.log(scale) - math.lgamma(shape) - (shape + 1.0) * math.log(tau2) - scale / tau2
    return total
