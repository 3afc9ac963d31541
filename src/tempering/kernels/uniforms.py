"""The random numbers of a chain's step: Threefry-2x32 with 20 rounds (Salmon et al. 2011), the generator of JAX's keys.

JAX compiles each call of it on a processor to a loop of small programs. Written out as one expression all numbers of a
step are one: a quarter of the time to compile and to run (32 chains, 29 numbers each: .10 for .33 us a chain). On an
accelerator calls cost little, but an array that is cut into pieces must be written to memory first: a million chains
of the paper's mixture make 1.08e10 iterations a second by calls of their own, 8.8e9 by slices of one (one NVIDIA H200).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compiling.devices import platform_in_use
from tempering.kernels.threefry import GENERATOR, threefry

Pair = tuple[jax.Array, jax.Array]

STREAMS = 0x7FFFFFFE  # folded into a key for its streams, where they are not made here: nothing else takes so many

_traced_once = jax.jit(threefry, inline=True)  # tracing a hundred operations takes as long as many runs of them


def folded_in(key: jax.Array, number: jax.Array | int) -> jax.Array:
    """Return the key that `jax.random.fold_in` returns."""
    if not _is_known(key):
        return jax.random.fold_in(key, number)
    return _key_of(*_words_at(key, jnp.asarray(number).astype(jnp.uint32), 0))


def normals_and_uniforms(
    key: jax.Array, n_normals: int, n_uniforms: int, dtype: np.dtype[Any], stream: jax.Array | int = 0
) -> Pair:
    """Return standard normal numbers, and uniform ones in [0, 1), from one of the streams of a key."""
    if platform_in_use() == "cpu" and _is_known(key):
        n_pairs = -(-n_normals // 2)
        counter = jnp.arange(2 * n_pairs + n_uniforms, dtype=jnp.uint32)
        numbers = _by_itself(lambda: _number_of(_words_at(key, counter, stream), dtype))
        normals = _normals_of(numbers[:n_pairs], numbers[n_pairs : 2 * n_pairs])[:n_normals]
        return normals, numbers[2 * n_pairs :]
    of_normals, of_uniforms = jax.random.split(folded_in(folded_in(key, STREAMS), stream))
    return jax.random.normal(of_normals, (n_normals,), dtype), jax.random.uniform(of_uniforms, (n_uniforms,), dtype)


def key_and_uniforms(key: jax.Array, iteration: jax.Array | int) -> Pair:
    """Return a key for the move of an iteration, and two uniform numbers in [0, 1), from the key of a chain."""
    if platform_in_use() == "cpu" and _is_known(key):
        counter = jnp.arange(6, dtype=jnp.uint32)
        words = _by_itself(lambda: _words_at(key, counter, iteration)[0])
        return _key_of(words[0], words[1]), _number_of((words[2:4], words[4:]), jnp.result_type(float))
    first, second = jax.random.split(folded_in(key, iteration))
    return first, jax.random.uniform(second, (2,))


def _is_known(key: jax.Array) -> bool:
    return str(jax.random.key_impl(key)) == GENERATOR


def _words_at(key: jax.Array, counter: jax.Array, stream: jax.Array | int) -> Pair:
    own = jax.random.key_data(key)
    high = jnp.broadcast_to(jnp.asarray(stream).astype(jnp.uint32), counter.shape)
    found: Pair = _traced_once((own[0], own[1]), high, counter)
    return found


def _key_of(high: jax.Array, low: jax.Array) -> jax.Array:
    key: jax.Array = jax.random.wrap_key_data(jnp.stack([high, low]), impl=GENERATOR)
    return key


def _number_of(words: Pair, dtype: np.dtype[Any]) -> jax.Array:
    """Return the uniform number that the bits of two words are; all 53 that a double has."""
    high, low = words
    if np.dtype(dtype) == np.float64:
        return (high >> 5).astype(dtype) * 2.0**-27 + (low >> 6).astype(dtype) * 2.0**-53
    return (high >> 8).astype(dtype) * 2.0**-24


def _normals_of(u: jax.Array, v: jax.Array) -> jax.Array:
    """Return two normal numbers for each two uniform ones (Box and Muller 1958): a fifth of the time of erf_inv."""
    radius = jnp.sqrt(-2.0 * jnp.log(1.0 - u))  # exact; log1p would take twice as long
    return jnp.concatenate([radius * part for part in _cosine_and_sine(v)])


def _cosine_and_sine(turns: jax.Array) -> Pair:
    """Return both by their Taylor series about the nearest quarter of a turn: XLA calls a function for each number."""
    quarters = jnp.round(4.0 * turns)
    x = (0.5 * np.pi) * (4.0 * turns - quarters)
    cosine, sine = (_series(x * x, first) for first in (0, 1))
    quarter = quarters.astype(jnp.int32)
    is_odd = quarter % 2 == 1
    x_part, y_part = jnp.where(is_odd, x * sine, cosine), jnp.where(is_odd, cosine, x * sine)
    return jnp.where((quarter + 1) & 2 == 2, -x_part, x_part), jnp.where(quarter & 2 == 2, -y_part, y_part)


def _series(square: jax.Array, first: int) -> jax.Array:
    """Return 1 / first! - x^2 / (first + 2)! + ..., to a double's last digit for x up to an eighth of a turn."""
    total = jnp.zeros_like(square)
    for k in range(8, -1, -1):
        total = total * square + (-1.0) ** k / math.factorial(2 * k + first)
    return total


def _by_itself(make: Callable[[], jax.Array]) -> jax.Array:
    """Compute an array once: XLA puts copies of what is cheap into all that uses it, but sees no end of this loop."""
    n = jax.lax.optimization_barrier(jnp.int32(1))  # type: ignore[no-untyped-call]
    made = jax.eval_shape(make)
    found: jax.Array = jax.lax.fori_loop(0, n, lambda _, __: make(), jnp.zeros(made.shape, made.dtype))
    return found
