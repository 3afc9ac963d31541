"""Compile JAX functions quickly, and keep what was compiled for the next process.

On a processor the compiler's first level gives code as fast as its third: measured on the blocks of the vector
engine, 25 to 40 % less time to compile, no difference to run. Level 0 is three times slower to run. XLA's older
emitters take 40 % less to compile, a second of the loop of Hamiltonian moves; what they make runs as fast or a third
slower (up to 16 dimensions), half as slow again in a hundred, and is twice as slow on a regression of 1e4 rows: the
choice for loops that are light. Both together compile three times as fast: the choice for what runs a few times only.
On an H200 the first level takes a fifth less to compile, and code is as fast.

`tempering.compiling.keeping` looks for the executable on disk before a function is called for the first time with
arguments of new shapes. Whatever fails there, the function is compiled as JAX compiles any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from tempering.compiling.devices import platform_in_use
from tempering.compiling.keeping import is_traced, prepare


def jitted(
    function: Callable[..., Any],
    static_argnums: int | tuple[int, ...] | None = None,
    *,
    level: int | None = 1,
    is_brief: bool = False,
    is_light: bool = False,
) -> Callable[..., Any]:
    """Compile a function when it is first called, by when a user has said what JAX is to run on.

    ``level`` is the compiler's; None is its own default. What ``is_brief``, called a few times in a run,
    is compiled in the least time; what ``is_light``, a loop that takes no longer to run than to compile, in less.
    """
    import jax

    seen: set[int] = set()
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums or ())

    @cache
    def compiled(backend: str) -> Any:
        options = _options(backend, level, is_brief=is_brief, is_light=is_light)
        return jax.jit(function, static_argnums=static_argnums, compiler_options=options)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if is_traced(arguments):  # then it becomes part of another program
            return function(*arguments)
        program = compiled(platform_in_use())
        prepare(program, arguments, static, seen)
        return program(*arguments)

    return call


def _options(backend: str, level: int | None, *, is_brief: bool, is_light: bool) -> dict[str, Any] | None:
    if backend == "cpu" and (is_brief or is_light):
        chosen = {"xla_backend_optimization_level": 0 if is_brief else 1, "xla_cpu_use_fusion_emitters": False}
        return chosen if _are_known(*chosen.items()) else {k: v for k, v in chosen.items() if _are_known((k, v))}
    return None if level is None or backend not in ("cpu", "gpu") else {"xla_backend_optimization_level": level}


@cache
def _are_known(*options: tuple[str, Any]) -> bool:
    """Whether this version of XLA has some options: they come and go."""
    import jax

    program = jax.jit(lambda x: x, compiler_options=dict(options))
    try:
        prepare(program, (0.0,), (), set())
        program(0.0)
    except Exception:  # the types of JAX's errors change, too
        return False
    return True
