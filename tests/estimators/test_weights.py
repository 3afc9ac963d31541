import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tempered_draws import weighted_rungs

from tempering.errors import EstimatorError
from tempering.estimators import (
    RungSums,
    combined_ess,
    combined_log_weights,
    combined_mean,
    cv2,
    ess_of_weights,
    kish_ess,
    rung_means,
)

moderate = st.lists(st.floats(-20, 20), min_size=1, max_size=30)


@given(moderate)
def test_ess_of_weights_follows_equation_3_to_the_letter(log_weights):
    w = np.exp(log_weights)
    t = w.size
    spread = np.sum((w - w.mean()) ** 2) / ((t - 1) * w.mean() ** 2) if t > 1 else 0.0
    assert cv2(log_weights) == pytest.approx(spread, rel=1e-9, abs=1e-12)
    assert ess_of_weights(log_weights) == pytest.approx(t / (1 + spread), rel=1e-9)


@given(moderate, st.floats(-1e4, 1e4))
def test_sample_sizes_do_not_depend_on_the_constant(log_weights, constant):
    shifted = np.asarray(log_weights) + constant
    assert ess_of_weights(shifted) == pytest.approx(ess_of_weights(log_weights), rel=1e-8)
    assert kish_ess(shifted) == pytest.approx(kish_ess(log_weights), rel=1e-8)


@given(moderate)
def test_kish_ess_is_the_squared_sum_over_the_sum_of_squares(log_weights):
    w = np.exp(log_weights)
    assert kish_ess(log_weights) == pytest.approx(w.sum() ** 2 / np.sum(w**2), rel=1e-9)


def test_weights_thousands_of_nats_apart_count_as_one():
    assert ess_of_weights([0.0, -5000.0, -9000.0]) == pytest.approx(3 * 2 / (3**2 - 1))  # Eq. 9 with l = 1
    assert kish_ess([8000.0, -5000.0]) == 1.0


def test_weights_that_are_all_zero_are_worth_nothing():
    assert cv2([-np.inf, -np.inf]) == np.inf
    assert ess_of_weights([-np.inf, -np.inf]) == kish_ess([-np.inf]) == 0.0


@pytest.mark.parametrize("bad", [[np.nan], [np.inf, 0.0], []])
def test_what_is_no_log_weight_is_refused(bad):
    with pytest.raises(EstimatorError):
        ess_of_weights(bad)


def random_shares(seed, sums):
    shares = np.random.default_rng(seed).exponential(size=sums.n_rungs) ** 3 * sums.has_weight
    return shares / shares.sum()


@given(weighted_rungs(), st.integers(0, 2**32))
def test_combined_weights_sum_to_the_shares(draws, seed):
    log_weights, rung, n_rungs = draws
    sums = RungSums.from_log_weights(log_weights, rung, n_rungs)
    shares = random_shares(seed, sums)
    w = np.exp(combined_log_weights(log_weights, rung, shares))
    np.testing.assert_allclose(np.bincount(rung, w, n_rungs), shares, atol=1e-12)


@given(weighted_rungs(), st.integers(0, 2**32))
def test_the_closed_form_of_a_combination_equals_its_definition(draws, seed):
    log_weights, rung, n_rungs = draws
    sums = RungSums.from_log_weights(log_weights, rung, n_rungs)
    shares = random_shares(seed, sums)
    slow = ess_of_weights(combined_log_weights(log_weights, rung, shares))
    assert combined_ess(sums, shares) == pytest.approx(slow, rel=1e-8)


@given(weighted_rungs(), st.integers(0, 2**32))
def test_equations_5_and_6_are_the_same_estimate(draws, seed):
    log_weights, rung, n_rungs = draws
    shares = random_shares(seed, RungSums.from_log_weights(log_weights, rung, n_rungs))
    h = np.random.default_rng(seed).normal(size=(rung.size, 2))
    by_draws = np.exp(combined_log_weights(log_weights, rung, shares)) @ h
    np.testing.assert_allclose(combined_mean(h, log_weights, rung, shares), by_draws, atol=1e-10)


def test_rung_means_ignore_values_of_draws_without_weight():
    means = rung_means([1.0, np.nan, 4.0, np.inf], [0.0, -np.inf, 3000.0, -3000.0], [0, 0, 2, 2])
    np.testing.assert_array_equal(means[:2], [1.0, 0.0])
    assert rung_means([1.0, 4.0], [0.0, 2.0], [[0, 2]][0])[2] == 4.0


@pytest.mark.parametrize("shares", [[0.5, 0.4], [1.5, -0.5], [1.0], [0.0, 1.0]])
def test_shares_that_cannot_be_are_refused(shares):
    with pytest.raises(EstimatorError):
        combined_log_weights([0.0, -np.inf], [0, 1], shares)
