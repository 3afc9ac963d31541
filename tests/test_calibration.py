"""The judging set: its split, its arithmetic of errors and verdicts, and what it makes of failures."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the benchmarks are no part of the installed package

from benchmarks.calibration import runs, summary, targets, tasks
from benchmarks.calibration.summary import Row, z_of
from benchmarks.suite.cases import known_case

from statistical import seeded_rng
from tempering import problems

TRUTH = np.array([0.6, 0.4])


def quantity(value, error, name="masses of the modes", **others):
    entry = {"name": name, "value": value, "standard_error": error, "truth": TRUTH.tolist(), "accuracy": 0.0}
    return entry | {"can_be_found": True} | others


def record(seed, offset, error=0.01, sound=True):
    value = (TRUTH + np.array([offset, -offset])).tolist()
    return {
        "target": "eggbox", "seed": seed, "sound": sound, "seconds": 1.0, "is_first": seed == 1,
        "quantities": [quantity(value, [error, error])],
    }  # fmt: skip


def test_the_split_is_that_of_the_names_alone_and_leaves_enough_on_both_sides():
    halves = {name: targets.half_of(name) for name in targets.NAMES}
    assert len(halves) >= 25
    assert halves["eggbox"] == "judging"
    assert halves["funnel-10"] == "tuning"
    assert min(list(halves.values()).count(half) for half in targets.HALVES) >= 15
    assert set(targets.names_of("both")) == set(targets.names_of("tuning")) | set(targets.names_of("judging"))


def test_every_target_of_the_set_is_in_the_suite():
    assert set(targets.NAMES) <= set(problems.suite())


def test_z_is_error_over_stated_error_with_the_truths_own_error_in_it():
    np.testing.assert_allclose(z_of(quantity([0.63, 0.40], [0.01, 0.01])), [3.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(z_of(quantity([0.63, 0.40], [0.03, 0.03], accuracy=0.04)), [0.6, 0.0], atol=1e-9)


def test_an_error_bar_of_zero_is_infinitely_wrong_and_one_without_bound_is_not():
    assert np.isinf(z_of(quantity([0.63, 0.40], [0.0, 0.0]))[0])
    assert z_of(quantity([0.60, 0.40], [0.0, 0.0]))[0] == 0.0
    np.testing.assert_array_equal(z_of(quantity([0.9, 0.1], [np.inf, np.nan])), [0.0, 0.0])
    assert np.isinf(z_of(quantity([np.nan, 0.4], [0.1, 0.1]))[0])


def test_coverage_counts_intervals_and_a_lie_is_a_sound_run_far_off():
    row = Row("eggbox", [record(1, 0.0), record(2, 0.019), record(3, 0.021), record(4, 0.07)])
    figures = row.figures()
    assert figures["covered"] == pytest.approx(0.5)
    assert figures["false sound"] == 1
    flagged = Row("eggbox", [record(1, 0.0, sound=False), record(2, 0.07, sound=False)]).figures()
    assert flagged["false sound"] == 0
    assert flagged["false alarms"] == 1


def test_intervals_of_a_known_width_cover_as_often_as_they_should():
    rng = seeded_rng("coverage")
    honest = Row("eggbox", [record(i, 0.01 * rng.standard_normal()) for i in range(4000)])
    narrow = Row("eggbox", [record(i, 0.01 * rng.standard_normal(), error=0.005) for i in range(4000)])
    # binomial of 4000: 5 deviations are 0.0172
    assert abs(honest.coverage()["masses of the modes"] - 0.95) < 0.0172
    assert abs(narrow.coverage()["masses of the modes"] - 0.673) < 0.037
    assert honest.figures()["rms z"] == pytest.approx(1.0, abs=0.06)


def test_what_cannot_be_found_does_not_count():
    hidden = record(1, 0.5)
    hidden["quantities"][0]["can_be_found"] = False
    figures = Row("eggbox", [hidden]).figures()
    assert figures["covered"] is None
    assert figures["false sound"] == 0
    assert figures["rms error of masses"] == pytest.approx(0.5)


def test_errors_are_rows_and_are_counted():
    failed = {"target": "eggbox", "seed": 5, "error": "ValueError: no", "seconds": 1.0}
    rows = summary.rows_of([record(1, 0.0), failed])
    assert rows[0].figures()["errors"] == 1
    assert summary.totals(rows)["ended in an error"] == 1
    text = summary.printed(summary.rows_of([failed]))
    assert "ValueError: no" in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_exception_of_the_sampler_is_an_outcome(monkeypatch):
    def failing(*_, **__):
        raise ZeroDivisionError("by our own doing")

    monkeypatch.setattr(runs, "sampled", failing)
    found = runs.record_of(problems.eggbox(), 1, {})
    assert found["error"] == "ZeroDivisionError: by our own doing"


def test_answers_hold_every_known_quantity_beside_its_truth():
    """A run that says what exact draws say has small errors."""
    known = problems.four_modes()
    x = known.sample(seeded_rng("answers"), 10_000).reshape(10, 1000, 2)

    def expect(function):
        values = np.asarray(function(x))
        error = values.std(axis=(0, 1)) / 100
        return SimpleNamespace(value=values.mean(axis=(0, 1)), standard_error=error)

    run = SimpleNamespace(
        expect=expect,
        log_evidence=lambda: SimpleNamespace(value=0.01, standard_error=0.01, is_absolute=True),
        diagnose=lambda: SimpleNamespace(is_good=True, sentences=()),
    )
    found = runs.answers(run, known)
    assert [q["name"] for q in found["quantities"]] == [*(q.name for q in known.known), "log evidence"]
    assert max(np.max(np.abs(z_of(q))) for q in found["quantities"]) < 5.0


def test_tasks_keep_seeds_together_where_there_are_workers_enough():
    todo = {name: list(range(1, 11)) for name in ("a", "b", "c", "d", "e", "f")}
    assert {len(task.seeds) for task in tasks.tasks_of(todo, 2, None)} == {10}
    many = tasks.tasks_of(todo, 16, None)
    assert len(many) >= 30
    assert sorted(s for t in many if t.target == "a" for s in t.seeds) == todo["a"]
    assert {len(task.seeds) for task in tasks.tasks_of(todo, 16, 5)} == {5}


@pytest.mark.parametrize("name", ["four-modes", "shells-5", "rosenbrock-2"])
def test_a_case_of_the_suite_judges_exact_draws_kindly_and_others_not(name):
    case, known = known_case(name), problems.suite()[name]
    x = known.sample(seeded_rng(f"case {name}"), 20_000)
    good = case.errors(x, None, known.evidence.log_value)
    assert good["moments"] < 0.03
    assert good["log_evidence"] == 0.0
    bad = case.errors(x[x[:, 0] > np.median(x[:, 0])], None, None)
    assert bad["moments"] > 0.1
    assert bad["log_evidence"] is None
