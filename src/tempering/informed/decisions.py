"""The random decisions of informed chains; tests replace them by exhaustive branching."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.randomness import choose

Ints = NDArray[np.intp]


def pick(rng: np.random.Generator, log_weights: Floats) -> int:
    """Pick an index with probability proportional to exp(log_weights)."""
    heights = np.cumsum(np.exp(log_weights - np.max(log_weights)))
    # side="right" never ends on an index of weight zero; the draw is below the last height but for rounding
    return int(min(np.searchsorted(heights, rng.random() * heights[-1], side="right"), _last_positive(heights)))


def _last_positive(heights: Floats) -> int:
    return int(np.searchsorted(heights, heights[-1], side="left"))


def subset(rng: np.random.Generator, n: int, size: int, forced: int = -1) -> Ints:
    """Choose ``size`` of 0 ... n - 1 without replacement, sorted; ``forced``, if not negative, is one of them."""
    chosen = [forced] if forced >= 0 else []
    left = [i for i in range(n) if i != forced] if n <= 64 else None
    if left is None:  # few of many: redraw those that repeat
        seen = set(chosen)
        while len(seen) < size:
            seen.add(choose(rng, n))
        return np.array(sorted(seen), dtype=np.intp)
    while len(chosen) < size:
        chosen.append(left.pop(choose(rng, len(left))))
    return np.array(sorted(chosen), dtype=np.intp)
