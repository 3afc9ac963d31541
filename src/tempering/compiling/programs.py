"""Compile JAX functions quickly: on a processor the compiler's first level gives code as fast as its third.

Measured on the blocks of the vector engine: 25 to 40 % less time to compile, no difference to run. Level 0 is three
times slower to run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any


def jitted(function: Callable[..., Any], static_argnums: int | tuple[int, ...] | None = None) -> Callable[..., Any]:
    """Compile a function when it is first called, by when a user has said what JAX is to run on."""
    import jax

    @cache
    def compiled(backend: str) -> Any:
        options = {"xla_backend_optimization_level": 1} if backend == "cpu" else None
        return jax.jit(function, static_argnums=static_argnums, compiler_options=options)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return compiled(jax.default_backend())(*arguments)

    return call
