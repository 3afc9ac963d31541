"""Correlation functions: separable and isotropic Gaussian, Matern, power exponential, single index; inputs may be off.

A dimension whose Boolean is 0 (the limiting linear model) is dropped from the distance. A single index is a Gaussian
correlation in one projection, the sum of the scaled inputs: K = exp(-(sum_j s_j (x_j - y_j) / sqrt(d_j))^2), where the
sign s_j is the Boolean of the input. Power exponential is exp(-sum_j |x_j - y_j|^p / d_j), 1 <= p <= 2. Four
rows of eight correlations are computed at a time in LLVM's vector instructions, exponential included; rows have room
for whole vectors.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.roots import root, square_root

LANES = 8
ROWS = 4  # rows at a time: their exponentials are computed side by side
_LOG2_E = 1.4426950408889634
_SHIFT = 1.5 * 2.0**52  # adding it rounds to the nearest integer, which then sits in the low bits
_LOG2_HIGH = 0.6931471803691238  # log 2 in two parts, so that the reduction loses nothing
_LOG2_LOW = 1.9082149292705877e-10
_SMALLEST = -700.0  # exp(-700) = 1e-304: still a normal number
_DEGREE = 12  # of Taylor's series: |r| < 0.35, the rest is below 2e-16
_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2): mantissas lie between it and twice it
_TO_REAL = 0x4338000000000000  # the bits of _SHIFT: added to a small integer they make it a float
_TERMS = 11  # of the series of atanh: |s| < 0.172, the rest is below 1e-18

_WORD, _REAL = ir.IntType(64), ir.DoubleType()
_VECTOR, _BITS = ir.VectorType(_REAL, LANES), ir.VectorType(_WORD, LANES)
_FUSED = ("contract",)


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [value] * LANES)


def _fused(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x y + z."""
    return builder.fadd(builder.fmul(x, y, flags=_FUSED), z, flags=_FUSED)


def _exponential(builder: Any, x: Any) -> Any:
    """Return exp(x), x <= 0, to one unit in the last place or so."""
    low = _constant(_SMALLEST)
    x = builder.select(builder.fcmp_ordered(">", x, low), x, low)
    shifted = _fused(builder, x, _constant(_LOG2_E), _constant(_SHIFT))
    whole = builder.fsub(shifted, _constant(_SHIFT))
    r = _fused(builder, whole, _constant(-_LOG2_HIGH), x)
    r = _fused(builder, whole, _constant(-_LOG2_LOW), r)
    p = _constant(1.0 / math.factorial(_DEGREE))
    for power in range(_DEGREE - 1, -1, -1):
        p = _fused(builder, p, r, _constant(1.0 / math.factorial(power)))
    bits = builder.add(builder.bitcast(shifted, _BITS), ir.Constant(_BITS, [1023] * LANES))
    scale = builder.shl(bits, ir.Constant(_BITS, [52] * LANES))
    return builder.fmul(p, builder.bitcast(scale, _VECTOR))


def _words(value: int) -> Any:
    return ir.Constant(_BITS, [value] * LANES)


def _logarithm(builder: Any, x: Any) -> Any:
    """Return log(x), x >= 0, to a few units in the last place; of 0 a number so low that its exponential is none."""
    bits = builder.bitcast(x, _BITS)
    power = builder.ashr(builder.sub(bits, _words(_ROOT_HALF)), _words(52))
    whole = builder.fsub(builder.bitcast(builder.add(power, _words(_TO_REAL)), _VECTOR), _constant(_SHIFT))
    mantissa = builder.bitcast(builder.sub(bits, builder.shl(power, _words(52))), _VECTOR)
    one = _constant(1.0)
    s = builder.fdiv(builder.fsub(mantissa, one), builder.fadd(mantissa, one))
    square = builder.fmul(s, s)
    series = _constant(2.0 / (2 * _TERMS - 1))
    for term in range(_TERMS - 2, -1, -1):
        series = _fused(builder, series, square, _constant(2.0 / (2 * term + 1)))
    low = _fused(builder, whole, _constant(_LOG2_LOW), builder.fmul(series, s))
    return _fused(builder, whole, _constant(_LOG2_HIGH), low)


def _gaussian(builder: Any, squares: Any, first: Any, second: Any) -> Any:
    return _exponential(builder, builder.fneg(squares))


def _matern(builder: Any, squares: Any, first: Any, second: Any) -> Any:
    """Write (1 + first r + second r^2) exp(-r)."""
    r = square_root(builder, squares)
    value = _fused(builder, second, r, first)
    value = _fused(builder, value, r, _constant(1.0))
    return builder.fmul(value, _exponential(builder, builder.fneg(r)))


def _square(builder: Any, gap: Any, sum_: Any, exponent: Any) -> Any:
    return _fused(builder, gap, gap, sum_)


def _power(builder: Any, gap: Any, sum_: Any, exponent: Any) -> Any:
    """Write the sum plus the gap's absolute value to the exponent."""
    size = builder.select(builder.fcmp_ordered("<", gap, _constant(0.0)), builder.fneg(gap), gap)
    return builder.fadd(sum_, _exponential(builder, builder.fmul(exponent, _logarithm(builder, size))))


class _Loops:
    """Writes the two loops over the vectors of four rows and their coordinates."""

    def __init__(self, builder: Any, arguments: Any) -> None:
        self.builder = builder
        self.points, self.inputs, self.out = (builder.inttoptr(a, _REAL.as_pointer()) for a in arguments[:3])
        self.point_stride, self.stride, self.out_stride, self.n_base, self.first, self.last = arguments[3:9]
        self.coefficients = [self.spread(number) for number in arguments[9:]]

    def spread(self, number: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, nothing, lanes)

    def load(self, base: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(base, [index]))

    def loop(self, start: Any, end: Any, step: int, values: list[Any], body: Callable[[Any, Any], Any]) -> Any:
        """Write a loop that carries some values; return the values after it."""
        b = self.builder
        before = b.block
        head, inside, after = (b.append_basic_block(name) for name in ("head", "inside", "after"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(_WORD)
        i.add_incoming(start, before)
        carried = [b.phi(value.type) for value in values]
        for phi, value in zip(carried, values, strict=True):
            phi.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", i, end), inside, after)
        b.position_at_end(inside)
        new = body(i, carried)
        i.add_incoming(b.add(i, ir.Constant(_WORD, step)), b.block)
        for phi, value in zip(carried, new, strict=True):
            phi.add_incoming(value, b.block)
        b.branch(head)
        b.position_at_end(after)
        return carried

    def write(self, correlation: Callable[..., Any], add_gap: Callable[..., Any]) -> None:
        """Write everything."""
        b = self.builder
        rows = [ir.Constant(_WORD, r) for r in range(ROWS)]

        def vector(i: Any, _: Any) -> list[Any]:
            def add(j: Any, sums: list[Any]) -> list[Any]:
                place = b.gep(self.inputs, [b.add(b.mul(j, self.stride), i)])
                column = b.load(b.bitcast(place, _VECTOR.as_pointer()), align=8)
                offset = b.mul(j, self.point_stride)
                gaps = [b.fsub(column, self.spread(self.load(self.points, b.add(offset, r)))) for r in rows]
                return [add_gap(b, gap, sum_, self.coefficients[0]) for gap, sum_ in zip(gaps, sums, strict=True)]

            squares = self.loop(ir.Constant(_WORD, 0), self.n_base, 1, [_constant(0.0)] * ROWS, add)
            values = [correlation(b, square, *self.coefficients) for square in squares]
            for r, value in zip(rows, values, strict=True):
                place = b.gep(self.out, [b.add(b.mul(r, self.out_stride), i)])
                b.store(value, b.bitcast(place, _VECTOR.as_pointer()), align=8)
            return []

        self.loop(self.first, self.last, LANES, [], vector)


def _rows(correlation: Callable[..., Any], add_gap: Callable[..., Any]) -> Any:
    """Return a function that fills four rows by one correlation function of two coefficients."""

    @intrinsic
    def rows(typing_context, points, inputs, out, point_stride, stride, out_stride, n_base, first, last, one, two):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            _Loops(builder, arguments).write(correlation, add_gap)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 9, types.float64, types.float64), generate

    return rows


_gaussian_rows, _matern_rows, _power_rows = _rows(_gaussian, _square), _rows(_matern, _square), _rows(_gaussian, _power)


@compiled
def fill_scales(ranges: Array, active: Array, exponent: float, family: int, out: Array) -> None:
    """Fill ``out`` with each dimension's factor: distances between scaled points are those of section 3.

    Separable: d_j^(-1/2) where b_j = 1, in a single index with the sign b_j. Isotropic: d^(-1/2). Power exponential:
    d_j^(-1/p). Matern: 1/d.
    """
    for j in range(out.shape[0]):
        which = j if family == at.SEPARABLE or family >= at.POWER else 0
        if active[which] == 0.0:
            out[j] = 0.0
        elif family <= at.ISOTROPIC or family == at.SINGLE_INDEX:
            out[j] = active[which] / root(ranges[which])
        elif family == at.POWER:
            out[j] = ranges[which] ** (-1.0 / exponent)
        else:
            out[j] = 1.0 / ranges[which]


@compiled
def add_up(inputs: Array, width: int, n: int, n_base: int) -> int:
    """Add the other coordinates of ``n`` scaled inputs to the first: the single index. Return 1, how many are left."""
    for j in range(1, n_base):
        for i in range(n):
            inputs[i] += inputs[j * width + i]
    return 1


@compiled
def row_stride(n: int) -> int:
    """Return the room that ``n`` correlations take: whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@compiled
def correlate(
    points: Array,
    point_stride: int,
    inputs: Array,
    first: int,
    n: int,
    n_base: int,
    family: int,
    exponent: float,
    out: Array,
    step: int,
) -> None:
    """Fill four rows, ``step`` apart, with the correlations of four points and the inputs ``first`` to ``n - 1``.

    Points and inputs are scaled and flat: coordinate j of input i is at ``j * row_stride(n) + i``, of point r at
    ``j * point_stride + r``. Neighbours of the first and the last entry within their vectors of eight are
    overwritten too.
    """
    stride, start = row_stride(n), first // LANES * LANES
    a, b, c = points.ctypes.data, inputs.ctypes.data, out.ctypes.data
    if family <= at.ISOTROPIC or family == at.SINGLE_INDEX:
        _gaussian_rows(a, b, c, point_stride, stride, step, n_base, start, n, 0.0, 0.0)
    elif family == at.POWER:
        _power_rows(a, b, c, point_stride, stride, step, n_base, start, n, exponent, 0.0)
    else:
        linear, square = 0.0 if family == at.MATERN_12 else 1.0, 1 / 3 if family == at.MATERN_52 else 0.0
        _matern_rows(a, b, c, point_stride, stride, step, n_base, start, n, linear, square)
