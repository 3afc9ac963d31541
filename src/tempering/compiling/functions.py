"""Put plain functions together, and compile them with Numba, whole call graphs at a time.

The same source runs as plain Python and compiled: a compiled copy of a function calls the compiled copies of
the package's functions it names. Copies are named after their contents, so that Numba's cache on disk never
goes stale.
"""

from __future__ import annotations

import hashlib
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

Function = Callable[..., Any]

_LOOPS: dict[Function, Function] = {}
_BOUND: dict[Function, frozenset[str]] = {}  # names that mean what they were bound to, by function


def when_compiled(loops: Function) -> Callable[[Function], Function]:
    """Give a function another body for compilation: whole arrays in Python, loops over them when compiled."""

    def register(arrays: Function) -> Function:
        _LOOPS[arrays] = loops
        return arrays

    return register


def is_numba(function: Any) -> bool:
    """Whether a function was compiled by Numba's njit."""
    return hasattr(function, "py_func") and hasattr(function, "nopython_signatures")


@cache
def bind(function: Function, **pieces: Function) -> Function:
    """Return a copy of ``function`` whose global names in ``pieces`` mean those functions."""
    copy = types.FunctionType(function.__code__, {**function.__globals__, **pieces}, function.__name__)
    copy.__module__ = function.__module__
    _BOUND[copy] = frozenset(pieces)
    return copy


@cache
def compiled(function: Function, signature: Any = None, *, allocates: bool = True) -> Any:
    """Compile ``function`` with all that it calls in the package.

    With a ``signature`` it is compiled for that alone, and arguments that are functions come as pointers;
    without one it is inlined into its callers. What ``allocates`` no arrays needs no counting of references,
    which costs as much as a cheap density.
    """
    import numba

    copy = _copy(_LOOPS.get(function, function), "" if allocates else "uncounted_")
    is_in_file = Path(function.__code__.co_filename).is_file()  # else there is no place to keep it by
    if signature is None:
        return numba.njit(cache=is_in_file, inline="always", error_model="numpy")(copy)
    with warnings.catch_warnings():
        # function pointers are still called experimental by Numba; tests run them on every version we admit
        warnings.simplefilter("ignore", numba.NumbaExperimentalFeatureWarning)
        options = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": allocates}
        return numba.njit([signature], **options)(copy)


def _callees(function: Function) -> Iterator[tuple[str, Function]]:
    """Yield the functions that ``function`` names and that are compiled with it.

    Those of this package, those it was bound to, which may be a user's kernel, and others of the same module.
    """
    bound = _BOUND.get(function, frozenset())
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, types.FunctionType) and (
            name in bound or value.__module__ == function.__module__ or value.__module__.startswith("tempering.")
        ):
            yield name, value


def _copy(function: Function, kind: str) -> Function:
    scope = {**function.__globals__, **{name: compiled(callee) for name, callee in _callees(function)}}
    copy = types.FunctionType(function.__code__, scope, function.__name__)
    copy.__qualname__ = f"{function.__name__}_{kind}{_digest(function)}"
    copy.__module__ = function.__module__
    return copy


def _digest(function: Function) -> str:
    """Hash the byte code of a function and of all that it calls in the package, and the constants named."""
    digest = hashlib.sha1(usedforsecurity=False)
    for f in _call_graph(function, {}):
        code = f.__code__
        named = [value for name in code.co_names if isinstance(value := f.__globals__.get(name), int | float)]
        digest.update(code.co_code + repr((code.co_consts, code.co_names, named)).encode())
    return digest.hexdigest()[:12]


def _call_graph(function: Function, seen: dict[Function, None]) -> dict[Function, None]:
    function = _LOOPS.get(function, function)
    if function not in seen:
        seen[function] = None
        for _, callee in _callees(function):
            _call_graph(callee, seen)
    return seen
