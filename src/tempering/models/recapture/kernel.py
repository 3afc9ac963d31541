"""One iteration at a fixed inverse temperature: every free value once, then a jump for each parameter."""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import compiled, inner
from tempering.models.recapture.jumps import draw_afresh, jump
from tempering.models.recapture.laws import log_base_over_prior
from tempering.models.recapture.layout import State
from tempering.models.recapture.prior_draws import redraw
from tempering.models.recapture.slopes import move_slopes
from tempering.models.recapture.sweep import sweep
from tempering.models.recapture.tables import constant, is_present, jumps, mask_of, youngest

Array = Any


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
        if jumps(state.ints, q):
            for _ in range(state.ints[at.N_JUMPS]):
                jump(rng, state, q, k)
        if is_present(state.ints, q):
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
    if constant(i, state.floats, at.BASE_POWER) > 0.0:
        for q in range(at.N_PARAMETERS):
            for c in range(i[at.N_COLUMNS]):
                if is_present(i, q) and youngest(i, state.structure[q, 0], c) == c:
                    mask = mask_of(i, state.structure[q, 0], c)
                    total -= log_base_over_prior(state, q, mask, state.structure[q, 1 + c])
    return total


@compiled
def record_models(state: State) -> Array:
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
def n_recorded(i: Array) -> Any:
    """Return how many parameters are recorded: all up to the last that is in the study."""
    n = at.LAMBDA + 1
    for q in range(n, at.N_PARAMETERS):
        if is_present(i, q):
            n = q + 1
    return n


@compiled
def record_all(state: State) -> Array:
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
