"""Priors of a leaf's correlation: draws and log densities of range, Boolean and nugget (sections 3 and 4)."""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import State
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
    return _log_gamma_mixture(value, state.real[at.RANGE_PRIOR :], state.real[at.RANGE_CONSTANTS :])


@compiled
def draw_range(rng: np.random.Generator, state: State) -> float:
    """Draw one range from its prior, or return the fixed value."""
    if state.integer[at.SAMPLE_RANGE] == 0:
        return float(state.real[at.START_RANGE])
    return _draw_gamma_mixture(rng, state.real[at.RANGE_PRIOR : at.RANGE_PRIOR + 4])


@compiled
def log_prior_of_nugget(state: State, value: float) -> float:
    """Return the log prior density of the nugget, which ends a little above its floor."""
    above = value - state.real[at.NUGGET_FLOOR]
    if above < at.NUGGET_LEAST:
        return -math.inf
    return _log_gamma_mixture(above, state.real[at.NUGGET_PRIOR :], state.real[at.NUGGET_CONSTANTS :])


@compiled
def draw_nugget(rng: np.random.Generator, state: State) -> float:
    """Draw the nugget from its prior, or return the fixed value."""
    if state.integer[at.SAMPLE_NUGGET] == 0:
        return float(state.real[at.START_NUGGET])
    above, floor = 0.0, state.real[at.NUGGET_FLOOR]
    while floor + above - floor < at.NUGGET_LEAST:
        above = _draw_gamma_mixture(rng, state.real[at.NUGGET_PRIOR : at.NUGGET_PRIOR + 4])
    return float(floor + above)


@compiled
def probability_linear(state: State, value: float) -> float:
    """Return P(b = 0 | d), the prior probability that a dimension of this range is switched off."""
    mode = state.integer[at.LINEAR]
    if mode == at.NEVER_LINEAR:
        return 0.0
    if mode == at.ALWAYS_LINEAR:
        return 1.0
    return float(
        state.real[at.GAMMA2] + state.real[at.GAMMA3] / (1.0 + math.exp(-state.real[at.GAMMA1] * (value - 0.5)))
    )


@compiled
def draw_exponent(rng: np.random.Generator, state: State) -> float:
    """Draw the exponent of a power exponential correlation, uniform on (1, 2), or return the fixed value."""
    if state.integer[at.SAMPLE_EXPONENT] == 0:
        return float(state.real[at.START_EXPONENT])
    return 1.0 + 1e-12 + (1.0 - 2e-12) * rng.random()  # strictly between


@compiled
def log_switched(state: State, value: float, active: float) -> float:
    """Return the log prior probability that an input of this range is switched as it is."""
    off = probability_linear(state, value)
    if active == 0.0:
        return math.log(off)
    return math.log(0.5 * (1.0 - off) if state.integer[at.CORRELATION] == at.SINGLE_INDEX else 1.0 - off)


@compiled
def has_switches(state: State) -> bool:
    """Say whether inputs can be switched: off or on, or from one sign to the other."""
    mode, signs = state.integer[at.LINEAR], state.integer[at.CORRELATION] == at.SINGLE_INDEX
    return bool(mode == at.JUMPS_TO_LINEAR or (signs and mode == at.NEVER_LINEAR))


@compiled
def n_alternatives(state: State) -> int:
    """Return in how many other ways an input can be switched: off or on, on with either sign in a single index."""
    return (
        2 if state.integer[at.CORRELATION] == at.SINGLE_INDEX and state.integer[at.LINEAR] == at.JUMPS_TO_LINEAR else 1
    )


@compiled
def draw_alternative(rng: np.random.Generator, state: State, active: float) -> float:
    """Draw one of them, each with the same probability."""
    if state.integer[at.CORRELATION] != at.SINGLE_INDEX:
        return 1.0 - active
    if active == 0.0:
        return 1.0 if rng.random() < 0.5 else -1.0
    return 0.0 if n_alternatives(state) == 2 and rng.random() < 0.5 else -active


@compiled
def draw_active(rng: np.random.Generator, state: State, value: float) -> float:
    """Draw the Boolean b of a dimension given its range, in a single index with its sign."""
    if rng.random() < probability_linear(state, value):
        return 0.0
    return -1.0 if state.integer[at.CORRELATION] == at.SINGLE_INDEX and rng.random() < 0.5 else 1.0


@compiled
def draw_used(rng: np.random.Generator, state: State, node: int) -> None:
    """Draw which coefficients of a leaf are used: the intercept always."""
    used = used_of(state, node)
    for a in range(state.integer[at.N_MEAN]):
        used[a] = 1.0
        if a > 0 and state.integer[at.SAMPLE_SLOPES] != 0 and rng.random() >= state.real[at.SLOPE]:
            used[a] = 0.0


@compiled
def log_prior_of_slope(state: State, used: float) -> float:
    """Return the log prior probability that a slope is used, or not."""
    return math.log(state.real[at.SLOPE] if used != 0.0 else 1.0 - state.real[at.SLOPE])


@compiled
def log_prior_of_leaf(state: State, node: int) -> float:
    """Return the log prior density of a leaf's ranges, Booleans, slopes in use, nugget and tau^2, if sampled."""
    total = 0.0
    for j in range(state.integer[at.N_RANGES]):
        value = ranges_of(state, node)[j]
        if state.integer[at.SAMPLE_RANGE] != 0:
            total += log_prior_of_range(state, value)
        if has_switches(state):
            total += log_switched(state, value, active_of(state, node)[j])
    if state.integer[at.SAMPLE_SLOPES] != 0:
        for a in range(1, state.integer[at.N_MEAN]):
            total += log_prior_of_slope(state, used_of(state, node)[a])
    if state.integer[at.SAMPLE_NUGGET] != 0:
        total += log_prior_of_nugget(state, state.leaf[node, at.NUGGET])
    if state.integer[at.SAMPLE_TAU2] != 0:
        shape, scale, tau2 = 0.5 * state.shared[at.A_TAU], 0.5 * state.shared[at.Q_TAU], state.leaf[node, at.TAU2]
        total += shape * math.log(scale) - math.lgamma(shape) - (shape + 1.0) * math.log(tau2) - scale / tau2
    return total
