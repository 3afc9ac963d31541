import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tempered_draws import UNEVEN, normal_draws, weighted_rungs

from tempering.errors import EstimatorError
from tempering.estimators import (
    RULES,
    RungSums,
    cold_only,
    combine,
    combined_ess,
    equal,
    ess_optimal,
    pooled,
    screened,
)
from tempering.estimators.rules import check_rule


@given(weighted_rungs(), st.integers(0, 2**32))
def test_no_other_combination_does_better_proposition_2_1(draws, seed):
    sums = RungSums.from_log_weights(*draws)
    best = combined_ess(sums, ess_optimal(sums))
    rng = np.random.default_rng(seed)
    rivals = [pooled(sums), equal(sums)]
    for scale in (0.01, 0.3, 3.0):
        rival = ess_optimal(sums) * np.exp(scale * rng.normal(size=sums.n_rungs))
        rivals.append(rival / rival.sum())
    for rival in rivals:
        assert combined_ess(sums, rival) <= best * (1 + 1e-9)


def test_control_the_rungs_ess_in_place_of_kish_is_not_optimal():
    sums = RungSums.from_log_weights([0.0, 0.0, 0.0, 3.0, 0.0], [0, 0, 0, 1, 1])
    wrong = sums.kish_ess**0.5
    assert combined_ess(sums, wrong / wrong.sum()) < combined_ess(sums, ess_optimal(sums)) * (1 - 1e-3)


@given(weighted_rungs(minimum_per_rung=2))
def test_the_optimal_combination_obeys_the_bound_of_remark_2_2(draws):
    sums = RungSums.from_log_weights(*draws)
    n_draws = sums.n_draws.sum()
    bound = sums.ess_of_weights.sum() - 1 / 4 - 1 / n_draws
    assert combined_ess(sums, ess_optimal(sums)) >= bound - 1e-9 * n_draws


@given(weighted_rungs())
def test_the_remarks_closed_form_needs_the_square_of_all_draws(draws):
    sums = RungSums.from_log_weights(*draws)
    t, ell = float(sums.n_draws.sum()), sums.kish_ess.sum()
    if t > 1:
        assert combined_ess(sums, ess_optimal(sums)) == pytest.approx(t * (t - 1) * ell / (t * t - ell), rel=1e-8)


@given(weighted_rungs())
def test_shares_are_shares_and_empty_rungs_get_none(draws):
    sums = RungSums.from_log_weights(*draws)
    for shares in (pooled(sums), equal(sums), ess_optimal(sums), screened(sums, np.zeros(sums.n_rungs))):
        assert shares.sum() == pytest.approx(1.0)
        assert np.all(shares >= 0)
        assert np.all(shares[~sums.has_weight] == 0)


def shifted_shares(rule, constant):
    x, energy, rung = normal_draws(np.random.default_rng(5), UNEVEN, 4000, dimension=8)
    return combine(x[:, 0], None, rung, rule, energy=energy + constant, inverse_temperatures=UNEVEN)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "pooled"])
@pytest.mark.parametrize("constant", [-3000.0, -30.0, 30.0])
def test_a_constant_added_to_log_pi_changes_nothing(rule, constant):
    there, here = shifted_shares(rule, constant), shifted_shares(rule, 0.0)
    np.testing.assert_allclose(there.shares, here.shares, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-7, atol=1e-14)
    assert there.estimate == pytest.approx(here.estimate, rel=1e-9)
    assert there.standard_error == pytest.approx(here.standard_error, rel=1e-6)


def test_pooling_depends_on_that_constant():
    ess = [shifted_shares("pooled", constant).ess for constant in (-30.0, 0.0, 30.0)]
    assert max(ess) > 3 * min(ess)


def test_screening_drops_what_cannot_be_trusted_and_keeps_something():
    sums = RungSums.from_log_weights(np.zeros(6), [0, 0, 1, 1, 2, 2])
    np.testing.assert_allclose(screened(sums, [0.1, 0.9, np.inf]), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(screened(sums, [0.9, 0.9, np.inf]), [1 / 3, 1 / 3, 1 / 3])
    lopsided = RungSums.from_log_weights(np.concatenate([np.zeros(10), [50.0], np.zeros(99)]), [0] * 10 + [1] * 100)
    np.testing.assert_allclose(screened(lopsided, [0.1, 0.1]), [1.0, 0.0])


def test_without_any_weight_no_rule_gives_an_answer():
    nothing = RungSums.from_log_weights([-np.inf, -np.inf], [0, 1])
    for rule in (cold_only, pooled, equal, ess_optimal):
        with pytest.raises(EstimatorError):
            rule(nothing)


def test_cold_only_says_that_there_are_no_cold_draws():
    with pytest.raises(EstimatorError, match="rung 0"):
        combine([1.0], [0.0], [1], "cold_only")


def test_an_unknown_rule_is_answered_with_the_known_ones():
    with pytest.raises(EstimatorError, match=", ".join(RULES)):
        check_rule("naive")
