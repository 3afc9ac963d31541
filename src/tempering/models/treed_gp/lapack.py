"""LAPACK and BLAS inside compiled code, through SciPy's compiled interface: for what is large.

The routines are known to LLVM by name, not by address, so that functions which call them are cached on disk.
"""

import math

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

from tempering.models.treed_gp.compiled import Array, compiled

_POINTER = types.intp
_INT = ir.IntType(32)


def _external(module: str, name: str, n_arguments: int) -> types.ExternalFunction:
    """Register one Fortran routine under a name of our own."""
    symbol = f"tempering_{name}"
    llvm.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))
    return types.ExternalFunction(symbol, types.void(*[_POINTER] * n_arguments))


_dpotrf = _external("cython_lapack", "dpotrf", 5)
_dtrsm = _external("cython_blas", "dtrsm", 11)


@intrinsic
def _put(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Write a Fortran integer, or a letter, to an address; return the address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = builder.inttoptr(arguments[0], _INT.as_pointer())
        builder.store(builder.trunc(arguments[1], _INT), place)
        return arguments[0]

    return types.intp(types.intp, types.int64), generate


@intrinsic
def _get(typing_context, address):  # type: ignore[no-untyped-def]
    """Read a Fortran integer."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        value = builder.load(builder.inttoptr(arguments[0], _INT.as_pointer()))
        return builder.sext(value, ir.IntType(64))

    return types.int64(types.intp), generate


# Fortran reads our rows as columns: our upper triangle is its lower one.
_LEFT, _RIGHT, _LOWER, _TRANSPOSED, _PLAIN = (ord(letter) for letter in "LRLTN")


@compiled
def _solve(
    side: int,
    trans: int,
    factor: int,
    stride: int,
    sides: int,
    step: int,
    rows: int,
    columns: int,
    work: Array,
    at: int,
) -> None:
    """Call dtrsm with the lower triangle at ``factor``; ``work[at:]`` has room for eight numbers."""
    base = work.ctypes.data + 8 * at
    work[at + 7] = 1.0
    _dtrsm(
        _put(base, side),
        _put(base + 4, _LOWER),
        _put(base + 8, trans),
        _put(base + 12, _PLAIN),
        _put(base + 16, rows),
        _put(base + 20, columns),
        base + 56,
        factor,
        _put(base + 24, stride),
        sides,
        _put(base + 28, step),
    )


@compiled
def factor_by_lapack(matrix: Array, n: int, n_sides: int, stride: int, work: int) -> float:
    """Do by LAPACK what `factor.factor` does, with work space in ``matrix[work:]``."""
    base = matrix.ctypes.data
    place = base + 8 * work
    _put(place + 12, 0)
    _dpotrf(_put(place, _LOWER), _put(place + 4, n), base, _put(place + 8, stride), place + 12)
    if _get(place + 12) != 0:
        return math.inf
    log_det = 0.0
    for i in range(n):
        log_det += 2.0 * math.log(matrix[i * stride + i])
    if n_sides > 0:
        _solve(_RIGHT, _TRANSPOSED, base, stride, base + 8 * n, stride, n_sides, n, matrix, work)
    return log_det


@compiled
def solve_lower(matrix: Array, n: int, stride: int, sides: Array, n_sides: int, work: int) -> None:
    """Overwrite each row of ``sides``, row-major of shape (n_sides, n), by L^{-1} row; ``matrix`` holds L'."""
    _solve(_LEFT, _PLAIN, matrix.ctypes.data, stride, sides.ctypes.data, n, n, n_sides, matrix, work)
