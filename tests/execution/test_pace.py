"""Blocks sized by the clock: as long as they should take, and no run of them that is mostly starting and ending."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.execution.pace import BLOCK, Pace


def lengths(pace, aside, each, n_blocks=60, noise=None):
    """Return iterations and seconds of blocks that take ``aside`` seconds, and ``each`` for every iteration."""
    found = []
    for _ in range(n_blocks):
        n = pace.next(10**9)
        seconds = (aside + each * n) * (1.0 if noise is None else np.exp(0.3 * noise.standard_normal()))
        pace.took(n, seconds)
        found.append((n, seconds))
    return np.array(found).T


@pytest.mark.parametrize("each", [1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("aside", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_block_takes_about_as_long_as_it_should(is_packed, aside, each):
    _, seconds = lengths(Pace(is_packed=is_packed), aside, each)
    assert 0.5 * BLOCK < seconds[-1] < 1.2 * BLOCK


def test_an_iteration_that_takes_longer_is_a_block():
    n, _ = lengths(Pace(is_packed=True), 0.0, 5.0)
    assert n.max() <= 2
    assert n[-1] == 1


@pytest.mark.parametrize("is_disturbed", [False, True])
def test_blocks_that_should_be_short_are_not_all_start_and_end(is_disturbed):
    """Without telling them apart, every block would be of one iteration, and take a hundred times its work."""
    noise = seeded_rng("short blocks") if is_disturbed else None
    n, seconds = lengths(Pace(0.0, is_packed=True), 0.1, 0.001, 1_000, noise)
    assert np.mean(n) * 0.001 > 0.03
    assert np.mean(seconds) < 0.5
    assert seconds.max() < 2.0


def test_control_where_they_are_not_told_apart_blocks_stay_at_one_iteration():
    n, _ = lengths(Pace(0.0), 0.1, 0.001, 1_000)
    assert n.max() == 1


@pytest.mark.parametrize("aside", [0.0, 0.05])
def test_a_clock_that_is_disturbed_makes_no_block_long(aside):
    _, seconds = lengths(Pace(is_packed=True), aside, 0.002, 400, seeded_rng(f"pace {aside}"))
    assert seconds.max() < 5 * BLOCK
    assert 0.4 * BLOCK < np.median(seconds) < 1.5 * BLOCK


def test_blocks_stay_short_where_iterations_grow_longer():
    pace, left, longest = Pace(), 100_003, 0.0
    while left:
        n = pace.next(left)
        left -= n
        each = 0.001 if left > 50_000 else 0.04  # leaves of a tree have grown
        pace.took(n, n * each)
        longest = max(longest, n * each) if left < 49_000 else longest
    assert longest < 1.2 * BLOCK


def test_a_short_run_is_cut_for_the_bar_where_blocks_take_long_enough_to_be_seen():
    for each, longest, most in ((1e-6, 0.01, 0.03), (1e-3, 0.09, 0.11)):
        pace, n = Pace(), 1
        for _ in range(40):
            n = pace.next(10**9, 100)
            pace.took(n, n * each)
        assert longest < n * each < most
