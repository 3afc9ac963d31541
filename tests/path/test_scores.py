"""Functions of mean zero under a mixture: slopes of its log density, by exact draws and by differences."""

import numpy as np
import pytest

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.path.reference import Reference
from tempering.path.scores import scores
from tempering.path.subspace import Subspace

MEANS = np.array([[0.0, 1.0], [4.0, -2.0], [0.5, 0.5]])
FACTORS = np.array([[[1.0, 0.0], [0.5, 0.8]], [[0.6, 0.0], [-0.2, 1.3]], [[3.0, 0.0], [0.0, 4.0]]])


def mixture(weights=(0.5, 0.3, 0.2), means=MEANS):
    return Reference(weights, means, FACTORS, [5, 12, 3])


@pytest.mark.parametrize(("most", "n_columns"), [(64, 8), (6, 4), (3, 2), (1, 1)])
def test_their_means_are_zero(most, n_columns):
    q = mixture()
    found = scores(q, q.sample_many(seeded_rng("zero"), 40_000), most)
    assert found.shape == (40_000, n_columns)
    assert_mean_is(0.0, found)


@pytest.mark.parametrize("wrong", [{"weights": (0.47, 0.33, 0.2)}, {"means": MEANS + np.array([0.05, 0.0])}])
def test_control_under_another_mixture_they_are_not(wrong):
    q = mixture()
    assert_mean_is_not(0.0, scores(q, mixture(**wrong).sample_many(seeded_rng("zero"), 40_000), 64))


def test_they_are_slopes_of_the_log_density():
    q, step = mixture(), 1e-5
    x = q.sample_many(seeded_rng("slopes"), 50)
    found = scores(q, x, 64)[:, 2:].reshape(50, 3, 2)
    for c in range(3):
        for i in range(2):
            along = FACTORS[c] @ np.eye(2)[i]  # columns are in the component's own coordinates
            up, down = (mixture(means=MEANS + sign * step * np.outer(np.eye(3)[c], along)) for sign in (1, -1))
            slope = (up.log_density(x) - down.log_density(x)) / (2 * step)
            expected = np.einsum("tj,j->t", found[:, c], np.linalg.inv(FACTORS[c]) @ along)
            np.testing.assert_allclose(slope, expected, atol=1e-5)
    whole = scores(q, x, 6)[:, 2:]
    for i in range(2):
        slope = (mixture(means=MEANS + step * np.eye(2)[i]).log_density(x) - q.log_density(x)) / step
        np.testing.assert_allclose(whole[:, i], slope, atol=1e-3)


def test_in_a_subspace_they_are_those_by_the_weights():
    plane = Subspace(np.zeros(5), np.ones(5), np.eye(5)[:, :1])
    means = np.array([[-3.0, 0.0], [3.0, 0.0]])
    q = Reference([0.6, 0.4], means, np.array([np.eye(2)] * 2), [8, 8], 4, plane)
    found = scores(q, q.sample_many(seeded_rng("plane"), 20_000), 64)
    assert found.shape == (20_000, 1)
    assert_mean_is(0.0, found)
