"""The two decisions a sampler takes, and where its streams come from.

Kernels decide by `accept` and `choose` alone, so that tests can replace them by exhaustive branching.
"""

from __future__ import annotations

import numpy as np

from tempering.errors import SamplerError


def accept(rng: np.random.Generator, log_ratio: float) -> bool:
    """Accept with probability min(1, exp(log_ratio)). NaN is never accepted."""
    return bool(np.log(1.0 - rng.random()) < log_ratio)


def choose(rng: np.random.Generator, n: int) -> int:
    """Choose one of 0 ... n - 1 with equal probability."""
    return int(rng.random() * n)


def seed_of(rng: np.random.Generator | int | None) -> int:
    """Turn what a user passes as ``rng`` into one whole number, from which every stream follows."""
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if not isinstance(rng, int | np.integer) or rng < 0:
        raise SamplerError(
            f"rng must be a whole number of at least 0, a numpy Generator or None, but got {rng!r}. Pass for example 1."
        )
    return int(rng)


def stream(seed: int, *path: int) -> np.random.Generator:
    """Return the generator of one chain (or stage): a function of the seed and its indices alone."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=path)))
