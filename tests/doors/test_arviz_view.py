"""The ArviZ view: equal-weight draws that say what the weighted ones say, in both of ArviZ's containers."""

import warnings
from importlib.metadata import version

import numpy as np
import pytest

from exact_runs import LADDER, PROBLEM, exact_run
from statistical import assert_mean_is, assert_mean_is_not
from tempering.doors import arviz as view
from tempering.doors.arviz import to_arviz
from tempering.errors import InputError

with_older_arviz = pytest.mark.skipif(not version("arviz").startswith("0."), reason="needs ArviZ before 1.0")


@pytest.fixture(autouse=True)
def current_arviz(monkeypatch):
    """Let every test see the current ArviZ, whatever else is installed; some see an older one."""
    monkeypatch.setattr(view, "_version", {"arviz-base": "0.8.2"}.get)


def test_the_tree_has_the_groups_and_the_shapes():
    run = exact_run("groups", position={"a": 0.0, "b": np.zeros(1)})
    tree = to_arviz(run)
    assert set(tree.children) == {"posterior", "sample_stats", "tempered"}
    n = int(np.ceil(run.ess())) // 4
    assert tree["posterior"]["a"].shape == (4, n)
    assert tree["posterior"]["b"].dims == ("chain", "draw", "b_dim_0")
    assert tree["sample_stats"]["rung"].shape == (4, n)
    assert set(tree["sample_stats"].data_vars) == {"rung", "energy", "acceptance"}
    np.testing.assert_array_equal(tree["tempered"]["a"], run.values["a"])
    np.testing.assert_allclose(np.exp(tree["tempered"]["log_weight"]), run.weights(), rtol=1e-12)
    np.testing.assert_array_equal(tree["tempered"]["inverse_temperature"], LADDER.inverse_temperatures[run.rung])


def test_the_attributes_hold_the_evidence():
    run = exact_run("attributes")
    attributes = to_arviz(run, rule="mbar").attrs
    assert attributes["log_evidence"] == run.log_evidence().value
    assert attributes["log_evidence_standard_error"] > 0
    assert attributes["rule"] == "mbar"
    assert attributes["inverse_temperatures"] == [1.0, 0.6, 0.3]


def test_statistics_belong_to_their_draws():
    run = exact_run("pairs")
    tree = to_arviz(run)
    np.testing.assert_allclose(
        PROBLEM.log_density(tree["posterior"]["x"].to_numpy()), tree["sample_stats"]["energy"], rtol=1e-12
    )


def test_equal_seeds_give_equal_trees():
    run = exact_run("seeds")
    first, second = to_arviz(run), to_arviz(run)
    assert first.identical(second)
    assert not first.identical(to_arviz(run, rng=5))


def test_the_number_of_draws_can_be_set():
    assert to_arviz(exact_run("number"), n_draws=40)["posterior"]["x"].shape == (4, 10, 2)


@pytest.mark.parametrize("rule", ["screened", "mbar", "cold_only"])
def test_posterior_means_are_those_of_the_cold_distribution(rule):
    runs = [exact_run(f"means {i}") for i in range(24)]
    assert_mean_is(PROBLEM.mean, [to_arviz(run, rule=rule)["posterior"]["x"].mean(("chain", "draw")) for run in runs])


def test_control_tempered_draws_without_their_weights_are_seen():
    runs = [exact_run(f"means {i}") for i in range(24)]
    assert_mean_is_not(PROBLEM.mean, [to_arviz(run)["tempered"]["x"].mean(("chain", "draw")) for run in runs])


def disagreement(runs, rule):
    """Return our table less ArviZ's of the resampled draws, in units of the standard deviation: a row a run."""
    rows = []
    for run in runs:
        table = run.summary(rule, hdi=0.9)
        x = to_arviz(run, rule=rule)["posterior"]["x"].to_numpy().reshape(-1, 2)
        ordered, n = np.sort(x, axis=0), int(np.ceil(0.9 * len(x)))
        first = np.argmin(ordered[n - 1 :] - ordered[: len(x) - n + 1], axis=0)
        theirs = {
            "mean": x.mean(axis=0),
            "sd": x.std(axis=0),
            **{name: np.quantile(x, p, axis=0) for name, p in (("5%", 0.05), ("50%", 0.5), ("95%", 0.95))},
            "width": ordered[first + n - 1, [0, 1]] - ordered[first, [0, 1]],
        }
        ours = table.assign(width=table["hdi_high"] - table["hdi_low"])
        rows.append([((ours[name] - theirs[name]) / table["sd"]).to_numpy() for name in theirs])
    return np.array(rows).reshape(len(runs), -1)


def test_our_summary_and_that_of_the_view_agree_within_monte_carlo_error():
    """Means, deviations, quantiles and shortest intervals differ by noise alone, without a bias, over many runs."""
    runs = [exact_run(f"agree {i}", n_draws=2000) for i in range(24)]
    apart = disagreement(runs, "mbar")
    # a resampled quantile lies half a draw beside ours, and the shortest of noisy intervals is a little too short:
    # O(1/n) of n = 2000 draws or so, far below the noise of one run
    assert np.max(np.abs(apart.mean(axis=0))) < 0.02
    assert np.max(np.abs(apart)) < 0.25


def test_control_a_view_of_the_tempered_draws_does_not_agree(monkeypatch):
    """Resampled without weights, the draws of all rungs are wider than the cold ones."""
    monkeypatch.setattr(view, "_equal_weight", lambda run, *_: np.arange(run.rung.size).reshape(run.rung.shape))
    apart = disagreement([exact_run(f"agree {i}", n_draws=2000) for i in range(3)], "mbar")
    assert np.max(np.abs(apart.mean(axis=0))) > 0.2


def test_sample_sizes_and_r_hat_of_the_view_are_near_ours():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    run = exact_run("sizes", n_draws=4000)
    x = np.asarray(to_arviz(run)["posterior"]["x"])
    table = run.summary()
    for i in range(2):
        assert 0.6 < float(arviz.ess(x[..., i])) / table["ess"].iloc[i] < 1.6
        assert abs(float(arviz.rhat(x[..., i])) - table["r_hat"].iloc[i]) < 0.01


def test_ensembles_become_chains_in_time_order():
    run = exact_run("ensembles", chains_per_ensemble=2, n_draws=50)
    chosen = view._equal_weight(run, "screened", 60, 0)
    assert chosen.shape == (2, 30)
    ensemble, time = chosen.ravel() // 100, chosen.ravel() % 50
    assert np.all(np.diff(ensemble * 50 + time) >= 0)
    assert set(chosen[0][:20] // 50) == {0, 1}  # both replicas of the first ensemble


def test_current_arviz_reads_the_tree():
    import arviz_base

    tree = to_arviz(exact_run("arviz"))
    flat = arviz_base.extract(tree, group="posterior")
    assert flat.sizes["sample"] == tree["posterior"].sizes["draw"] * 4


@with_older_arviz
def test_older_arviz_gets_inference_data(monkeypatch):
    versions = {"arviz": "0.23.4"}
    monkeypatch.setattr(view, "_version", versions.get)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    run = exact_run("older")
    data = to_arviz(run)
    assert isinstance(data, arviz.InferenceData)
    assert set(data.groups()) == {"posterior", "sample_stats", "tempered"}
    assert data.attrs["log_evidence"] == run.log_evidence().value
    summary = arviz.summary(data, kind="stats")
    assert np.all(np.abs(summary["mean"].to_numpy() - run.summary()["mean"].to_numpy()) < 0.2)


@with_older_arviz
def test_still_older_arviz_takes_groups_and_attributes_alone(monkeypatch):
    """As ArviZ 0.20 does, which has no argument for groups that are not its own."""

    class Strict:
        def __init__(self, attrs=None, **groups):
            assert all(hasattr(group, "data_vars") for group in groups.values())
            self.groups = groups

    monkeypatch.setattr(view, "_version", {"arviz": "0.20.0"}.get)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    monkeypatch.setattr(arviz, "InferenceData", Strict)
    assert set(to_arviz(exact_run("oldest")).groups) == {"posterior", "sample_stats", "tempered"}


@pytest.mark.parametrize(
    ("versions", "older"),
    [
        ({"arviz": "0.23.4"}, True),
        ({"arviz": "0.23.4", "arviz-base": "0.8"}, True),
        ({"arviz": "1.2"}, False),
        ({}, False),
    ],
)
def test_the_container_is_the_one_the_installed_arviz_knows(monkeypatch, versions, older):
    monkeypatch.setattr(view, "_version", versions.get)
    assert view._only_knows_inference_data() is older


def test_without_xarray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "xarray", None)
    with pytest.raises(InputError, match=r"needs xarray.*pip install 'tempering\[arviz\]'"):
        to_arviz(exact_run("missing"))
