"""What it means that two runs are the same."""

import jax
import numpy as np

from tempering.io.run_store import ARRAYS


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
