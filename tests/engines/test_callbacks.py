"""Functions that JAX calls back get and give double precision, in whichever thread they are called."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.engines.callbacks import InDoublePrecision


def sampled(dtype, method, checkpoint=None):
    """Return positions, log densities, and what the function was called with."""
    seen = []

    def answer(x):
        seen.append(x.dtype)
        return np.asarray(density(np.asarray(x)), dtype)

    def called_back(x):
        return jax.pure_callback(answer, jax.ShapeDtypeStruct((), dtype), x, vmap_method="sequential")

    options = {"chains": 3, "draws": 40, "ladder": (1.0, 0.5), "tuning": tp.Tuning(0), "rng": 5, "progress": False}
    options |= {"kernel": tp.kernels.RandomWalk(), "initial": np.array([0.1, 0.7]), "method": method}
    run = tp.sample(tp.Target(called_back), execution=tp.Execution("vector", checkpoint=checkpoint), **options)
    return run.values["x"], run.energy, seen


def density(x):
    return 1.5 * x[..., 0] - np.exp(x[..., 0]) + 2.5 * x[..., 1] - np.exp(x[..., 1])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_a_function_that_is_called_back_sees_the_positions_that_are_recorded(dtype, method, tmp_path):
    x, energy, seen = sampled(dtype, method)
    assert set(seen) == {np.dtype(np.float64)}
    np.testing.assert_array_equal(energy, density(x).astype(dtype))
    for mine, theirs in zip(sampled(dtype, method, tp.Checkpoint(tmp_path / "run", 0.0)), (x, energy), strict=False):
        np.testing.assert_array_equal(mine, theirs)


def test_numbers_pass_as_bits_where_jax_would_round_them():
    """Where JAX takes no double precision, whatever it was told before, the control is rounded."""

    def taken_by_jax(x):
        return (jnp.asarray(x),)

    def in_single_precision(function, x):
        with jax.enable_x64(False):
            return function(x)

    x = np.array([0.1, 0.7])
    bits = x[..., None].view(np.uint32)
    with ThreadPoolExecutor(1) as pool:
        (ours,) = pool.submit(in_single_precision, InDoublePrecision(taken_by_jax, (True,), (True,)), bits).result()
        (rounded,) = pool.submit(in_single_precision, taken_by_jax, x).result()
    np.testing.assert_array_equal(ours, bits)
    np.testing.assert_array_equal(rounded, x.astype(np.float32))
