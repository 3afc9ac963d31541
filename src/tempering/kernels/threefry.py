"""Threefry-2x32 with 20 rounds (Salmon et al. 2011), the generator of JAX's keys, for arrays of NumPy and JAX alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

    Words = NDArray[np.uint32] | jax.Array

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
GENERATOR = "threefry2x32"


def threefry(key: tuple[Any, Any], x: Words, y: Words) -> tuple[Any, Any]:
    """Return two random words for each counter (x, y) of two words; arrays of NumPy or JAX alike."""
    words = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x, y = x + words[0], y + words[1]
    for i in range(5):
        for turn in ROTATIONS[i % 2]:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x = x + words[(i + 1) % 3]
        y = y + words[(i + 2) % 3] + np.uint32(i + 1)
    return x, y
