"""Workers that die, and blocks that cannot be done."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from same_runs import assert_same

import tempering as tp
from grouped import grouped
from tempering.errors import SamplerError
from tempering.execution.workers import Workers

SPAWN = multiprocessing.get_context("spawn")


class Walker:
    """A model in plain Python, slow enough to be hit; it leaves the number of its process behind."""

    engine = "scalar"

    def __init__(self, folder=None, pause=0.0, dies_at=np.inf, raises_at=np.inf):
        self.folder, self.pause, self.dies_at, self.raises_at = folder, pause, dies_at, raises_at

    def initial(self, rng):
        return np.array([rng.normal(), 0.0])

    def energy(self, state):
        return 1.5 * state[0] - np.exp(state[0])

    def step(self, rng, state, k):
        time.sleep(self.pause)
        if self.folder is not None:
            (self.folder / f"{os.getpid()}").touch()
        if state[1] >= self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if state[1] >= self.raises_at:
            raise ZeroDivisionError("nothing left to divide by")
        there = np.array([state[0] + rng.normal(), state[1] + 1])
        log_ratio = k * (self.energy(there) - self.energy(state))
        return there if np.log(rng.random()) < log_ratio else np.array([state[0], state[1] + 1])

    def record(self, state):
        return state


def run(model, **options):
    settings = {"ladder": [1.0, 0.4], "draws": 192, "tune": 64, "chains": 3, "rng": 3, "progress": False}
    return tp.sample(model, **grouped(**settings | options))


def kill_a_worker(folder, killed):
    """Wait until a worker is at work, and kill it."""
    while not (found := [int(path.name) for path in folder.iterdir()]):
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(found[0], signal.SIGKILL)
    killed.append(found[0])


@pytest.mark.slow
def test_a_block_whose_worker_is_killed_is_done_again(tmp_path):
    killed = []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path, killed))
    with ProcessPoolExecutor(2, SPAWN) as executor:
        killer.start()
        draws = run(Walker(tmp_path, pause=0.0005), executor=executor)
        killer.join()
        assert len(killed) == 1
        assert_same(run(Walker()), draws)
        with pytest.raises(BrokenExecutor):
            executor.submit(os.getpid)  # it was the user's pool that broke; another took its place


@pytest.mark.long
def test_a_block_that_kills_every_worker_stops_the_run_with_the_draws_so_far(tmp_path):
    with ProcessPoolExecutor(2, SPAWN) as executor, pytest.raises(SamplerError, match="failed 2 times") as stopped:
        run(Walker(dies_at=330), executor=executor, checkpoint=tmp_path / "run")
    assert isinstance(stopped.value.__cause__, BrokenExecutor)
    whole = run(Walker())
    n = stopped.value.draws.n_draws
    assert 0 < n < 192
    np.testing.assert_array_equal(stopped.value.draws.energy, whole.energy[:, :n])
    np.testing.assert_array_equal(tp.load(tmp_path / "run").energy, whole.energy[:, :n])  # kept on disk too


def test_what_a_block_raises_is_the_cause():
    with ThreadPoolExecutor(2) as executor, pytest.raises(SamplerError, match="ZeroDivisionError: nothing") as stopped:
        run(Walker(raises_at=200), executor=executor)
    assert isinstance(stopped.value.__cause__, ZeroDivisionError)
    assert 0 < stopped.value.draws.n_draws < 192


def test_a_run_that_fails_while_tuning_has_no_draws():
    with (
        ThreadPoolExecutor(2) as executor,
        pytest.raises(SamplerError, match=r"ZeroDivisionError: nothing .* in chain \d at") as stopped,
    ):
        run(Walker(raises_at=10), executor=executor)
    assert stopped.value.draws is None


def test_a_block_that_fails_once_is_forgiven():
    failed = []

    def flaky(number):
        if number == 1 and not failed:
            failed.append(number)
            raise OSError("the network was away")
        return number

    with ThreadPoolExecutor(2) as executor:
        assert Workers(executor).run(flaky, [(0,), (1,), (2,)]) == [0, 1, 2]
    assert failed == [1]


def test_a_pool_that_cannot_start_is_given_up():
    with (
        ProcessPoolExecutor(1, SPAWN, initializer=os._exit, initargs=(1,)) as executor,
        pytest.raises(SamplerError, match="Workers that die at once"),
    ):
        run(Walker(), executor=executor)


ORPHANS = """
import os, sys
from tempering.execution import processes

if __name__ == "__main__":
    with processes(2) as executor:
        list(executor.map(abs, range(2)))
        print(*executor._processes, flush=True)
        sys.stdin.read()
"""


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "program.py").write_text(ORPHANS)
    command, pipes = (
        [sys.executable, str(tmp_path / "program.py")],
        {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE},
    )
    with subprocess.Popen(command, text=True, **pipes) as process:
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert workers
        assert all(Path(f"/proc/{pid}").exists() for pid in workers)
        process.kill()
        deadline = time.monotonic() + 30
        while any(Path(f"/proc/{pid}/exe").exists() for pid in workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(Path(f"/proc/{pid}/exe").exists() for pid in workers)


@pytest.mark.long
def test_dask_gives_the_block_of_a_killed_worker_to_another(tmp_path):
    distributed = pytest.importorskip("distributed")
    killed = []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path, killed))
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        killer.start()
        draws = run(Walker(tmp_path, pause=0.0005), executor=client.get_executor())
        killer.join()
    assert len(killed) == 1
    assert_same(run(Walker()), draws)
