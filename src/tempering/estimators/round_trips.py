"""Round trips: journeys of chains from the target's rung to the far end and back, counted for all chains at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rungs = NDArray[np.integer[Any]]

NOWHERE, FROM_COLD, FROM_HOT = 0, 1, 2  # which end a chain has seen last, once it has been to the cold one


def round_trips(rung: Rungs, cold: int, hot: int, seen: Rungs | None = None) -> tuple[int, Rungs]:
    """Count journeys from ``cold`` to ``hot`` and back, of chains with rungs of shape (chain, draw).

    ``seen`` says which end each chain saw last, where they go on from earlier draws; it is returned as it is now.

    Examples
    --------
    >>> rungs = np.array([[0, 1, 2, 1, 0, 1, 0, 1, 2, 1, 0], [2, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2]])
    >>> round_trips(rungs, 0, 2)
    (2, array([1, 2], dtype=int8))
    """
    before = np.full(len(rung), NOWHERE, np.int8) if seen is None else seen
    if cold == hot:
        return 0, np.full(len(rung), NOWHERE, before.dtype)
    chain, draw = np.nonzero((rung == cold) | (rung == hot))
    is_cold = rung[chain, draw] == cold
    is_first = np.diff(chain, prepend=-1) > 0
    was_hot = np.concatenate([[False], ~is_cold[:-1]])[: chain.size]
    was_hot[is_first] = before[chain[is_first]] == FROM_HOT
    has_been_cold = before != NOWHERE
    begins_hot = chain[is_first & ~is_cold & ~has_been_cold[chain]]  # a journey that did not begin at the cold end
    has_been_cold[chain[is_cold]] = True
    n = int(np.sum(is_cold & was_hot)) - int(np.sum(has_been_cold[begins_hot]))
    is_last = np.append(is_first[1:], True)[: chain.size]
    after, ended = before.copy(), chain[is_last]
    after[ended] = np.where(is_cold[is_last], FROM_COLD, np.where(has_been_cold[ended], FROM_HOT, NOWHERE))
    return n, after
