import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tempered_draws import UNEVEN, correlated_draws, weighted_rungs

from statistical import seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import RULES, combine, ess_of_weights, mbar, weighted_estimate

RATIO_RULES = [rule for rule in RULES if rule != "mbar"]


@pytest.fixture(scope="module")
def draws():
    x, energy, rung = correlated_draws(np.random.default_rng(2), 4, 500)
    return np.stack([x, x**2], axis=2), energy, rung


def run(draws, rule, **options):
    values, energy, rung = draws
    return combine(values, None, rung, rule, energy=energy, inverse_temperatures=UNEVEN, **options)


@pytest.mark.parametrize("rule", RULES)
def test_what_comes_back_hangs_together(draws, rule):
    values, _, rung = draws
    result = run(draws, rule)
    assert result.rule == rule
    assert result.weights.shape == rung.shape
    assert result.weights.sum() == pytest.approx(1.0, rel=1e-12)
    assert result.shares == pytest.approx(np.bincount(rung.ravel(), result.weights.ravel()), rel=1e-9)
    np.testing.assert_allclose(result.estimate, np.einsum("ct,ctq->q", result.weights, values), rtol=1e-9)
    with np.errstate(divide="ignore"):
        assert result.ess == pytest.approx(ess_of_weights(np.log(result.weights)), rel=1e-7)
    assert result.estimate.shape == result.standard_error.shape == (2,)
    assert np.all(np.abs(result.estimate - [1, 2]) < 6 * result.standard_error)
    assert result.pareto_k.shape == result.ess_per_rung.shape == (4,)


@pytest.mark.parametrize("rule", RULES)
def test_one_value_or_many_make_no_difference(draws, rule):
    values, energy, rung = draws
    if rule == "autocorrelation_adjusted":  # its shares depend on what is estimated
        values = np.stack([values[..., 0]] * 2, axis=2)
    both = run((values, energy, rung), rule)
    one = run((values[..., 0], energy, rung), rule)
    assert isinstance(one.estimate, float)
    assert one.estimate == pytest.approx(both.estimate[0], rel=1e-10)
    assert one.standard_error == pytest.approx(both.standard_error[0], rel=1e-9)
    deep = run((values.reshape(4, 500, 2, 1), energy, rung), rule)
    assert deep.estimate.shape == deep.standard_error.shape == (2, 1)


@pytest.mark.parametrize("rule", RULES)
def test_one_chain_needs_no_chain_axis(draws, rule):
    values, energy, rung = (array[0] for array in draws)
    flat = run((values, energy, rung), rule)
    lone = run((values[None], energy[None], rung[None]), rule)
    assert flat.weights.shape == rung.shape
    np.testing.assert_allclose(flat.estimate, lone.estimate, rtol=1e-12)
    np.testing.assert_allclose(flat.standard_error, lone.standard_error, rtol=1e-12)


@pytest.mark.parametrize("rule", [rule for rule in RATIO_RULES if rule != "pooled"])
def test_weights_are_known_up_to_a_constant_per_rung(draws, rule):
    values, energy, rung = draws
    log_weights = (1 - UNEVEN[rung]) * energy
    moved = combine(values, log_weights + np.array([0.0, 700.0, -2000.0, 5.0])[rung], rung, rule)
    here = combine(values, log_weights, rung, rule)
    np.testing.assert_allclose(moved.weights, here.weights, rtol=1e-8)


@settings(max_examples=60)
@given(weighted_rungs(), st.sampled_from([rule for rule in RATIO_RULES if rule != "cold_only"]))
def test_no_draws_however_odd_give_nan(draws, rule):
    log_weights, rung, _ = draws
    values = np.arange(rung.size, dtype=float)
    result = combine(values, log_weights, rung, rule)
    assert np.isfinite(result.estimate)
    assert np.isfinite(result.standard_error)
    used = values[result.weights > 0]
    assert used.min() - 1e-9 <= result.estimate <= used.max() + 1e-9
    assert np.isfinite(result.ess)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(-5000, 0), st.integers(0, 4)), min_size=1, max_size=25))
def test_mbar_answers_whatever_it_is_given(draws):
    energy, rung = np.array([e for e, _ in draws]), np.array([r for _, r in draws])
    values = np.arange(rung.size, dtype=float)
    k = np.array([1.0, 0.6, 0.3, 0.05, 0.0])
    result = combine(values, None, rung, "mbar", energy=energy, inverse_temperatures=k)
    assert np.isfinite(result.estimate)
    assert np.isfinite(result.standard_error)
    assert result.weights.sum() == pytest.approx(1.0)
    assert result.shares.shape == (5,)


def test_a_rung_of_one_draw_and_one_without_weight_are_no_trouble():
    result = combine([1.0, 3.0, 100.0, np.nan], [0.0, 0.0, 2.0, -np.inf], [0, 0, 2, 3], "ess_optimal")
    assert result.estimate == pytest.approx((2 * 2.0 + 100.0) / 3)
    np.testing.assert_allclose(result.shares, [2 / 3, 0, 1 / 3, 0])
    assert np.isfinite(result.standard_error)


@pytest.mark.parametrize("rule", RULES)
def test_the_value_of_a_draw_without_weight_does_not_matter(rule):
    x, energy, rung = correlated_draws(seeded_rng("no matter"), 1, 200)
    k = np.append(UNEVEN, 0.0)
    outside = (
        np.append(x, [[0.0] * 5], 1),
        np.append(energy, [[-np.inf] * 5], 1),
        np.append(rung, [[4] * 5], 1),
    )
    finite = combine(outside[0], None, outside[2], rule, energy=outside[1], inverse_temperatures=k)
    outside[0][0, -5:] = [np.nan, np.inf, -np.inf, 1e300, 0.0]
    anything = combine(outside[0], None, outside[2], rule, energy=outside[1], inverse_temperatures=k)
    assert anything.estimate == pytest.approx(finite.estimate, rel=1e-12)
    assert anything.standard_error == pytest.approx(finite.standard_error, rel=1e-9)


def test_a_combination_cannot_be_changed(draws):
    with pytest.raises(ValueError, match="read-only"):
        run(draws, "screened").weights[0, 0] = 1.0


def test_mbar_with_one_rung_is_the_plain_mean(draws):
    x = draws[0][..., 0]
    result = combine(x, None, np.zeros(x.shape, int), "mbar", energy=-(x**2), inverse_temperatures=[1.0])
    plain = weighted_estimate(x, np.full(x.shape, 1 / x.size))
    assert result.estimate == pytest.approx(x.mean())
    assert result.standard_error == pytest.approx(float(plain.standard_error))


def test_the_weights_of_mbar_are_its_own(draws):
    _, energy, rung = draws
    np.testing.assert_array_equal(run(draws, "mbar").weights, np.exp(mbar(energy, UNEVEN, rung).log_weights()))


def test_dependent_chains_are_summed_before_they_are_batched():
    x, energy, rung = correlated_draws(seeded_rng("dependent chains"), 4, 4000)
    twice = [np.repeat(array, 2, axis=0) for array in (x, energy, rung)]
    for rule in RULES:
        alone = run((x, energy, rung), rule)
        paired = run(twice, rule, chains_per_ensemble=2)
        assert paired.standard_error == pytest.approx(alone.standard_error, rel=0.02)
        assert run(twice, rule).standard_error < 0.85 * alone.standard_error


def test_errors_say_what_to_do(draws):
    values, energy, rung = draws
    with pytest.raises(EstimatorError, match="energy and inverse_temperatures"):
        combine(values, np.zeros(rung.shape), rung, "mbar")
    with pytest.raises(EstimatorError, match="log_weights=None"):
        combine(values, None, rung)
    with pytest.raises(EstimatorError, match="leading axes"):
        combine(values[:2], np.zeros(rung.shape), rung)
    with pytest.raises(EstimatorError, match="below the number of rungs"):
        combine(values, None, rung, energy=energy, inverse_temperatures=[1.0, 0.5])


def test_nothing_that_is_passed_in_is_changed(draws):
    copies = [array.copy() for array in draws]
    for rule in RULES:
        run(draws, rule)
    for before, after in zip(copies, draws, strict=True):
        np.testing.assert_array_equal(before, after)
