"""Seeds as scikit-learn's users give them: a whole number, a generator of either kind, or None."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def seed_from(random_state: Any) -> int:
    """Return a seed; a `Generator` or `RandomState` moves on by one draw, None asks the system.

    Examples
    --------
    >>> seed_from(1) == seed_from(1), seed_from(np.random.default_rng(1)) == seed_from(np.random.default_rng(1))
    (True, True)
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


def generator_of(random_state: Any) -> np.random.Generator:
    """Return a generator; a `Generator` is used as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_from(random_state))
