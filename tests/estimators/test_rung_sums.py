import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from tempered_draws import weighted_rungs

from tempering.errors import EstimatorError
from tempering.estimators import RungSums, ess_of_weights, kish_ess
from tempering.estimators.arrays import DRAWS_AT_ONCE


def assert_same(a, b):
    np.testing.assert_array_equal(a.n_draws, b.n_draws)
    np.testing.assert_allclose(a.log_sum, b.log_sum, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.log_sum_of_squares, b.log_sum_of_squares, rtol=1e-12, atol=1e-12)


@given(weighted_rungs())
def test_sums_equal_the_obvious_ones(draws):
    log_weights, rung, n_rungs = draws
    sums = RungSums.from_log_weights(log_weights, rung, n_rungs)
    for i in range(n_rungs):
        own = log_weights[rung == i]
        assert sums.n_draws[i] == own.size
        if own.size and own.max() > -np.inf:
            assert sums.log_sum[i] == pytest.approx(logsumexp(own), rel=1e-12, abs=1e-12)
            assert sums.kish_ess[i] == pytest.approx(kish_ess(own), rel=1e-8)
            assert sums.ess_of_weights[i] == pytest.approx(ess_of_weights(own), rel=1e-8)
        else:
            assert sums.kish_ess[i] == sums.ess_of_weights[i] == 0.0
            assert sums.log_sum[i] == -np.inf


@given(weighted_rungs(), st.data())
def test_merged_parts_equal_the_whole(draws, data):
    log_weights, rung, n_rungs = draws
    cut = data.draw(st.integers(1, max(1, rung.size - 1)))
    whole = RungSums.from_log_weights(log_weights, rung, n_rungs)
    parts = RungSums.empty(n_rungs)
    for part in (slice(None, cut), slice(cut, None)):
        if rung[part].size:
            parts = parts.merge(RungSums.from_log_weights(log_weights[part], rung[part], n_rungs))
    assert_same(parts, whole)


def test_chunks_leave_no_seam():
    rng = np.random.default_rng(3)
    n = 2 * DRAWS_AT_ONCE + 7
    log_weights, rung = rng.normal(0, 300, n), rng.integers(0, 5, n)
    sums = RungSums.from_log_weights(log_weights.reshape(1, -1), rung.reshape(1, -1))
    for i in range(5):
        assert sums.log_sum[i] == pytest.approx(logsumexp(log_weights[rung == i]), rel=1e-13)


def test_sums_cannot_be_changed():
    sums = RungSums.empty(2)
    with pytest.raises(ValueError, match="read-only"):
        sums.log_sum[0] = 1.0


def test_sums_over_different_ladders_do_not_merge():
    with pytest.raises(EstimatorError, match="same rungs"):
        RungSums.empty(2).merge(RungSums.empty(3))


@pytest.mark.parametrize(
    ("log_weights", "rung", "n_rungs"),
    [([0.0], [-1], None), ([0.0], [0.0], None), ([0.0, 1.0], [0], None), ([0.0], [3], 3), ([], [], None)],
)
def test_rungs_that_cannot_be_are_refused(log_weights, rung, n_rungs):
    with pytest.raises(EstimatorError):
        RungSums.from_log_weights(log_weights, rung, n_rungs)
