import jax
import numpy as np
import pytest

from tempering.engines.streams import keys_of


@pytest.mark.parametrize("seed", [0, 7, 2**31 + 11, 2**53 - 1])
def test_keys_are_those_that_jax_folds_in(seed):
    with jax.enable_x64(True):
        stream = jax.random.fold_in(jax.random.key(seed), 3)
        expected = [jax.random.key_data(jax.random.fold_in(stream, i)) for i in (0, 1, 4000)]
        keys = keys_of(seed, 3, 4001)
    np.testing.assert_array_equal(jax.random.key_data(keys)[np.array([0, 1, 4000])], expected)
