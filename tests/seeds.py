"""Sweeps over seeds: ``TEMPERING_TEST_SEED`` moves every seed that a test states, a number or a name."""

import os
import sys
from typing import Any

import numpy as np

from tempering import randomness

SEED_OFFSET = int(os.environ.get("TEMPERING_TEST_SEED", "0"))
MOST = 1000  # numbers that tests state lie below: one that was moved is not moved again


def shifted(seed: Any) -> Any:
    """Return a seed that a test states, moved; whatever else says where a stream begins is left alone."""
    return seed + MOST * SEED_OFFSET if isinstance(seed, int) and 0 <= seed < MOST else seed


def shift_all() -> None:
    """Move the numbers of which NumPy, scikit-learn and this package make generators.

    Data that are part of a problem stay as they are, and so do JAX's keys: tests that make some call `shifted`.
    """
    import sklearn.utils

    make, find, check = np.random.default_rng, randomness.seed_of, sklearn.utils.check_random_state

    def default_rng(seed: Any = None) -> np.random.Generator:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        return make(seed if caller.startswith("tempering.problems.") else shifted(seed))

    np.random.default_rng = default_rng
    randomness.seed_of = lambda rng: find(shifted(rng))
    sklearn.utils.check_random_state = lambda seed: check(shifted(seed))
