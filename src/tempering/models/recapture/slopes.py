"""Slopes of individual covariates: they walk, and come in or go out by reversible jump.

A slope that comes in is drawn from a normal law around the mode of its likelihood, which becomes the prior as k goes to
0; on the scale of the slope that is a Jacobian of 1.
"""

from typing import Any

import numpy as np

from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import compiled, inner
from tempering.models.recapture.laws import WIDER, log_normal
from tempering.models.recapture.layout import State
from tempering.models.recapture.likelihood import keep_gain, refresh, total_gain
from tempering.models.recapture.tables import constant, is_present, may_slope, slope_law

STEP = 2.4  # normal step, in deviations of the fitted law: the optimum of a random walk in one dimension
DIFFERENCE = 1e-2
NEWTON_STEPS = 12
LARGEST = 5.0


@inner
def law_at(state: State, q: int, m: int, k: float) -> tuple[float, float]:
    """Return mean and deviation of the normal law that a slope is drawn from at a temperature."""
    i, f = state.ints, state.floats
    precision = k * slope_law(i, f, q, m, 1)
    total = precision + 1.0 / constant(i, f, at.SLOPE_SD) ** 2
    return precision * slope_law(i, f, q, m, 0) / total, WIDER / np.sqrt(total)


@inner
def move_slopes(rng: Any, state: State, k: float) -> None:
    """Walk every slope that is in, and try to take each in or out."""
    i = state.ints
    for q in range(at.N_PARAMETERS):
        for m in range(i[at.N_INDIVIDUAL]):
            if is_present(i, q) and may_slope(i, q, m):
                if state.slopes[q, m, 0] > 0.0:
                    walk(rng, state, q, m, k)
                toggle(rng, state, q, m, k)


@inner
def walk(rng: Any, state: State, q: int, m: int, k: float) -> None:
    """Walk one slope at random."""
    old = state.slopes[q, m, 1]
    _, sd = law_at(state, q, m, k)
    new = old + STEP * sd * rng.standard_normal()
    slope_sd = constant(state.ints, state.floats, at.SLOPE_SD)
    log_ratio = log_normal(new, 0.0, slope_sd) - log_normal(old, 0.0, slope_sd)
    decide(rng, state, q, m, k, 1.0, new, log_ratio)


@inner
def toggle(rng: Any, state: State, q: int, m: int, k: float) -> None:
    """Take a slope in or out; both models have the same prior probability."""
    mean, sd = law_at(state, q, m, k)
    slope_sd = constant(state.ints, state.floats, at.SLOPE_SD)
    log_jacobian = constant(state.ints, state.floats, at.SLOPE_JACOBIAN)
    if state.slopes[q, m, 0] > 0.0:
        b = state.slopes[q, m, 1]
        log_ratio = log_normal(b, mean, sd) - log_normal(b, 0.0, slope_sd) - log_jacobian
        decide(rng, state, q, m, k, 0.0, 0.0, log_ratio)
    else:
        b = mean + sd * rng.standard_normal()
        log_ratio = log_normal(b, 0.0, slope_sd) - log_normal(b, mean, sd) + log_jacobian
        decide(rng, state, q, m, k, 1.0, b, log_ratio)


@inner
def decide(rng: Any, state: State, q: int, m: int, k: float, is_in: float, b: float, log_ratio: float) -> None:
    """Accept a slope with the ratio's probability."""
    was_in, old = state.slopes[q, m, 0], state.slopes[q, m, 1]
    threshold = np.log(rng.random())
    state.slopes[q, m, 0], state.slopes[q, m, 1] = is_in, b
    gain = total_gain(state, q, 0.0, 0, state.ints[at.N_INTERVALS] - 1)
    if threshold < k * gain + log_ratio:
        keep_gain(state, gain, state.ints[at.N_INTERVALS] - 1)
    else:
        state.slopes[q, m, 0], state.slopes[q, m, 1] = was_in, old


@inner
def draw_slopes(rng: Any, state: State) -> None:
    """Draw which slopes are in, and their values, from the prior."""
    i = state.ints
    for q in range(at.N_PARAMETERS):
        for m in range(i[at.N_INDIVIDUAL]):
            state.slopes[q, m, 0], state.slopes[q, m, 1] = 0.0, 0.0
            if is_present(i, q) and may_slope(i, q, m) and rng.random() < 0.5:
                state.slopes[q, m, 0] = 1.0
                state.slopes[q, m, 1] = constant(i, state.floats, at.SLOPE_SD) * rng.standard_normal()


@compiled
def fit_slopes(state: State, out: Any) -> None:
    """Write mode and precision of every slope (Q, M, 2), the values as they stand and the other slopes out."""
    i = state.ints
    state.slopes[:] = 0.0
    for q in range(at.N_PARAMETERS):
        for m in range(i[at.N_INDIVIDUAL]):
            if is_present(i, q) and may_slope(i, q, m):
                b, curvature = 0.0, 0.0
                for _ in range(NEWTON_STEPS):
                    here = _along(state, q, m, b)
                    up, down = _along(state, q, m, b + DIFFERENCE), _along(state, q, m, b - DIFFERENCE)
                    curvature = max(-(up - 2 * here + down) / DIFFERENCE**2, 0.05)
                    change = min(max((up - down) / (2 * DIFFERENCE) / curvature, -1.0), 1.0)
                    b = min(max(b + change, -LARGEST), LARGEST)
                    if abs(change) < 1e-4:
                        break
                out[q, m, 0], out[q, m, 1] = b, curvature
                state.slopes[q, m, 0], state.slopes[q, m, 1] = 0.0, 0.0


@inner
def _along(state: State, q: int, m: int, b: float) -> Any:
    state.slopes[q, m, 0], state.slopes[q, m, 1] = 1.0, b
    return refresh(state)
