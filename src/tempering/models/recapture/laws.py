"""Laws of the values of a set of columns: their prior, and laws fitted to the data that jumps draw from.

Each fitted law is worth some successes s and failures f (`fits`). At inverse temperature k a value then has about the
law Beta(a + k s, b + k f); drawn from is a logistic law on the logit scale with about its mean and variance there,
which is exactly uniform on (0, 1) where the Beta law is. Wrong fits cost acceptances, never exactness.
"""

from math import lgamma
from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.cells import (
    are_inside,
    first_column,
    from_logit,
    is_first_of_level,
    is_inside,
    is_reference,
    level_mask,
    logit,
    put,
    put_distance,
    put_hyper,
    put_trend,
    value_of,
)
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.layout import BLOCKS, PARALLEL, PHI, RANDOM, TREND, State
from tempering.models.recapture.likelihood import log_events, survival

LOG_2_PI = 1.8378770664093453
LOG_SIGMA, SD_OF_LOG_SIGMA = (
    -0.7,
    0.8,
)  # what deviations of year effects are proposed from: 0.5, give or take a factor 2
WIDER = 1.2  # than the fitted law: an independent proposal should not be narrower than what it is for
LOGISTIC_PRECISION = 3 / np.pi**2  # of the standard logistic law, the prior of a logit whose value is uniform
SECOND_ORDER = np.pi**2 / 6 - 1


@inner
def log_slope(state: State, v: float) -> Any:
    """Return the log Jacobian of the logit, which is in the density of every value drawn on its scale."""
    return -tables.constant(state.ints, state.floats, at.LOGIT_POWER) * (np.log(v) + np.log1p(-v))


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
def evidence_of(state: State, q: int, mask: int, time: int, block: int, k: float) -> tuple[float, float]:
    """Return mode and precision of a block on the logit scale as far as the data speak; precision 0 at k = 0."""
    i, f = state.ints, state.floats
    if k == 0.0:
        return 0.0, 0.0
    law = tables.law_of(i, q, mask, time, block)
    s, n = (
        k * (tables.pseudo_count(i, f, at.PSEUDO, law, 0) + 0.5),
        k * (tables.pseudo_count(i, f, at.PSEUDO, law, 1) + 0.5),
    )
    return np.log(s / n), s * n / (s + n)


@inner
def distance_law(state: State, q: int, mask: int, time: int, column: int, k: float) -> tuple[float, float]:
    """Return the normal law that the distance of a level from the first is drawn from."""
    here, precision = evidence_of(state, q, level_mask(state, mask, time, column), at.CONSTANT, 0, k)
    first = level_mask(state, mask, time, first_column(mask))
    there, precision_there = evidence_of(state, q, first, at.CONSTANT, 0, k)
    both = precision + precision_there
    seen = precision * precision_there / both if both > 0.0 else 0.0
    total = seen + 1.0 / tables.constant(state.ints, state.floats, at.SLOPE_SD) ** 2
    return seen * (here - there) / total, WIDER / np.sqrt(total)


@inner
def parallel_law(state: State, q: int, mask: int, time: int, block: int, k: float) -> tuple[float, float]:
    """Return location and scale of the logistic law of a block's logit at the first level, given the distances."""
    i = state.ints
    weighted, total = 0.0, LOGISTIC_PRECISION
    for c in range(i[at.N_COLUMNS]):
        if is_first_of_level(state, mask, time, c):
            members = level_mask(state, mask, time, c)
            if tables.block_exists(i, q, members, tables.base_of(i, time), block):
                mode, precision = evidence_of(state, q, members, tables.base_of(i, time), block, k)
                weighted += precision * (mode - state.hyper[q, c, 0])
                total += precision
    return weighted / total, np.sqrt(LOGISTIC_PRECISION / total)


@inner
def power_of(state: State, k: float) -> Any:
    """Return the power of the likelihood that a value feels at k: a fitted base has some of it already."""
    base = tables.constant(state.ints, state.floats, at.BASE_POWER)
    return base + (1 - base) * k


@inner
def block_law(state: State, q: int, mask: int, time: int, block: int, which: int, power: float) -> Any:
    """Return a and b of the Beta law fitted to a block, of the PSEUDO or the MARGINAL counts."""
    i, f, law = state.ints, state.floats, tables.law_of(state.ints, q, mask, time, block)
    a = tables.shape(i, f, q, 0) + power * tables.pseudo_count(i, f, which, law, 0)
    return a, tables.shape(i, f, q, 1) + power * tables.pseudo_count(i, f, which, law, 1)


@inner
def given_law(state: State, q: int, mask: int, block: int, k: float) -> Any:
    """Return a and b of the Beta law that jumps draw a block from: `given` has looked at the rest of the state."""
    i, f, c, power = state.ints, state.floats, first_column(mask), power_of(state, k)
    return tables.shape(i, f, q, 0) + power * state.laws[c, block, 0], tables.shape(i, f, q, 1) + power * state.laws[
        c, block, 1
    ]


@inner
def logistic_of(a: float, b: float) -> Any:
    """Return location and scale on the logit scale, by mean and variance of the Beta law's logit.

    Those are psi(a) - psi(b) and psi'(a) + psi'(b); psi(a) is about log a - 1 / (2 a), and psi'(a) about 1 / a +
    (pi^2 / 6 - 1) / a^2, which is right at 1 and for large a. The same curvature instead of the same variance would
    make the law too wide by half, and nine years at once are then accepted a third as often.
    """
    variance = 1 / a + 1 / b + SECOND_ORDER * (1 / (a * a) + 1 / (b * b))
    return np.log(a / b) - 0.5 * (1 / a - 1 / b), np.sqrt(LOGISTIC_PRECISION * variance)


@inner
def trend_normal(state: State, q: int, mask: int, time: int, k: float) -> Any:
    """Return the normal law that a trend's coefficients are drawn from: means, deviations, correlation."""
    i, f = state.ints, state.floats
    aa = LOGISTIC_PRECISION + k * tables.trend_law(i, f, q, mask, time, 2)
    ab = k * tables.trend_law(i, f, q, mask, time, 3)
    bb = 1.0 / tables.constant(i, f, at.SLOPE_SD) ** 2 + k * tables.trend_law(i, f, q, mask, time, 4)
    ma, mb = tables.trend_law(i, f, q, mask, time, 0), tables.trend_law(i, f, q, mask, time, 1)
    ra = k * (tables.trend_law(i, f, q, mask, time, 2) * ma + tables.trend_law(i, f, q, mask, time, 3) * mb)
    rb = k * (tables.trend_law(i, f, q, mask, time, 3) * ma + tables.trend_law(i, f, q, mask, time, 4) * mb)
    det = aa * bb - ab * ab
    sa, sb = WIDER * np.sqrt(bb / det), WIDER * np.sqrt(aa / det)
    return (bb * ra - ab * rb) / det, (aa * rb - ab * ra) / det, sa, sb, -ab / np.sqrt(aa * bb)


@inner
def random_normal(state: State, mask: int, block: int, k: float, mu: float, sigma: float) -> tuple[float, float]:
    """Return the normal law that the logit of a year is drawn from, given the mean and deviation of all years."""
    first = first_column(mask)
    s, n = k * state.laws[first, block, 0], k * state.laws[first, block, 1]
    precision = (s + 0.5 * k) * (n + 0.5 * k) / (s + n + k) if k > 0.0 else 0.0
    middle = np.log((s + 0.5 * k) / (n + 0.5 * k)) if k > 0.0 else 0.0
    total = precision + sigma**-2
    return (precision * middle + mu * sigma**-2) / total, np.sqrt(1.0 / total)


@inner
def direct_of_set(state: State, q: int, mask: int, time: int) -> Any:
    """Return a set's part of log L outside chi and G: its own events."""
    i, f = state.ints, state.floats
    total = 0.0
    if tables.kind_of(i, time) not in (TREND, PARALLEL) and not (q == PHI and i[at.HAS_LENGTHS]):
        for block in range(tables.n_blocks(i, time)):
            if tables.block_exists(i, q, mask, time, block):
                ones, zeros = (
                    tables.block_sum(i, f, q, mask, time, block, 0),
                    tables.block_sum(i, f, q, mask, time, block, 1),
                )
                v = value_of(state, q, mask, time, block)
                total += (ones * np.log(v) if ones > 0.0 else 0.0) + (zeros * np.log1p(-v) if zeros > 0.0 else 0.0)
        return total
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if mask >> c & 1 and not tables.is_held(i, q, t, c):
                v = survival(state, t, c) if q == PHI else state.values[q, t, c]
                total += log_events(tables.count(i, f, q, t, c), v) + log_events(
                    tables.count(i, f, at.N_PARAMETERS + q, t, c), 1 - v
                )
    return total


@inner
def propose_set(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> Any:
    """Draw the values of a set from its fitted laws; return their log density, infinite where one is refused."""
    i = state.ints
    kind = tables.kind_of(i, time)
    if kind == BLOCKS:
        return _propose_blocks(rng, state, q, mask, time, k)
    if kind == PARALLEL:
        return _propose_parallel(rng, state, q, mask, time, k)
    if kind == TREND:
        ma, mb, sa, sb, r = trend_normal(state, q, mask, time, k)
        one, two = rng.standard_normal(), rng.standard_normal()
        put_hyper(state, q, mask, ma + sa * one, mb + sb * (r * one + np.sqrt(1 - r * r) * two))
        return log_density_of_set(state, q, mask, time, k) if put_trend(state, q, mask, time) else np.inf
    a, b = block_law(state, q, mask, at.CONSTANT, 0, at.PSEUDO, k)
    location, scale = logistic_of(a, b)
    mu = location + 2 * scale * logit(rng.random())
    sigma = np.exp(LOG_SIGMA + SD_OF_LOG_SIGMA * rng.standard_normal())
    put_hyper(state, q, mask, mu, np.log(sigma))
    for block in range(tables.n_blocks(i, time)):
        v = 0.5
        if tables.block_exists(i, q, mask, time, block):
            mean, sd = random_normal(state, mask, block, k, mu, sigma)
            v = from_logit(mean + sd * rng.standard_normal())
            if not is_inside(v):
                return np.inf
        put(state, q, mask, time, block, v)
    return log_density_of_set(state, q, mask, time, k)


@inner
def _propose_parallel(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> Any:
    i = state.ints
    put_hyper(state, q, mask, 0.0, 0.0)
    for c in range(i[at.N_COLUMNS]):
        if is_first_of_level(state, mask, time, c) and not is_reference(state, mask, time, c):
            mean, sd = distance_law(state, q, mask, time, c, k)
            put_distance(state, q, mask, time, c, mean + sd * rng.standard_normal())
    for block in range(tables.n_blocks(i, time)):
        v = 0.5
        if tables.block_exists(i, q, mask, time, block):
            location, scale = parallel_law(state, q, mask, time, block, k)
            v = from_logit(location + scale * logit(rng.random()))
            if not is_inside(v):
                return np.inf
        put(state, q, mask, time, block, v)
    return log_density_of_set(state, q, mask, time, k) if are_inside(state, q, mask) else np.inf


@inner
def _propose_blocks(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> Any:
    i, total = state.ints, 0.0
    for block in range(tables.n_blocks(i, time)):
        v = 0.5
        if tables.block_exists(i, q, mask, time, block):
            a, b = given_law(state, q, mask, block, k)
            location, scale = logistic_of(a, b)
            x = location + scale * logit(rng.random())
            v = from_logit(x)
            if not is_inside(v):
                return np.inf
            total += log_logistic(x, location, scale) + log_slope(state, v)
        put(state, q, mask, time, block, v)
    return total


@inner
def log_density_of_set(state: State, q: int, mask: int, time: int, k: float) -> Any:
    """Return the log density of a set's values under its fitted laws."""
    i = state.ints
    kind = tables.kind_of(i, time)
    first = first_column(mask)
    if kind == TREND:
        ma, mb, sa, sb, r = trend_normal(state, q, mask, time, k)
        one = (state.hyper[q, first, 0] - ma) / sa
        two = ((state.hyper[q, first, 1] - mb) / sb - r * one) / np.sqrt(1 - r * r)
        return -LOG_2_PI - np.log(sa * sb * np.sqrt(1 - r * r)) - 0.5 * (one * one + two * two)
    total = 0.0
    mu, log_sigma = state.hyper[q, first, 0], state.hyper[q, first, 1]
    if kind == PARALLEL:
        for c in range(i[at.N_COLUMNS]):
            if is_first_of_level(state, mask, time, c) and not is_reference(state, mask, time, c):
                mean, sd = distance_law(state, q, mask, time, c, k)
                total += log_normal(state.hyper[q, c, 0], mean, sd)
    if kind == RANDOM:
        a, b = block_law(state, q, mask, at.CONSTANT, 0, at.PSEUDO, k)
        location, scale = logistic_of(a, b)
        total += log_logistic(mu, location, 2 * scale) + log_normal(log_sigma, LOG_SIGMA, SD_OF_LOG_SIGMA)
    for block in range(tables.n_blocks(i, time)):
        if tables.block_exists(i, q, mask, time, block):
            v = value_of(state, q, mask, time, block)
            if kind == BLOCKS:
                a, b = given_law(state, q, mask, block, k)
                location, scale = logistic_of(a, b)
                total += log_logistic(logit(v), location, scale)
            elif kind == PARALLEL:
                location, scale = parallel_law(state, q, mask, time, block, k)
                total += log_logistic(logit(v), location, scale)
            else:
                mean, sd = random_normal(state, mask, block, k, mu, np.exp(log_sigma))
                total += log_normal(logit(v), mean, sd)
            total += log_slope(state, v)
    return total


@inner
def log_prior_of_set(state: State, q: int, mask: int, time: int) -> Any:
    """Return the log prior density of a set's values.

    A value has its Beta law. A trend has the logit of the value at an average covariate, logistic, and a normal slope;
    year effects have a logistic mean, a half-normal deviation (kept as its log), and normal logits given both. With
    additive effects the values of the first level have their Beta law, and the distances of the others are normal.
    """
    i, f = state.ints, state.floats
    kind = tables.kind_of(i, time)
    first = first_column(mask)
    if kind == BLOCKS and i[at.IS_FLAT]:
        return 0.0
    one, two = state.hyper[q, first, 0], state.hyper[q, first, 1]
    if kind == TREND:
        return log_logistic(one, 0.0, 1.0) + log_normal(two, 0.0, tables.constant(i, f, at.SLOPE_SD))
    total = 0.0
    if kind == PARALLEL:
        for c in range(i[at.N_COLUMNS]):
            if is_first_of_level(state, mask, time, c) and not is_reference(state, mask, time, c):
                total += log_normal(state.hyper[q, c, 0], 0.0, tables.constant(i, f, at.SLOPE_SD))
    if kind == RANDOM:
        scale = tables.constant(i, f, at.SIGMA_SCALE)
        total += log_logistic(one, 0.0, 1.0) + np.log(2.0) + log_normal(np.exp(two), 0.0, scale) + two
    for block in range(tables.n_blocks(i, time)):
        if tables.block_exists(i, q, mask, time, block):
            v = value_of(state, q, mask, time, block)
            total += log_prior_of_value(state, q, v, kind, one, two)
    return total


@inner
def log_prior_of_value(state: State, q: int, v: float, kind: int, mu: float, log_sigma: float) -> Any:
    """Return the log prior density of one value of a block."""
    if kind == RANDOM:
        return log_normal(logit(v), mu, np.exp(log_sigma)) - np.log(v) - np.log1p(-v)
    if state.ints[at.IS_FLAT]:
        return 0.0
    a, b = tables.shape(state.ints, state.floats, q, 0), tables.shape(state.ints, state.floats, q, 1)
    return (a - 1) * np.log(v) + (b - 1) * np.log1p(-v) - _log_beta(a, b)


@inner
def _log_beta(a: float, b: float) -> Any:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@inner
def has_fitted_base(state: State, time: int) -> Any:
    """Whether a set that varies so in time starts from fitted laws; trends, random and additive years do not."""
    return tables.kind_of(state.ints, time) == BLOCKS and tables.constant(state.ints, state.floats, at.BASE_POWER) > 0.0


@inner
def base_density(state: State, q: int, law: int, v: float) -> Any:
    """Return the density of a value under a fitted base: a wide logistic law of its logit, or in doubt the prior."""
    i, f = state.ints, state.floats
    location, scale, doubt = (
        tables.base_law(i, f, law, 0),
        tables.base_law(i, f, law, 1),
        tables.constant(i, f, at.BASE_DOUBT),
    )
    odds = v / (1 - v)
    tail = np.exp(-abs(np.log(odds) - location) / scale)
    fitted = tail / ((1 + tail) * (1 + tail) * scale * v * (1 - v))
    prior = 1.0 if i[at.IS_FLAT] else np.exp(log_prior_of_value(state, q, v, BLOCKS, 0.0, 0.0))
    return (1 - doubt) * fitted + doubt * prior


@inner
def log_base_over_prior(state: State, q: int, mask: int, time: int) -> Any:
    """Return the log of base over prior of a set's values; 0 where the base is the prior."""
    total = 0.0
    if has_fitted_base(state, time):
        law = tables.law_of(state.ints, q, mask, time, 0)
        for block in range(tables.n_blocks(state.ints, time)):
            if tables.block_exists(state.ints, q, mask, time, block):
                total += np.log(base_density(state, q, law + block, value_of(state, q, mask, time, block)))
        total -= log_prior_of_set(state, q, mask, time)
    return total
