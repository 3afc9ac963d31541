"""The table of where the default call does not work, from made-up records."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the benchmarks are no part of the installed package

from benchmarks import limits


def record(seed=1, mass=0.5, error=0.01, sound=True, target="twin-modes-8"):
    """Return a record of two modes with masses 2/3 and 1/3."""
    masses = {"name": "masses of the modes", "value": [mass, 1 - mass], "standard_error": [error] * 2}
    return {
        "target": target,
        "seed": seed,
        "sound": sound,
        "sentences": [] if sound else ["Chains rarely cross."],
        "quantities": [masses | {"truth": [0.5, 0.5], "accuracy": 0.0, "can_be_found": True}],
    }


@pytest.mark.parametrize(
    ("one", "why", "says"),
    [
        (record(mass=0.505), "", "looks sound"),
        (record(mass=0.6, error=0.1, sound=False), "error of masses", "Chains rarely cross."),
        (record(mass=0.518, error=0.001), "error bars too small", "looks sound"),
        ({"target": "twin-modes-8", "seed": 1, "error": "TimeOut: no end within 9 s"}, "does not end", "TimeOut"),
    ],
)
def test_what_is_wrong_is_named_beside_what_the_run_says(one, why, says):
    row = limits.rows_of([one])[0]
    assert row["why"] == why
    assert row["says"].startswith(says)


def test_runs_called_sound_though_far_off_come_first_and_are_counted(tmp_path):
    records = [record(mass=0.501, target="twin-modes-32"), record(mass=0.6), record(seed=2, mass=0.6, sound=False)]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    assert limits.main(["--tables-only", "--records", str(path), "--json", str(tmp_path / "limits.json")]) == 0
    stored = json.loads((tmp_path / "limits.json").read_text())
    assert [row["target"] for row in stored["limits"]] == ["twin-modes-8", "twin-modes-32"]
    assert stored["limits"][0]["sound, but far off"] == 1
    assert stored["about"]["that work"] == 1


def test_rows_of_targets_that_are_not_measured_again_stay(tmp_path):
    path, table = tmp_path / "runs.jsonl", tmp_path / "limits.json"
    for one in (record(mass=0.501, target="twin-modes-32"), record(mass=0.6), record(mass=0.501)):
        path.write_text(json.dumps(one) + "\n")
        assert limits.main(["--tables-only", "--records", str(path), "--json", str(table)]) == 0
    stored = json.loads(table.read_text())
    assert [(row["target"], row["why"]) for row in stored["limits"]] == [("twin-modes-8", ""), ("twin-modes-32", "")]
    assert stored["about"]["targets"] == stored["about"]["that work"] == 2
    assert all(row["date"] for row in stored["limits"])


def test_targets_of_many_dimensions_are_those_that_are_run_and_seeds_may_begin_anywhere(tmp_path, monkeypatch):
    asked = []

    def pretend(tasks, plan, workers, keep):
        asked.extend(tasks)
        for task in tasks:
            for seed in task.seeds:
                keep(record(target=task.target, seed=seed, mass=0.5))
            yield task.target

    monkeypatch.setattr(limits, "run_all", pretend)
    path = tmp_path / "runs.jsonl"
    how = ["--many-dimensions", "--seeds", "3", "--first-seed", "11", "--seeds-per-process", "2", "--workers", "16"]
    monkeypatch.setattr(
        limits, "row_of", lambda name, records: {"target": name, "why": "", "says": "", "sound, but far off": 0}
    )
    assert limits.main([*how, "--records", str(path)]) == 0
    assert list(dict.fromkeys(task.target for task in asked)) == list(limits.MANY_DIMENSIONS)
    assert [task.seeds for task in asked[:2]] == [(11, 12), (13,)]
    assert len(path.read_text().splitlines()) == 3 * len(limits.MANY_DIMENSIONS)
    asked.clear()
    assert limits.main([*how, "--records", str(path)]) == 0
    assert not asked  # what is kept is not made again


def test_runs_of_several_machines_make_one_table_and_count_once(tmp_path):
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for path, seeds in zip(paths, ((1, 2), (2, 3)), strict=True):
        path.write_text("".join(json.dumps(record(seed=seed, mass=0.501)) + "\n" for seed in seeds))
    table = tmp_path / "limits.json"
    assert limits.main(["--tables-only", "--records", *map(str, paths), "--json", str(table)]) == 0
    assert json.loads(table.read_text())["limits"][0]["runs"] == 3


def test_nothing_is_begun_when_the_time_is_up(tmp_path, capsys):
    records = tmp_path / "runs.jsonl"
    assert limits.main(["--targets", "normal-1", "--seeds", "1", "--seconds", "0", "--records", str(records)]) == 0
    assert records.read_text() == ""
    assert "1 runs in 0 s" in capsys.readouterr().out
