"""Whoever runs the chains, the draws are the same to the bit."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from execution_cases import LOGISTIC, RUNS
from same_runs import assert_same

import tempering as tp
from grouped import grouped
from tempering.errors import SamplerError
from tempering.execution import blocks, workers
from tempering.execution.operations import operations
from tempering.execution.recipe import Recipe

SPAWN = multiprocessing.get_context("spawn")
IN_PROCESSES = ("vector, simulated", "numba, simulated", "python, simulated, model")
ON_CLUSTERS = ("vector, simulated", "python, simulated, model")
SLOW_TO_COMPILE = ("numba, parallel, model", "vector, ladder tuned", "vector, sequential")
SMALL_WORK = 5e4  # operations a block: small runs are cut into several then


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "WORK", SMALL_WORK)


@cache
def alone(name):
    """Run in this process."""
    return RUNS[name]()


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, SPAWN) as executor:
        yield executor


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client.get_executor()


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in SLOW_TO_COMPILE)) for n in RUNS])
def test_threads_change_nothing(name):
    for n_workers in (1, 2, 7):
        with ThreadPoolExecutor(n_workers) as executor:
            assert_same(alone(name), RUNS[name](executor=executor))


@pytest.mark.parametrize("name", ["vector, simulated", "numba, simulated"])
def test_a_run_is_gone_on_with_as_often_as_one_likes_wherever_it_runs(name):
    whole = RUNS[name](draws=200)
    some = RUNS[name](draws=150)
    for _ in range(2):
        np.testing.assert_array_equal(some.more(50).terms, whole.terms)
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(RUNS[name](draws=150, executor=executor).more(50).terms, whole.terms)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_PROCESSES)
def test_processes_change_nothing(name, processes):
    assert_same(alone(name), RUNS[name](executor=processes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_dask_changes_nothing(name, dask):
    assert_same(alone(name), RUNS[name](executor=dask))


@pytest.mark.long
@pytest.mark.parametrize("n_workers", [1, 7])
@pytest.mark.parametrize("name", RUNS)
def test_any_number_of_processes_changes_nothing(name, n_workers):
    with ProcessPoolExecutor(n_workers, SPAWN) as executor:
        assert_same(alone(name), RUNS[name](executor=executor))


MPI_PROGRAM = """
import sys
import numpy as np
from execution_cases import RUNS
from mpi4py.futures import MPIPoolExecutor
from tempering.execution import blocks

if __name__ == "__main__":
    blocks.WORK = 5e4
    with MPIPoolExecutor() as executor:
        for name in sys.argv[2:]:
            run = RUNS[name](executor=executor)
            np.save(f"{sys.argv[1]}/{name}.npy", run.energy)
"""


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="MPI is not installed")
def test_mpi_changes_nothing(tmp_path):
    pytest.importorskip("mpi4py")
    (tmp_path / "program.py").write_text(MPI_PROGRAM)
    path = {"PYTHONPATH": str(Path(__file__).parent)}
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    arguments = [*command, str(tmp_path / "program.py"), str(tmp_path), *ON_CLUSTERS]
    subprocess.run(arguments, check=True, env=os.environ | path, timeout=300)
    for name in ON_CLUSTERS:
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), alone(name).energy)


@pytest.mark.slow
def test_control_other_blocks_give_other_bits(monkeypatch):
    """Without blocks of one size the number of chains run at once would show in the draws."""
    expected = alone("vector, simulated")
    monkeypatch.setattr(blocks, "WORK", 1e3)
    with pytest.raises(AssertionError):
        assert_same(expected, RUNS["vector, simulated"]())


@pytest.mark.slow
def test_a_large_target_is_sent_to_those_who_ask(processes, monkeypatch):
    monkeypatch.setattr(workers, "SMALL", 0)
    assert_same(alone("vector, simulated"), RUNS["vector, simulated"](executor=processes))


def test_costly_densities_are_shared_out_finely(monkeypatch):
    rows = np.ones((20_000, 3))
    costly = tp.Target(lambda x: -0.5 * ((rows @ x) ** 2).sum())
    recipe = Recipe(None, tp.kernels.RandomWalk(), np.zeros(3), (), "vector", "simulated", "lifted", 1, 2)
    counts = [operations(replace(recipe, target=target)) for target in (LOGISTIC, costly)]
    assert counts[0] < 5_000 < 100_000 < counts[1]  # 200 and 20 000 rows
    monkeypatch.undo()
    assert [blocks.block_size("vector", 32, 1, count) for count in counts] == [32, 4]


def test_forked_processes_are_refused():
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor,
        pytest.raises(SamplerError, match=r"must be spawned, but this pool forks.*get_context\('spawn'\)"),
    ):
        RUNS["python, parallel"](executor=executor)


def test_what_is_no_executor_is_refused():
    with pytest.raises(SamplerError, match=r"must be a concurrent\.futures\.Executor, but got int"):
        RUNS["python, parallel"](executor=4)


def test_what_cannot_be_pickled_is_named(processes):
    import threading

    lock = threading.Lock()
    target = tp.Target(lambda x: -0.5 * float(x) ** 2 * (not lock.locked()))
    with pytest.raises(SamplerError, match=r"A target with its kernel must be something that can be pickled.*lock"):
        tp.sample(
            target,
            initial=0.0,
            ladder=[1, 0.5],
            execution=tp.Execution(engine="scalar", executor=processes),
            rng=1,
            progress=False,
        )


@pytest.mark.slow
def test_densities_that_are_no_numbers_are_counted_on_workers_too(processes):
    target = tp.Target(lambda x: np.nan if x > 3.0 else -0.01 * x**2)
    options = {
        "initial": 0.0,
        "ladder": [1, 0.5],
        "execution": tp.Execution(engine="scalar"),
        "draws": 320,
        "rng": 1,
        "progress": False,
    }
    here, there = tp.sample(target, **options), tp.sample(target, **grouped(**options, executor=processes))
    assert there.info.n_invalid == here.info.n_invalid > 0
    assert there.values["x"].max() <= 3.0
