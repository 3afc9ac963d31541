"""The linear algebra of one Gaussian-process leaf, sealed: sixteen functions reach it.

While only the nugget moves, a leaf's correlations stay: they are kept at the place of its inputs in ``order``, with
inputs and ranges beside them. Whoever asks compares, so that nothing else need know of it.
"""

from __future__ import annotations

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import Array, Ints, compiled, sealed
from tempering.models.treed_gp.correlation import LANES, ROWS, correlate, fill_scales, row_stride
from tempering.models.treed_gp.factor import factor, rows_of, stride_of

# Places of the whole numbers handed over.
FIRST, SIZE, N_COLUMNS, BASE, MEAN, RANGE_COUNT, FAMILY, KEEP = range(8)
N_NUMBERS = 8

MOST_KEPT = 256  # inputs of a leaf whose correlations are kept: in larger ones they are a small part of the cost
INPUT, BEGIN, COUNT = range(3)  # columns of ``marks``: an input, where its leaf begins, and how many that holds
_ANY = 1 << 40


def kept_width(n: int) -> int:
    """Return the room an input needs so that leaves of up to ``n`` inputs, four rows at a time, fit between their ends.

    A leaf of n inputs fills r(n) v(n) numbers, where r rounds up to fours and v to eights: at most n (v(n) + 8), or 32
    where n < 5.
    """
    return max(32, min((n + 7) // 8 * 8, MOST_KEPT) + 8)


@intrinsic
def _pointer(typing_context, address, kind):  # type: ignore[no-untyped-def]
    """Read an address as a pointer to numbers of the kind of ``kind``."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind)(types.intp, kind), generate


@compiled
def _is_kept(numbers: Ints, order: Ints, leaf: Array, marks: Ints, key: Array) -> bool:
    """Say whether the correlations kept at the leaf's place are those of its inputs and ranges, whoever kept them."""
    first, n = numbers[FIRST], numbers[SIZE]
    same = bool(marks[COUNT] == n)
    for j in range(2 * numbers[RANGE_COUNT]):
        same = same and key[j] == leaf[j]
    for i in range(n if same else 0):
        same = same and marks[3 * i + INPUT] == order[i] and marks[3 * i + BEGIN] == first
    return same


@compiled
def _mark_kept(numbers: Ints, order: Ints, leaf: Array, marks: Ints, key: Array) -> None:
    """Say whose correlations are kept."""
    marks[COUNT] = numbers[SIZE]
    for j in range(2 * numbers[RANGE_COUNT]):
        key[j] = leaf[j]
    for i in range(numbers[SIZE]):
        marks[3 * i + INPUT] = order[i]
        marks[3 * i + BEGIN] = numbers[FIRST]


@compiled
def _correlate_all(
    numbers: Ints, order: Ints, x: Array, leaf: Array, panel: Array, scales: Array, out: Array, step: int
) -> None:
    """Fill the upper triangle of a leaf's correlations, rows ``step`` apart; scaled inputs stay in the panel."""
    n, n_base, family, n_columns = numbers[SIZE], numbers[BASE], numbers[FAMILY], numbers[N_COLUMNS]
    n_ranges, width = numbers[RANGE_COUNT], row_stride(n)
    fill_scales(leaf[:n_ranges], leaf[n_ranges : 2 * n_ranges], family, scales)
    for i in range(n):
        row = order[i] * n_columns
        for j in range(n_base):
            panel[j * width + i] = x[row + j] * scales[j]
    for j in range(n_base):
        for i in range(n, width):
            panel[j * width + i] = 0.0
    for i in range(0, n, ROWS):
        correlate(panel[i:], width, panel, i, n, n_base, family, out[i * step :], step)


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
def _fill_rest(numbers: Ints, order: Ints, x: Array, y: Array, residual: Array, nugget: float, square: Array) -> None:
    """Add the diagonal and the right-hand sides [F, Z less the leaf's plane] to the correlations."""
    n, m, n_columns = numbers[SIZE], numbers[MEAN], numbers[N_COLUMNS]
    n_rows, stride = rows_of(n), stride_of(n, m + 1)
    for i in range(n):
        row = order[i]
        at = i * stride
        side = at + n_rows
        square[at + i] = 1.0 + nugget / y[3 * row]
        square[side] = 1.0
        for j in range(1, m):
            square[side + j] = x[row * n_columns + j - 1]
        square[side + m] = residual[row]


@sealed(types.float64(*[types.intp] * 12, types.float64), _nrt=True)  # arrays made of addresses are counted
def solve_leaf(numbers, order, x, y, rest, leaf, square, panel, work, kept, key, marks, nugget):  # type: ignore[no-untyped-def]
    """Factorise a leaf's matrix with its right-hand sides, from addresses; return log |K|."""
    whole, rows = carray(_pointer(numbers, 0), N_NUMBERS), carray(_pointer(order, 0), _ANY)
    inputs, responses = carray(_pointer(x, 0.0), _ANY), carray(_pointer(y, 0.0), _ANY)
    residual = carray(_pointer(rest, 0.0), _ANY)
    parameters, matrix = carray(_pointer(leaf, 0.0), _ANY), carray(_pointer(square, 0.0), _ANY)
    columns, scales = carray(_pointer(panel, 0.0), _ANY), carray(_pointer(work, 0.0), whole[BASE])
    store, known = carray(_pointer(kept, 0.0), _ANY), carray(_pointer(key, 0.0), _ANY)
    taken = carray(_pointer(marks, 0), _ANY)
    n, m = whole[SIZE], whole[MEAN]
    step, stride = row_stride(n), stride_of(n, m + 1)
    is_kept = step <= MOST_KEPT and _is_kept(whole, rows, parameters, taken, known)
    if not is_kept and step <= MOST_KEPT and whole[KEEP] != 0:
        _correlate_all(whole, rows, inputs, parameters, columns, scales, store, step)
        _mark_kept(whole, rows, parameters, taken, known)
        is_kept = True
    if is_kept:
        _copy_rows(store, n, step, matrix, stride)
    else:
        _correlate_all(whole, rows, inputs, parameters, columns, scales, matrix, stride)
    _fill_rest(whole, rows, inputs, responses, residual, nugget, matrix)
    return factor(matrix, n, m + 1)
