"""The linear algebra of one Gaussian-process leaf, sealed: sixteen functions reach it.

While only the nugget moves, a leaf's correlations stay: they are kept at the place of its inputs in ``order``, with
inputs and ranges beside them. Whoever asks compares, so that nothing else need know of it.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, compiled, sealed
from tempering.models.treed_gp.correlation import LANES, ROWS, add_up, correlate, fill_scales, row_stride
from tempering.models.treed_gp.factor import factor, rows_of, stride_of
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.state_type import STATE

MOST_KEPT = 256  # inputs of a leaf whose correlations are kept: in larger ones they are a small part of the cost
INPUT, BEGIN, COUNT = range(3)  # columns of ``marks``: an input, where its leaf begins, and how many that holds


def kept_width(n: int) -> int:
    """Return the room an input needs so that leaves of up to ``n`` inputs, four rows at a time, fit between their ends.

    A leaf of n inputs fills r(n) v(n) numbers, where r rounds up to fours and v to eights: at most n (v(n) + 8), or 32
    where n < 5.
    """
    return max(32, min((n + 7) // 8 * 8, MOST_KEPT) + 8)


@compiled
def _is_kept(state: State, node: int) -> bool:
    """Say whether the correlations kept at the leaf's place are those of its inputs and ranges, whoever kept them."""
    first, last = state.tree[node, at.START], state.tree[node, at.END]
    same = bool(state.marks[first, COUNT] == last - first)
    for j in range(1 + 2 * state.integer[at.N_RANGES]):
        same = same and state.keys[first, j] == state.leaf[node, at.EXPONENT + j]
    for i in range(first, last if same else first):
        same = same and state.marks[i, INPUT] == state.order[i] and state.marks[i, BEGIN] == first
    return same


@compiled
def _mark_kept(state: State, node: int) -> None:
    """Say whose correlations are kept."""
    first, last = state.tree[node, at.START], state.tree[node, at.END]
    state.marks[first, COUNT] = last - first
    for j in range(1 + 2 * state.integer[at.N_RANGES]):
        state.keys[first, j] = state.leaf[node, at.EXPONENT + j]
    for i in range(first, last):
        state.marks[i, INPUT] = state.order[i]
        state.marks[i, BEGIN] = first


@compiled
def _correlate_all(state: State, node: int, out: Array, step: int) -> None:
    """Fill the upper triangle of a leaf's correlations, rows ``step`` apart; scaled inputs stay in the panel."""
    first, n_base, n_ranges = state.tree[node, at.START], state.integer[at.N_BASE], state.integer[at.N_RANGES]
    n, family, panel = state.tree[node, at.END] - first, state.integer[at.CORRELATION], state.panel
    width, ranges, scales = (
        row_stride(n),
        state.leaf[node, at.RANGES :],
        state.small[state.integer[at.N_MEAN] + 2, :n_base],
    )
    exponent = state.leaf[node, at.EXPONENT]
    fill_scales(ranges[:n_ranges], ranges[n_ranges : 2 * n_ranges], exponent, family, scales)
    for i in range(n):
        row = state.order[first + i]
        for j in range(n_base):
            panel[j * width + i] = state.x[row, j] * scales[j]
    if family == at.SINGLE_INDEX:
        n_base = add_up(panel, width, n, n_base)
    for j in range(n_base):
        for i in range(n, width):
            panel[j * width + i] = 0.0
    for i in range(0, n, ROWS):
        correlate(panel[i:], width, panel, i, n, n_base, family, exponent, out[i * step :], step)


@intrinsic
def _copy_vector(typing_context, source, target):  # type: ignore[no-untyped-def]
    """Copy eight numbers from one address to another."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        vector = ir.VectorType(ir.DoubleType(), LANES).as_pointer()
        value = builder.load(builder.inttoptr(arguments[0], vector), align=8)
        builder.store(value, builder.inttoptr(arguments[1], vector), align=8)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@compiled
def _copy_rows(source: Array, n: int, step: int, out: Array, stride: int) -> None:
    for i in range(n):
        here, there = source.ctypes.data + 8 * i * step, out.ctypes.data + 8 * i * stride
        for j in range(8 * (i // LANES * LANES), 8 * step, 8 * LANES):
            _copy_vector(here + j, there + j)


@compiled
def _fill_rest(state: State, node: int, stride: int) -> None:
    """Add the diagonal and the right-hand sides [F, Z less the leaf's plane] to the correlations."""
    first, m, square = state.tree[node, at.START], state.integer[at.N_MEAN], state.square
    n = state.tree[node, at.END] - first
    for i in range(n):
        row = state.order[first + i]
        side = i * stride + rows_of(n)
        square[i * stride + i] = 1.0 + state.leaf[node, at.NUGGET] / state.y[row, at.WEIGHT]
        square[side] = 1.0
        for j in range(1, m):
            square[side + j] = state.x[row, j - 1]
        square[side + m] = state.residual[row]


@sealed(types.float64(STATE, types.int64))
def solve_leaf(state, node):  # type: ignore[no-untyped-def]
    """Factorise a leaf's matrix, the right-hand sides [F, Z] carried along, in the work space; return log |K|."""
    first, n_sides = state.tree[node, at.START], state.integer[at.N_MEAN] + 1
    n = state.tree[node, at.END] - first
    step, stride = row_stride(n), stride_of(n, n_sides)
    kept = state.kept[first * (state.kept.shape[0] // state.order.shape[0]) :]
    is_kept = step <= MOST_KEPT and _is_kept(state, node)
    if not is_kept and step <= MOST_KEPT and state.meta[at.KEEP] != 0:
        _correlate_all(state, node, kept, step)
        _mark_kept(state, node)
        is_kept = True
    if is_kept:
        _copy_rows(kept, n, step, state.square, stride)
    else:
        _correlate_all(state, node, state.square, stride)
    _fill_rest(state, node, stride)
    return factor(state.square, n, n_sides)
