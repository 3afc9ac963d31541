"""Where draws come from, and what passages from end to end of a leg tell: exact draws, and chains that lag."""

from itertools import pairwise

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.estimators.passages import FIRST, LAST, NOWHERE, bridge, lag, n_passages, origins

K = np.array([1.0, 0.6, 0.3, 0.12, 0.03])  # of exp(-k x^2 / 2): log Z is -log(k) / 2 and a constant
LEG = np.arange(len(K))


def origins_one_by_one(rung, first, last):
    found = np.zeros(rung.shape, dtype=int)
    for chain, row in enumerate(rung):
        now = NOWHERE
        for draw, r in enumerate(row):
            now = FIRST if r == first else LAST if r == last else now
            found[chain, draw] = now
    return found


def test_origins_are_those_that_are_found_one_by_one():
    rung = seeded_rng("origins").integers(0, 5, (6, 200))
    found = origins(rung, 1, 3)
    np.testing.assert_array_equal(found, origins_one_by_one(rung, 1, 3))
    ends = [row[(row == 1) | (row == 3)] for row in rung]
    assert n_passages(found) == sum(np.sum(np.diff(row) != 0) for row in ends)


def test_a_bridge_between_normal_distributions_is_the_ratio_of_their_constants():
    rng, n = seeded_rng("bridge"), 4000
    found = []
    for _ in range(24):
        a, b = rng.normal(size=n), rng.normal(size=n // 2) / np.sqrt(0.4)
        found.append(bridge(0.3 * a**2, -0.3 * b**2))
    error = np.std(found, ddof=1) / np.sqrt(24)
    assert abs(np.mean(found) + 0.5 * np.log(0.4)) < 6.6 * error
    assert error < 0.01


def test_a_bridge_passes_over_draws_outside_the_support_and_says_where_there_is_none():
    a = seeded_rng("support").uniform(size=1000)  # on [0, 1], from [0, 2], which has twice the mass
    found = bridge(np.zeros(1000), np.where(2 * a > 1, -np.inf, 0.0))
    assert found == pytest.approx(-np.log(np.mean(2 * a < 1)), abs=1e-5)
    assert np.isnan(bridge(np.full(3, -np.inf), np.full(3, -np.inf)))


@pytest.mark.parametrize("far", [1e3, 1e9, 1e18])
def test_a_bridge_is_found_however_far_the_rarest_draws_lie(far):
    rng = seeded_rng("far")
    forward, backward = rng.normal(3.0, 1.0, 1000), rng.normal(-3.0, 1.0, 1000)
    forward[:5], backward[:7] = -far, -far * rng.random(7)
    assert bridge(forward, backward) == pytest.approx(3.0, abs=0.3)


def travelling(name, memory, n_chains=8, n=4000):
    """Let chains go up and down the leg in turn; what they draw on a rung has a correlation with the draw before."""
    rng, m = seeded_rng(name), len(K)
    rung = np.concatenate([LEG, LEG[-2:0:-1]])[np.arange(n) % (2 * m - 2)]
    z = rng.standard_normal((n_chains, n))
    for t in range(1, n):
        z[:, t] = memory * z[:, t - 1] / np.sqrt(K[rung[t - 1]] / K[rung[t]]) + np.sqrt(1 - memory**2) * z[:, t]
    return z / np.sqrt(K[rung]), np.tile(rung, (n_chains, 1))


def lag_of(x, rung):
    changes = [-0.5 * (b - a) * x**2 for a, b in pairwise(K)]
    return lag(changes, rung, origins(rung, 0, len(K) - 1), LEG)


def test_chains_that_forget_at_once_do_not_lag():
    found = np.array([lag_of(*travelling(f"at once {i}", 0.0)) for i in range(8)])
    assert abs(found.mean()) < 15.8 * found.std(ddof=1) / np.sqrt(8)  # Student's law, 1e-6
    assert np.abs(found).max() < 0.1


def test_control_chains_that_remember_lag_and_the_start_looks_heavier_to_those_that_come_from_it():
    """They come from narrow rungs with high densities, and go to the wide ones with some of these left."""
    assert lag_of(*travelling("remembering", 0.7)) > 0.3


def test_pairs_that_one_kind_alone_has_been_on_are_taken_to_lag_as_the_others_do():
    x, rung = travelling("one way", 0.7)
    assert lag_of(x[:, :5], rung[:, :5]) == np.inf  # nobody has come back
    origin = origins(rung, 0, len(K) - 1)
    some = np.where((rung == 3) & (origin == LAST), -1, rung)  # none on rung 3 comes from the last: two pairs are left
    changes = [-0.5 * (b - a) * x**2 for a, b in pairwise(K)]
    by_kind = [
        bridge(changes[0][rung == 0], -changes[0][(rung == 1) & (origin == kind)])
        + bridge(changes[1][(rung == 1) & (origin == kind)], -changes[1][(rung == 2) & (origin == kind)])
        for kind in (FIRST, LAST)
    ]
    assert lag(changes, some, origin, LEG) == pytest.approx(2.0 * (by_kind[1] - by_kind[0]), abs=1e-4)
