"""Exact draws of a model and its values from the base at k = 0: the prior, or laws fitted to the data."""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture.cells import (
    from_logit,
    is_first_of_level,
    is_reference,
    logit,
    put,
    put_distance,
    put_hyper,
    put_trend,
)
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.laws import has_fitted_base
from tempering.models.recapture.layout import FIDELITY, PARALLEL, RANDOM, TREND, State
from tempering.models.recapture.likelihood import refresh
from tempering.models.recapture.slopes import draw_slopes
from tempering.models.recapture.tables import (
    base_law,
    constant,
    cumulative_prior,
    fixed_time,
    is_held,
    kind_of,
    law_of,
    mask_of,
    n_blocks,
    n_options,
    option,
    shape,
    youngest,
)

CLOSEST = 1e-12


@inner
def redraw(rng: Any, state: State) -> None:
    """Draw a model and its values from the base."""
    i = state.ints
    for q in range(at.N_PARAMETERS):
        draw_structure(rng, state, q)
        partition = state.structure[q, 0]
        for c in range(i[at.N_COLUMNS]):
            if youngest(i, partition, c) == c:
                draw_set(rng, state, q, mask_of(i, partition, c), state.structure[q, 1 + c])
        hold(state, q)
    draw_slopes(rng, state)
    refresh(state)


@inner
def draw_structure(rng: Any, state: State, q: int) -> None:
    """Draw a partition and the time structure of each of its sets."""
    i, f = state.ints, state.floats
    u, partition = rng.random(), 0
    while partition < i[at.N_PARTITIONS] - 1 and cumulative_prior(i, f, q, partition) <= u:
        partition += 1
    state.structure[q, 0] = partition
    for c in range(i[at.N_COLUMNS]):
        first = youngest(i, partition, c)
        if fixed_time(i, q, c) >= 0:
            state.structure[q, 1 + c] = fixed_time(i, q, c)
        elif first == c:
            mask = mask_of(i, partition, c)
            state.structure[q, 1 + c] = option(i, q, mask, int(rng.random() * n_options(i, q, mask)))
        else:
            state.structure[q, 1 + c] = state.structure[q, 1 + first]


@inner
def draw_set(rng: Any, state: State, q: int, mask: int, time: int) -> None:
    """Draw the values of a set."""
    i, f = state.ints, state.floats
    kind = kind_of(i, time)
    if kind == PARALLEL:
        put_hyper(state, q, mask, 0.0, 0.0)
        for c in range(i[at.N_COLUMNS]):
            if is_first_of_level(state, mask, time, c) and not is_reference(state, mask, time, c):
                put_distance(state, q, mask, time, c, constant(i, f, at.SLOPE_SD) * rng.standard_normal())
    if kind in (TREND, RANDOM):
        mu = logit(rng.random())
        if kind == TREND:
            put_hyper(state, q, mask, mu, constant(i, f, at.SLOPE_SD) * rng.standard_normal())
            put_trend(state, q, mask, time)
            return
        sigma = abs(constant(i, f, at.SIGMA_SCALE) * rng.standard_normal())
        put_hyper(state, q, mask, mu, np.log(sigma))
        for block in range(n_blocks(i, time)):
            v = from_logit(mu + sigma * rng.standard_normal())
            put(state, q, mask, time, block, min(max(v, CLOSEST), 1 - CLOSEST))
        return
    a, b = shape(i, f, q, 0), shape(i, f, q, 1)
    for block in range(n_blocks(i, time)):
        if has_fitted_base(state, time) and rng.random() >= constant(i, f, at.BASE_DOUBT):
            law = law_of(i, q, mask, time, block)
            v = from_logit(base_law(i, f, law, 0) + base_law(i, f, law, 1) * logit(rng.random()))
        else:
            v = rng.random() if a == 1.0 and b == 1.0 else rng.beta(a, b)
        put(state, q, mask, time, block, min(max(v, CLOSEST), 1 - CLOSEST))


@inner
def hold(state: State, q: int) -> None:
    """Write what is not free: nobody leaves where there is no fidelity, nothing is seen where nobody looks."""
    i = state.ints
    for t in range(i[at.N_INTERVALS]):
        for c in range(i[at.N_COLUMNS]):
            if is_held(i, q, t, c):
                state.values[q, t, c] = 1.0 if q == FIDELITY else 0.0
