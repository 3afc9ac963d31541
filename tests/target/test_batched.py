"""Functions of many positions: one call for all chains, in double precision, with their blobs beside the values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.errors import TargetError
from tempering.target.batched import Batched

SETTINGS = {
    "ladder": [1.0, 0.3, 0.08, 0.02],
    "draws": 400,
    "tuning": tp.Tuning(320),
    "chains": 32,
    "rng": 2,
    "progress": False,
}


class Counted:
    """Two modes, the right one with 4/5 of the mass; counts its calls and points."""

    def __init__(self):
        self.calls = self.points = 0

    def __call__(self, x):
        self.calls, self.points = self.calls + 1, self.points + len(x)
        log_density = np.logaddexp(-2.0 * np.sum((x + 3) ** 2, axis=1), -0.5 * np.sum((x - 3) ** 2, axis=1))
        return log_density, x[:, 0] - x[:, 1], np.stack([x, 2 * x], axis=1)


@pytest.mark.slow
def test_all_chains_are_evaluated_in_one_call_and_blobs_belong_to_their_draws():
    counted = Counted()
    run = tp.sample(tp.Target(counted, batched=True, blobs=["difference", "both"]), initial=np.zeros(2), **SETTINGS)
    assert counted.points > 20 * counted.calls
    np.testing.assert_array_equal(run.values["difference"], run.values["x"][..., 0] - run.values["x"][..., 1])
    assert run.values["both"].shape == (32, 400, 2, 2)
    np.testing.assert_array_equal(run.values["both"][..., 1, :], 2 * run.values["x"])
    right = run.expect(lambda x, **_: x[..., 0] > 0)
    assert abs(right.value - 0.8) < 6 * right.standard_error < 0.4
    assert run.info.engine.startswith("vector")


def test_numbers_pass_in_double_precision_both_ways():
    seen = []

    def density(x):
        seen.append(x.copy())
        return -(x[:, 0] ** 2)

    wrapped = Batched(density)
    x = np.array([[1 / 3, 2.0], [1e-17 + 1, 5.0]])
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(wrapped))(jnp.asarray(x))
    np.testing.assert_array_equal(seen[-1], x)
    np.testing.assert_array_equal(np.asarray(found), -(x[:, 0] ** 2))
    assert len(seen) == 1
    assert wrapped(x[0]) == -(x[0, 0] ** 2)


def test_it_has_no_gradient_rather_than_a_wrong_one():
    with jax.enable_x64(True), pytest.raises(TypeError, match="no gradient"):
        jax.grad(Batched(lambda x: -(x[:, 0] ** 2)))(jnp.ones(2))


@pytest.mark.slow
def test_priors_of_numpy_are_drawn_from_by_generators():
    target = tp.Target.from_likelihood(
        lambda x: -0.5 * np.sum((x - 1) ** 2, axis=1),
        lambda x: -0.5 * np.sum(x**2, axis=1) / 4 - np.log(8 * np.pi),
        lambda rng: 2 * rng.standard_normal(2),
        batched=True,
    )
    run = tp.sample(target, **{**SETTINGS, "ladder": [1.0, 0.4, 0.0]})
    found = run.log_evidence()
    exact = -np.log(5.0) - 0.2  # the product of two normals, up to the constant of the likelihood
    assert abs(found.value - exact) < 6 * found.standard_error < 0.6


@pytest.mark.parametrize(
    ("function", "blobs", "message"),
    [
        (lambda x: np.sum(x**2), (), r"one number for each of 1 positions, shape \(1,\), but it returned shape \(\)"),
        (lambda x: x, (), r"but it returned shape \(1, 2\)"),
        (lambda x: 1j * x[:, 0], (), "complex"),
        (lambda x: (-(x[:, 0] ** 2), x[:, 0]), ("a", "b"), "2 blobs .a, b., but it returned 1 blobs"),
        (lambda x: (-(x[:, 0] ** 2), np.ones(7)), ("a",), "'a' must have one entry for each of 1 positions"),
    ],
)
def test_what_is_no_batch_of_numbers_is_refused(function, blobs, message):
    with pytest.raises(TargetError, match=message):
        Batched(function, blobs)(np.zeros(2))


def test_blobs_must_be_names():
    with pytest.raises(TargetError, match="list of names"):
        tp.Target(np.sum, blobs="energy")
