"""Runs that are killed by signal 9 at random moments end with the very draws they would have had."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from killed_run import WAYS

from statistical import seeded_rng

PROGRAM = str(Path(__file__).with_name("killed_run.py"))


def start(*arguments):
    """Start a run; return when it begins."""
    process = subprocess.Popen([sys.executable, PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def timed(*arguments):
    """Run to the end; return the seconds it took."""
    started = time.monotonic()
    process = start(*arguments)
    started = time.monotonic()
    assert process.wait() == 0
    process.stdout.close()
    return time.monotonic() - started


def kill_until_done(way, folder, n_kills, rng, seconds, interval):
    """Kill a run ``n_kills`` times, at moments spread over what it takes; let it end then, and count the kills.

    A run that ends before its time says that it takes less than was thought: the machine has become faster.
    """
    n = 0
    while True:
        process = start(way, folder / "checkpoint", folder / "result.npz", interval)
        started = time.monotonic()
        try:
            status = process.wait(rng.uniform(0.0, seconds) if n < n_kills else 600)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            n += 1
            continue
        finally:
            process.stdout.close()
        assert status == 0
        if n >= n_kills:
            return n
        seconds = min(seconds, time.monotonic() - started)
        for path in (folder / "result.npz", folder / "checkpoint"):  # done before it was killed often enough: again
            subprocess.run(["rm", "-rf", str(path)], check=True)


def assert_equal_results(one, two):
    with np.load(one) as a, np.load(two) as b:
        assert sorted(a) == sorted(b)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], strict=True, err_msg=name)


def check(way, tmp_path, n_kills, interval=0.0):
    timed(way, "none", tmp_path / "reference.npz")  # what Numba compiles is kept on disk: kills are to hit the run
    seconds = timed(way, "none", tmp_path / "again.npz")
    assert_equal_results(tmp_path / "reference.npz", tmp_path / "again.npz")
    n = kill_until_done(way, tmp_path, n_kills, seeded_rng(f"killed {way}"), seconds, interval)
    assert n == n_kills
    assert_equal_results(tmp_path / "reference.npz", tmp_path / "result.npz")


def test_a_run_that_is_killed_five_times_ends_as_if_nothing_had_happened(tmp_path):
    check("python", tmp_path, 5)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_is_killed_ten_times_ends_as_if_nothing_had_happened(way, tmp_path):
    check(way, tmp_path, 10)


def test_control_another_seed_is_seen(tmp_path):
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "a.npz", x=rng.random(3))
    np.savez(tmp_path / "b.npz", x=rng.random(3))
    with pytest.raises(AssertionError):
        assert_equal_results(tmp_path / "a.npz", tmp_path / "b.npz")
