"""Round trips of all chains at once, against a walk along each."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.estimators.regeneration import round_trips


@pytest.mark.parametrize(
    ("path", "trips"),
    [([0, 1, 2, 1, 0], 1), ([2, 1, 0, 1, 2, 1, 0], 1), ([0, 1, 0, 1, 0], 0), ([0, 2, 0, 2], 1), ([1, 1, 1], 0)],
)
def test_they_go_from_cold_to_hot_and_back(path, trips):
    assert round_trips(np.array([path]), 0, 2)[0] == trips


@pytest.mark.parametrize(
    ("path", "trips"),
    [([1, 2, 3, 2, 1], 1), ([1, 0, 1, 0, 1], 0), ([1, 3, 0, 1, 3, 1], 2), ([0, 1, 2, 1, 0], 0)],
)
def test_with_two_legs_they_go_from_the_target_along_the_safe_one(path, trips):
    assert round_trips(np.array([path]), 1, 3)[0] == trips


def walked(rung, cold, hot):
    """Count as one would by hand."""
    trips = 0
    for chain in rung:
        last = None
        for here in chain:
            if here == cold:
                trips += last == "hot"
                last = "cold"
            elif here == hot and last == "cold":
                last = "hot"
    return trips


@pytest.mark.parametrize(("n_rungs", "target"), [(1, 0), (2, 0), (3, 0), (5, 0), (5, 2), (4, 3)])
@pytest.mark.parametrize("block", [1, 7, 32, 400])
def test_they_are_those_of_a_walk_however_chains_are_cut(n_rungs, target, block):
    rng = seeded_rng(f"trips {n_rungs} {block}")
    steps = np.cumsum(rng.choice([-1, 0, 1], size=(6, 400)), axis=1) + rng.integers(n_rungs, size=(6, 1))
    rung = np.clip(np.abs((steps % (4 * n_rungs)) - 2 * n_rungs) - 1, 0, n_rungs - 1).astype(np.int32)
    total, seen = 0, None
    for start in range(0, 400, block):
        n, seen = round_trips(rung[:, start : start + block], target, n_rungs - 1, seen)
        total += n
    assert total == (0 if n_rungs == target + 1 else walked(rung, target, n_rungs - 1))
    assert n_rungs == target + 1 or total > 3
