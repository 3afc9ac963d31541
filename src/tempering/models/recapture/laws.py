"""Laws of the values of a set of columns: their prior, and laws fitted to the data that jumps draw from.

Each fitted law is worth some successes s and failures f (`fits`). At inverse temperature k a value then has about the
law Beta(a + k s, b + k f); drawn from is a logistic law on the logit scale with the same mode and curvature there,
which is exactly uniform on (0, 1) where the Beta law is. Wrong fits cost acceptances, never exactness.
"""

from math import lgamma
from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.layout import BLOCKS, PHI, TREND, State
from tempering.models.recapture.likelihood import log_events, survival
from tempering.models.recapture.tables import (
    block_exists,
    block_sum,
    constant,
    count,
    covariate,
    first_of,
    is_held,
    kind_of,
    label,
    last_of,
    n_blocks,
    pseudo_count,
    shape,
    trend_law,
)

Array = Any

CLOSEST = 1e-12  # to 0 and 1: values nearer are refused
LOG_2_PI = 1.8378770664093453
LOG_SIGMA, SD_OF_LOG_SIGMA = (
    -0.7,
    0.8,
)  # what deviations of year effects are proposed from: 0.5, give or take a factor 2
WIDER = 1.2  # than the fitted law: an independent proposal should not be narrower than what it is for
LOGISTIC_PRECISION = 0.304  # 3 / pi^2, of the standard logistic law, the prior of a logit whose value is uniform


@inner
def logit(v: float) -> Any:
    """Return the log odds."""
    return np.log(v) - np.log1p(-v)


@inner
def from_logit(x: float) -> Any:
    """Return the probability with these log odds."""
    return 1.0 / (1.0 + np.exp(-x))


@inner
def is_inside(v: float) -> Any:
    """Whether a value is allowed."""
    return v > CLOSEST and v < 1 - CLOSEST


@inner
def log_normal(x: float, mean: float, sd: float) -> Any:
    """Return the log density of a normal law."""
    return -0.5 * LOG_2_PI - np.log(sd) - 0.5 * ((x - mean) / sd) ** 2


@inner
def log_logistic(x: float, location: float, scale: float) -> Any:
    """Return the log density of a logistic law."""
    distance = abs((x - location) / scale)
    return -distance - 2 * np.log1p(np.exp(-distance)) - np.log(scale)


@inner
def put(state: State, q: int, mask: int, time: int, block: int, v: float) -> None:
    """Write a value into the cells of a block of a set."""
    i = state.ints
    for t in range(first_of(i, time, block), last_of(i, time, block) + 1):
        if label(i, time, t) == block:
            for c in range(i[at.N_COLUMNS]):
                if mask >> c & 1 and not is_held(i, q, t, c):
                    state.values[q, t, c] = v


@inner
def value_of(state: State, q: int, mask: int, time: int, block: int) -> Any:
    """Return the value of a block of a set."""
    i, c = state.ints, first_column(mask)
    for t in range(first_of(i, time, block), last_of(i, time, block) + 1):
        if label(i, time, t) == block and not is_held(i, q, t, c):
            return state.values[q, t, c]
    return 0.5


@inner
def put_trend(state: State, q: int, mask: int, time: int) -> Any:
    """Write the values of a trend from its coefficients; return whether all are allowed."""
    i, first = state.ints, first_column(mask)
    allowed = True
    for t in range(i[at.N_INTERVALS]):
        v = from_logit(state.hyper[q, first, 0] + state.hyper[q, first, 1] * covariate(i, state.floats, time, t))
        allowed = allowed and is_inside(v)
        for c in range(i[at.N_COLUMNS]):
            if mask >> c & 1 and not is_held(i, q, t, c):
                state.values[q, t, c] = v
    return allowed


@inner
def first_column(mask: int) -> Any:
    """Return the first column of a set."""
    c = 0
    while not mask >> c & 1:
        c += 1
    return c


@inner
def put_hyper(state: State, q: int, mask: int, one: float, two: float) -> None:
    """Write the coefficients of a set, which all its columns hold."""
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1:
            state.hyper[q, c, 0] = one
            state.hyper[q, c, 1] = two


@inner
def block_law(state: State, q: int, mask: int, time: int, block: int, k: float) -> Any:
    """Return a and b of the Beta law fitted to a block."""
    i, f = state.ints, state.floats
    a = shape(i, f, q, 0) + k * pseudo_count(i, f, q, mask, time, block, 0)
    b = shape(i, f, q, 1) + k * pseudo_count(i, f, q, mask, time, block, 1)
    return a, b


@inner
def logistic_of(a: float, b: float) -> Any:
    """Return location and scale on the logit scale: the mode log(a / b), and the curvature a b / (a + b)."""
    return np.log(a / b), np.sqrt((a + b) / (2 * a * b))


@inner
def trend_normal(state: State, q: int, mask: int, time: int, k: float) -> Any:
    """Return the normal law that a trend's coefficients are drawn from: means, deviations, correlation."""
    i, f = state.ints, state.floats
    aa = LOGISTIC_PRECISION + k * trend_law(i, f, q, mask, time, 2)
    ab = k * trend_law(i, f, q, mask, time, 3)
    bb = 1.0 / constant(i, f, at.SLOPE_SD) ** 2 + k * trend_law(i, f, q, mask, time, 4)
    ma, mb = trend_law(i, f, q, mask, time, 0), trend_law(i, f, q, mask, time, 1)
    ra = k * (trend_law(i, f, q, mask, time, 2) * ma + trend_law(i, f, q, mask, time, 3) * mb)
    rb = k * (trend_law(i, f, q, mask, time, 3) * ma + trend_law(i, f, q, mask, time, 4) * mb)
    det = aa * bb - ab * ab
    sa, sb = WIDER * np.sqrt(bb / det), WIDER * np.sqrt(aa / det)
    return (bb * ra - ab * rb) / det, (aa * rb - ab * ra) / det, sa, sb, -ab / np.sqrt(aa * bb)


@inner
def random_normal(
    state: State, q: int, mask: int, time: int, block: int, k: float, mu: float, sigma: float
) -> tuple[float, float]:
    """Return the normal law that the logit of a year is drawn from, given the mean and deviation of all years."""
    i, f = state.ints, state.floats
    s = k * pseudo_count(i, f, q, mask, time, block, 0)
    n = k * pseudo_count(i, f, q, mask, time, block, 1)
    precision = (s + 0.5 * k) * (n + 0.5 * k) / (s + n + k) if k > 0.0 else 0.0
    middle = np.log((s + 0.5 * k) / (n + 0.5 * k)) if k > 0.0 else 0.0
    total = precision + sigma**-2
    return (precision * middle + mu * sigma**-2) / total, np.sqrt(1.0 / total)


@inner
def direct_of_set(state: State, q: int, mask: int, time: int) -> Any:
    """Return a set's part of log L outside chi and G: its own events."""
    i, f = state.ints, state.floats
    total = 0.0
    if kind_of(i, time) != TREND and not (q == PHI and i[at.HAS_LENGTHS]):
        for block in range(n_blocks(i, time)):
            if block_exists(i, q, mask, time, block):
                ones, zeros = block_sum(i, f, q, mask, time, block, 0), block_sum(i, f, q, mask, time, block, 1)
                v = value_of(state, q, mask, time, block)
                total += (ones * np.log(v) if ones > 0.0 else 0.0) + (zeros * np.log1p(-v) if zeros > 0.0 else 0.0)
        return total
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if mask >> c & 1 and not is_held(i, q, t, c):
                v = survival(state, t, c) if q == PHI else state.values[q, t, c]
                total += log_events(count(i, f, q, t, c), v) + log_events(count(i, f, at.N_PARAMETERS + q, t, c), 1 - v)
    return total


@inner
def propose_set(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> Any:
    """Draw the values of a set from its fitted laws; return their log density, infinite where one is refused."""
    i = state.ints
    kind = kind_of(i, time)
    if kind == BLOCKS:
        return _propose_blocks(rng, state, q, mask, time, k)
    if kind == TREND:
        ma, mb, sa, sb, r = trend_normal(state, q, mask, time, k)
        one, two = rng.standard_normal(), rng.standard_normal()
        put_hyper(state, q, mask, ma + sa * one, mb + sb * (r * one + np.sqrt(1 - r * r) * two))
        return log_density_of_set(state, q, mask, time, k) if put_trend(state, q, mask, time) else np.inf
    a, b = block_law(state, q, mask, at.CONSTANT, 0, k)
    location, scale = logistic_of(a, b)
    mu = location + 2 * scale * logit(rng.random())
    sigma = np.exp(LOG_SIGMA + SD_OF_LOG_SIGMA * rng.standard_normal())
    put_hyper(state, q, mask, mu, np.log(sigma))
    for block in range(n_blocks(i, time)):
        v = 0.5
        if block_exists(i, q, mask, time, block):
            mean, sd = random_normal(state, q, mask, time, block, k, mu, sigma)
            v = from_logit(mean + sd * rng.standard_normal())
            if not is_inside(v):
                return np.inf
        put(state, q, mask, time, block, v)
    return log_density_of_set(state, q, mask, time, k)


@inner
def _propose_blocks(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> Any:
    i, total = state.ints, 0.0
    for block in range(n_blocks(i, time)):
        v = 0.5
        if block_exists(i, q, mask, time, block):
            a, b = block_law(state, q, mask, time, block, k)
            location, scale = logistic_of(a, b)
            x = location + scale * logit(rng.random())
            v = from_logit(x)
            if not is_inside(v):
                return np.inf
            total += log_logistic(x, location, scale) - np.log(v) - np.log1p(-v)
        put(state, q, mask, time, block, v)
    return total


@inner
def log_density_of_set(state: State, q: int, mask: int, time: int, k: float) -> Any:
    """Return the log density of a set's values under its fitted laws."""
    i = state.ints
    kind = kind_of(i, time)
    first = first_column(mask)
    if kind == TREND:
        ma, mb, sa, sb, r = trend_normal(state, q, mask, time, k)
        one = (state.hyper[q, first, 0] - ma) / sa
        two = ((state.hyper[q, first, 1] - mb) / sb - r * one) / np.sqrt(1 - r * r)
        return -LOG_2_PI - np.log(sa * sb * np.sqrt(1 - r * r)) - 0.5 * (one * one + two * two)
    total = 0.0
    mu, log_sigma = state.hyper[q, first, 0], state.hyper[q, first, 1]
    if kind != BLOCKS:
        a, b = block_law(state, q, mask, at.CONSTANT, 0, k)
        location, scale = logistic_of(a, b)
        total += log_logistic(mu, location, 2 * scale) + log_normal(log_sigma, LOG_SIGMA, SD_OF_LOG_SIGMA)
    for block in range(n_blocks(i, time)):
        if block_exists(i, q, mask, time, block):
            v = value_of(state, q, mask, time, block)
            if kind == BLOCKS:
                a, b = block_law(state, q, mask, time, block, k)
                location, scale = logistic_of(a, b)
                total += log_logistic(logit(v), location, scale)
            else:
                mean, sd = random_normal(state, q, mask, time, block, k, mu, np.exp(log_sigma))
                total += log_normal(logit(v), mean, sd)
            total -= np.log(v) + np.log1p(-v)
    return total


@inner
def log_prior_of_set(state: State, q: int, mask: int, time: int) -> Any:
    """Return the log prior density of a set's values.

    A value has its Beta law. A trend has the logit of the value at an average covariate, logistic, and a normal slope;
    year effects have a logistic mean, a half-normal deviation (kept as its log), and normal logits given both.
    """
    i, f = state.ints, state.floats
    kind = kind_of(i, time)
    first = first_column(mask)
    if kind == BLOCKS and i[at.IS_FLAT]:
        return 0.0
    one, two = state.hyper[q, first, 0], state.hyper[q, first, 1]
    if kind == TREND:
        return log_logistic(one, 0.0, 1.0) + log_normal(two, 0.0, constant(i, f, at.SLOPE_SD))
    total = 0.0
    if kind != BLOCKS:
        scale = constant(i, f, at.SIGMA_SCALE)
        total += log_logistic(one, 0.0, 1.0) + np.log(2.0) + log_normal(np.exp(two), 0.0, scale) + two
    for block in range(n_blocks(i, time)):
        if block_exists(i, q, mask, time, block):
            v = value_of(state, q, mask, time, block)
            total += log_prior_of_value(state, q, v, kind, one, two)
    return total


@inner
def log_prior_of_value(state: State, q: int, v: float, kind: int, mu: float, log_sigma: float) -> Any:
    """Return the log prior density of one value of a block."""
    if kind != BLOCKS:
        return log_normal(logit(v), mu, np.exp(log_sigma)) - np.log(v) - np.log1p(-v)
    a, b = shape(state.ints, state.floats, q, 0), shape(state.ints, state.floats, q, 1)
    return (a - 1) * np.log(v) + (b - 1) * np.log1p(-v) - _log_beta(a, b)


@inner
def _log_beta(a: float, b: float) -> Any:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
