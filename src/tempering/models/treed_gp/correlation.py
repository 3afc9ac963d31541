"""Correlation functions of section 3: separable and isotropic Gaussian, Matern, with dimensions switched off.

A dimension whose Boolean is 0 (the limiting linear model) is dropped from the distance. Eight correlations at a
time are computed in LLVM's vector instructions, exponential included; rows have room for whole vectors.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import Array, compiled
from tempering.models.treed_gp.layout import ISOTROPIC, MATERN_12, MATERN_32, MATERN_52, SEPARABLE

LANES = 8
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


def _distance(builder: Any, squares: Any, divisor: Any) -> Any:
    name, kind = f"llvm.sqrt.v{LANES}f64", ir.FunctionType(_VECTOR, [_VECTOR])
    root = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.fmul(builder.call(root, [squares]), divisor)


def _gaussian(builder: Any, squares: Any, divisor: Any) -> Any:
    return _exponential(builder, builder.fneg(squares))


def _matern(terms: tuple[float, ...]) -> Callable[[Any, Any, Any], Any]:
    """Return the code of a polynomial in r times exp(-r)."""

    def correlation(builder: Any, squares: Any, divisor: Any) -> Any:
        r = _distance(builder, squares, divisor)
        value = _constant(terms[-1])
        for term in terms[-2::-1]:
            value = _fused(builder, value, r, _constant(term))
        return builder.fmul(value, _exponential(builder, builder.fneg(r)))

    return correlation


class _Loops:
    """Writes the two loops over a row's vectors and their coordinates."""

    def __init__(self, builder: Any, arguments: Any) -> None:
        self.builder = builder
        pointers = [builder.inttoptr(a, _REAL.as_pointer()) for a in arguments[:4]]
        self.inputs, self.point, self.scales, self.out = pointers
        self.stride, self.n_base, self.first, self.last, divisor = arguments[4:]
        self.divisor = self.spread(divisor)

    def spread(self, number: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, nothing, lanes)

    def load(self, base: Any, index: Any) -> Any:
        return self.builder.load(self.builder.gep(base, [index]))

    def loop(self, start: Any, end: Any, step: int, value: Any, body: Callable[[Any, Any], Any]) -> Any:
        """Write a loop that carries one value (or None); return the value after it."""
        b = self.builder
        before = b.block
        head, inside, after = (b.append_basic_block(name) for name in ("head", "inside", "after"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(_WORD)
        i.add_incoming(start, before)
        carried = None
        if value is not None:
            carried = b.phi(value.type)
            carried.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", i, end), inside, after)
        b.position_at_end(inside)
        new = body(i, carried)
        i.add_incoming(b.add(i, ir.Constant(_WORD, step)), b.block)
        if carried is not None:
            carried.add_incoming(new, b.block)
        b.branch(head)
        b.position_at_end(after)
        return carried

    def write(self, correlation: Callable[[Any, Any, Any], Any]) -> None:
        """Write everything."""
        b = self.builder

        def vector(i: Any, _: Any) -> None:
            def add(j: Any, sum_: Any) -> Any:
                place = b.gep(self.inputs, [b.add(b.mul(j, self.stride), i)])
                column = b.load(b.bitcast(place, _VECTOR.as_pointer()), align=8)
                gap = b.fsub(column, self.spread(self.load(self.point, j)))
                return _fused(b, b.fmul(gap, self.spread(self.load(self.scales, j))), gap, sum_)

            squares = self.loop(ir.Constant(_WORD, 0), self.n_base, 1, _constant(0.0), add)
            place = b.bitcast(b.gep(self.out, [i]), _VECTOR.as_pointer())
            b.store(correlation(b, squares, self.divisor), place, align=8)

        self.loop(self.first, self.last, LANES, None, vector)


def _row(correlation: Callable[[Any, Any, Any], Any]) -> Any:
    """Return a function that fills a row by one correlation function."""

    @intrinsic
    def row(typing_context, inputs, point, scales, out, stride, n_base, first, last, divisor):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            _Loops(builder, arguments).write(correlation)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, types.float64), generate

    return row


_gaussian_row = _row(_gaussian)
_matern_12_row, _matern_32_row, _matern_52_row = (_row(_matern(t)) for t in ((1.0,), (1.0, 1.0), (1.0, 1.0, 1 / 3)))


@compiled
def inverse_scales(ranges: Array, active: Array, family: int, out: Array) -> float:
    """Fill ``out`` with each dimension's factor on squared differences; return the factor on the distance.

    Separable: 1/d_j where b_j = 1. Isotropic: 1/d. Matern: 1, and the distance is divided by d afterwards.
    """
    for j in range(out.shape[0]):
        which = j if family == SEPARABLE else 0
        if active[which] == 0.0:
            out[j] = 0.0
        elif family <= ISOTROPIC:
            out[j] = 1.0 / ranges[which]
        else:
            out[j] = 1.0
    return float(1.0 / ranges[0])


@compiled
def row_stride(n: int) -> int:
    """Return the room that ``n`` correlations take: whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@compiled
def correlate(
    point: Array, inputs: Array, first: int, n: int, scales: Array, divisor: float, family: int, out: Array
) -> None:
    """Fill ``out[first:n]`` with the correlations of one point and the inputs ``first`` to ``n - 1``.

    ``inputs`` is flat, coordinate j of input i at ``j * row_stride(n) + i``. Neighbours of the first and the last
    entry within their vectors of eight are overwritten too.
    """
    stride = row_stride(n)
    start = first // LANES * LANES
    places = inputs.ctypes.data, point.ctypes.data, scales.ctypes.data, out.ctypes.data
    n_base = scales.shape[0]
    if family <= ISOTROPIC:
        _gaussian_row(places[0], places[1], places[2], places[3], stride, n_base, start, n, divisor)
    elif family == MATERN_12:
        _matern_12_row(places[0], places[1], places[2], places[3], stride, n_base, start, n, divisor)
    elif family == MATERN_32:
        _matern_32_row(places[0], places[1], places[2], places[3], stride, n_base, start, n, divisor)
    elif family == MATERN_52:
        _matern_52_row(places[0], places[1], places[2], places[3], stride, n_base, start, n, divisor)
