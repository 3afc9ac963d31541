"""How the functions of the hot path are compiled: those that Python calls are cached on disk.

Numba's cache notices a change of a function's own file, not of the functions it calls. So the names under which it
caches carry a digest of all the sources of this folder that are compiled: a new version never runs old code.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tempering.compiling.inner_functions import digest_of_sources, inner_function, outer_function
from tempering.models.recapture import state_type  # noqa: F401  (tells Numba what a state is)

Function = TypeVar("Function", bound=Callable[..., object])

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


@cache
def digest() -> str:
    """Return a digest of the sources of this folder that are compiled."""
    return digest_of_sources(Path(__file__).parent)


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, too; division by zero gives infinity, as in NumPy."""
    return outer_function(_named(function), **_OPTIONS, cache=True)


def allocating(function: Function) -> Function:
    """Compile a function for compiled code alone that makes arrays."""
    return inner_function(function, **_OPTIONS)


def inner(function: Function) -> Function:
    """Compile a function for compiled code alone.

    It counts no references: it may not allocate.
    """
    return inner_function(function, **_OPTIONS, _nrt=False)


def _named(function: Function) -> Function:
    function.__qualname__ = f"{function.__qualname__}_{digest()}"
    return function
