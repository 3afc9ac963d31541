"""How every function of the hot path is compiled: cached on disk, without the interpreter's lock.

Functions inside are compiled without counting references and without a door from Python, which would take
half of the time of compilation; they may not allocate. Only the few that Python calls have a door.

Numba's cache notices a change of a function's own file, not of the functions it calls. So the names under
which it caches carry a digest of all such sources of this folder: a new version never runs old code.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Never, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

from tempering.models.treed_gp import state_type  # noqa: F401  (tells Numba what a state is)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., object])

_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """A function without a door from Python: calling it from there would crash."""

    def __call__(self, *arguments: object) -> Never:
        raise TypeError(f"{self.__name__} can be called by compiled code only. Call it from a function with @njit.")


def _inner(function: Function, **options: Any) -> Function:
    dispatcher = njit(**_OPTIONS, **options, no_cpython_wrapper=True)(_named(function))
    dispatcher.__class__ = _Inner
    return cast(Function, dispatcher)


@cache
def digest() -> str:
    """Return a digest of the sources of this folder that are compiled, or that compiled ones take constants from."""
    found = hashlib.sha1(usedforsecurity=False)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_bytes()
        if b"treed_gp.compiled import" in source or path.stem in ("compiled", "layout", "state_type"):
            found.update(source)
    return found.hexdigest()[:10]


def _named(function: Function) -> Function:
    function.__qualname__ = f"{function.__qualname__}_{digest()}"
    return function


def compiled(function: Function) -> Function:
    """Compile a function for use inside compiled code; division by zero gives infinity, as in NumPy."""
    return _inner(function, _nrt=False)


def allocating(function: Function) -> Function:
    """Compile a function for use inside compiled code that allocates."""
    return _inner(function)


def entry(function: Function) -> Function:
    """Compile a function that Python calls; it may allocate."""
    return cast(Function, njit(**_OPTIONS)(_named(function)))


def inlined(function: Function) -> Function:
    """Compile a small function into its callers."""
    return cast(Function, njit(inline="always")(function))
