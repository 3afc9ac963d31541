"""One leaf: its integrated likelihood at any inverse temperature, and draws of what was integrated out.

Section 5 of the specification. All that a leaf's data say about (beta, sigma^2) is the Gram matrix of
L^{-1} [F, Z], where K = L L'; it does not depend on k. So one Cholesky factor serves every temperature.

Replicated inputs are collapsed exactly: r responses at one input count as their mean with nugget g / r, and
the sum of squares about the mean enters on its own.
"""

import math

import numpy as np

from tempering.models.treed_gp.compiled import Array, compiled, inlined
from tempering.models.treed_gp.correlation import fill_lower, inverse_scales
from tempering.models.treed_gp.lapack import cholesky, solve_lower
from tempering.models.treed_gp.layout import (
    A_SIGMA,
    BETA0,
    CORRELATION,
    END,
    LINEAR,
    LOG_DET,
    LOG_DET_PRECISION,
    N_BASE,
    N_MEAN,
    N_RANGES,
    N_ROWS,
    NEVER_LINEAR,
    NUGGET,
    Q_SIGMA,
    RANGES,
    SIGMA2,
    START,
    TAU2,
    State,
)

_LOG_2PI = math.log(2 * math.pi)


@inlined
def ranges_of(state: State, node: int) -> Array:
    """Return the ranges d of a leaf, a view."""
    return state.leaf[node, RANGES : RANGES + state.integer[N_RANGES]]


@inlined
def active_of(state: State, node: int) -> Array:
    """Return the Booleans b of a leaf, a view."""
    first = RANGES + state.integer[N_RANGES]
    return state.leaf[node, first : first + state.integer[N_RANGES]]


@inlined
def beta_of(state: State, node: int) -> Array:
    """Return the coefficients of a leaf, a view."""
    first = RANGES + 2 * state.integer[N_RANGES]
    return state.leaf[node, first : first + state.integer[N_MEAN]]


@inlined
def gram_of(state: State, node: int) -> Array:
    """Return the flat Gram matrix of a leaf, a view."""
    m = state.integer[N_MEAN]
    first = RANGES + 2 * state.integer[N_RANGES] + m
    return state.leaf[node, first : first + (m + 1) * (m + 1)]


@compiled
def is_linear(state: State, node: int) -> bool:
    """Say whether every dimension of the leaf is switched off: K = (1 + g) I."""
    if state.integer[LINEAR] == NEVER_LINEAR:
        return False
    return bool(np.all(active_of(state, node) == 0.0))


@compiled
def _gather(state: State, node: int) -> int:
    """Copy the leaf's inputs, and its regressors and mean responses as rows, into the panel."""
    first = state.tree[node, START]
    n = state.tree[node, END] - first
    n_base, m = state.integer[N_BASE], state.integer[N_MEAN]
    inputs = state.panel[: n_base * n].reshape(n_base, n)
    sides = state.panel[n_base * n : (n_base + m + 1) * n].reshape(m + 1, n)
    for i in range(n):
        row = state.order[first + i]
        for j in range(n_base):
            inputs[j, i] = state.x[row, j]
        sides[0, i] = 1.0
        for j in range(1, m):
            sides[j, i] = state.x[row, j - 1]
        sides[m, i] = state.y[row, 1]
    return int(n)


@compiled
def _summarise_linear(state: State, node: int, n: int) -> None:
    """Fill the Gram matrix of a leaf with K = (1 + g) I."""
    first = state.tree[node, START]
    n_base, m = state.integer[N_BASE], state.integer[N_MEAN]
    sides = state.panel[n_base * n : (n_base + m + 1) * n].reshape(m + 1, n)
    gram = gram_of(state, node)
    gram[:] = 0.0
    precision = 1.0 / (1.0 + state.leaf[node, NUGGET])
    for i in range(n):
        row = state.order[first + i]
        weight = state.y[row, 0] * precision
        for a in range(m + 1):
            for b in range(a + 1):
                gram[a * (m + 1) + b] += weight * sides[a, i] * sides[b, i]
        gram[m * (m + 1) + m] += state.y[row, 2] * precision
    state.leaf[node, LOG_DET] = -state.leaf[node, N_ROWS] * math.log(precision)


@compiled
def factorise(state: State, node: int, n: int) -> bool:
    """Leave the Cholesky factor of K + diag(g / r) in the work space; say whether there is one."""
    first = state.tree[node, START]
    n_base, m = state.integer[N_BASE], state.integer[N_MEAN]
    inputs = state.panel[: n_base * n].reshape(n_base, n)
    matrix = state.square[: n * n].reshape(n, n)
    family = state.integer[CORRELATION]
    scales = state.small[m + 2, :n_base]
    divisor = inverse_scales(ranges_of(state, node), active_of(state, node), family, scales)
    fill_lower(inputs, n, scales, divisor, family, state.small[m + 3], matrix)
    nugget = state.leaf[node, NUGGET]
    for i in range(n):
        matrix[i, i] = 1.0 + nugget / state.y[state.order[first + i], 0]
    return cholesky(matrix, n)


@compiled
def _summarise_process(state: State, node: int, n: int) -> None:
    """Fill the Gram matrix and log determinant of a Gaussian-process leaf."""
    first = state.tree[node, START]
    n_base, m = state.integer[N_BASE], state.integer[N_MEAN]
    if not factorise(state, node, n):
        state.leaf[node, LOG_DET] = math.inf
        return
    matrix = state.square[: n * n].reshape(n, n)
    sides = state.panel[n_base * n : (n_base + m + 1) * n].reshape(m + 1, n)
    nugget = state.leaf[node, NUGGET]
    log_det = 0.0
    squares = 0.0
    for i in range(n):
        row = state.order[first + i]
        replicates = state.y[row, 0]
        log_det += 2.0 * math.log(matrix[i, i])
        if replicates > 1.0:
            log_det += (replicates - 1.0) * math.log(nugget) + math.log(replicates)
            squares += state.y[row, 2] / nugget
    solve_lower(matrix, sides, n, m + 1, False)
    gram = gram_of(state, node)
    for a in range(m + 1):
        for b in range(a + 1):
            gram[a * (m + 1) + b] = np.dot(sides[a], sides[b])
    gram[m * (m + 1) + m] += squares
    state.leaf[node, LOG_DET] = log_det


@compiled
def summarise(state: State, node: int) -> None:
    """Fill what the leaf's data say: the Gram matrix (lower triangle) of L^{-1} [F, Z], and log |K|.

    A matrix without a Cholesky factor is marked by an infinite determinant, which gives likelihood 0.
    """
    n = _gather(state, node)
    rows = 0.0
    first = state.tree[node, START]
    for i in range(n):
        rows += state.y[state.order[first + i], 0]
    state.leaf[node, N_ROWS] = rows
    if is_linear(state, node):
        _summarise_linear(state, node, n)
    else:
        _summarise_process(state, node, n)


@compiled
def factor_in_place(matrix: Array, m: int) -> None:
    """Overwrite the lower triangle of a small matrix by its Cholesky factor."""
    for i in range(m):
        for j in range(i + 1):
            total = matrix[i, j]
            for a in range(j):
                total -= matrix[i, a] * matrix[j, a]
            matrix[i, j] = math.sqrt(total) if i == j else total / matrix[j, j]


@compiled
def posterior_of_beta(state: State, node: int, k: float) -> float:
    """Leave V_k^{-1} = R R' and R^{-1} times the right-hand side in the work space; return lambda_k.

    Rows 0 to m - 1 of ``small`` hold R, row m holds R^{-1} (k F'K^{-1}Z + W^{-1} beta0 / tau^2); section 5.
    """
    m = state.integer[N_MEAN]
    gram = gram_of(state, node)
    factor, side = state.small, state.small[m]
    precision = state.shared[BETA0 + m :]
    tau2 = state.leaf[node, TAU2]
    prior = 0.0
    for a in range(m):
        pull = 0.0
        for b in range(m):
            pull += precision[a * m + b] * state.shared[BETA0 + b]
        prior += pull * state.shared[BETA0 + a]
        side[a] = k * gram[m * (m + 1) + a] + pull / tau2
        for b in range(a + 1):
            factor[a, b] = k * gram[a * (m + 1) + b] + precision[a * m + b] / tau2
    factor_in_place(factor, m)
    squares = 0.0
    for a in range(m):
        for b in range(a):
            side[a] -= factor[a, b] * side[b]
        side[a] /= factor[a, a]
        squares += side[a] * side[a]
    return float(k * gram[m * (m + 1) + m] + prior / tau2 - squares)


@compiled
def log_marginal(state: State, node: int, k: float) -> float:
    """Return log m_k of a leaf, beta and sigma^2 integrated out of prior times likelihood^k: (5.1)."""
    log_det = state.leaf[node, LOG_DET]
    if not log_det < math.inf:
        return -math.inf
    m = state.integer[N_MEAN]
    n = state.leaf[node, N_ROWS]
    a, q = state.shared[A_SIGMA], state.shared[Q_SIGMA]
    lam = posterior_of_beta(state, node, k)
    if not lam > -q:
        return -math.inf
    log_det_v = 0.0
    for i in range(m):
        log_det_v -= 2.0 * math.log(state.small[i, i])
    gaussian = log_det_v - k * n * _LOG_2PI - k * log_det + state.shared[LOG_DET_PRECISION]
    gaussian -= m * math.log(state.leaf[node, TAU2])
    shape = 0.5 * (a + k * n)
    gamma = math.lgamma(shape) - math.lgamma(0.5 * a)
    return float(0.5 * gaussian + 0.5 * a * math.log(0.5 * q) - shape * math.log(0.5 * (q + lam)) + gamma)


@compiled
def draw_sigma2_beta(rng: np.random.Generator, state: State, node: int, k: float) -> None:
    """Draw sigma^2 with beta integrated out (5.2), then beta (5.3)."""
    m = state.integer[N_MEAN]
    lam = posterior_of_beta(state, node, k)
    shape = 0.5 * (state.shared[A_SIGMA] + k * state.leaf[node, N_ROWS])
    sigma2 = 0.5 * (state.shared[Q_SIGMA] + max(lam, 0.0)) / rng.standard_gamma(shape)
    state.leaf[node, SIGMA2] = sigma2
    sigma = math.sqrt(sigma2)
    factor, side = state.small, state.small[m]
    beta = beta_of(state, node)
    for a in range(m - 1, -1, -1):
        total = side[a] + sigma * rng.standard_normal()
        for b in range(a + 1, m):
            total -= factor[b, a] * beta[b]
        beta[a] = total / factor[a, a]


@compiled
def log_likelihood(state: State, node: int) -> float:
    """Return the log likelihood of a leaf at its drawn beta and sigma^2: (5.4)."""
    m = state.integer[N_MEAN]
    gram = gram_of(state, node)
    beta = beta_of(state, node)
    squares = gram[m * (m + 1) + m]
    for a in range(m):
        squares -= 2.0 * beta[a] * gram[m * (m + 1) + a]
        for b in range(a + 1):
            factor = 1.0 if a == b else 2.0
            squares += factor * beta[a] * beta[b] * gram[a * (m + 1) + b]
    sigma2 = state.leaf[node, SIGMA2]
    n = state.leaf[node, N_ROWS]
    return float(-0.5 * (n * (_LOG_2PI + math.log(sigma2)) + state.leaf[node, LOG_DET] + squares / sigma2))
