"""One iteration at a fixed inverse temperature: every free value once, then a jump for each parameter."""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture import tables
from tempering.models.recapture.cells import (
    CLOSEST,
    from_logit,
    is_first_of_level,
    is_reference,
    logit,
    put,
    put_distance,
    put_hyper,
    put_trend,
)
from tempering.models.recapture.compiled import compiled, inner
from tempering.models.recapture.jumps import draw_afresh, jump
from tempering.models.recapture.laws import has_fitted_base, log_base_over_prior
from tempering.models.recapture.layout import FIDELITY, PARALLEL, RANDOM, TREND, State
from tempering.models.recapture.likelihood import refresh
from tempering.models.recapture.slopes import draw_slopes, move_slopes
from tempering.models.recapture.sweep import sweep


@inner
def move(rng: Any, state: State, k: float) -> None:
    """Move once, leaving base^(1 - k) (prior x likelihood)^k invariant; at k = 0 draw from the base afresh."""
    if k == 0.0:
        redraw(rng, state)
        return
    sweep(rng, state, k)
    if state.ints[at.N_INDIVIDUAL] > 0:
        move_slopes(rng, state, k)
    for q in range(at.N_PARAMETERS):
        if tables.jumps(state.ints, q):
            for _ in range(state.ints[at.N_JUMPS]):
                jump(rng, state, q, k)
        if tables.is_present(state.ints, q):
            draw_afresh(rng, state, q, k)


@compiled
def step(rng: Any, state: State, k: float) -> State:
    """Move once and return the state, changed in place."""
    move(rng, state, k)
    return state


def advance(rng: Any, state: State, k: float, n: int) -> None:
    """Move ``n`` times; from Python, so that all the moves are not compiled a second time."""
    for _ in range(n):
        step(rng, state, k)


@compiled
def energy(state: State) -> Any:
    """Return the log of prior x likelihood over the base: where that is the prior, the log likelihood."""
    i, total = state.ints, state.energy[0]
    if tables.constant(i, state.floats, at.BASE_POWER) > 0.0:
        for q in range(at.N_PARAMETERS):
            for c in range(i[at.N_COLUMNS]):
                if tables.is_present(i, q) and tables.youngest(i, state.structure[q, 0], c) == c:
                    mask = tables.mask_of(i, state.structure[q, 0], c)
                    total -= log_base_over_prior(state, q, mask, state.structure[q, 1 + c])
    return total


@compiled
def record_models(state: State) -> Any:
    """Return the codes of the structures: partition, then the time structure of each column as digits; and slopes."""
    i = state.ints
    n_individual = i[at.N_INDIVIDUAL]
    codes = np.empty(at.N_PARAMETERS * (1 + 2 * n_individual))
    for q in range(at.N_PARAMETERS):
        for m in range(n_individual):
            for part in range(2):
                codes[at.N_PARAMETERS + 2 * (q * n_individual + m) + part] = state.slopes[q, m, part]
    for q in range(at.N_PARAMETERS):
        code = state.structure[q, 0]
        for c in range(i[at.N_COLUMNS] - 1, -1, -1):
            code = code * i[at.N_TIMES] + state.structure[q, 1 + c]
        codes[q] = code
    return codes


@compiled
def n_recorded(i: Any) -> Any:
    """Return how many parameters are recorded: all up to the last that is in the study."""
    n = at.LAMBDA + 1
    for q in range(n, at.N_PARAMETERS):
        if tables.is_present(i, q):
            n = q + 1
    return n


@compiled
def record_all(state: State) -> Any:
    """Return the codes, the values of all cells, and the coefficients where a time structure has any."""
    i = state.ints
    codes = record_models(state)
    n_parameters = n_recorded(i)
    n_coefficients = 2 if i[at.N_TIMES] > 2 else 0
    n_intervals, n_columns = i[at.N_INTERVALS], i[at.N_COLUMNS]
    out = np.empty(codes.size + n_parameters * n_columns * (n_intervals + n_coefficients))
    n = 0
    for code in codes:
        out[n] = code
        n += 1
    for q in range(n_parameters):
        for t in range(n_intervals):
            for c in range(n_columns):
                out[n] = state.values[q, t, c]
                n += 1
    for q in range(n_parameters):
        for c in range(n_columns):
            for which in range(n_coefficients):
                out[n] = state.hyper[q, c, which]
                n += 1
    return out


@inner
def redraw(rng: Any, state: State) -> None:
    """Draw a model and its values from the base."""
    i = state.ints
    for q in range(at.N_PARAMETERS):
        draw_structure(rng, state, q)
        partition = state.structure[q, 0]
        for c in range(i[at.N_COLUMNS]):
            if tables.youngest(i, partition, c) == c:
                draw_set(rng, state, q, tables.mask_of(i, partition, c), state.structure[q, 1 + c])
        hold(state, q)
    draw_slopes(rng, state)
    refresh(state)


@inner
def draw_structure(rng: Any, state: State, q: int) -> None:
    """Draw a partition and the time structure of each of its sets."""
    i, f = state.ints, state.floats
    u, partition = rng.random(), 0
    while partition < i[at.N_PARTITIONS] - 1 and tables.cumulative_prior(i, f, q, partition) <= u:
        partition += 1
    state.structure[q, 0] = partition
    for c in range(i[at.N_COLUMNS]):
        first = tables.youngest(i, partition, c)
        if tables.fixed_time(i, q, c) >= 0:
            state.structure[q, 1 + c] = tables.fixed_time(i, q, c)
        elif first == c:
            mask = tables.mask_of(i, partition, c)
            state.structure[q, 1 + c] = tables.option(i, q, mask, int(rng.random() * tables.n_options(i, q, mask)))
        else:
            state.structure[q, 1 + c] = state.structure[q, 1 + first]


@inner
def draw_set(rng: Any, state: State, q: int, mask: int, time: int) -> None:
    """Draw the values of a set."""
    i, f = state.ints, state.floats
    kind = tables.kind_of(i, time)
    if kind == PARALLEL:
        put_hyper(state, q, mask, 0.0, 0.0)
        for c in range(i[at.N_COLUMNS]):
            if is_first_of_level(state, mask, time, c) and not is_reference(state, mask, time, c):
                put_distance(state, q, mask, time, c, tables.constant(i, f, at.SLOPE_SD) * rng.standard_normal())
    if kind in (TREND, RANDOM):
        mu = logit(rng.random())
        if kind == TREND:
            put_hyper(state, q, mask, mu, tables.constant(i, f, at.SLOPE_SD) * rng.standard_normal())
            put_trend(state, q, mask, time)
            return
        sigma = abs(tables.constant(i, f, at.SIGMA_SCALE) * rng.standard_normal())
        put_hyper(state, q, mask, mu, np.log(sigma))
        for block in range(tables.n_blocks(i, time)):
            v = from_logit(mu + sigma * rng.standard_normal())
            put(state, q, mask, time, block, min(max(v, CLOSEST), 1 - CLOSEST))
        return
    a, b = tables.shape(i, f, q, 0), tables.shape(i, f, q, 1)
    for block in range(tables.n_blocks(i, time)):
        if has_fitted_base(state, time) and rng.random() >= tables.constant(i, f, at.BASE_DOUBT):
            law = tables.law_of(i, q, mask, time, block)
            v = from_logit(tables.base_law(i, f, law, 0) + tables.base_law(i, f, law, 1) * logit(rng.random()))
        else:
            v = rng.random() if a == 1.0 and b == 1.0 else rng.beta(a, b)
        put(state, q, mask, time, block, min(max(v, CLOSEST), 1 - CLOSEST))


@inner
def hold(state: State, q: int) -> None:
    """Write what is not free: nobody leaves where there is no fidelity, nothing is seen where nobody looks."""
    i = state.ints
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if tables.is_held(i, q, t, c):
                state.values[q, t, c] = 1.0 if q == FIDELITY else 0.0
