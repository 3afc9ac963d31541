"""What a leaf's data say: the Gram matrix of L^{-1} [F, Z], where K = L L', and log |K|.

Replicated inputs are collapsed exactly: r responses at one input count as their mean with nugget g / r, and
the sum of squares about the mean enters on its own.

Z is the response less the plane fitted to the leaf by least squares, its shift. Nothing depends on which plane is taken
off, but for rounding: where the data lie on a plane and K is nearly singular, Z'K^{-1}Z of the responses themselves
would be a difference of numbers a thousand times larger than the noise it is to tell.
"""

import math

from numba import types

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, compiled, inlined, sealed
from tempering.models.treed_gp.factor import rows_of, stride_of
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.roots import root
from tempering.models.treed_gp.state_type import STATE
from tempering.models.treed_gp.system import solve_leaf

_RIDGE = 1e-10  # of least squares in a leaf whose columns are collinear


@inlined
def ranges_of(state: State, node: int) -> Array:
    """Return the ranges d of a leaf, a view."""
    return state.leaf[node, at.RANGES : at.RANGES + state.integer[at.N_RANGES]]


@inlined
def active_of(state: State, node: int) -> Array:
    """Return the Booleans b of a leaf, a view."""
    first = at.RANGES + state.integer[at.N_RANGES]
    return state.leaf[node, first : first + state.integer[at.N_RANGES]]


@inlined
def used_of(state: State, node: int) -> Array:
    """Return which coefficients enter the mean of a leaf, 0 or 1 each, a view; the first is the intercept."""
    first = at.RANGES + 2 * state.integer[at.N_RANGES]
    return state.leaf[node, first : first + state.integer[at.N_MEAN]]


@inlined
def beta_of(state: State, node: int) -> Array:
    """Return the coefficients of a leaf, a view; those that are not used have their prior alone."""
    first = at.RANGES + 2 * state.integer[at.N_RANGES] + state.integer[at.N_MEAN]
    return state.leaf[node, first : first + state.integer[at.N_MEAN]]


@inlined
def centre_of(state: State, node: int) -> Array:
    """Return the prior mean of the coefficients of a leaf, a view."""
    if state.integer[at.COEFFICIENTS] == at.AROUND_LEAST_SQUARES:
        first = at.RANGES + 2 * state.integer[at.N_RANGES] + 2 * state.integer[at.N_MEAN]
        out = state.leaf[node, first : first + state.integer[at.N_MEAN]]
    else:
        out = state.shared[at.BETA0 : at.BETA0 + state.integer[at.N_MEAN]]
    return out


@inlined
def gram_of(state: State, node: int) -> Array:
    """Return the flat Gram matrix of a leaf, a view."""
    m = state.integer[at.N_MEAN]
    first = at.RANGES + 2 * state.integer[at.N_RANGES] + 3 * m
    return state.leaf[node, first : first + (m + 1) * (m + 1)]


@inlined
def shift_of(state: State, node: int) -> Array:
    """Return the coefficients of the plane that was taken off the responses of a leaf, a view."""
    m = state.integer[at.N_MEAN]
    first = at.RANGES + 2 * state.integer[at.N_RANGES] + 3 * m + (m + 1) * (m + 1)
    return state.leaf[node, first : first + m]


@compiled
def is_linear(state: State, node: int) -> bool:
    """Say whether every dimension of the leaf is switched off: responses are independent about the plane."""
    if state.integer[at.LINEAR] == at.NEVER_LINEAR:
        return False
    active = active_of(state, node)
    for j in range(active.shape[0]):
        if active[j] != 0.0:
            return False
    return True


@compiled
def noise_of(state: State, node: int) -> float:
    """Return the variance of independent noise in a leaf, over sigma^2: g, and 1 + g where leaves are always linear.

    Classes have no noise of their own, and sigma^2 = 1 / g: what is left of g is the unit of their precisions.

    An input of ever longer range ends as if it were switched off. With all of them K is a matrix of ones, which the
    intercept takes, and g I: sigma^2 is the variance of the signal, linear or not, and switches leave it as it is.
    """
    own = state.integer[at.LINEAR] == at.ALWAYS_LINEAR and state.integer[at.RESPONSE] == at.MEASURED
    return float(state.leaf[node, at.NUGGET] + (1.0 if own else 0.0))


@compiled
def _regressors_into(state: State, row: int, out: Array) -> None:
    """Write (1, x, what is left of the mean response) of one distinct input."""
    m = state.integer[at.N_MEAN]
    out[0] = 1.0
    for j in range(1, m):
        out[j] = state.x[row, j - 1]
    out[m] = state.residual[row]


@compiled
def _fill_residuals(state: State, node: int) -> None:
    """Take the leaf's plane off its responses."""
    m, shift = state.integer[at.N_MEAN], shift_of(state, node)
    for i in range(state.tree[node, at.START], state.tree[node, at.END]):
        row = state.order[i]
        left = state.y[row, at.MEAN] - shift[0]
        for j in range(1, m):
            left -= shift[j] * state.x[row, j - 1]
        state.residual[row] = left


@compiled
def _add_products(values: Array, m: int, weight: float, gram: Array) -> None:
    """Add the lower triangle of weight * values values' to a flat Gram matrix."""
    for a in range(m + 1):
        scaled = weight * values[a]
        for b in range(a + 1):
            gram[a * (m + 1) + b] += scaled * values[b]


@compiled
def _fill_plain_gram(state: State, node: int, precision: float) -> None:
    """Fill the Gram matrix of a leaf whose responses are independent, of one precision."""
    m = state.integer[at.N_MEAN]
    gram = gram_of(state, node)
    values = state.small[m + 2]
    for i in range((m + 1) * (m + 1)):
        gram[i] = 0.0
    for i in range(state.tree[node, at.START], state.tree[node, at.END]):
        row = state.order[i]
        _regressors_into(state, row, values)
        _add_products(values, m, state.y[row, at.WEIGHT] * precision, gram)
        gram[m * (m + 1) + m] += state.y[row, at.SQUARES] * precision


@compiled
def _improve_shift(state: State, node: int) -> None:
    """Add to the leaf's plane the least-squares plane of what it leaves."""
    m = state.integer[at.N_MEAN]
    _fill_plain_gram(state, node, 1.0)
    gram, matrix, shift = gram_of(state, node), state.small, shift_of(state, node)
    step = state.small[m]
    for a in range(m):
        step[a] = gram[m * (m + 1) + a]
        for b in range(a + 1):
            matrix[a, b] = gram[a * (m + 1) + b]
        matrix[a, a] += _RIDGE * gram[0]
    factor_in_place(matrix, m)
    for a in range(m):
        for b in range(a):
            step[a] -= matrix[a, b] * step[b]
        step[a] /= matrix[a, a]
    for a in range(m - 1, -1, -1):
        for b in range(a + 1, m):
            step[a] -= matrix[b, a] * step[b]
        step[a] /= matrix[a, a]
        shift[a] += step[a]


@compiled
def _fit_shift(state: State, node: int) -> None:
    """Fit the leaf's plane, twice: what the ridge and rounding left of it the second time takes off."""
    shift = shift_of(state, node)
    for a in range(state.integer[at.N_MEAN]):
        shift[a] = 0.0
    for _ in range(2):
        _fill_residuals(state, node)
        _improve_shift(state, node)
    if state.integer[at.COEFFICIENTS] == at.AROUND_LEAST_SQUARES:
        centre = centre_of(state, node)
        for a in range(state.integer[at.N_MEAN]):
            centre[a] = shift[a]


@compiled
def _summarise_process(state: State, node: int) -> None:
    """Fill the Gram matrix and log determinant of a Gaussian-process leaf."""
    first, m = state.tree[node, at.START], state.integer[at.N_MEAN]
    n = state.tree[node, at.END] - first
    log_det = solve_leaf(state, node)
    if not log_det < math.inf:
        state.leaf[node, at.LOG_DET] = math.inf
        return
    gram, n_rows, stride = gram_of(state, node), rows_of(n), stride_of(n, m + 1)
    for a in range(m + 1):
        for b in range(a + 1):
            gram[a * (m + 1) + b] = -state.square[(n_rows + b) * stride + n_rows + a]
    if state.leaf[node, at.N_ROWS] > n and state.integer[at.RESPONSE] == at.MEASURED:
        log_det += _add_replicates(state, node)
    state.leaf[node, at.LOG_DET] = log_det


@compiled
def _add_replicates(state: State, node: int) -> float:
    """Add the squares about the means of replicated inputs to the Gram matrix; return their part of log |K|."""
    m, nugget, log_det = state.integer[at.N_MEAN], state.leaf[node, at.NUGGET], 0.0
    last = gram_of(state, node)[m * (m + 1) + m :]
    for i in range(state.tree[node, at.START], state.tree[node, at.END]):
        row = state.order[i]
        replicates = state.y[row, at.COUNT]
        if replicates > 1.0:
            log_det += (replicates - 1.0) * math.log(nugget) + math.log(replicates)
            last[0] += state.y[row, at.SQUARES] / nugget
    return log_det


@compiled
def _log_det_of_classes(state: State, node: int, precision: float) -> float:
    """Return log |K| of a linear leaf whose rows have precisions of their own: one for each distinct input."""
    log_det = 0.0
    for i in range(state.tree[node, at.START], state.tree[node, at.END]):
        log_det -= math.log(precision * state.y[state.order[i], at.WEIGHT])
    return log_det


@compiled
def _summarise(state: State, node: int) -> None:
    """Fill what the leaf's data say: the Gram matrix (lower triangle) of L^{-1} [F, Z], and log |K|.

    A matrix without a Cholesky factor is marked by an infinite determinant, which gives likelihood 0.
    """
    rows = 0.0
    for i in range(state.tree[node, at.START], state.tree[node, at.END]):
        rows += state.y[state.order[i], at.COUNT]
    state.leaf[node, at.N_ROWS] = rows
    _fit_shift(state, node)
    _summarise_again(state, node)


@compiled
def _summarise_again(state: State, node: int) -> None:
    """Do the same for a leaf whose rows are those it had, and so its plane."""
    _fill_residuals(state, node)
    if is_linear(state, node):
        precision = 1.0 / noise_of(state, node)
        _fill_plain_gram(state, node, precision)
        state.leaf[node, at.LOG_DET] = -state.leaf[node, at.N_ROWS] * math.log(precision)
        if state.integer[at.RESPONSE] == at.CLASSES:
            state.leaf[node, at.LOG_DET] = _log_det_of_classes(state, node, precision)
    else:
        _summarise_process(state, node)


@sealed(types.void(STATE, types.int64))
def summarise_leaf(state, node):  # type: ignore[no-untyped-def]
    """Summarise a leaf, sealed."""
    _summarise(state, node)


@sealed(types.void(STATE, types.int64))
def summarise_leaf_again(state, node):  # type: ignore[no-untyped-def]
    """Summarise a leaf again, sealed."""
    _summarise_again(state, node)


@compiled
def summarise(state: State, node: int) -> None:
    """Fill what the leaf's data say: the Gram matrix (lower triangle) of L^{-1} [F, Z], and log |K|."""
    summarise_leaf(state, node)


@compiled
def summarise_again(state: State, node: int) -> None:
    """Do the same for a leaf whose rows are those it had, and so its plane."""
    summarise_leaf_again(state, node)


@compiled
def factor_in_place(matrix: Array, m: int) -> None:
    """Overwrite the lower triangle of a small matrix by its Cholesky factor."""
    for i in range(m):
        for j in range(i + 1):
            total = matrix[i, j]
            for a in range(j):
                total -= matrix[i, a] * matrix[j, a]
            matrix[i, j] = root(total) if i == j else total / matrix[j, j]
