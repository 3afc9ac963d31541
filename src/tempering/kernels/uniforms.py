"""Random numbers of a JAX program: few calls on a processor, where each takes time, many on an accelerator.

There calls cost little, but an array that is cut into pieces must be written to memory first: a million chains of the
paper's mixture make 1.08e10 iterations a second by calls of their own, 8.8e9 by slices of one (one NVIDIA H200).
"""

from __future__ import annotations

from typing import Any

import jax


def uniforms(key: jax.Array, *sizes: int, dtype: Any) -> list[Any]:
    """Return an array of uniform numbers in [0, 1) of each of the sizes."""
    if jax.default_backend() == "cpu":
        together = jax.random.uniform(key, (sum(sizes),), dtype)
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [together[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    keys = jax.random.split(key, len(sizes))
    return [jax.random.uniform(one, (size,), dtype) for one, size in zip(keys, sizes, strict=True)]


def key_and_uniforms(key: jax.Array) -> tuple[Any, Any]:
    """Return a key for a move, and two uniform numbers in [0, 1)."""
    if jax.default_backend() == "cpu":
        first, *others = jax.random.split(key, 3)
        return first, [_bits_of(one) for one in others]
    first, second = jax.random.split(key)
    return first, jax.random.uniform(second, (2,))


def _bits_of(key: jax.Array) -> Any:
    """Return the uniform number, in double precision, that the bits of a key not used otherwise are."""
    high, low = jax.random.key_data(key)[:2]
    return (high >> 5).astype(float) * 2.0**-27 + (low >> 6).astype(float) * 2.0**-53
