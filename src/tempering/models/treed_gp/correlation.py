"""Correlation functions of section 3: separable and isotropic Gaussian, Matern, with dimensions switched off.

A dimension whose Boolean is 0 (the limiting linear model) is dropped from the distance.
"""

import math

from numba import types
from numba.extending import intrinsic

from tempering.models.treed_gp.compiled import Array, compiled, inlined
from tempering.models.treed_gp.layout import ISOTROPIC, MATERN_12, MATERN_32, SEPARABLE

_SHIFT = 1.5 * 2.0**52  # adding it rounds to the nearest integer, which then sits in the low bits
_LOG2_HIGH = 0.6931471803691238  # log 2 in two parts, so that the reduction loses nothing
_LOG2_LOW = 1.9082149292705877e-10
_SMALLEST = -700.0  # exp(-700) = 1e-304: still a normal number


@intrinsic
def _as_float(typing_context, bits):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@intrinsic
def _as_bits(typing_context, number):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@inlined
def _exp(x: float) -> float:
    """Return exp(x), x <= 0, to one unit in the last place, in a form the compiler turns into vector code."""
    x = max(x, _SMALLEST)
    shifted = x * 1.4426950408889634 + _SHIFT
    whole = shifted - _SHIFT
    r = x - whole * _LOG2_HIGH - whole * _LOG2_LOW
    p = 1.0 / 479001600.0  # Taylor to the 12th power: |r| < 0.35, the rest is below 2e-16
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return float(p * _as_float((_as_bits(shifted) + 1023) << 52))


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
def correlate(
    point: Array,
    inputs: Array,
    n: int,
    scales: Array,
    divisor: float,
    family: int,
    out: Array,
) -> None:
    """Fill ``out[:n]`` with the correlations of one point and the first ``n`` columns of ``inputs``."""
    for i in range(n):
        out[i] = 0.0
    for j in range(scales.shape[0]):
        scale = scales[j]
        if scale > 0.0:
            for i in range(n):
                difference = inputs[j, i] - point[j]
                out[i] += scale * (difference * difference)
    if family <= ISOTROPIC:
        for i in range(n):
            out[i] = _exp(-out[i])
    elif family == MATERN_12:
        for i in range(n):
            out[i] = _exp(-divisor * math.sqrt(out[i]))
    elif family == MATERN_32:
        for i in range(n):
            r = divisor * math.sqrt(out[i])
            out[i] = (1.0 + r) * _exp(-r)
    else:
        for i in range(n):
            r = divisor * math.sqrt(out[i])
            out[i] = (1.0 + r + r * r / 3.0) * _exp(-r)


@compiled
def fill_lower(
    inputs: Array,
    n: int,
    scales: Array,
    divisor: float,
    family: int,
    point: Array,
    out: Array,
) -> None:
    """Fill the lower triangle of ``out`` with the correlations of the columns of ``inputs``."""
    for i in range(n):
        for j in range(scales.shape[0]):
            point[j] = inputs[j, i]
        correlate(point, inputs, i + 1, scales, divisor, family, out[i])
