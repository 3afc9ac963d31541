"""What JAX runs on here, and how to have it run on the processor for a while.

An accelerator takes two to three times as long as a processor to compile a loop of chains, and a third of a second for
each small program. What a few chains do, to tune a run of ten thousand, is done sooner on the processor beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROCESSOR = "cpu"


def platform_in_use() -> str:
    """Return the platform that JAX computes on here: of `jax.default_device` where that is set, else of its choice."""
    import jax

    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    if chosen is None:
        return str(jax.default_backend())
    return str(chosen).partition(":")[0] if isinstance(chosen, str) else str(chosen.platform)


def has_processor_beside() -> bool:
    """Whether JAX computes on an accelerator, and could on the processor."""
    import jax

    if platform_in_use() == PROCESSOR:
        return False
    try:
        return bool(jax.devices(PROCESSOR))
    except RuntimeError:  # it was told to know of no other platform
        return False


@contextmanager
def on_the_processor() -> Iterator[None]:
    """Let JAX compile and run on the processor, if there is one for it."""
    if not has_processor_beside():
        yield
        return
    import jax

    with jax.default_device(jax.devices(PROCESSOR)[0]):
        yield
