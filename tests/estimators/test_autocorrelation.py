import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tempered_draws import ar1

from statistical import assert_mean_is_not, seeded_rng, student_cut
from tempering.errors import EstimatorError
from tempering.estimators import ess_of_autocorrelation, ess_of_autocorrelation_per_rung


def plain(x):
    """Eq. 11 as it is printed, term by term."""
    t = x.size
    centred = x - x.mean()
    gamma = [np.sum(centred[: t - lag] * centred[lag:]) / (t - lag) for lag in range(t)]
    return t / (1 + 2 * np.sum(gamma[1:]) / gamma[0])


@given(st.integers(0, 2**32), st.integers(3, 60))
def test_the_plain_form_is_equation_11(seed, n):
    x = np.random.default_rng(seed).normal(size=n).cumsum()
    assert 1 / ess_of_autocorrelation(x, cutoff="none") == pytest.approx(1 / plain(x), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9, -0.5])
def test_an_ar1_series_has_the_time_it_should(rho):
    rng = seeded_rng(f"ess of ar1 {rho}")
    x = ar1(rng, rho, (24, 4, 10_000))
    ratio = [ess_of_autocorrelation(chains) / 40_000 * (1 + rho) / (1 - rho) for chains in x]
    # the cut-off leaves a bias, at most 3 % in a run ten times as long; the rest is chance
    standard_error = np.std(ratio, ddof=1) / np.sqrt(24)
    assert abs(np.mean(ratio) - 1.0) < 0.03 + student_cut(24, 1) * standard_error
    assert standard_error < 0.02  # so that an error of 15 % is seen


def test_control_ignoring_correlation_is_seen():
    rng = seeded_rng("ess control")
    ratio = [ess_of_autocorrelation(ar1(rng, 0.6, 20_000)) / 20_000 for _ in range(24)]
    assert_mean_is_not(1.0, ratio)
    shuffled = [ess_of_autocorrelation(rng.permutation(ar1(rng, 0.6, 20_000))) / 20_000 for _ in range(24)]
    assert np.mean(shuffled) == pytest.approx(1.0, abs=0.05)


def test_chains_that_disagree_are_worth_little():
    rng = seeded_rng("stuck chains")
    x = rng.normal(size=(4, 1000)) + 10.0 * np.arange(4)[:, None]
    assert ess_of_autocorrelation(x) < 40
    assert sum(ess_of_autocorrelation(chain) for chain in x) > 3000


def test_a_constant_or_single_series_counts_in_full():
    assert ess_of_autocorrelation(np.full(50, 0.1)) == 50.0
    assert ess_of_autocorrelation([3.0]) == 1.0


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_each_rung_is_judged_by_its_own_draws(seed):
    rng = np.random.default_rng(seed)
    values, rung = rng.normal(size=(3, 40, 1)).cumsum(axis=1), rng.integers(0, 4, (3, 40))
    rung[rung == 2] = 3
    ess = ess_of_autocorrelation_per_rung(values, rung, 4)
    assert ess[2] == 0.0
    one_chain = ess_of_autocorrelation_per_rung(values[:1], rung[:1], 4)
    for i in (0, 1, 3):
        own = values[0, rung[0] == i, 0]
        assert one_chain[i] == pytest.approx(ess_of_autocorrelation(own) if own.size else 0.0)


def test_what_is_not_a_series_is_refused():
    for bad in ([], [np.nan, 1.0], np.zeros((2, 2, 2))):
        with pytest.raises(EstimatorError):
            ess_of_autocorrelation(bad)
    with pytest.raises(EstimatorError, match="cutoff"):
        ess_of_autocorrelation([1.0, 2.0], cutoff="geyer")
