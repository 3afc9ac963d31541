"""Update every free value of a model once, leaving prior x likelihood^k invariant (section 5.1 of the moves)."""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.cells import (
    are_inside,
    first_column,
    is_first_of_level,
    is_inside,
    is_reference,
    logit,
    moved,
    put,
    put_distance,
    put_hyper,
    put_trend,
    value_of,
)
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.laws import (
    base_density,
    block_law,
    distance_law,
    has_fitted_base,
    log_logistic,
    log_normal,
    log_prior_of_value,
    power_of,
    trend_normal,
)
from tempering.models.recapture.layout import BLOCKS, PARALLEL, PHI, RANDOM, TREND, State
from tempering.models.recapture.likelihood import direct_part, keep_gain, total_gain

WIDTH = 4.2  # half-width of the uniform step in deviations: sd 2.4, the optimum of a random walk in one dimension
LARGEST_STEP = 0.5
TREND_STEP = 2.0  # normal step, in deviations of the fitted law
SIGMA_STEP = 0.7  # normal step of the log of a deviation


@inner
def sweep(rng: Any, state: State, k: float) -> None:
    """Move all values of all parameters in turn."""
    i = state.ints
    for q in range(at.N_PARAMETERS):
        partition = state.structure[q, 0]
        for c in range(i[at.N_COLUMNS]):
            if tables.is_present(i, q) and tables.youngest(i, partition, c) == c:
                mask, time = tables.mask_of(i, partition, c), state.structure[q, 1 + c]
                if tables.kind_of(i, time) == TREND:
                    move_trend(rng, state, q, mask, time, k)
                else:
                    for block in range(tables.n_blocks(i, time)):
                        move_value(rng, state, q, mask, time, block, k)
                    if tables.kind_of(i, time) == RANDOM:
                        move_hyper(rng, state, q, mask, time)
                    elif tables.kind_of(i, time) == PARALLEL:
                        move_distances(rng, state, q, mask, time, k)


@inner
def direct_gain(state: State, q: int, mask: int, time: int, block: int, new: float, old: float) -> Any:
    """Return the gain of a block's own events when its value changes."""
    i, f = state.ints, state.floats
    if tables.kind_of(i, time) == PARALLEL:
        gain = 0.0
        for t in range(tables.first_of(i, time, block), tables.last_of(i, time, block) + 1):
            if tables.label(i, time, t) == block:
                for c in range(i[at.N_COLUMNS]):
                    if mask >> c & 1:
                        distance = state.hyper[q, c, 0]
                        gain += cell_gain(state, q, t, c, moved(new, distance), moved(old, distance))
        return gain
    gain = tables.block_sum(i, f, q, mask, time, block, 0) * (np.log(new) - np.log(old))
    if q != PHI or not i[at.HAS_LENGTHS]:
        return gain + tables.block_sum(i, f, q, mask, time, block, 1) * (np.log1p(-new) - np.log1p(-old))
    for t in range(tables.first_of(i, time, block), tables.last_of(i, time, block) + 1):
        if tables.label(i, time, t) == block:
            for c in range(i[at.N_COLUMNS]):
                n = tables.count(i, f, at.N_PARAMETERS + q, t, c) if mask >> c & 1 else 0.0
                if n > 0.0:
                    gain += n * (
                        np.log1p(-(new ** tables.length(i, f, t))) - np.log1p(-(old ** tables.length(i, f, t)))
                    )
    return gain


@inner
def cell_gain(state: State, q: int, t: int, c: int, new: float, old: float) -> Any:
    """Return the gain of a cell's own events when its value changes."""
    i, f = state.ints, state.floats
    ones, zeros = tables.count(i, f, q, t, c), tables.count(i, f, at.N_PARAMETERS + q, t, c)
    if q == PHI and i[at.HAS_LENGTHS]:
        new, old = new ** tables.length(i, f, t), old ** tables.length(i, f, t)
    gain = ones * (np.log(new) - np.log(old)) if ones > 0.0 else 0.0
    return gain + (zeros * (np.log1p(-new) - np.log1p(-old)) if zeros > 0.0 else 0.0)


@inner
def move_value(rng: Any, state: State, q: int, mask: int, time: int, block: int, k: float) -> None:
    """Walk one value at random."""
    if not tables.block_exists(state.ints, q, mask, time, block):
        return
    kind = tables.kind_of(state.ints, time)
    a, b = block_law(state, q, mask, time, block, at.PSEUDO, power_of(state, k) if kind == BLOCKS else k)
    width = min(WIDTH * np.sqrt(a * b / (a + b + 1)) / (a + b), LARGEST_STEP)
    old = value_of(state, q, mask, time, block)
    new = old + width * (2 * rng.random() - 1)
    threshold = np.log(rng.random())
    if not is_inside(new):
        return
    if kind == PARALLEL and not moves_inside(state, q, mask, new):
        return
    log_ratio = 0.0
    if kind != BLOCKS or not state.ints[at.IS_FLAT]:
        first = first_column(mask)
        mu, log_sigma = state.hyper[q, first, 0], state.hyper[q, first, 1]
        log_ratio += log_prior_of_value(state, q, new, kind, mu, log_sigma)
        log_ratio -= log_prior_of_value(state, q, old, kind, mu, log_sigma)
    if k < 1.0 and has_fitted_base(state, time):
        law = tables.law_of(state.ints, q, mask, time, block)
        change = base_density(state, q, law, new) / base_density(state, q, law, old)
        log_ratio = k * log_ratio + (1 - k) * np.log(change)
    gain = direct_gain(state, q, mask, time, block, new, old)
    put(state, q, mask, time, block, new)
    first, last = tables.first_of(state.ints, time, block), tables.last_of(state.ints, time, block)
    gain = total_gain(state, q, gain, first, last)
    if threshold < k * gain + log_ratio:
        keep_gain(state, gain, last)
    else:
        put(state, q, mask, time, block, old)


@inner
def move_trend(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> None:
    """Walk the two coefficients of a trend, one after the other."""
    i, f = state.ints, state.floats
    first = first_column(mask)
    _, _, sa, sb, _ = trend_normal(state, q, mask, time, k)
    before = direct_part(state, q)
    for which in range(2):
        one, two = state.hyper[q, first, 0], state.hyper[q, first, 1]
        step = TREND_STEP * (sa if which == 0 else sb) * rng.standard_normal()
        threshold = np.log(rng.random())
        put_hyper(state, q, mask, one + (step if which == 0 else 0.0), two + (step if which == 1 else 0.0))
        slope_sd = tables.constant(i, f, at.SLOPE_SD)
        log_ratio = log_logistic(state.hyper[q, first, 0], 0.0, 1.0) - log_logistic(one, 0.0, 1.0)
        log_ratio += log_normal(state.hyper[q, first, 1], 0.0, slope_sd) - log_normal(two, 0.0, slope_sd)
        accepted = put_trend(state, q, mask, time)
        if accepted:
            after = direct_part(state, q)
            gain = total_gain(state, q, after - before, 0, i[at.N_INTERVALS] - 1)
            accepted = threshold < k * gain + log_ratio
            if accepted:
                keep_gain(state, gain, i[at.N_INTERVALS] - 1)
                before = after
        if not accepted:
            put_hyper(state, q, mask, one, two)
            put_trend(state, q, mask, time)


@inner
def moves_inside(state: State, q: int, mask: int, v: float) -> Any:
    """Whether a value is allowed at the distances of all columns."""
    for c in range(state.ints[at.N_COLUMNS]):
        if mask >> c & 1 and not is_inside(moved(v, state.hyper[q, c, 0])):
            return False
    return True


@inner
def move_distances(rng: Any, state: State, q: int, mask: int, time: int, k: float) -> None:
    """Walk the distance of every level from the first, one after the other."""
    i, f = state.ints, state.floats
    last = i[at.N_INTERVALS] - 1
    for c in range(i[at.N_COLUMNS]):
        if not is_first_of_level(state, mask, time, c) or is_reference(state, mask, time, c):
            continue
        old = state.hyper[q, c, 0]
        _, sd = distance_law(state, q, mask, time, c, k)
        new = old + TREND_STEP * sd * rng.standard_normal()
        threshold = np.log(rng.random())
        before = direct_part(state, q)
        write_distance(state, q, mask, time, c, new)
        slope_sd = tables.constant(i, f, at.SLOPE_SD)
        log_ratio = log_normal(new, 0.0, slope_sd) - log_normal(old, 0.0, slope_sd)
        accepted = are_inside(state, q, mask)
        if accepted:
            gain = total_gain(state, q, direct_part(state, q) - before, 0, last)
            accepted = threshold < k * gain + log_ratio
            if accepted:
                keep_gain(state, gain, last)
        if not accepted:
            write_distance(state, q, mask, time, c, old)


@inner
def write_distance(state: State, q: int, mask: int, time: int, c: int, distance: float) -> None:
    """Write a distance and the values that follow from it."""
    put_distance(state, q, mask, time, c, distance)
    for block in range(tables.n_blocks(state.ints, time)):
        put(state, q, mask, time, block, value_of(state, q, mask, time, block))


@inner
def move_hyper(rng: Any, state: State, q: int, mask: int, time: int) -> None:
    """Walk mean and deviation of year effects given the years: no bird is asked."""
    i, f = state.ints, state.floats
    first, n = first_column(mask), 0
    for block in range(tables.n_blocks(i, time)):
        if tables.block_exists(i, q, mask, time, block):
            n += 1
    scale = tables.constant(i, f, at.SIGMA_SCALE)
    for which in range(2):
        mu, log_sigma = state.hyper[q, first, 0], state.hyper[q, first, 1]
        new_mu, new_log_sigma = mu, log_sigma
        if which == 0:
            new_mu += 2.4 * np.exp(log_sigma) / np.sqrt(n) * rng.standard_normal()
        else:
            new_log_sigma += SIGMA_STEP * rng.standard_normal()
        log_ratio = log_logistic(new_mu, 0.0, 1.0) - log_logistic(mu, 0.0, 1.0)
        log_ratio += log_normal(np.exp(new_log_sigma), 0.0, scale) + new_log_sigma
        log_ratio -= log_normal(np.exp(log_sigma), 0.0, scale) + log_sigma
        for block in range(tables.n_blocks(i, time)):
            if tables.block_exists(i, q, mask, time, block):
                x = logit(value_of(state, q, mask, time, block))
                log_ratio += log_normal(x, new_mu, np.exp(new_log_sigma)) - log_normal(x, mu, np.exp(log_sigma))
        if np.log(rng.random()) < log_ratio:
            put_hyper(state, q, mask, new_mu, new_log_sigma)
