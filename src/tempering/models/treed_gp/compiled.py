"""How every function of the hot path is compiled: cached on disk, without the interpreter's lock."""

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., object])

_njit = njit(cache=True, error_model="numpy", nogil=True)
_inlined = njit(inline="always")


def compiled(function: Function) -> Function:
    """Compile a function; division by zero gives infinity, as in NumPy."""
    return cast(Function, _njit(function))


def inlined(function: Function) -> Function:
    """Compile a small function into its callers."""
    return cast(Function, _inlined(function))
