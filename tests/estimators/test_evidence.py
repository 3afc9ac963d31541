import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tempered_draws import UNEVEN, correlated_draws, normal_draws

from statistical import assert_mean_is, assert_variance_is_one, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import log_evidence_mbar, log_evidence_stepping_stone, thermodynamic_integration

TRUTH = 0.5 * np.log(UNEVEN[-1])  # log Z(1) - log Z(0.3) of the powers of a normal density


def reverse(*arguments, **options):
    return log_evidence_stepping_stone(*arguments, reverse=True, **options)


METHODS = [log_evidence_stepping_stone, reverse, thermodynamic_integration, log_evidence_mbar]


@pytest.mark.parametrize("method", METHODS)
def test_the_truth_is_found_with_honest_errors(method):
    rng = seeded_rng(f"evidence {METHODS.index(method)}")
    found = []
    for _ in range(200):
        _, energy, rung = correlated_draws(rng, 4, 2000)
        found.append(method(energy, UNEVEN, rung))
    z = [(estimate.value - TRUTH) / estimate.standard_error for estimate in found]
    if method is not thermodynamic_integration:  # its rule is off by 4e-4 on this ladder, 0.06 standard errors
        assert_mean_is(TRUTH, [estimate.value for estimate in found])
    assert_variance_is_one(z)


def exact_trapezium(k, *, corrected):
    """Integrate the mean energy -1 / (2 k) and its variance 1 / (2 k^2) by the rule, without noise."""
    mean, variance, width = -0.5 / k, 0.5 / k**2, -np.diff(k)
    plain = np.sum(width * (mean[:-1] + mean[1:]) / 2)
    return plain - np.sum(width**2 / 12 * (variance[:-1] - variance[1:])) if corrected else plain


@pytest.mark.parametrize("corrected", [True, False])
def test_integration_is_the_trapezium_rule_it_says(corrected):
    rng = seeded_rng(f"trapezium {corrected}")
    found = []
    for _ in range(100):
        _, energy, rung = normal_draws(rng, UNEVEN, 20_000)
        found.append(thermodynamic_integration(energy, UNEVEN, rung, corrected=corrected).value)
    assert_mean_is(exact_trapezium(UNEVEN, corrected=corrected), found)


def test_the_correction_helps():
    errors = [abs(exact_trapezium(UNEVEN, corrected=corrected) - TRUTH) for corrected in (True, False)]
    assert errors[0] < 0.2 * errors[1]


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.floats(-3000, 3000))
def test_a_constant_added_to_the_energy_shifts_the_answer_by_its_share(seed, constant):
    _, energy, rung = normal_draws(np.random.default_rng(seed), UNEVEN, 200)
    rung[:4] = np.arange(4)
    for method in METHODS:
        here, there = method(energy, UNEVEN, rung), method(energy + constant, UNEVEN, rung)
        assert there.value - here.value == pytest.approx(0.7 * constant, abs=1e-6)
        assert there.standard_error == pytest.approx(here.standard_error, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_rung_without_draws_is_passed_over(method):
    _, energy, rung = normal_draws(seeded_rng("gap"), UNEVEN, 40_000)
    kept = rung != 1
    found = method(energy[kept], UNEVEN, rung[kept])
    without = method(energy[kept], UNEVEN[[0, 2, 3]], np.array([0, 0, 1, 2])[rung[kept]])
    assert found.value == pytest.approx(without.value, abs=1e-9)
    assert found.standard_error == pytest.approx(without.standard_error, rel=1e-6)


def test_the_forward_form_needs_no_cold_draws_and_the_reverse_no_hot_ones():
    _, energy, rung = normal_draws(seeded_rng("ends"), UNEVEN, 40_000)
    warm, cool = rung != 0, rung != 3
    assert log_evidence_stepping_stone(energy[warm], UNEVEN, rung[warm]).value == pytest.approx(TRUTH, abs=0.05)
    assert reverse(energy[cool], UNEVEN, rung[cool]).value == pytest.approx(TRUTH, abs=0.1)
    with pytest.raises(EstimatorError, match="rung 3"):
        log_evidence_stepping_stone(energy[cool], UNEVEN, rung[cool])
    with pytest.raises(EstimatorError, match="rung 0"):
        reverse(energy[warm], UNEVEN, rung[warm])
    with pytest.raises(EstimatorError, match="rung 0"):
        thermodynamic_integration(energy[warm], UNEVEN, rung[warm])


def test_prior_draws_outside_the_likelihood_count():
    energy = np.array([0.0, 0.0, 0.0, 0.0, -np.inf, -np.inf, -np.inf, 0.0])
    k, rung = np.array([1.0, 0.0]), np.repeat([0, 1], 4)
    assert log_evidence_stepping_stone(energy, k, rung).value == pytest.approx(np.log(0.25))
    assert log_evidence_mbar(energy, k, rung).value == pytest.approx(np.log(0.25))
    with pytest.raises(EstimatorError, match="finite"):
        thermodynamic_integration(energy, k, rung)
    with pytest.raises(EstimatorError, match="between"):
        log_evidence_stepping_stone([0.0, -np.inf], k, [0, 1])


def test_the_ladder_must_fall():
    with pytest.raises(EstimatorError, match="cold to hot"):
        thermodynamic_integration([0.0, 0.0], [0.5, 1.0], [0, 1])
