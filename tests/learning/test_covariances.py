"""Covariances with few directions: what they keep, and when draws speak for them."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.learning.reference.covariances import DENSE, best_rank, low_rank, with_rank
from tempering.learning.reference.from_draws import Split
from tempering.learning.reference.refit import assemble, lower_factor
from tempering.path.reference import Reference

D = 40


def one_direction(rng):
    """Return a covariance of uneven variances and one common direction."""
    scale, load = rng.uniform(0.5, 4.0, D), rng.uniform(0.4, 0.8, D)
    correlation = np.outer(load, load)
    np.fill_diagonal(correlation, 1.0)
    return correlation * np.outer(scale, scale)


def neighbours(rng):
    """Return the covariance of an autoregression: no few directions make it up."""
    lag = np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
    return 0.9**lag * rng.uniform(0.9, 1.1)


def fitted(covariance, n, rng):
    """Return draws in two halves, and a mixture of one component fitted to the first."""
    values = rng.normal(size=(2 * n, D)) @ lower_factor(covariance).T
    found = np.cov(values[:n].T)
    reference = assemble(np.zeros(1), values[:n].mean(axis=0)[None], lower_factor(found)[None], 16)
    return reference, Split(values, np.zeros(2 * n))


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_variances_stay_and_the_matrix_is_a_covariance(rank):
    covariance = neighbours(seeded_rng("kept"))
    found = low_rank(covariance, rank)
    np.testing.assert_allclose(np.diagonal(found), np.diagonal(covariance))
    residual = found - np.diag(np.diagonal(found))
    assert np.linalg.eigvalsh(found).min() > 0
    assert np.all(residual == 0) == (rank == 0)


def test_what_has_one_direction_is_kept_as_it_is():
    covariance = one_direction(seeded_rng("direction"))
    off_diagonal = ~np.eye(D, dtype=bool)
    found, lost = low_rank(covariance, 1)[off_diagonal], low_rank(covariance, 0)[off_diagonal]
    assert np.corrcoef(found, covariance[off_diagonal])[0, 1] > 0.98
    assert not lost.any()


def test_few_draws_speak_for_few_directions_and_many_for_a_dense_matrix():
    rng = seeded_rng("ranks")
    few, judged = fitted(one_direction(rng), 60, rng)
    rank = best_rank(few, judged)
    assert rank in (0, 1)
    assert judged.log_likelihood(with_rank(few, rank)) > judged.log_likelihood(few) + 1.0
    many, judged = fitted(neighbours(rng), 4000, rng)  # the control: here few directions are wrong
    assert best_rank(many, judged) == DENSE
    assert judged.log_likelihood(with_rank(many, 1)) < judged.log_likelihood(many) - 1.0


def test_a_mixture_in_few_dimensions_stays_as_it_is():
    plane = Reference([0.9, 0.1], np.zeros((2, 1)), np.ones((2, 1, 1)), [5, 5])
    values = seeded_rng("line").normal(size=(400, 1))
    assert best_rank(plane, Split(values, np.zeros(400))) == DENSE
    assert with_rank(plane, DENSE) is plane
