"""The linear algebra of one Gaussian-process leaf, behind a symbol of its own.

Numba would copy and optimise it anew inside every function that reaches it, sixteen times over; a C function
that LLVM knows by name alone is compiled once.
"""

from __future__ import annotations

import llvmlite.binding as llvm
from numba import carray, cfunc, types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import Array, Ints, compiled, digest
from tempering.models.treed_gp.correlation import correlate, inverse_scales, row_stride
from tempering.models.treed_gp.factor import factor, rows_of, stride_of

# Places of the whole numbers handed over.
FIRST, SIZE, N_COLUMNS, BASE, MEAN, RANGE_COUNT, FAMILY = range(7)
N_NUMBERS = 7


@intrinsic
def _pointer(typing_context, address, kind):  # type: ignore[no-untyped-def]
    """Read an address as a pointer to numbers of the kind of ``kind``."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind)(types.intp, kind), generate


@compiled
def _fill(
    numbers: Ints,
    order: Ints,
    x: Array,
    y: Array,
    leaf: Array,
    nugget: float,
    square: Array,
    panel: Array,
    scales: Array,
    point: Array,
) -> None:
    """Lay out K + diag(g / r) and the right-hand sides [F, Z] of a leaf for `factor`."""
    n, m, n_base, n_columns = numbers[SIZE], numbers[MEAN], numbers[BASE], numbers[N_COLUMNS]
    n_ranges, family = numbers[RANGE_COUNT], numbers[FAMILY]
    n_rows, stride, width = rows_of(n), stride_of(n, m + 1), row_stride(n)
    for i in range(n):
        row = order[numbers[FIRST] + i]
        for j in range(n_base):
            panel[j * width + i] = x[row * n_columns + j]
    for j in range(n_base):
        for i in range(n, width):
            panel[j * width + i] = 0.0
    divisor = inverse_scales(leaf[:n_ranges], leaf[n_ranges : 2 * n_ranges], family, scales)
    for i in range(n):
        row = order[numbers[FIRST] + i]
        at = i * stride
        for j in range(n_base):
            point[j] = panel[j * width + i]
        correlate(point, panel, i + 1, n, scales, divisor, family, square[at : at + stride])
        square[at + i] = 1.0 + nugget / y[3 * row]
        side = at + n_rows
        square[side] = 1.0
        for j in range(1, m):
            square[side + j] = point[j - 1]
        square[side + m] = y[3 * row + 1]


_signature = types.float64(*[types.intp] * 8, types.float64)


def _solve(numbers, order, x, y, leaf, square, panel, work, nugget):  # type: ignore[no-untyped-def]
    whole = carray(_pointer(numbers, 0), N_NUMBERS)
    n, m, n_base = whole[SIZE], whole[MEAN], whole[BASE]
    length = rows_of(n) * stride_of(n, m + 1) + 20
    matrix = carray(_pointer(square, 0.0), length)
    space = carray(_pointer(work, 0.0), 2 * n_base)
    rows = carray(_pointer(order, 0), whole[FIRST] + n)
    _fill(
        whole,
        rows,
        carray(_pointer(x, 0.0), 1 << 40),
        carray(_pointer(y, 0.0), 1 << 40),
        carray(_pointer(leaf, 0.0), 2 * whole[RANGE_COUNT]),
        nugget,
        matrix,
        carray(_pointer(panel, 0.0), n_base * row_stride(n)),
        space[:n_base],
        space[n_base:],
    )
    return factor(matrix, n, m + 1)


_solve.__qualname__ += f"_{digest()}"
_SYMBOL = f"tempering_solve_leaf_{digest()}"
_c_function = cfunc(_signature, cache=True, error_model="numpy")(_solve)
llvm.add_symbol(_SYMBOL, _c_function.address)
solve_leaf = types.ExternalFunction(_SYMBOL, _signature)
