"""Targets: what they are made of, and what they refuse."""

import numpy as np
import pytest

import tempering as tp
from tempering import problems
from tempering.errors import TargetError


def log_density(x):
    return -0.5 * x**2


def test_powering_up_has_no_base():
    target = tp.Target(log_density)
    assert target.is_powered
    assert (target.energy, target.base, target.sample_base) == (log_density, None, None)
    assert repr(target) == "Target(pi^k)"


def test_tempering_the_likelihood_has_the_prior_for_its_base():
    target = tp.Target.from_likelihood(np.sum, log_density, sample_prior=abs)
    assert not target.is_powered
    assert (target.energy, target.base, target.sample_base) == (np.sum, log_density, abs)
    assert repr(target) != repr(tp.Target(log_density))


def test_an_object_with_a_log_density_will_do():
    problem = problems.mixture()
    assert tp.Target(problem).energy(0.0) == problem.log_density(0.0)


def test_a_target_is_frozen():
    with pytest.raises(AttributeError):
        tp.Target(log_density).base = log_density


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: tp.Target(3.0),
            "log_density must be a function of a position, or an object.*, but got float.*not its value",
        ),
        (lambda: tp.Target.from_likelihood(1.0, abs), "log_likelihood must be a function"),
        (lambda: tp.Target.from_likelihood(abs, [0.0]), "The prior of '0' must be one of tempering.prior.*got float"),
        (lambda: tp.Target.from_likelihood(abs, abs, "prior"), "sample_prior must be a function.*got str"),
    ],
)
def test_what_is_no_function_is_refused(build, message):
    with pytest.raises(TargetError, match=message):
        build()


def test_a_power_of_nought_is_refused_without_a_base():
    ladder = tp.Ladder([1.0, 0.5, 0.0])
    with pytest.raises(TargetError, match=r"k = 0.*cannot be normalised.*from_likelihood"):
        tp.Target(log_density).check_ladder(ladder)
    with pytest.raises(TargetError, match=r"the ladder ends at 0"):
        tp.sample(tp.Target(log_density), initial=0.0, ladder=ladder)
    tp.Target.from_likelihood(log_density, log_density).check_ladder(ladder)
    tp.Target(log_density).check_ladder(tp.Ladder([1.0, 0.5]))
