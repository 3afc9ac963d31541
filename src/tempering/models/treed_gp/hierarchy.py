"""Updates of what all leaves share: beta0, W, and the inverse gammas' parameters (section 8, steps 6 to 8).

They see only the leaves' parameters, never the data, and are the same at every temperature.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf_moves import propose_scaled
from tempering.models.treed_gp.summary import beta_of, centre_of, factor_in_place


@compiled
def draw_beta0(rng: np.random.Generator, state: State) -> None:
    """Draw beta0 given the leaves' coefficients and W."""
    m = state.integer[at.N_MEAN]
    precision = state.shared[at.BETA0 + m :]
    factor, side, pooled = state.small, state.small[m], state.small[m + 1]
    for a in range(m):
        side[a] = 0.0
        pooled[a] = 0.0
    weight = 0.0
    for i in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, i]
        w = 1.0 / (state.leaf[node, at.SIGMA2] * state.leaf[node, at.TAU2])
        weight += w
        beta = beta_of(state, node)
        for a in range(m):
            pooled[a] += w * beta[a]
    for a in range(m):
        for b in range(m):
            factor[a, b] = weight * precision[a * m + b]
            side[a] += precision[a * m + b] * pooled[b]
        factor[a, a] += 1.0 / state.real[at.BETA0_VARIANCE]
    factor_in_place(factor, m)
    for a in range(m):
        for b in range(a):
            side[a] -= factor[a, b] * side[b]
        side[a] /= factor[a, a]
    for a in range(m - 1, -1, -1):
        total = side[a] + rng.standard_normal()
        for b in range(a + 1, m):
            total -= factor[b, a] * state.shared[at.BETA0 + b]
        state.shared[at.BETA0 + a] = total / factor[a, a]


@compiled
def samples_precision(state: State) -> bool:
    """Say whether W is sampled: around beta0, or around each leaf's least squares."""
    return bool(state.integer[at.SAMPLE_BETA0] != 0 or state.integer[at.COEFFICIENTS] == at.AROUND_LEAST_SQUARES)


@compiled
def draw_wishart(rng: np.random.Generator, state: State, inverse_scale: Array, dof: float) -> None:
    """Draw W^{-1} ~ Wishart(inverse_scale^{-1}, dof) by Bartlett's decomposition.

    With inverse_scale = C C', W^{-1} = (C^{-T} A)(C^{-T} A)', A lower triangular of chi and normal variates.
    """
    m = state.integer[at.N_MEAN]
    factor_in_place(inverse_scale, m)
    bartlett = state.small[m + 4 :]
    for a in range(m):
        for b in range(m):
            bartlett[a, b] = 0.0
    log_det = 0.0
    for a in range(m):
        bartlett[a, a] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (dof - a)))
        log_det += 2.0 * (math.log(bartlett[a, a]) - math.log(inverse_scale[a, a]))
        for b in range(a):
            bartlett[a, b] = rng.standard_normal()
    for column in range(m):
        for a in range(m - 1, -1, -1):
            for b in range(a + 1, m):
                bartlett[a, column] -= inverse_scale[b, a] * bartlett[b, column]
            bartlett[a, column] /= inverse_scale[a, a]
    for a in range(m):
        for b in range(m):
            total = 0.0
            for column in range(m):
                total += bartlett[a, column] * bartlett[b, column]
            state.shared[at.BETA0 + m + a * m + b] = total
    state.shared[at.LOG_DET_PRECISION] = log_det


@compiled
def start_inverse_scale(state: State, out: Array) -> None:
    """Fill dof times the scale of W's prior."""
    m = state.integer[at.N_MEAN]
    for a in range(m):
        for b in range(m):
            out[a, b] = 0.0
        out[a, a] = state.real[at.WISHART_DOF] * state.real[at.WISHART_SCALE]


@compiled
def draw_precision(rng: np.random.Generator, state: State) -> None:
    """Draw W^{-1} given the leaves' coefficients and beta0."""
    m = state.integer[at.N_MEAN]
    inverse_scale = state.small
    start_inverse_scale(state, inverse_scale)
    for i in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, i]
        w = 1.0 / (state.leaf[node, at.SIGMA2] * state.leaf[node, at.TAU2])
        beta, centre = beta_of(state, node), centre_of(state, node)
        for a in range(m):
            for b in range(m):
                inverse_scale[a, b] += w * (beta[a] - centre[a]) * (beta[b] - centre[b])
    draw_wishart(rng, state, inverse_scale, state.real[at.WISHART_DOF] + state.meta[at.N_LEAVES])


@compiled
def log_inverse_gammas(state: State, column: int, a: float, q: float) -> float:
    """Return the summed log density IG(a / 2, q / 2) of the leaves' sigma^2 or tau^2."""
    total = 0.0
    constant = 0.5 * a * math.log(0.5 * q) - math.lgamma(0.5 * a)
    for i in range(state.meta[at.N_LEAVES]):
        value = state.leaf[state.lists[0, i], column]
        total += constant - (0.5 * a + 1.0) * math.log(value) - 0.5 * q / value
    return total


@compiled
def update_inverse_gamma(
    rng: np.random.Generator, state: State, column: int, a_at: int, q_at: int, rate_a: float, rate_q: float
) -> None:
    """Move a (above 2) of one inverse gamma, and draw q given it; a rate of 0 keeps a value fixed.

    Given the leaves' values q is a gamma. In steps of the window it would take thousands of rounds from q of leaves
    with a signal to q of leaves with hardly any noise, and tree moves wait for it.
    """
    a, q = state.shared[a_at], state.shared[q_at]
    here = log_inverse_gammas(state, column, a, q)
    if rate_a > 0.0:
        new = 2.0 + propose_scaled(rng, state, a - 2.0)
        there = log_inverse_gammas(state, column, new, q)
        log_ratio = there - here - rate_a * (new - a) + math.log((a - 2.0) / (new - 2.0))
        if math.log(rng.random()) < log_ratio:
            a = new
    if rate_q > 0.0:
        rate = rate_q
        for i in range(state.meta[at.N_LEAVES]):
            rate += 0.5 / state.leaf[state.lists[0, i], column]
        new = rng.standard_gamma(1.0 + 0.5 * a * state.meta[at.N_LEAVES]) / rate
        if new >= at.Q_FLOOR:  # where the prior ends, Metropolis' rule says no
            q = new
    state.shared[a_at] = a
    state.shared[q_at] = q


@compiled
def update_shared(rng: np.random.Generator, state: State) -> None:
    """Run steps 6 to 8."""
    real = state.real
    if state.integer[at.SAMPLE_BETA0] != 0:
        draw_beta0(rng, state)
    if samples_precision(state):
        draw_precision(rng, state)
    if state.integer[at.SAMPLE_TAU2] != 0:
        update_inverse_gamma(rng, state, at.TAU2, at.A_TAU, at.Q_TAU, real[at.RATE_A_TAU], real[at.RATE_Q_TAU])
    update_inverse_gamma(rng, state, at.SIGMA2, at.A_SIGMA, at.Q_SIGMA, real[at.RATE_A_SIGMA], real[at.RATE_Q_SIGMA])


@compiled
def log_prior_of_shared(state: State) -> float:
    """Return the log prior density of the hyper-parameters that are sampled, up to a constant."""
    shared, real, m = state.shared, state.real, state.integer[at.N_MEAN]
    total = -real[at.RATE_A_SIGMA] * shared[at.A_SIGMA] - real[at.RATE_Q_SIGMA] * shared[at.Q_SIGMA]
    if state.integer[at.SAMPLE_TAU2] != 0:
        total -= real[at.RATE_A_TAU] * shared[at.A_TAU] + real[at.RATE_Q_TAU] * shared[at.Q_TAU]
    if state.integer[at.SAMPLE_BETA0] != 0:
        for a in range(m):
            total -= 0.5 * shared[at.BETA0 + a] ** 2 / real[at.BETA0_VARIANCE]
    if samples_precision(state):
        total += 0.5 * (real[at.WISHART_DOF] - m - 1.0) * shared[at.LOG_DET_PRECISION]
        for a in range(m):
            total -= 0.5 * real[at.WISHART_DOF] * real[at.WISHART_SCALE] * shared[at.BETA0 + m + a * m + a]
    return float(total)
