"""Sums of the index process against a walk through the trace, move by move."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.engines.trace import Trace, joined, shortened
from tempering.path import Ladder, Path
from tempering.recorders.index_sums import IndexSums, sums_of_trace

N_CHAINS, N, M = 3, 400, 4
PATH = Path.powers(Ladder([1.0, 0.5, 0.2, 0.1]))


def random_trace():
    """Chains that propose a neighbour, or none, and go there now and then; one of two kernels is tried at a time."""
    rng = seeded_rng("index sums")
    start = rng.integers(0, M, N_CHAINS)
    rung, proposed = np.empty((2, N_CHAINS, N), np.int32)
    for c, here in enumerate(start):
        for t in range(N):
            there = np.clip(here + rng.integers(-1, 2), 0, M - 1)
            here = there if rng.random() < 0.7 else here
            rung[c, t], proposed[c, t] = here, there
    acceptance = rng.random((N_CHAINS, N, 2)).astype(np.float32)
    tried = rng.integers(0, 2, (N_CHAINS, N))
    acceptance[np.arange(2) != tried[..., None]] = np.nan
    zeros = np.zeros((N_CHAINS, N, 1))
    return start, Trace(zeros, zeros, rung, proposed, acceptance)


def counted(start, trace):
    """Count as one would by hand."""
    exchanges, moves, trips = np.zeros((M, 2)), np.zeros((M, 2, 2)), 0
    for c in range(N_CHAINS):
        here, last_end = start[c], None
        for t in range(N):
            there, now = trace.proposed[c, t], trace.rung[c, t]
            if there != here:
                exchanges[min(here, there)] += [1, now == there]
            for leaf in range(2):
                if not np.isnan(trace.acceptance[c, t, leaf]):
                    moves[here, leaf] += [1, trace.acceptance[c, t, leaf]]  # the move was made before the exchange
            if now == 0:
                trips += last_end == "hot"
                last_end = "cold"
            elif now == M - 1 and last_end == "cold":
                last_end = "hot"
            here = now
    return exchanges, moves, trips


def check(sums, expected):
    exchanges, moves, trips = expected
    np.testing.assert_array_equal(sums.exchanges, exchanges)
    np.testing.assert_allclose(sums.moves, moves, rtol=1e-6)
    assert (sums.n_round_trips, sums.n_iterations) == (trips, N)


def test_sums_are_those_of_a_walk_through_the_trace():
    start, trace = random_trace()
    sums, _ = sums_of_trace(trace, start, np.zeros(N_CHAINS, np.int8), PATH)
    expected = counted(start, trace)
    assert expected[2] > 10
    check(sums, expected)
    n, total = expected[1][..., 0], expected[1][..., 1]
    np.testing.assert_allclose(sums.move_acceptance, (total / n).mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("cut", [1, 7, 200, N - 1])
def test_a_trace_may_be_cut_anywhere(cut):
    start, trace = random_trace()
    first = shortened(trace, cut)
    second = Trace(*(part[:, cut:] for part in trace))
    np.testing.assert_array_equal(joined([first, second]).rung, trace.rung)
    one, phase = sums_of_trace(first, start, np.zeros(N_CHAINS, np.int8), PATH)
    two, _ = sums_of_trace(second, first.rung[:, -1], phase, PATH)
    check(one.added(two), counted(start, trace))


def test_runs_beside_one_another_are_not_longer():
    one = IndexSums(np.ones((M, 2)), np.ones((M, 1, 2)), 3, 100)
    assert one.added(one).n_iterations == 200
    both = one.added(one, in_time=False)
    assert (both.n_iterations, both.n_round_trips) == (100, 6)
