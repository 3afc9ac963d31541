"""Correlation functions of section 3: separable and isotropic Gaussian, Matern, with dimensions switched off.

A dimension whose Boolean is 0 (the limiting linear model) is dropped from the distance. Four rows of eight
correlations are computed at a time in LLVM's vector instructions, exponential included; rows have room for whole
vectors.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import ISOTROPIC, MATERN_12, MATERN_32, MATERN_52, SEPARABLE
from tempering.models.treed_gp.roots import root, square_root

LANES = 8
ROWS = 4  # rows at a time: their exponentials are computed side by side
_LOG2_E = 1.4426950408889634
_SHIFT = 1.5 * 2.0**52  # adding it rounds to the nearest integer, which then sits in the low bits
_LOG2_HIGH = 0.6931471803691238  # log 2 in two parts, so that the reduction loses nothing
_LOG2_LOW = 1.9082149292705877e-10
_SMALLEST = -700.0  # exp(-700) = 1e-304: still a normal number
_DEGREE = 12  # of Taylor's series: |r| < 0.35, the rest is below 2e-16

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


def _gaussian(builder: Any, squares: Any) -> Any:
    return _exponential(builder, builder.fneg(squares))


def _matern(terms: tuple[float, ...]) -> Callable[[Any, Any], Any]:
    """Return the code of a polynomial in r times exp(-r)."""

    def correlation(builder: Any, squares: Any) -> Any:
        r = square_root(builder, squares)
        value = _constant(terms[-1])
        for term in terms[-2::-1]:
            value = _fused(builder, value, r, _constant(term))
        return builder.fmul(value, _exponential(builder, builder.fneg(r)))

    return correlation


class _Loops:
    """Writes the two loops over the vectors of four rows and their coordinates."""

    def __init__(self, builder: Any, arguments: Any) -> None:
        self.builder = builder
        self.points, self.inputs, self.out = (builder.inttoptr(a, _REAL.as_pointer()) for a in arguments[:3])
        self.point_stride, self.stride, self.out_stride, self.n_base, self.first, self.last = arguments[3:]

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

    def write(self, correlation: Callable[[Any, Any], Any]) -> None:
        """Write everything."""
        b = self.builder
        rows = [ir.Constant(_WORD, r) for r in range(ROWS)]

        def vector(i: Any, _: Any) -> list[Any]:
            def add(j: Any, sums: list[Any]) -> list[Any]:
                place = b.gep(self.inputs, [b.add(b.mul(j, self.stride), i)])
                column = b.load(b.bitcast(place, _VECTOR.as_pointer()), align=8)
                at = b.mul(j, self.point_stride)
                gaps = [b.fsub(column, self.spread(self.load(self.points, b.add(at, r)))) for r in rows]
                return [_fused(b, gap, gap, sum_) for gap, sum_ in zip(gaps, sums, strict=True)]

            squares = self.loop(ir.Constant(_WORD, 0), self.n_base, 1, [_constant(0.0)] * ROWS, add)
            for r, value in zip(rows, [correlation(b, values) for values in squares], strict=True):
                place = b.gep(self.out, [b.add(b.mul(r, self.out_stride), i)])
                b.store(value, b.bitcast(place, _VECTOR.as_pointer()), align=8)
            return []

        self.loop(self.first, self.last, LANES, [], vector)


def _rows(correlation: Callable[[Any, Any], Any]) -> Any:
    """Return a function that fills four rows by one correlation function."""

    @intrinsic
    def rows(typing_context, points, inputs, out, point_stride, stride, out_stride, n_base, first, last):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            _Loops(builder, arguments).write(correlation)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 9), generate

    return rows


_gaussian_rows = _rows(_gaussian)
_matern_12, _matern_32, _matern_52 = (_rows(_matern(t)) for t in ((1.0,), (1.0, 1.0), (1.0, 1.0, 1 / 3)))


@compiled
def fill_scales(ranges: Array, active: Array, family: int, out: Array) -> None:
    """Fill ``out`` with each dimension's factor: distances between scaled points are those of section 3.

    Separable: d_j^(-1/2) where b_j = 1. Isotropic: d^(-1/2). Matern: 1/d.
    """
    for j in range(out.shape[0]):
        which = j if family == SEPARABLE else 0
        if active[which] == 0.0:
            out[j] = 0.0
        elif family <= ISOTROPIC:
            out[j] = 1.0 / root(ranges[which])
        else:
            out[j] = 1.0 / ranges[which]


@compiled
def row_stride(n: int) -> int:
    """Return the room that ``n`` correlations take: whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@compiled
def correlate(
    points: Array, point_stride: int, inputs: Array, first: int, n: int, n_base: int, family: int, out: Array, step: int
) -> None:
    """Fill four rows, ``step`` apart, with the correlations of four points and the inputs ``first`` to ``n - 1``.

    Points and inputs are scaled and flat: coordinate j of input i is at ``j * row_stride(n) + i``, of point r at
    ``j * point_stride + r``. Neighbours of the first and the last entry within their vectors of eight are
    overwritten too.
    """
    stride, start = row_stride(n), first // LANES * LANES
    a, b, c = points.ctypes.data, inputs.ctypes.data, out.ctypes.data
    if family <= ISOTROPIC:
        _gaussian_rows(a, b, c, point_stride, stride, step, n_base, start, n)
    elif family == MATERN_12:
        _matern_12(a, b, c, point_stride, stride, step, n_base, start, n)
    elif family == MATERN_32:
        _matern_32(a, b, c, point_stride, stride, step, n_base, start, n)
    elif family == MATERN_52:
        _matern_52(a, b, c, point_stride, stride, step, n_base, start, n)
