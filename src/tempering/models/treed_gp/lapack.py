"""LAPACK and BLAS inside compiled code, through SciPy's compiled interface.

The routines are known to LLVM by name, not by address, so that functions which call them are cached on disk.
"""

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from tempering.models.treed_gp.compiled import Array, compiled

_POINTER = types.intp


def _external(module: str, name: str, n_arguments: int) -> types.ExternalFunction:
    """Register one Fortran routine under a name of our own."""
    symbol = f"tempering_{name}"
    llvm.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))
    return types.ExternalFunction(symbol, types.void(*[_POINTER] * n_arguments))


_dpotrf = _external("cython_lapack", "dpotrf", 5)
_dtrsm = _external("cython_blas", "dtrsm", 11)

# Fortran reads our rows as columns: our lower triangle is its upper one.
_UPPER, _LEFT, _TRANSPOSED, _PLAIN, _NOT_UNIT = (ord(letter) for letter in "ULTNN")


@compiled
def cholesky(matrix: Array, n: int) -> bool:
    """Overwrite the lower triangle of a row-major ``(n, n)`` matrix by its factor; say whether it has one."""
    letters = np.full(1, _UPPER, np.int8)
    sizes = np.full(2, n, np.int32)
    info = np.zeros(1, np.int32)
    _dpotrf(letters.ctypes.data, sizes.ctypes.data, matrix.ctypes.data, sizes[1:].ctypes.data, info.ctypes.data)
    return bool(info[0] == 0)


@compiled
def solve_lower(factor: Array, sides: Array, n: int, n_sides: int, transposed: bool) -> None:
    """Overwrite each row of ``sides`` by L^{-1} row, or L^{-T} row.

    ``factor`` is a row-major ``(n, n)`` lower triangle, ``sides`` a row-major ``(n_sides, n)`` matrix.
    """
    letters = np.empty(4, np.int8)
    letters[0] = _LEFT
    letters[1] = _UPPER
    letters[2] = _PLAIN if transposed else _TRANSPOSED
    letters[3] = _NOT_UNIT
    sizes = np.empty(2, np.int32)
    sizes[0] = n
    sizes[1] = n_sides
    one = np.ones(1)
    _dtrsm(
        letters.ctypes.data,
        letters[1:].ctypes.data,
        letters[2:].ctypes.data,
        letters[3:].ctypes.data,
        sizes.ctypes.data,
        sizes[1:].ctypes.data,
        one.ctypes.data,
        factor.ctypes.data,
        sizes.ctypes.data,
        sides.ctypes.data,
        sizes.ctypes.data,
    )
