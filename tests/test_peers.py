"""The comparison with other samplers: what it calls an error, how it counts time, what it makes of failures."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the benchmarks are no part of the installed package

from benchmarks.peers import environments, runs, versions
from benchmarks.peers.cases import case_of
from benchmarks.peers.summary import Summary
from benchmarks.peers.worker import Compilation

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import problems


def record(sampler, seed, masses, sampling, effort=100, **others):
    figures = {"moments": masses, "log_evidence": None, "start_up": 2.0, "n_calls": 1000, "memory_mb": 300.0}
    at = {"sampler": sampler, "case": "ring", "seed": seed, "effort": effort}
    return at | figures | {"masses": masses, "sampling": sampling} | others


def test_the_posterior_of_a_mixture_is_the_mixture_and_its_evidence_is_one():
    case, ring = case_of("ring"), problems.ring()
    x = ring.sample(seeded_rng("ring"), 50)
    np.testing.assert_allclose(case.log_density(x), ring.log_density(x), rtol=1e-10)


def test_exact_draws_have_small_errors_and_lost_modes_large_ones():
    case, ring = case_of("ring"), problems.ring()
    x = ring.sample(seeded_rng("errors"), 40_000)
    exact = case.errors(x, None, 0.001)
    assert exact["masses"] < 0.01
    assert exact["moments"] < 0.03
    assert exact["log_evidence"] == pytest.approx(0.001)
    lost = case.errors(x[ring.mode_of(x) != 6], None, None)
    assert lost["masses"] == pytest.approx(0.25, abs=0.01)
    assert lost["log_evidence"] is None


def test_weights_count():
    """Draws of pi^(1/2) weighted back are draws of pi, and without their weights they are not."""
    case, ring = case_of("ring"), problems.ring()
    rng = seeded_rng("weights")
    shares = {True: [], False: []}
    for _ in range(24):
        x = ring.sample(rng, 2000, k=0.5)
        for weighted, kept in shares.items():
            log_w = 0.5 * ring.log_density(x) if weighted else np.zeros(len(x))
            weights = np.exp(log_w - log_w.max())
            kept.append(np.bincount(case.mode_of(x), weights / weights.sum(), minlength=8)[:7])
    assert_mean_is(ring.weights[:7], shares[True])
    assert_mean_is_not(ring.weights[:7], shares[False])


def test_overlapping_compilations_count_once_and_earlier_ones_not_at_all():
    compilation = Compilation()
    compilation.intervals = [(0.0, 1.0), (10.0, 14.0), (11.0, 12.0), (13.0, 15.0), (20.0, 21.0)]
    assert compilation.seconds(since=5.0) == pytest.approx(6.0)


def test_efforts_follow_the_pace_of_the_pilot():
    pilot = {"sampling": 0.5, "effort": 1000}
    assert runs.matched_effort("numpyro_nuts", [pilot], 1.5) == 3000
    assert runs.matched_effort("numpyro_nuts", [pilot], 1e6) == 64_000  # no further than it can be trusted
    assert runs.matched_effort("numpyro_nuts", [pilot], 1e-6) == 1000  # its own default
    second = {"sampling": 0.7, "effort": 3000}  # 0.4 s are spent whatever the effort
    assert runs.matched_effort("numpyro_nuts", [pilot, second], 1.0) == 6000


def test_a_short_pilot_tells_tuning_from_drawing(tmp_path, monkeypatch):
    """A second of tuning, and a second for every thousand draws: three seconds in all are 2000 draws."""
    monkeypatch.setattr(runs, "module_of", lambda sampler: SimpleNamespace(EFFORT=1500, SHORT=500))
    made = []

    def run_seeds(sampler, case, seeds, effort, core, limit):
        made.append(effort)
        return [record(sampler, seed, 0.01, 1.0 + effort / 1000, effort=effort) for seed in seeds]

    monkeypatch.setattr(runs, "run_seeds", run_seeds)
    pilots, effort = kept_runs(tmp_path).pilots_of(("tempering", "ring"), 3.0)
    assert made == [500, 1500]  # the default at the least, though 1000 would do by the first pilot's pace
    assert (len(pilots), effort) == (2, 1500)  # 2.5 s are near enough
    monkeypatch.setattr(runs, "NEAR_ENOUGH", 0.99)
    assert kept_runs(tmp_path / "again").pilots_of(("tempering", "ring"), 3.0)[1] == 2000


def test_the_ratio_is_of_squared_errors_times_time():
    pairs = [("tempering", 0.001, 2.0), ("blackjax_tempered", 0.002, 1.0), ("emcee_ensemble", 0.05, 3.0)]
    summary = Summary([record(name, seed, e, t) for name, e, t in pairs for seed in (1, 2)])
    (row,) = summary.ratios()
    assert row["best peer"] == "blackjax_tempered"
    assert row["time ratio to the best peer"] == pytest.approx(0.002**2 * 1.0 / (0.001**2 * 2.0))
    assert row["our seconds to it"] == pytest.approx(2.0 + 2.0)  # c / e^2 is less than the run there was
    assert summary.cell("ring", "blackjax_tempered").seconds_to_error == pytest.approx(2.0 + 1.0)
    emcee = summary.cell("ring", "emcee_ensemble")
    assert emcee.seconds_to_error is None  # its error is far from what is wanted: no extrapolation


def test_errors_at_equal_time_follow_the_law_as_far_as_it_holds():
    pairs = [
        ("tempering", 0.001, 2.0), ("blackjax_tempered", 0.002, 0.5), ("dynesty_dynamic", 0.002, 3.5),
        ("emcee_ensemble", 0.1, 0.5),
    ]  # fmt: skip
    summary = Summary([record(name, seed, e, t) for name, e, t in pairs for seed in (1, 2)])
    (row,) = summary.ratios()
    assert row["equal time s"] == pytest.approx(2.0)
    assert row["our error then"] == pytest.approx(0.001)
    assert row["least error of a peer then"] == pytest.approx(0.001)  # four times the time, half the error
    assert row["whose"] == "blackjax_tempered"
    then = {row["sampler"]: row["error at equal time"] for row in summary.errors()}
    assert then["dynesty_dynamic"] is None  # no run of it ends so soon
    assert then["emcee_ensemble"] == pytest.approx(0.1)  # it is lost: more time is not said to mend it


def test_chains_that_stay_where_they_start_are_not_ranked():
    pairs = [("tempering", 0.001, 2.0), ("numpyro_nuts", 5e-14, 2.0), ("blackjax_tempered", 0.002, 2.0)]
    summary = Summary([record(name, seed, e, t) for name, e, t in pairs for seed in (1, 2)])
    (row,) = summary.ratios()
    assert row["best peer"] == row["whose"] == row["best with start-up"] == "blackjax_tempered"
    remarks = {row["sampler"]: row["remark"] for row in summary.errors()}
    assert remarks["numpyro_nuts"].startswith("not ranked")


def test_a_run_that_loses_a_mode_is_not_hidden_by_the_others():
    errors = [0.001] * 9 + [0.2]
    summary = Summary([record("tempering", seed, e, 1.0) for seed, e in enumerate(errors)])
    assert summary.cell("ring", "tempering").rms("masses") > 0.06


def test_a_failure_is_a_row_that_says_so():
    at = {"sampler": "ptemcee_parallel", "case": "ring", "seed": 0, "effort": 10}
    summary = Summary([record("tempering", 1, 0.001, 1.0), at | {"failure": "AttributeError: np.float"}])
    rows = {row["sampler"]: row for row in summary.errors()}
    assert rows["ptemcee_parallel"]["remark"] == "AttributeError: np.float"
    assert "masses" not in rows["ptemcee_parallel"]


def test_a_peer_that_is_not_installed_is_a_record(monkeypatch, tmp_path):
    monkeypatch.setitem(environments.PLACES, "peers", (tmp_path, tmp_path / "requirements.txt"))
    (found,) = runs.run_seeds("emcee_ensemble", "ring", [1], 10, runs.free_cores()[0], limit=20.0)
    assert found["failure"].startswith("not installed")


def kept_runs(tmp_path, *records, **options):
    kept = runs.Runs(tmp_path / "runs.json", [runs.free_cores()[0]], limit=1.0, **options)
    kept.stored.extend(records)
    return kept


def test_runs_that_are_kept_are_not_run_again(tmp_path):
    version = versions.version_stamp("emcee_ensemble")
    kept = kept_runs(tmp_path, record("emcee_ensemble", 3, 0.5, 1.0, effort=77, version=version))
    assert [r["masses"] for r in kept.of_seeds(("emcee_ensemble", "ring"), [3], 77)] == [0.5]
    assert not kept.path.exists()
    assert len(kept.records) == 1


def test_runs_of_another_version_are_neither_shown_nor_taken_for_done(tmp_path, monkeypatch):
    kept = kept_runs(tmp_path, record("emcee_ensemble", 3, 0.5, 1.0, effort=77, version="0.0 elsewhere"))
    assert kept.records == []
    monkeypatch.setattr(runs, "run_seeds", lambda sampler, *at: [record(sampler, 3, 0.25, 1.0, effort=77)])
    assert [r["masses"] for r in kept.of_seeds(("emcee_ensemble", "ring"), [3], 77)] == [0.25]
    again = runs.Runs(kept.path, [0], limit=1.0)
    assert [r["masses"] for r in again.stored] == [0.5, 0.25]
    assert [r["masses"] for r in again.records] == [0.25]


def test_after_the_deadline_nothing_is_begun(tmp_path):
    kept = kept_runs(tmp_path, deadline=0.0)
    assert kept.of_seeds(("emcee_ensemble", "ring"), [1, 2], 10) == []
    assert kept.left_out == 2
    assert not kept.path.exists()


def test_a_forecast_counts_what_is_kept(tmp_path):
    version = versions.version_stamp("emcee_ensemble")
    own = [record("emcee_ensemble", seed, 0.5, 8.0, version=version) for seed in (0, 1, 2)]
    kept, to_make, cost = kept_runs(tmp_path, *own).forecast(["ring"], ["emcee_ensemble"], 5, 3.0)
    assert (kept, to_make, cost) == (3, 3, 3 * 8.0 + 2.0)
    lost = own[0] | {"failure": "crashed"}
    assert kept_runs(tmp_path, lost).forecast(["ring"], ["emcee_ensemble"], 5, 3.0)[1:] == (0, 0.0)


def test_more_processor_time_than_allowed_is_a_record():
    found = runs.run_seeds("tempering", "ring", [1, 2], 10_000, runs.free_cores()[0], limit=1.0)
    assert [r["failure"] for r in found] == ["did not end within 1 s of the processor"] * 2


def test_every_sampler_says_its_settings_and_where_it_runs():
    for name in runs.SAMPLERS:
        module = runs.module_of(name)
        assert module.ENVIRONMENT == "own" or module.ENVIRONMENT in environments.PLACES
        assert "effort" in module.SETTINGS
        assert module.EFFORT > 0


def test_the_most_promising_of_every_case_come_first():
    def runs_of(sampler, case, masses, sampling):
        return [record(sampler, 0, masses, sampling) | {"case": case}]

    pilots = {
        ("emcee_ensemble", "ring"): (runs_of("emcee_ensemble", "ring", 0.1, 1.0), 10),
        ("tempering", "ring"): (runs_of("tempering", "ring", 0.01, 10.0), 10),
        ("pymc_smc", "ring"): ([], 10),
        ("emcee_ensemble", "mixture"): (runs_of("emcee_ensemble", "mixture", 0.1, 1.0), 10),
    }
    ring, mixture = ("tempering", "ring"), ("emcee_ensemble", "mixture")
    assert runs.by_promise(pilots) == [ring, mixture, ("emcee_ensemble", "ring")]


def test_figures_are_of_the_seeds_and_start_up_of_the_run_that_started_up():
    pilot, first = record("tempering", 0, 0.5, 1.0), record("tempering", 1, 0.01, 1.0, start_up=7.0)
    later = record("tempering", 2, 0.01, 1.0, start_up=None)
    cell = Summary([pilot, first, later]).cell("ring", "tempering")
    assert cell.rms("masses") == pytest.approx(0.01)
    assert cell.median("start_up") == 7.0
    assert Summary([pilot]).cell("ring", "tempering").rms("masses") == 0.5
