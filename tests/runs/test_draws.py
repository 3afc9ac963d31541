"""TemperedDraws: what a user asks of draws, here exact draws of every rung, made without a sampler."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from exact_runs import LADDER, PROBLEM, exact_run
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import TemperedDraws
from tempering.errors import EstimatorError

RULES = ["cold_only", "equal", "ess_optimal", "screened", "mbar"]


def test_counts_and_visits():
    draws = exact_run("counts")
    assert (draws.n_chains, draws.n_draws) == (4, 600)
    assert draws.visits.sum() == 2400
    np.testing.assert_array_equal(draws.visits, [np.sum(draws.rung == i) for i in range(3)])
    assert repr(draws) == "TemperedDraws(4 chains x 600 draws of x[2]; Ladder(3 rungs, k = 1, 0.6, 0.3))"


def test_log_weights_go_towards_the_cold_distribution():
    draws = exact_run("weights")
    k = LADDER.inverse_temperatures[draws.rung]
    np.testing.assert_allclose(draws.log_weights, (1 - k) * draws.energy, rtol=1e-14)
    assert np.all(draws.log_weights[draws.rung == 0] == 0.0)


@pytest.mark.parametrize("rule", RULES)
def test_weights_sum_to_one_and_shares_are_theirs(rule):
    draws = exact_run("sum")
    weights, shares = draws.weights(rule), draws.shares(rule)
    assert weights.shape == (4, 600)
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose([weights[draws.rung == i].sum() for i in range(3)], shares, atol=1e-9)
    assert 1 < draws.ess(rule) <= 2400


@pytest.mark.parametrize("rule", RULES)
def test_expectations_are_those_of_the_cold_distribution(rule):
    runs = [exact_run(f"expect {i}", n_draws=400) for i in range(24)]
    values = [run.expect(lambda x: x, rule).value for run in runs]
    assert_mean_is(PROBLEM.mean, values)


def test_control_draws_without_weights_miss_the_cold_distribution():
    runs = [exact_run(f"expect {i}", n_draws=400) for i in range(24)]
    assert_mean_is_not(PROBLEM.mean, [run.values["x"].mean(axis=(0, 1)) for run in runs])


def test_the_function_is_called_once_with_leading_axes_kept():
    draws, calls = exact_run("once"), []

    def first(x):
        calls.append(x.shape)
        return x[..., 0]

    estimate = draws.expect(first)
    assert calls == [(4, 600, 2)]
    assert np.ndim(estimate.value) == 0
    assert estimate.standard_error > 0
    assert draws.expect(lambda x: x).value.shape == (2,)
    np.testing.assert_allclose(draws.expect(lambda x: x).value[0], estimate.value, rtol=1e-12)


def test_named_positions_come_by_keyword():
    draws = exact_run("names", position={"b": 0.0, "a": 0.0})
    by_name = draws.expect(lambda a, b: np.stack([a, b], axis=-1)).value
    same = exact_run("names")
    np.testing.assert_allclose(by_name, same.expect(lambda x: x).value, rtol=1e-12)
    with pytest.raises(EstimatorError, match="raised TypeError"):
        draws.expect(lambda x: x)


def test_other_containers_come_as_they_are():
    draws = exact_run("tuple", position=(0.0, np.zeros(1)))
    value = draws.expect(lambda p: p[0] + p[1][..., 0]).value
    assert value == pytest.approx(exact_run("tuple").expect(lambda x: x.sum(axis=-1)).value, rel=1e-12)
    nested = exact_run("tuple", position={"outer": {"a": 0.0}, "b": 0.0})
    with pytest.raises(EstimatorError, match="raised TypeError"):
        nested.expect(lambda a, b: a)


def test_a_function_that_loses_the_draws_is_refused():
    with pytest.raises(EstimatorError, match=r"leading axes \(4, 600\), but it returned shape \(\).*axis=-1"):
        exact_run("lost").expect(np.sum)


def test_quantiles_are_those_of_the_cold_distribution():
    p = np.array([0.1, 0.5, 0.9])
    cold = PROBLEM.sample(seeded_rng("quantile truth"), 200_000)
    quantiles = exact_run("quantiles", n_draws=10_000).quantile(p)
    assert quantiles.shape == (3, 2)
    np.testing.assert_allclose(quantiles, np.quantile(cold, p, axis=0), atol=0.12)
    assert np.shape(exact_run("quantiles").quantile(0.5)) == (2,)
    assert np.shape(exact_run("quantiles", position={"a": 0.0, "b": 0.0}).quantile(0.5, "a")) == ()


def test_the_summary_is_a_table_of_every_coordinate():
    draws = exact_run("summary", position={"a": 0.0, "b": np.zeros(1)})
    table = draws.summary()
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == ["a", "b[0]"]
    estimate = draws.expect(lambda a, b: a)
    assert table.loc["a", "mean"] == pytest.approx(estimate.value, rel=1e-12)
    assert table.loc["a", "standard_error"] == pytest.approx(estimate.standard_error, rel=1e-12)
    assert table.loc["a", "50%"] == pytest.approx(draws.quantile(0.5, "a"), rel=1e-12)
    assert np.all(table["5%"] < table["50%"])
    assert np.all(table["50%"] < table["95%"])
    assert np.all(table["sd"] > 0)
    low, high = draws.hdi(0.9, "b")[:, 0]
    assert table.loc["b[0]", ["hdi_low", "hdi_high"]].tolist() == [low, high]
    assert high - low <= table.loc["b[0]", "95%"] - table.loc["b[0]", "5%"]
    np.testing.assert_allclose(table["ess"], (table["sd"] / table["standard_error"]) ** 2, rtol=1e-9)
    assert np.all((table["r_hat"] >= 1) & (table["r_hat"] < 1.05))
    narrow = draws.summary("cold_only", hdi=0.5)
    assert np.all(narrow["hdi_high"] - narrow["hdi_low"] < 0.8 * (table["hdi_high"] - table["hdi_low"]))
    assert np.all(narrow["ess"] < table["ess"])


def test_chains_that_disagree_have_a_large_r_hat():
    draws = exact_run("apart")
    apart = replace(draws, values={"x": draws.values["x"] + 3.0 * np.arange(4)[:, None, None]}, _kept={})
    assert np.all(apart.summary()["r_hat"] > 1.5)


def test_the_shortest_interval_is_that_of_the_cold_distribution():
    truth = np.sort(PROBLEM.sample(seeded_rng("hdi truth"), 200_000), axis=0)
    n = 180_000
    width = truth[n:] - truth[:-n]
    found = exact_run("hdi", n_draws=10_000).hdi(0.9)
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found[1] - found[0], width.min(axis=0), rtol=0.05)


def test_the_rungs_are_a_table():
    draws = exact_run("rungs")
    draws = replace(draws, acceptance=np.ones_like(draws.acceptance))
    table = draws.rungs()
    assert table["k"].tolist() == [1.0, 0.6, 0.3]
    np.testing.assert_array_equal(table["visits"], draws.visits)
    np.testing.assert_allclose(table["share"], draws.shares(), rtol=1e-12)
    assert table["ess_of_weights"].iloc[0] == draws.visits[0]
    assert np.all(table["move_acceptance"] == 1.0)


def test_round_trips_are_counted():
    draws = exact_run("trips", n_chains=1, n_draws=5)
    rung = np.array([[0, 1, 2, 1, 0]], np.int32)
    assert TemperedDraws.of_energies(draws.values, rung, draws.energy, LADDER).n_round_trips == 1
