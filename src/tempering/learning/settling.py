"""Whether tuning has settled: then what is left of it is better spent on draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.engines.trace import Schedule
from tempering.kernels.settings import Settings
from tempering.learning.kernel_settings import size_of

ENOUGH_TRIPS = 64  # round trips of a round, all chains together: occupancies are then known to a fifth
NEAR = (0.75, 1.35)  # times what was aimed at, the occupancy of every rung
SAME_K = 0.05  # no rung has moved further
SAME_STEP = 1.3  # no kernel's step has changed by more than this factor


def has_settled(
    occupancy: NDArray[np.float64], aim: NDArray[np.float64], n_round_trips: int, before: Schedule, after: Schedule
) -> bool:
    """Whether a round visited rungs as aimed at, and would be run again with nearly the same schedule.

    Parameters
    ----------
    occupancy : ndarray, shape (rung,)
        Share of the draws.
    aim : ndarray, shape (rung,)
        What was aimed at, relative to 1/m.
    n_round_trips : int
        Of all chains.
    before, after : Schedule
        Of the round, and of the next.
    """
    relative = occupancy * len(occupancy) / aim
    if n_round_trips < ENOUGH_TRIPS or relative.min() < NEAR[0] or relative.max() > NEAR[1]:
        return False
    old, new = before.ladder.inverse_temperatures, after.ladder.inverse_temperatures
    if len(old) != len(new) or np.max(np.abs(old - new)) > SAME_K:
        return False
    return all(_same_steps(*pair) for pair in zip(before.settings, after.settings, strict=True))


def _same_steps(before: Settings, after: Settings) -> bool:
    """Whether steps, their shapes included, are about as long as they were."""
    change = np.log(after.scale * size_of(after.factor)) - np.log(before.scale * size_of(before.factor))
    return bool(np.max(np.abs(change)) <= np.log(SAME_STEP))
