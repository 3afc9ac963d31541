"""Ctrl-C, by real signals to real processes: a run ends at its next block and returns what there is."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tempering as tp
from tempering.engines.stopping import AbandonedBlock
from tempering.execution.interruption import listening

PROGRAM = str(Path(__file__).with_name("interrupted_run.py"))
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.fixture(autouse=True)
def heeding_interrupts():
    """Heed Ctrl-C also where the tests run in the background: a shell has it ignored there, by all children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(*arguments):
    """Start a run in a group of its own, as a terminal does; return it when it begins."""
    process = subprocess.Popen([sys.executable, PROGRAM, *map(str, arguments)], start_new_session=True, **PIPES)
    assert process.stdout.readline() == "ready\n"
    return process


def wait_for(process, line):
    while (found := process.stdout.readline()) not in (line, ""):
        pass
    assert found == line


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_run_ends_at_its_next_block_and_returns_its_draws(n_workers):
    process = start(64, 5_000_000, n_workers)
    wait_for(process, "drawing\n")
    os.killpg(process.pid, signal.SIGINT)  # the terminal's Ctrl-C goes to the workers too
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Stopped by Ctrl-C after" in err
    assert "of 5000000 draws per chain. Call again to start anew" in err
    assert n_workers or "Traceback" not in err  # a worker that is just starting may still say so
    n_draws = int(out.splitlines()[-1].split()[1])
    assert 0 < n_draws < 5_000_000


@pytest.mark.slow
def test_a_run_that_is_interrupted_goes_on_from_its_checkpoint(tmp_path):
    process = start(64, 30_000, 0, tmp_path / "run")
    wait_for(process, "drawing\n")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert f"Call again with the same checkpoint, {tmp_path}/run, to go on." in err
    n = tp.load(tmp_path / "run").n_draws
    assert 0 < n < 30_000
    again, alone = start(64, 30_000, 0, tmp_path / "run"), start(64, 30_000, 0)
    ends = [process.communicate(timeout=120)[0].splitlines()[-1] for process in (again, alone)]
    assert ends[0] == ends[1]


def test_a_run_without_draws_says_so(tmp_path):
    process = start(5_000_000, 100, 0, tmp_path / "run")
    wait_for(process, "tuning\n")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "KeyboardInterrupt: Stopped while tuning, before there were draws to return. Call again with" in err
    assert list((tmp_path / "run" / "tuning").iterdir())  # what was done is kept


def test_a_second_interrupt_ends_it_at_once():
    with listening() as interruption:
        assert not interruption.requested
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_first_interrupt_ends_at_once_what_nobody_has_begun():
    with listening(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with listening(also_to_terminate=True), pytest.raises(SystemExit, match="143"):
        signal.raise_signal(signal.SIGTERM)


def _called_by_jax(function):
    try:
        function()
    except BaseException as error:
        raise RuntimeError(f"INTERNAL: callback failed: {error!r}") from None


def test_what_is_under_way_is_abandoned_whatever_others_make_of_it():
    with listening() as interruption:
        with pytest.raises(AbandonedBlock), interruption.abandoning():
            _called_by_jax(lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(AbandonedBlock), interruption.abandoning():
            raise AssertionError("nothing is begun any more")
    with listening() as interruption, pytest.raises(ZeroDivisionError), interruption.abandoning():
        _ = 1 / 0


class Interrupting:
    """Sends Ctrl-C from within one of its calls."""

    calls = [0, 0]  # noqa: RUF012 - how many there were, and which sends it: of the class, so that all are one target

    def __init__(self, at):
        self.calls[:] = 0, at

    def __call__(self, x):
        self.calls[0] += 1
        if self.calls[0] == self.calls[1]:
            signal.raise_signal(signal.SIGINT)
        return 1.5 * x[0] - np.exp(x[0])


def run(density, path=None, **options):
    settings = {"initial": np.zeros(1), "ladder": [1.0, 0.5], "chains": 2, "rng": 2, "progress": False}
    settings |= {"tuning": tp.Tuning(0), "draws": 300, "kernel": tp.kernels.RandomWalk()}
    execution = tp.Execution("scalar", checkpoint=path and tp.Checkpoint(path, seconds=0.0))
    return tp.sample(tp.Target(density), **settings | {"execution": execution} | options)


@pytest.mark.parametrize("at", [1, 4])
def test_a_run_that_has_not_begun_ends_at_once(at):
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(at))  # the first calls are those of the starting points
    assert Interrupting.calls[0] == at


@pytest.mark.slow
def test_a_run_in_sums_is_stopped_before_its_first_sums_and_taken_up_there(tmp_path):
    keep = {"keep": tp.Sums({"first": lambda x: x[..., 0]})}
    known = run(Interrupting(0), **keep)
    n_alone = Interrupting.calls[0]
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(200), tmp_path / "run", **keep)
    assert Interrupting.calls[0] == 200
    found = run(Interrupting(0), tmp_path / "run", **keep)
    np.testing.assert_array_equal(found.sums.totals.joint, known.sums.totals.joint)
    assert Interrupting.calls[0] < n_alone  # what it had seen before is not computed again


@pytest.mark.slow
def test_a_run_is_stopped_in_a_function_that_jax_has_called(tmp_path):
    import jax

    def target(host):
        def called(x):
            host(np.zeros(1))
            return np.zeros((), np.float32)

        def density(x):
            zero = jax.pure_callback(called, jax.ShapeDtypeStruct((), np.float32), x, vmap_method="sequential")
            return 1.5 * x[0] - jax.numpy.exp(x[0]) + zero

        return density

    vector = {"execution": tp.Execution("vector", checkpoint=tp.Checkpoint(tmp_path / "run", seconds=0.0)), "draws": 60}
    known = run(target(Interrupting(0)), **vector | {"execution": tp.Execution("vector")})
    with pytest.warns(UserWarning, match="Stopped by Ctrl-C after"):
        some = run(target(Interrupting(90)), **vector)
    assert 0 < some.n_draws < 60
    np.testing.assert_array_equal(some.terms, known.terms[:, : some.n_draws])


def test_handlers_of_others_and_other_threads_are_left_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with listening() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert not interruption.requested
    finally:
        signal.signal(signal.SIGINT, before)
    found = []

    def elsewhere():
        with listening() as interruption:
            found.append(interruption.requested)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [False]


MODEL = """
def log_density(x):
    return -0.5 * float(x) ** 2
"""


@pytest.mark.slow
def test_the_command_line_ends_with_what_there_is(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    command = [str(Path(sys.executable).with_name("tempering"))]
    options = "--draws 5000000 --tune 64 --chains 2 --ladder 1,0.5 --initial 0 --seed 1 --engine scalar"
    arguments = [*command, "sample", "model.py:log_density", *options.split(), "--checkpoint", "kept"]
    process = subprocess.Popen(arguments, cwd=tmp_path, start_new_session=True, **PIPES)
    while not (tmp_path / "kept" / "run.json").exists():
        time.sleep(0.05)
    time.sleep(2.0)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Stopped by Ctrl-C after" in err
    assert "Traceback" not in err
    assert "mean" in out
    assert tp.load(tmp_path / "run.zarr").n_draws == tp.load(tmp_path / "kept").n_draws > 0
