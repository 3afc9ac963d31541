"""How every function of the hot path is compiled: without the interpreter's lock, and kept on disk.

Functions inside are handed over as they are to the function that calls them, and optimised with it
(`compiling/inner_functions.py`); they count no references, and may not allocate. Only the few that Python calls have a
door, and are kept on disk.

A function that many call would be optimised in each. So the large ones are sealed: C functions that their callers know
by a symbol alone, compiled once, when a function with a door is compiled or read first.

Numba's cache notices a change of a function's own file, not of the functions it calls. So the names under
which it caches carry a digest of all such sources: a new version never runs old code.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Never, TypeVar, cast

import llvmlite.binding as llvm
import numpy as np
from numba import cfunc, njit, typeof, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic
from numpy.typing import NDArray

from tempering.compiling.inner_functions import digest_of_sources, inner_function
from tempering.models.treed_gp import state_type  # noqa: F401  (tells Numba what a state is)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

Function = TypeVar("Function", bound=Callable[..., object])

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """A function without a door from Python: calling it from there would crash."""

    def __call__(self, *arguments: object) -> Never:
        raise TypeError(f"{self.__name__} can be called by compiled code only. Call it from a function with @njit.")


def _inner(function: Function, **options: Any) -> Function:
    dispatcher: Any = inner_function(function, **_OPTIONS, **options)
    dispatcher.__class__ = _Inner
    return cast(Function, dispatcher)


class _Entry(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls: what is sealed must be there before it is compiled, or read from the cache."""

    def compile(self, signature: Any) -> Any:
        break_seals()
        return super().compile(signature)


@cache
def digest() -> str:
    """Return a digest of the sources of this folder that are compiled, or that compiled ones take constants from."""
    return digest_of_sources(Path(__file__).parent)


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
    return _door(function, no_cfunc_wrapper=True)


def called(function: Function) -> Function:
    """Compile a function that Python calls, and an engine's compiled loop, which is given its address."""
    return _door(function)


def _door(function: Function, **options: Any) -> Function:
    dispatcher = njit(**_OPTIONS, **options, cache=True)(_named(function))
    dispatcher.__class__ = _Entry
    return cast(Function, dispatcher)


_pending: list[tuple[Any, Any, str, dict[str, Any]]] = []
_compiled: list[Any] = []  # as long as they live, their addresses are good


def sealed(signature: Any, **options: Any) -> Callable[[Any], Any]:
    """Make a function known to compiled code by a symbol; arguments are numbers, addresses and states."""

    def seal(function: Any) -> Any:
        symbol = f"tempering_{function.__name__}_{digest()}"
        _pending.append((_named(function), signature, symbol, {"_nrt": False} | options))
        return types.ExternalFunction(symbol, signature)

    return seal


def break_seals() -> None:
    """Compile what is sealed, or read it from the cache, in the order in which it was defined."""
    if not _pending:
        return
    with global_compiler_lock:  # the one that whoever compiles holds: two might wait for each other
        while _pending:
            function, signature, symbol, options = _pending[0]
            made = cfunc(signature, cache=True, error_model="numpy", **options)(function)
            llvm.add_symbol(symbol, made.address)
            _compiled.append(made)
            _pending.pop(0)


_GENERATOR = typeof(np.random.default_rng())


@intrinsic
def address_of(typing_context, rng):  # type: ignore[no-untyped-def]
    """Return the address of a generator, for a sealed function."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = cgutils.alloca_once_value(builder, arguments[0])
        return builder.ptrtoint(place, context.get_value_type(types.intp))

    return types.intp(rng), generate


@intrinsic
def generator_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Return the generator at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = context.get_value_type(_GENERATOR)
        return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

    return _GENERATOR(types.intp), generate


def inlined(function: Function) -> Function:
    """Compile a small function into its callers."""
    return cast(Function, njit(inline="always")(function))
