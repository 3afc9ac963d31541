"""Compile JAX functions quickly, and keep what was compiled for the next process.

On a processor the compiler's first level gives code as fast as its third: measured on the blocks of the vector
engine, 25 to 40 % less time to compile, no difference to run. Level 0 is three times slower to run.

`tempering.compiling.keeping` looks for the executable on disk before a function is called for the first time with
arguments of new shapes. Whatever fails there, the function is compiled as JAX compiles any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from tempering.compiling.keeping import is_traced, prepare


def jitted(
    function: Callable[..., Any], static_argnums: int | tuple[int, ...] | None = None, *, level: int | None = 1
) -> Callable[..., Any]:
    """Compile a function when it is first called, by when a user has said what JAX is to run on.

    ``level`` is the compiler's on a processor; None is its own default.
    """
    import jax

    seen: set[int] = set()
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums or ())

    @cache
    def compiled(backend: str) -> Any:
        is_chosen = level is not None and backend == "cpu"
        options = {"xla_backend_optimization_level": level} if is_chosen else None
        return jax.jit(function, static_argnums=static_argnums, compiler_options=options)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if is_traced(arguments):  # then it becomes part of another program
            return function(*arguments)
        program = compiled(jax.default_backend())
        prepare(program, arguments, static, seen)
        return program(*arguments)

    return call
