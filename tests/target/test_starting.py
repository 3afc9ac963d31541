"""What a user passes as ``initial``, ``kernel``, ``rng`` and counts: taken as meant, or refused in words."""

import math

import numba
import numpy as np
import pytest

import tempering as tp
from tempering.errors import EstimatorError, SamplerError, TargetError
from tempering.target.starting import starting_points

SHORT = {"ladder": [1, 0.5], "draws": 64, "tuning": tp.Tuning(64), "chains": 2, "rng": 1, "progress": False}


def of_numbers(x):
    return -0.5 * x**2


def of_vectors(x):
    return -0.5 * (x**2).sum()


NUMBERS = {
    "jax": tp.Target(of_numbers),
    "python": tp.Target(lambda x: -0.5 * math.pow(x, 2)),
    "numba": tp.Target(numba.njit(of_numbers)),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_list_of_numbers_starts_several_chains_of_a_density_of_numbers(kind):
    assert starting_points([-9.0, 9.0], NUMBERS[kind]) == (-9.0, 9.0)
    run = tp.sample(NUMBERS[kind], initial=[-9.0, 9.0], **SHORT)
    assert run.values["x"].shape == (2, 64)


def test_a_list_of_numbers_is_one_vector_for_a_density_of_vectors():
    for target in (tp.Target(of_vectors), tp.Target(numba.njit(of_vectors))):
        (start,) = starting_points([-9, 9.0], target)
        np.testing.assert_array_equal(start, [-9.0, 9.0])


def test_lists_of_positions_hold_several():
    target = tp.Target(of_vectors)
    for several in ([[0.0, 1.0], [2.0, 3.0]], [(0.0, 1.0), (2.0, 3.0)], [np.array([0.0, 1.0]), np.array([2.0, 3.0])]):
        first, second = starting_points(several, target)
        np.testing.assert_array_equal(np.stack([first, second]), [[0.0, 1.0], [2.0, 3.0]])
    named = [{"a": 0.0}, {"a": 1.0}]
    assert starting_points(named, target) == tuple(named)
    assert starting_points(None, target) == ()
    assert starting_points((0.0, 1.0), target) == ((0.0, 1.0),)  # a tuple is a position of two parts


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"initial": []}, TargetError, "at least one position, but got an empty list. Pass a position"),
        ({"initial": np.zeros(2)}, TargetError, r"one number, but at .* returned shape \(2,\). Sum over"),
        (
            {"initial": np.zeros(2), "execution": tp.Execution(engine="scalar")},
            TargetError,
            r"shape \(2,\) it returned shape \(2,\)",
        ),
        ({"initial": 0.0, "kernel": "hmc"}, TargetError, r"such as tempering.kernels.RandomWalk\(\), but got 'hmc'"),
        ({"initial": 0.0, "kernel": tp.kernels.Slice}, TargetError, r"got the class Slice.*mind the brackets"),
        ({"initial": 0.0, "kernel": tp.kernels.Cycle([3])}, TargetError, "but got 3"),
        ({"initial": 0.0, "rng": "one"}, SamplerError, "rng must be a whole number .* but got 'one'. Pass"),
        ({"initial": 0.0, "rng": -1}, SamplerError, "at least 0, a numpy Generator or None, but got -1"),
        ({"initial": 0.0, "draws": "many"}, SamplerError, "whole number of at least 1, but got 'many'"),
        ({"initial": 0.0, "chains": 1.5}, SamplerError, "chains must be a whole number of at least 1, but got 1.5"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        tp.sample(tp.Target(of_numbers), **(SHORT | options))


@pytest.mark.parametrize("engine", ["vector", "scalar"])
def test_a_density_that_forgets_to_return_is_told_so(engine):
    with pytest.raises(TargetError, match=r"one number, but .*None.*missing return"):
        tp.sample(tp.Target(lambda x: None), initial=0.0, execution=tp.Execution(engine=engine), **SHORT)


def test_a_name_that_is_none_is_refused():
    run = tp.sample(tp.Target(of_numbers), initial=0.0, **SHORT)
    for ask in (run.quantile, run.hdi):
        with pytest.raises(EstimatorError, match=r"must be one of \['x'\], but got 'y'"):
            ask(0.5, "y")
