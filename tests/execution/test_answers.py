"""Answers of long calls: what a kill in the middle of an iteration costs, on every engine, method and executor."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from execution_cases import LOGISTIC, WALK
from numba import njit, objmode

import tempering as tp
from tempering.engines import answers, scalar, vector
from tempering.execution import blocks, probes, processes
from tempering.execution import pace as paces
from tempering.execution.answers import AnswersOnDisk
from tempering.io import checkpoint as checkpoints

CALLS = "TEMPERING_TEST_CALLS"  # a file with the positions of all calls
LAST = "TEMPERING_TEST_LAST_CALL"  # the call that is not made: it stands for a kill


CHAINS = 12
LAST_CALL = {"python": 69, "numba": 69, "callback": 69, "batched": 21}  # in the middle of an iteration
COMPARED = 12  # calls by which a checkpoint is told from that of another run, before a kill and after it


class Killed(BaseException):
    """Raised in place of a kill."""


def called(x):
    """Take some time, and note where the density was called."""
    file = os.environ.get(CALLS)
    if file is None:
        return
    with open(file, "ab", buffering=0) as log:
        if log.tell() == 8 * int(os.environ[LAST]):
            raise Killed
        log.write(np.ravel(np.asarray(x, dtype=float))[:1].tobytes())
    time.sleep(0.003)


def plain(x):
    called(x)
    return 1.5 * x[0] - np.exp(x[0])


def many(x):
    called(x)
    return 1.5 * x[:, 0] - np.exp(x[:, 0])


def called_back(x):
    def wait(x):
        called(x)
        return np.zeros(1, np.float32)

    waited = jax.pure_callback(wait, jax.ShapeDtypeStruct((1,), np.float32), x, vmap_method="sequential")
    return 1.5 * x[0] - jnp.exp(x[0]) + waited[0]


@njit
def compiled(x):
    with objmode():
        called(x)
    return 1.5 * x[0] - np.exp(x[0])


TARGETS = {
    "python": tp.Target(plain),
    "numba": tp.Target(compiled),
    "callback": tp.Target(called_back),
    "batched": tp.Target(many, batched=True),
}


def sampled(engine, method="simulated", checkpoint=None, executor=None):
    chains = CHAINS if engine != "batched" else 3  # of which all are one call
    options = {"chains": chains, "rng": 3, "progress": False, "draws": 6, "kernel": tp.kernels.RandomWalk()}
    options |= {"ladder": (1.0, 0.5), "tuning": tp.Tuning(0), "initial": [np.full(1, 0.1 * i) for i in range(24)]}
    options |= {"draws": 40} if engine == "batched" else {}
    options |= {"method": "parallel"} if method == "parallel" else {}
    options |= {"keep": tp.Sums({"x": lambda x: x[..., 0]})} if method == "sums" else {}
    where = "vector" if engine in ("callback", "batched") else "scalar"
    execution = tp.Execution(where, checkpoint=checkpoint, executor=executor)
    run = tp.sample(TARGETS[engine], execution=execution, **options)
    if method == "sums":
        return run.sums.totals._asdict()
    return {"rung": run.rung, "energy": run.energy, "x": run.values["x"]}


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Note calls, and keep those that a kill would not let come to their end from being written at the end."""
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    monkeypatch.setattr(scalar, "SLOW", 0.0)
    monkeypatch.setattr(probes, "MOST", 1)
    return tmp_path / "calls"


def killed_and_gone_on_with(engine, method, last, log, monkeypatch, executor=None):
    """Return how many calls a run makes that is killed, and goes on, beyond those of one left alone; and both runs."""
    monkeypatch.setenv(LAST, "1000000000")
    alone, n_alone = sampled(engine, method, executor=executor), log.stat().st_size // 8
    log.unlink()
    kept = tp.Checkpoint(log.with_name("run"), seconds=0.0)
    monkeypatch.setenv(LAST, str(last))
    with monkeypatch.context() as patch:
        patch.setattr(AnswersOnDisk, "close", lambda self: self._kept.__exit__(None, None, None))
        patch.setattr(checkpoints, "write_atomically", _until_killed(log, last))
        with pytest.raises(BaseException, match=r"Killed|^$"):
            sampled(engine, method, kept, executor)
    assert log.stat().st_size >= 8 * last
    monkeypatch.setenv(LAST, "1000000000")
    whole = sampled(engine, method, kept, executor)
    return log.stat().st_size // 8 - n_alone, alone, whole


def _until_killed(log, last):
    write = checkpoints.write_atomically

    def write_or_die(*arguments, **how):
        if log.exists() and log.stat().st_size >= 8 * last + 8:
            raise Killed
        return write(*arguments, **how)

    return write_or_die


WAYS = [
    ("python", "simulated", "none"),
    ("python", "parallel", "none"),
    ("python", "sums", "none"),
    ("numba", "parallel", "none"),
    ("callback", "parallel", "none"),
    ("batched", "simulated", "none"),
    ("python", "parallel", "threads"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "method", "executor"), WAYS)
def test_a_call_that_has_come_to_its_end_is_not_made_again(engine, method, executor, log, monkeypatch):
    with nullcontext() if executor == "none" else ThreadPoolExecutor(2) as pool:
        more, alone, whole = killed_and_gone_on_with(engine, method, LAST_CALL[engine], log, monkeypatch, pool)
    for name, array in alone.items():
        np.testing.assert_array_equal(whole[name], array)
    unknown = CHAINS if engine == "numba" else 0  # calls that are made before they are known to take long
    assert more <= COMPARED + unknown


def test_control_calls_that_are_not_kept_are_made_again(log, monkeypatch):
    monkeypatch.setattr(answers, "LONG", np.inf)
    more, _, _ = killed_and_gone_on_with("python", "parallel", LAST_CALL["python"], log, monkeypatch)
    assert more > 2 * COMPARED


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [True, False])
def test_iterations_of_blocks_in_jax_are_not_made_again(is_kept, monkeypatch, tmp_path):
    """Without answers, the control, all blocks of the iteration under way are."""
    made = []

    def counted(engine, *arguments):
        made.append(1)
        if len(made) == last:
            raise Killed
        return run_block(engine, *arguments)

    def run(checkpoint=None):
        fixed = {"initial": np.zeros(3), "chains": 40, "kernel": WALK, "ladder": (1.0, 0.5), "draws": 3, "rng": 2}
        execution = tp.Execution("vector", checkpoint=checkpoint)
        return tp.sample(LOGISTIC, tuning=tp.Tuning(0), execution=execution, progress=False, **fixed)

    run_block, last = vector.VectorEngine._run_block, 0
    monkeypatch.setattr(vector.VectorEngine, "_run_block", counted)
    monkeypatch.setattr(blocks, "WORK", 1.0)
    monkeypatch.setattr(paces.Pace, "next", lambda pace, left, most=None: 1)
    monkeypatch.setattr(answers, "LONG", 0.0 if is_kept else np.inf)
    alone, n_alone = run(), len(made)
    made, last = [], 18
    with pytest.raises(Killed):
        run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    last = 0
    np.testing.assert_array_equal(run(tmp_path / "run").terms, alone.terms)
    assert n_alone == 30
    assert len(made) == n_alone + (1 if is_kept else 8)


@pytest.mark.long
@pytest.mark.parametrize("engine", TARGETS)
@pytest.mark.parametrize("method", ["simulated", "parallel", "sums"])
def test_workers_in_other_processes_hand_over_what_they_have(engine, method, log, monkeypatch):
    """They find the functions of this file by its name."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    with processes(1) as pool:
        more, alone, whole = killed_and_gone_on_with(engine, method, LAST_CALL[engine], log, monkeypatch, pool)
    for name, array in alone.items():
        np.testing.assert_array_equal(whole[name], array)
    assert more <= COMPARED + 2  # what the worker had not handed over
