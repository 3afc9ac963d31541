"""The keys of all chains, computed by NumPy: compiling the same for JAX takes longer than a short run.

A key is that of `jax.random.fold_in`, Threefry-2x32 with 20 rounds (Salmon et al. 2011), whatever generator a user's
configuration names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.kernels.threefry import GENERATOR, threefry

if TYPE_CHECKING:
    import jax

Words = NDArray[np.uint32]


def keys_of(seed: int, stream: int, n: int) -> jax.Array:
    """Return JAX keys, one for each index of a stream; the first ones do not depend on how many there are.

    Examples
    --------
    >>> import jax
    >>> first = jax.random.fold_in(jax.random.fold_in(jax.random.key(5), 1), 0)
    >>> bool((jax.random.key_data(keys_of(5, 1, 3)[0]) == jax.random.key_data(first)).all())
    True
    """
    of_stream = _folded_in(_words_of(seed), np.array([stream]))[0]
    return key_of(_folded_in(of_stream, np.arange(n)))


def child(key: jax.Array | int, number: int) -> jax.Array:
    """Return the key that `jax.random.fold_in` makes of a key and a number; a seed will do for a key.

    Examples
    --------
    >>> import jax
    >>> same = jax.random.fold_in(jax.random.fold_in(jax.random.key(5), 3), 4)
    >>> bool((jax.random.key_data(child(child(5, 3), 4)) == jax.random.key_data(same)).all())
    True
    """
    words = _words_of(int(key)) if isinstance(key, int | np.integer) else words_of(key)
    return key_of(_folded_in(words, np.array([number]))[0])


def words_of(keys: jax.Array) -> Words:
    """Return the two words of each of JAX's keys."""
    import jax

    return np.asarray(jax.random.key_data(keys))


def key_of(words: Words) -> jax.Array:
    """Return JAX's keys of their words; unlike `jax.numpy.asarray`, putting them on a device compiles nothing."""
    import jax

    keys: jax.Array = jax.random.wrap_key_data(jax.device_put(words), impl=GENERATOR)
    return keys


def _words_of(seed: int) -> Words:
    return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)


def _folded_in(key: Words, numbers: NDArray[Any]) -> Words:
    """Return a new key for each number, (number, word)."""
    counter = numbers.astype(np.uint32)
    with np.errstate(over="ignore"):  # sums are meant modulo 2^32
        return np.stack(threefry((key[0], key[1]), np.zeros_like(counter), counter), axis=1)
