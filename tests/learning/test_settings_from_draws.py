"""Settings of kernels that are learnt: scales by acceptance, shapes by weighted draws, steps as long as before."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.engines.trace import Trace
from tempering.kernels import RandomWalk, Slice
from tempering.kernels.settings import Settings, starting_settings
from tempering.learning.kernel_settings import (
    acceptance_by_rung,
    carried_over,
    rescaled,
    reshaped,
    shaped,
    size_of,
    start,
)
from tempering.path import Ladder

LADDER = Ladder([1.0, 0.5, 0.2])
WALK, SLICE = RandomWalk(), Slice()


def settings_of(*leaves):
    return start(leaves, LADDER, np.zeros(2))


def weighted_draws():
    """Draws of three scales, and weights by which each rung has its own."""
    rng = seeded_rng("settings from draws")
    wide = np.repeat([0.5, 2.0, 6.0], 4000)[:, None]
    values = wide * rng.multivariate_normal([1.0, -2.0], [[1.0, 0.6], [0.6, 2.0]], 12_000)
    return values, np.where(wide[:, 0] == np.array([0.5, 2.0, 6.0])[:, None], 0.0, -np.inf)


def test_shapes_are_those_of_the_draws_that_belong_to_a_rung():
    values, log_weights = weighted_draws()
    (found,) = reshaped(settings_of(WALK), (WALK,), values, log_weights)
    for i, own in enumerate(np.split(values, 3)):
        np.testing.assert_allclose(found.centre[i], own.mean(axis=0), rtol=1e-12)
        shrunk = np.cov(own.T, bias=True) * [[1, 4000 / 4007], [4000 / 4007, 1]]  # a little, while draws are few
        np.testing.assert_allclose(found.factor[i] @ found.factor[i].T, shrunk, rtol=1e-9)


def test_a_new_shape_keeps_the_length_of_steps():
    values, log_weights = weighted_draws()
    before = settings_of(WALK, SLICE)
    walk, slices = reshaped(before, (WALK, SLICE), values, log_weights)
    np.testing.assert_allclose(walk.scale * size_of(walk.factor), before[0].scale * size_of(before[0].factor))
    assert np.ptp(size_of(walk.factor) / size_of(before[0].factor)) > 5  # or there would be nothing to keep
    np.testing.assert_array_equal(slices.scale, before[1].scale)  # widths in units of the shape follow it


@pytest.mark.parametrize("d", [3, 20])
def test_rungs_may_begin_with_a_known_shape(d):
    rng = seeded_rng("known shape")
    centre, factor = rng.normal(size=d), np.tril(rng.normal(size=(d, d))) + 2 * np.eye(d)
    leaves = [RandomWalk(), RandomWalk(covariance="identity")]
    own, plain = shaped(start(leaves, Ladder([1.0]), np.zeros(d)), leaves, centre, factor, 2)
    deviations = np.sqrt(np.diagonal(factor @ factor.T))
    expected = factor if d == 3 else deviations[:, None]  # a matrix for each rung costs more than it gains
    for rung in range(2):
        np.testing.assert_allclose(own.factor[rung], expected)
        np.testing.assert_array_equal(own.centre[rung], centre)
        np.testing.assert_array_equal(plain.factor[rung], np.ones((d, 1)))
    np.testing.assert_allclose(own.scale, leaves[0].starting_scale(d))
    np.testing.assert_allclose(plain.scale, leaves[0].starting_scale(d) * np.sqrt(np.mean(deviations**2)))


def test_scales_follow_acceptance_and_stay_where_nothing_was_seen():
    before = settings_of(WALK, SLICE)
    target = WALK.target_acceptance(2)
    mean = np.array([[target + 0.2, 1.0], [target - 0.2, 1.0], [np.nan, np.nan]])
    count = np.array([[1e9, 1e9], [10.0, 10.0], [0.0, 0.0]])
    walk, slices = rescaled(before, (WALK, SLICE), mean, count, 0.5)
    change = np.log(walk.scale / before[0].scale)
    np.testing.assert_allclose(change, [0.4, -0.2, 0.0], atol=1e-8)  # half a Newton step; ten moves are half trusted
    np.testing.assert_array_equal(slices.scale, before[1].scale)


def test_acceptance_is_that_of_the_rung_a_move_was_made_on():
    acceptance = np.array([[[0.1, np.nan], [0.5, np.nan], [np.nan, 0.9]]], np.float32)
    nothing = np.zeros((1, 3, 1))
    trace = Trace(nothing, nothing, np.array([[1, 2, 2]]), np.array([[1, 2, 2]]), acceptance)
    mean, count = acceptance_by_rung(trace, np.array([[0, 1, 0]]), 3)
    np.testing.assert_allclose(mean, [[0.1, 0.9], [0.5, np.nan], [np.nan, np.nan]], rtol=1e-6)
    np.testing.assert_array_equal(count, [[1, 1], [1, 0], [0, 0]])


def test_settings_are_carried_to_another_ladder():
    before = starting_settings(LADDER, np.zeros(2), 1.5, dense=False)
    (same,) = carried_over((before,), LADDER, LADDER)
    for one, other in zip(before, same, strict=True):
        np.testing.assert_allclose(one, other)
    between = np.sqrt(0.5)  # halfway from 1 to 0.5 in log k
    marked = before._replace(centre=np.arange(6.0).reshape(3, 2))
    (found,) = carried_over((marked,), LADDER, Ladder([1.0, between, 0.45, 0.2]))
    expected = [before.scale[0], np.sqrt(before.scale[0] * before.scale[1])]
    np.testing.assert_allclose(found.scale[:2], expected)
    np.testing.assert_array_equal(found.centre[[0, 2, 3]], marked.centre)


@pytest.mark.parametrize("covariance", ["identity", "diagonal"])
def test_a_kernel_that_says_which_shape_it_has_gets_no_other(covariance):
    values, log_weights = weighted_draws()
    leaf = RandomWalk(covariance=covariance)
    before = settings_of(leaf)
    (found,) = reshaped(before, (leaf,), values, log_weights)
    assert isinstance(found, Settings)
    assert found.factor.shape == (3, 2, 1)
    if covariance == "identity":
        np.testing.assert_array_equal(found.factor, before[0].factor)
    else:
        shares = 4000 / 4005
        variances = shares * np.array([own.var(axis=0) for own in np.split(values, 3)]) + (1 - shares)
        np.testing.assert_allclose(found.factor[..., 0] ** 2, variances, rtol=1e-9)
