"""One leaf: its integrated likelihood at any inverse temperature, and draws of what was integrated out.

Section 5 of the specification. All that a leaf's data say about (beta, sigma^2) is in its summary, which does not
depend on k. So one Cholesky factor serves every temperature.
"""

import math

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import compiled
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.summary import (
    beta_of,
    centre_of,
    factor_in_place,
    gram_of,
    shift_of,
    used_of,
)

_LOG_2PI = math.log(2 * math.pi)
_TINY, _HUGE = 1e-150, 1e150  # beyond, a product of pivots is turned into its logarithm


@compiled
def posterior_of_beta(state: State, node: int, k: float) -> float:
    """Leave V_k^{-1} = R R' and R^{-1} times the right-hand side in the work space; return lambda_k.

    Rows 0 to m - 1 of ``small`` hold R, row m holds R^{-1} (k F'K^{-1}Z + W^{-1} beta0 / tau^2); section 5. Z, beta and
    beta0 are here less the leaf's plane; what that has of coefficients that are not used is given back to Z.
    """
    m = state.integer[at.N_MEAN]
    gram, centre, shift = gram_of(state, node), centre_of(state, node), shift_of(state, node)
    factor, side, used = state.small, state.small[m], used_of(state, node)
    precision = state.shared[at.BETA0 + m :]
    tau2 = state.leaf[node, at.TAU2]
    prior, squares = 0.0, gram[m * (m + 1) + m]
    for a in range(m):
        pull = 0.0
        for b in range(m):
            pull += precision[a * m + b] * (centre[b] - shift[b])
        prior += pull * (centre[a] - shift[a])
        left = gram[m * (m + 1) + a]
        for b in range(m):
            if used[b] == 0.0:
                left += shift[b] * gram[max(a, b) * (m + 1) + min(a, b)]
        if used[a] == 0.0:
            squares += shift[a] * (left + gram[m * (m + 1) + a])
        side[a] = k * used[a] * left + pull / tau2
        for b in range(a + 1):
            factor[a, b] = k * used[a] * used[b] * gram[a * (m + 1) + b] + precision[a * m + b] / tau2
    factor_in_place(factor, m)
    total = k * squares + prior / tau2
    for a in range(m):
        for b in range(a):
            side[a] -= factor[a, b] * side[b]
        side[a] /= factor[a, a]
        total -= side[a] * side[a]
    return float(total)


@compiled
def shape_of_sigma2(state: State, node: int, k: float) -> float:
    """Return the shape of sigma^2's inverse gamma at k; flat coefficients take m degrees of freedom with them."""
    taken = state.integer[at.N_MEAN] if state.integer[at.COEFFICIENTS] == at.FLAT else 0
    return float(0.5 * (state.shared[at.A_SIGMA] + k * state.leaf[node, at.N_ROWS] - taken))


@compiled
def _misfit_of_classes(state: State, node: int, k: float, lam: float) -> float:
    """Return the part of -log m_k that is sigma^2's in a leaf of classes, where it is known: 1 / g."""
    n = state.tree[node, at.END] - state.tree[node, at.START]
    return float(0.5 * (max(lam, 0.0) * state.leaf[node, at.NUGGET] - k * n * math.log(state.leaf[node, at.NUGGET])))


@compiled
def log_fit(state: State, node: int, k: float) -> float:
    """Return the part of log m_k that ranges, Booleans and nugget change; minus infinity for no likelihood."""
    log_det = state.leaf[node, at.LOG_DET]
    if not log_det < math.inf:
        return -math.inf
    q, lam = state.shared[at.Q_SIGMA], posterior_of_beta(state, node, k)
    if not lam > -q:
        return -math.inf
    log_pivots, product = 0.0, 1.0
    for i in range(state.integer[at.N_MEAN]):
        product *= state.small[i, i]
        if not _TINY < product < _HUGE:
            log_pivots += math.log(product)
            product = 1.0
    if state.integer[at.RESPONSE] == at.CLASSES:
        fit = _misfit_of_classes(state, node, k, lam)
    else:
        fit = shape_of_sigma2(state, node, k) * math.log(0.5 * (q + max(lam, 0.0)))
    return float(-log_pivots - math.log(product) - 0.5 * k * log_det - fit)


@compiled
def log_prior_of_sigma2(state: State) -> float:
    """Return the log of the constant of the inverse gamma of sigma^2; classes have none."""
    if state.integer[at.RESPONSE] == at.CLASSES:
        return 0.0
    a, q = state.shared[at.A_SIGMA], state.shared[at.Q_SIGMA]
    return float(0.5 * a * math.log(0.5 * q) - math.lgamma(0.5 * a))


@compiled
def log_marginal_without_prior(state: State, node: int, k: float) -> float:
    """Return log m_k but for the constant of sigma^2's prior, which all leaves share."""
    total = log_fit(state, node, k) - 0.5 * k * state.leaf[node, at.N_ROWS] * _LOG_2PI
    if state.integer[at.RESPONSE] == at.MEASURED:
        total += math.lgamma(shape_of_sigma2(state, node, k))
    if state.integer[at.COEFFICIENTS] == at.FLAT:
        return float(total)
    log_prior = state.shared[at.LOG_DET_PRECISION] - state.integer[at.N_MEAN] * math.log(state.leaf[node, at.TAU2])
    return float(total + 0.5 * log_prior)


@compiled
def log_marginal(state: State, node: int, k: float) -> float:
    """Return log m_k of a leaf, beta and sigma^2 integrated out of prior times likelihood^k: (5.1)."""
    return log_marginal_without_prior(state, node, k) + log_prior_of_sigma2(state)


@compiled
def draw_sigma2_beta(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Draw sigma^2 with beta integrated out (5.2), then beta (5.3); sigma^2 of classes is known."""
    m = state.integer[at.N_MEAN]
    lam = posterior_of_beta(state, node, k)
    if state.integer[at.RESPONSE] == at.CLASSES:
        sigma2 = 1.0 / state.leaf[node, at.NUGGET]
    else:
        shape = shape_of_sigma2(state, node, k)
        sigma2 = 0.5 * (state.shared[at.Q_SIGMA] + max(lam, 0.0)) / rng.standard_gamma(shape)
    state.leaf[node, at.SIGMA2] = sigma2
    sigma = math.sqrt(sigma2)
    factor, side = state.small, state.small[m]
    beta = beta_of(state, node)
    for a in range(m - 1, -1, -1):
        total = side[a] + sigma * rng.standard_normal()
        for b in range(a + 1, m):
            total -= factor[b, a] * beta[b]
        beta[a] = total / factor[a, a]
    shift = shift_of(state, node)
    for a in range(m):
        beta[a] += shift[a]


@compiled
def log_likelihood(state: State, node: int) -> float:
    """Return the log likelihood of a leaf at its drawn beta and sigma^2: (5.4)."""
    m = state.integer[at.N_MEAN]
    gram = gram_of(state, node)
    beta, shift, used = beta_of(state, node), shift_of(state, node), used_of(state, node)
    squares = gram[m * (m + 1) + m]
    for a in range(m):
        here = used[a] * beta[a] - shift[a]
        squares -= 2.0 * here * gram[m * (m + 1) + a]
        for b in range(a + 1):
            factor = 1.0 if a == b else 2.0
            squares += factor * here * (used[b] * beta[b] - shift[b]) * gram[a * (m + 1) + b]
    sigma2 = state.leaf[node, at.SIGMA2]
    n = state.leaf[node, at.N_ROWS]
    return float(-0.5 * (n * (_LOG_2PI + math.log(sigma2)) + state.leaf[node, at.LOG_DET] + squares / sigma2))
