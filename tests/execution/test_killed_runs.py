"""Runs that are killed by signal 9, in all phases and in the middle of writes, end with what they would have had."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from killed_run import SLOW, WAYS

PROGRAM = str(Path(__file__).with_name("kill_server.py"))
STORED = Path(__file__).with_name("kills.json")  # counts of a whole run of the long tests
KILLS = 21  # of each of thirteen ways: more than two hundred


def kill(way, folder, n):
    """Kill a run ``n`` times; return where the kills fell."""
    here = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    seed = os.environ.get("TEMPERING_TEST_SEED", "0")
    done = subprocess.run(
        [sys.executable, PROGRAM, way, str(folder), str(n), seed], env=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["tuning"] + counts["drawing"] + counts["in a write"] == n
    return counts


@pytest.mark.long
def test_a_run_that_is_killed_three_times_ends_as_if_nothing_had_happened(tmp_path):
    counts = kill("python", tmp_path, 3)
    assert counts["in a write"] == 1


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_is_killed_often_ends_as_if_nothing_had_happened(way, tmp_path):
    counts = kill(way, tmp_path, KILLS)
    assert counts["in a write"] == KILLS // 3
    if way != "sequential":  # which writes its draws once, at the end
        assert counts["drawing"] >= KILLS // 10
    if way in SLOW:
        assert counts["with answers"] >= KILLS // 3
    if os.environ.get("TEMPERING_STORE_KILLS"):
        known = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps(known | {way: counts}, indent=1, sort_keys=True) + "\n")


def test_the_stored_counts_are_of_kills_in_every_phase():
    """What a run of the long tests has left: kills in the drawing phase, and in writes."""
    known = json.loads(STORED.read_text())
    assert set(known) == set(WAYS)
    assert sum(c["tuning"] + c["drawing"] + c["in a write"] for c in known.values()) >= 200
    assert all(counts["drawing"] > 0 for way, counts in known.items() if way != "sequential")
    assert sum(counts["in a write"] for counts in known.values()) >= 50
    assert all(known[way]["with answers"] > 0 for way in SLOW)


def test_control_another_seed_is_seen(tmp_path):
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "a.npz", x=rng.random(3))
    np.savez(tmp_path / "b.npz", x=rng.random(3))
    with np.load(tmp_path / "a.npz") as one, np.load(tmp_path / "b.npz") as two, pytest.raises(AssertionError):
        np.testing.assert_array_equal(one["x"], two["x"])
