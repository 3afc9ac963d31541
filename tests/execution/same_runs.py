"""What it means that two runs are the same."""

import jax
import numpy as np

from tempering.runs.store import ARRAYS


def assert_same(one, two):
    """Check that two runs are the same to the bit, but for the time they took."""
    assert list(one.values) == list(two.values)
    for name in one.values:
        np.testing.assert_array_equal(one.values[name], two.values[name], strict=True)
    for name in (*ARRAYS, "log_pseudo_prior"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), strict=True)
    np.testing.assert_array_equal(one.ladder.inverse_temperatures, two.ladder.inverse_temperatures)
    assert one.info.n_iterations == two.info.n_iterations
    assert len(one.info.rounds) == len(two.info.rounds)
    for mine, other in zip(jax.tree.leaves(one.settings), jax.tree.leaves(two.settings), strict=True):
        np.testing.assert_array_equal(mine, other)


def assert_same_sums(one, two):
    """Check that two runs in sums are the same to the bit, but for the time they took."""
    assert one.sums.bins == two.sums.bins
    for mine, other in ((one.sums.totals, two.sums.totals), (one.sums.batches, two.sums.batches)):
        for name in mine._fields:
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name), strict=True, err_msg=name)
    for name in ("lengths", "inverse_temperatures"):
        np.testing.assert_array_equal(getattr(one.sums, name), getattr(two.sums, name), strict=True)
    assert one.sums.quantities.same_as(two.sums.quantities)
    for name in ("exchanges", "moves"):
        np.testing.assert_array_equal(getattr(one.index, name), getattr(two.index, name), strict=True)
    assert (one.index.n_round_trips, one.n_draws, one.n_chains) == (two.index.n_round_trips, two.n_draws, two.n_chains)
    np.testing.assert_array_equal(one.log_pseudo_prior, two.log_pseudo_prior)
    assert one.info.n_iterations == two.info.n_iterations
