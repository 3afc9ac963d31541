"""Cholesky factor of a correlation matrix, right-hand sides carried along: two to four times LAPACK's speed.

The matrix is row-major, its upper triangle filled, the right-hand sides in columns to the right of it. Four
rows at a time are reduced by all rows above, a strip of columns in registers: the arithmetic of one strip is
written in LLVM's vector instructions, which every processor has in some width.
"""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.lapack import factor_by_lapack
from tempering.models.treed_gp.roots import root

LANES = 8  # numbers in a vector
ROWS = 4  # rows reduced together
WIDEST = 3  # vectors in a strip: with four rows, twelve sums in registers
N_COEFFICIENTS = ROWS * (ROWS + 1) // 2
_TINY, _HUGE = 1e-150, 1e150  # beyond, a product of determinants is turned into its logarithm
MOST_ROWS = 700  # beyond, the matrix no longer fits into the cache, and LAPACK is faster

_WORD, _REAL = ir.IntType(64), ir.DoubleType()
_VECTOR = ir.VectorType(_REAL, LANES)


class _Strip:
    """Writes the code of one strip."""

    def __init__(self, builder: Any, arguments: Any, n_vectors: int) -> None:
        self.builder, self.n_vectors = builder, n_vectors
        address, self.stride, self.depth, self.row, self.column, coefficients = arguments
        self.base = builder.inttoptr(address, _REAL.as_pointer())
        self.coefficients = builder.inttoptr(coefficients, _REAL.as_pointer())

    def place(self, row: Any, column: Any, vector: int = 0) -> Any:
        """Return the address of an entry, so many vectors further."""
        b = self.builder
        offset = b.add(b.mul(row, self.stride), b.add(column, ir.Constant(_WORD, LANES * vector)))
        return b.gep(self.base, [offset])

    def load(self, place: Any) -> Any:
        """Load a vector."""
        return self.builder.load(self.builder.bitcast(place, _VECTOR.as_pointer()), align=8)

    def spread(self, place: Any) -> Any:
        """Load a number into all lanes."""
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = self.builder.insert_element(nothing, self.builder.load(place), ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, nothing, lanes)

    def minus(self, value: Any, x: Any, y: Any) -> Any:
        """Return value - x y."""
        product = self.builder.fmul(x, y, flags=("contract",))
        return self.builder.fsub(value, product, flags=("contract",))

    def rows(self) -> list[Any]:
        """Return the indices of the rows to reduce."""
        return [self.builder.add(self.row, ir.Constant(_WORD, r)) for r in range(ROWS)]

    def reduce(self) -> list[list[Any]]:
        """Subtract from the strip what the rows above, ``depth`` of them, say of it."""
        b, vectors = self.builder, range(self.n_vectors)
        first = [[self.load(self.place(row, self.column, v)) for v in vectors] for row in self.rows()]
        before = b.block
        head, body, after = (b.append_basic_block(name) for name in ("reduce", "row", "reduced"))
        b.branch(head)
        b.position_at_end(head)
        above = b.phi(_WORD)
        above.add_incoming(ir.Constant(_WORD, 0), before)
        sums = [[b.phi(_VECTOR) for _ in vectors] for _ in first]
        b.cbranch(b.icmp_signed("<", above, self.depth), body, after)
        b.position_at_end(body)
        right = [self.load(self.place(above, self.column, v)) for v in vectors]
        left = [self.spread(self.place(above, row)) for row in self.rows()]
        above.add_incoming(b.add(above, ir.Constant(_WORD, 1)), b.block)
        for values, start, x in zip(sums, first, left, strict=True):
            for v in vectors:
                values[v].add_incoming(start[v], before)
                values[v].add_incoming(self.minus(values[v], x, right[v]), b.block)
        b.branch(head)
        b.position_at_end(after)
        return sums

    def finish(self, sums: list[list[Any]]) -> None:
        """Solve with the small triangle of the four rows themselves, and store."""
        b, index = self.builder, 0
        solved: list[list[Any]] = []
        for row, values in zip(self.rows(), sums, strict=True):
            for other in solved:
                x = self.spread(b.gep(self.coefficients, [ir.Constant(_WORD, index)]))
                values = [self.minus(value, x, y) for value, y in zip(values, other, strict=True)]
                index += 1
            scale = self.spread(b.gep(self.coefficients, [ir.Constant(_WORD, index)]))
            index += 1
            values = [b.fmul(value, scale) for value in values]
            for v, value in enumerate(values):
                place = b.bitcast(self.place(row, self.column, v), _VECTOR.as_pointer())
                b.store(value, place, align=8)
            solved.append(values)


def _strip(n_vectors: int) -> Any:
    """Return a function (address, stride, depth, row, column, coefficients) that reduces one strip."""

    @intrinsic
    def strip(typing_context, address, stride, depth, row, column, coefficients):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            code = _Strip(builder, arguments, n_vectors)
            code.finish(code.reduce())
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), generate

    return strip


_narrow, _middle, _wide = (_strip(n) for n in (1, 2, WIDEST))


@compiled
def rows_of(n: int) -> int:
    """Return the number of rows of a matrix of ``n`` points: a multiple of four."""
    return (n + 3) // 4 * 4


@compiled
def stride_of(n: int, n_sides: int) -> int:
    """Return the distance between two rows: room for the sides, and for a strip that ends beyond them."""
    return (rows_of(n) + n_sides + 2 * LANES - 1) // LANES * LANES


@compiled
def coefficients_of(n: int, n_sides: int) -> int:
    """Return where the work space behind the matrix and the products of its sides begins."""
    return (rows_of(n) + rows_of(n_sides)) * stride_of(n, n_sides)


def work_length(n: int, n_sides: int) -> int:
    """Return how many numbers the work space for ``n`` points needs."""
    n_rows, n_products = ((length + 3) // 4 * 4 for length in (n, n_sides))
    return (n_rows + n_products) * ((n_rows + n_sides + 2 * LANES - 1) // LANES * LANES) + 2 * N_COEFFICIENTS


@compiled
def _small_factor(matrix: Array, at: int, stride: int, out: int) -> float:
    """Factorise a 4 x 4 block; fill its entries and inverse pivots; return its determinant, or 0 without a factor.

    As L D L' first, so that no pivot waits for a root; each number is a variable, so that none waits for a store.
    """
    first, second, third = at, at + stride + 1, at + 2 * stride + 2
    d0, u01, u02, u03 = matrix[first], matrix[first + 1], matrix[first + 2], matrix[first + 3]
    r0 = 1.0 / d0
    v01, v02, v03 = u01 * r0, u02 * r0, u03 * r0
    d1, u12, u13 = matrix[second] - u01 * v01, matrix[second + 1] - u01 * v02, matrix[second + 2] - u01 * v03
    r1 = 1.0 / d1
    v12, v13 = u12 * r1, u13 * r1
    d2, u23 = matrix[third] - u02 * v02 - u12 * v12, matrix[third + 1] - u02 * v03 - u12 * v13
    r2 = 1.0 / d2
    d3 = matrix[at + 3 * stride + 3] - u03 * v03 - u13 * v13 - u23 * (u23 * r2)
    i0, i1, i2, i3 = root(r0), root(r1), root(r2), root(1.0 / d3)
    matrix[out] = i0
    matrix[out + 1], matrix[out + 2] = u01 * i0, i1
    matrix[out + 3], matrix[out + 4], matrix[out + 5] = u02 * i0, u12 * i1, i2
    matrix[out + 6], matrix[out + 7], matrix[out + 8], matrix[out + 9] = u03 * i0, u13 * i1, u23 * i2, i3
    if d0 > 0.0 and d1 > 0.0 and d2 > 0.0 and d3 > 0.0:
        return float(d0 * d1 * (d2 * d3))
    return 0.0


@compiled
def _factor_in_strips(matrix: Array, n_rows: int, n_sides: int, stride: int, coefficients: int) -> float:
    """Do the work of `factor`; ``coefficients`` is where its 20 numbers of work space begin."""
    width = n_rows + n_sides
    base = matrix.ctypes.data
    plain = base + 8 * coefficients
    solving = plain + 8 * N_COEFFICIENTS
    log_det, product = 0.0, 1.0
    for row in range(0, n_rows, ROWS):
        _narrow(base, stride, row, row, row, plain)
        block = _small_factor(matrix, row * stride + row, stride, coefficients + N_COEFFICIENTS)
        if not block > 0.0:
            return math.inf
        product *= block
        if not _TINY < product < _HUGE:
            log_det += math.log(product)
            product = 1.0
        _narrow(base, stride, 0, row, row, solving)
        column = row + LANES
        while column + 2 * LANES < width:
            _wide(base, stride, row, row, column, solving)
            column += 3 * LANES
        if column + LANES < width:
            _middle(base, stride, row, row, column, solving)
        elif column < width:
            _narrow(base, stride, row, row, column, solving)
    return log_det + math.log(product)


@compiled
def _multiply_sides(matrix: Array, n_rows: int, n_sides: int, stride: int, coefficients: int) -> None:
    """Fill the rows behind the matrix with minus the products of its sides, as if these were more rows to reduce."""
    for row in range(n_rows, n_rows + n_sides, ROWS):
        for column in range(row, n_rows + n_sides, LANES):
            for r in range(ROWS):
                for c in range(LANES):
                    matrix[(row + r) * stride + column + c] = 0.0
            _narrow(matrix.ctypes.data, stride, n_rows, row, column, matrix.ctypes.data + 8 * coefficients)


@compiled
def factor(matrix: Array, n: int, n_sides: int) -> float:
    """Overwrite the upper triangle K by L', K = L L', and the sides B by L^{-1} B; return log |K|.

    ``matrix`` is flat: row i begins at ``i * stride_of(n, n_sides)``, the sides at column ``rows_of(n)``. Rows and
    columns from ``n`` to there are filled here; beyond the sides may be anything. Below, in as many rows as there
    are sides, come minus their products, entry (a, b) in row a for a <= b. Infinity says that there is no factor.
    """
    n_rows, stride, coefficients = rows_of(n), stride_of(n, n_sides), coefficients_of(n, n_sides)
    for i in range(n):
        for j in range(n, n_rows):
            matrix[i * stride + j] = 0.0
    for i in range(n, n_rows):
        for j in range(n_rows + n_sides):
            matrix[i * stride + j] = 0.0
        matrix[i * stride + i] = 1.0
    for i in range(2 * N_COEFFICIENTS):
        matrix[coefficients + i] = 0.0
    for r in range(ROWS):  # the first ten reduce without solving
        matrix[coefficients + r * (r + 1) // 2 + r] = 1.0
    if n > MOST_ROWS:
        log_det = factor_by_lapack(matrix, n_rows, n_sides, stride, coefficients + N_COEFFICIENTS)
    else:
        log_det = _factor_in_strips(matrix, n_rows, n_sides, stride, coefficients)
    if log_det < math.inf:
        _multiply_sides(matrix, n_rows, n_sides, stride, coefficients)
    return log_det
