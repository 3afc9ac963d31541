"""Functions that JAX calls back get and give double precision, in whichever thread they are called."""

import jax
import numpy as np
import pytest

import tempering as tp
from tempering.execution import recipe


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_a_function_that_is_called_back_sees_the_positions_that_are_recorded(dtype, method, tmp_path):
    x, energy, seen = sampled(dtype, method)
    assert set(seen) == {np.dtype(np.float64)}
    np.testing.assert_array_equal(energy, density(x).astype(dtype))
    for mine, theirs in zip(sampled(dtype, method, tp.Checkpoint(tmp_path / "run", 0.0)), (x, energy), strict=False):
        np.testing.assert_array_equal(mine, theirs)


def test_control_jax_by_itself_rounds_what_it_calls_back_with(monkeypatch):
    monkeypatch.setattr(recipe, "kept_target", lambda target, layout, run: target)
    x, energy, seen = sampled(np.float32, "simulated")
    assert np.dtype(np.float32) in seen
    assert np.any(energy != density(x).astype(np.float32))
