"""How the inner functions are compiled: once, kept on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
# Sums may be reordered, which lets loops over columns use vector instructions; infinities and NaN keep their meaning
FAST = {"reassoc", "contract", "arcp", "nsz"}


INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # half of the time to compile is spent on these


def compiled(function: Function) -> Function:
    """Compile a function by Numba when it is first called."""
    return cast(Function, njit(cache=True, nogil=True, fastmath=FAST, no_cfunc_wrapper=True)(function))


def inner(function: Function) -> Function:
    """Compile one that is called by compiled functions alone."""
    return cast(Function, njit(cache=True, nogil=True, fastmath=FAST, **INNER)(function))
