"""Prediction from one tree (section 10), and from many recorded ones.

beta is integrated out at k = 1 given everything else. That is right whatever rung a draw came from: its
weight makes the other parameters a draw from the posterior, and beta's conditional there is the one at k = 1.

Arrays are copied and multiplied in plain loops: Numba compiles an assignment of arrays together with the text of the
error it might raise, which takes seconds.
"""

import numpy as np

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, Ints, allocating, compiled, entry
from tempering.models.treed_gp.correlation import ROWS, add_up, correlate, fill_scales, row_stride
from tempering.models.treed_gp.factor import rows_of, stride_of
from tempering.models.treed_gp.lapack import solve_lower
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import posterior_of_beta
from tempering.models.treed_gp.records import unpack_record
from tempering.models.treed_gp.summary import active_of, is_linear, noise_of, ranges_of, shift_of, summarise, used_of

_BLOCK = 64  # points whitened at a time: enough for the matrix product, little memory


@compiled
def find_leaf(state: State, point: Array) -> int:
    """Return the leaf in which a scaled point lies.

    The data say between which two inputs a cut lies, not where: each tree has a place of its own there, uniform.
    """
    node = state.meta[at.ROOT]
    while state.tree[node, at.LEFT] >= 0:
        variable, cut = state.tree[node, at.VARIABLE], state.tree[node, at.CUT]
        value, low, high = point[variable], state.cuts[variable, cut], state.cuts[variable, cut + 1]
        goes_left = value <= low or (value < high and value <= low + state.leaf[node, at.PLACE] * (high - low))
        node = state.tree[node, at.LEFT] if goes_left else state.tree[node, at.RIGHT]
    return int(node)


@compiled
def coefficients(state: State, node: int, beta: Array) -> None:
    """Fill the posterior mean at k = 1 of the coefficients of the mean, less the leaf's plane.

    The factor of their precision is left in ``small``. Coefficients that are not used are 0.
    """
    m, used, shift = state.integer[at.N_MEAN], used_of(state, node), shift_of(state, node)
    posterior_of_beta(state, node, 1.0)
    for a in range(m - 1, -1, -1):
        total = state.small[m, a]
        for b in range(a + 1, m):
            total -= state.small[b, a] * beta[b]
        beta[a] = total / state.small[a, a]
    for a in range(m):
        if used[a] == 0.0:
            beta[a] = -shift[a]


@compiled
def _product(a: Array, b: Array) -> float:
    """Return the scalar product, in four sums so that they run side by side."""
    n = a.shape[0]
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for i in range(0, n - 3, 4):
        first += a[i] * b[i]
        second += a[i + 1] * b[i + 1]
        third += a[i + 2] * b[i + 2]
        fourth += a[i + 3] * b[i + 3]
    for i in range(n - n % 4, n):
        first += a[i] * b[i]
    return float((first + second) + (third + fourth))


@allocating
def correlate_points(state: State, node: int, points: Array, x: Array, rows: Ints, out: Array) -> None:
    """Fill ``out[i, j]`` with the correlation of point i and row ``rows[j]`` of x in a leaf."""
    n, n_base, family = rows.shape[0], state.integer[at.N_BASE], state.integer[at.CORRELATION]
    scales, width, exponent = np.empty(n_base), row_stride(n), state.leaf[node, at.EXPONENT]
    fill_scales(ranges_of(state, node), active_of(state, node), exponent, family, scales)
    inputs, four, block = np.zeros(n_base * width), np.zeros(n_base * ROWS), np.empty((ROWS, width))
    for i in range(n):
        for j in range(n_base):
            inputs[j * width + i] = scales[j] * x[rows[i], j]
    n_columns = add_up(inputs, width, n, n_base) if family == at.SINGLE_INDEX else n_base
    for first in range(0, points.shape[0], ROWS):
        size = min(ROWS, points.shape[0] - first)
        for i in range(size):
            for j in range(n_base):
                four[j * ROWS + i] = scales[j] * points[first + i, j]
        if family == at.SINGLE_INDEX:
            add_up(four, ROWS, ROWS, n_base)
        correlate(four, ROWS, inputs, 0, n, n_columns, family, exponent, block.ravel(), width)
        for i in range(size):
            for j in range(n):
                out[first + i, j] = block[i, j]


@allocating
def whiten(state: State, node: int, points: Array, whitened: Array, slopes: Array, means: Array) -> None:
    """Reduce points of one summarised leaf to what their predictions need.

    Row i of ``whitened`` becomes a = L^{-1} k(x_i), of ``slopes`` s = R^{-1} (f - F'K^{-1} k(x_i)), where
    R R' is the posterior precision of beta over sigma^2; ``means[i]`` the predictive mean. The posterior
    covariance of the surface at two points is sigma^2 (K(x, y) - a_x'a_y + s_x's_y). `summarise` was
    called last on this leaf.
    """
    first, m = state.tree[node, at.START], state.integer[at.N_MEAN]
    n = state.tree[node, at.END] - first
    beta, shift, used = np.empty(m), shift_of(state, node), used_of(state, node)
    coefficients(state, node, beta)
    linear = is_linear(state, node)
    if not linear:
        n_rows, stride = rows_of(n), stride_of(n, m + 1)
        sides = np.empty((m + 1, n))
        for i in range(n):
            for a in range(m + 1):
                sides[a, i] = state.square[i * stride + n_rows + a]
        correlate_points(state, node, points, state.x, state.order[first : first + n], whitened)
        solve_lower(state.square, n, stride, whitened, points.shape[0], n_rows * stride)
        residual = sides[m]
        for a in range(m):
            for i in range(n):
                residual[i] -= beta[a] * sides[a, i]
    for i in range(points.shape[0]):
        means[i] = 0.0
        for a in range(m):
            regressor = 1.0 if a == 0 else points[i, a - 1]
            means[i] += regressor * (shift[a] + beta[a])
            slopes[i, a] = used[a] * (regressor if linear else regressor - _product(sides[a], whitened[i]))
        if not linear:
            means[i] += _product(residual, whitened[i])
        for a in range(m):
            for b in range(a):
                slopes[i, a] -= state.small[a, b] * slopes[i, b]
            slopes[i, a] /= state.small[a, a]


@allocating
def predict_tree(state: State, points: Array, mean: Array, surface: Array, noise: Array) -> None:
    """Fill mean, variance of the surface and variance of the noise at scaled points, of the state's tree.

    Where every dimension is switched off, all deviations from the plane are noise.
    """
    n_points = points.shape[0]
    m = state.integer[at.N_MEAN]
    home = np.empty(n_points, np.int64)
    for i in range(n_points):
        home[i] = find_leaf(state, points[i])
    chosen = np.empty(_BLOCK, np.int64)
    for index in range(state.meta[at.N_LEAVES]):
        node = state.lists[0, index]
        n = state.tree[node, at.END] - state.tree[node, at.START]
        linear = is_linear(state, node)
        whitened = np.empty((_BLOCK, 1 if linear else n))
        slopes, block, means = np.empty((_BLOCK, m)), np.empty((_BLOCK, points.shape[1])), np.empty(_BLOCK)
        summarised = False
        size = 0
        for i in range(n_points):
            if home[i] == node:
                chosen[size] = i
                for j in range(points.shape[1]):
                    block[size, j] = points[i, j]
                size += 1
            if size == _BLOCK or (size > 0 and i == n_points - 1):
                if not summarised:
                    summarise(state, node)
                    summarised = True
                whiten(state, node, block[:size], whitened[:size], slopes, means)
                _spread(state, node, linear, chosen[:size], whitened, slopes, means, mean, surface, noise)
                size = 0


@allocating
def _spread(
    state: State,
    node: int,
    linear: bool,
    chosen: Ints,
    whitened: Array,
    slopes: Array,
    means: Array,
    mean: Array,
    surface: Array,
    noise: Array,
) -> None:
    """Write the predictions of one block of points to their places."""
    sigma2, noise_over_sigma2 = state.leaf[node, at.SIGMA2], noise_of(state, node)
    for i in range(chosen.shape[0]):
        mean[chosen[i]] = means[i]
        uncertain = _product(slopes[i], slopes[i])
        if not linear:
            uncertain += max(1.0 - _product(whitened[i], whitened[i]), 0.0)
        surface[chosen[i]] = sigma2 * uncertain
        noise[chosen[i]] = sigma2 * noise_over_sigma2


@entry
def predict_records(state: State, rows: Array, points: Array, out: Array) -> None:
    """Fill ``out[j]``, shape (3, n_points), with mean, surface and noise variance of recorded tree j."""
    for j in range(rows.shape[0]):
        unpack_record(state, rows[j])
        predict_tree(state, points, out[j, 0], out[j, 1], out[j, 2])


@entry
def surface_in_leaf(
    state: State, node: int, points: Array, others: Array, means: Array, covariance: Array, correlation: Array
) -> None:
    """Fill what one leaf says of its surface at scaled points, wherever they lie.

    Posterior means, the covariance with the surface at other points, and the correlation with it before the data, but
    for the plane.
    """
    m, n = state.integer[at.N_MEAN], state.tree[node, at.END] - state.tree[node, at.START]
    summarise(state, node)
    linear = is_linear(state, node)
    width = 1 if linear else n
    here, there = np.zeros((points.shape[0], width)), np.zeros((others.shape[0], width))
    slopes, other_slopes = np.empty((points.shape[0], m)), np.empty((others.shape[0], m))
    whiten(state, node, others, there, other_slopes, np.empty(others.shape[0]))
    whiten(state, node, points, here, slopes, means)
    if linear:
        correlation[:] = 0.0
    else:
        correlate_points(state, node, points, others, np.arange(others.shape[0]), correlation)
    products = correlation + slopes @ other_slopes.T - here @ there.T
    for i in range(points.shape[0]):
        for j in range(others.shape[0]):
            covariance[i, j] = state.leaf[node, at.SIGMA2] * products[i, j]


@entry
def noise_of_tree(state: State, points: Array, noise: Array) -> None:
    """Fill the variance of the noise at scaled points."""
    for i in range(points.shape[0]):
        node = find_leaf(state, points[i])
        noise[i] = state.leaf[node, at.SIGMA2] * noise_of(state, node)


@entry
def parameters_of_points(state: State, rows: Array, points: Array, out: Array) -> None:
    """Fill ``out[j, i]`` with noise over sigma^2, sigma^2, ranges and Booleans of the leaf of point i in tree j."""
    for j in range(rows.shape[0]):
        unpack_record(state, rows[j])
        for i in range(points.shape[0]):
            node = find_leaf(state, points[i])
            out[j, i, 0] = noise_of(state, node)
            out[j, i, 1] = state.leaf[node, at.SIGMA2]
            for a in range(2 * state.integer[at.N_RANGES]):
                out[j, i, 2 + a] = state.leaf[node, at.RANGES + a]
