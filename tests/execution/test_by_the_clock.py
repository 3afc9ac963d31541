"""Blocks by the clock: soon stopped, written in time, and the same draws to the bit wherever they end."""

import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import jax
import numpy as np
import pytest
from execution_cases import RUNS, SELECTION, skewed
from same_runs import assert_same

import tempering as tp
from tempering.errors import FunctionError
from tempering.execution import pace as paces
from tempering.execution.sum_keeping import SumRecorder
from turns import go_on_by

SLOW = Path(__file__).with_name("slow_run.py")


@pytest.fixture(autouse=True)
def heeding_interrupts():
    """Heed Ctrl-C also where the tests run in the background: a shell has it ignored there, by all children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Erratic(paces.Pace):
    """Stops wherever chance will have it."""

    rng = np.random.default_rng(8)

    def next(self, left, most=None):
        return min(left, int(self.rng.integers(1, 40)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["python, simulated, model", "numba, simulated", "vector, simulated"])
def test_no_bit_depends_on_where_blocks_end(name, monkeypatch, tmp_path):
    known = RUNS[name]()
    monkeypatch.setattr("tempering.execution.context.Pace", Erratic)
    assert_same(known, RUNS[name](checkpoint=tp.Checkpoint(tmp_path / "run", seconds=0.0)))


def test_no_clock_says_how_long_a_run_gets_that_ends_at_a_goal(monkeypatch):
    options = {"draws": 20_000, "until": tp.Until(effective_draws=3_000)}
    known = RUNS["vector, simulated"](**options)
    assert 128 <= known.n_draws < 20_000
    monkeypatch.setattr("tempering.execution.context.Pace", Erratic)
    assert_same(known, RUNS["vector, simulated"](**options))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numba, simulated", "vector, simulated"])
def test_no_bit_of_sums_depends_on_where_turns_end(name, monkeypatch, tmp_path):
    """Stretches are left in the middle; what a stopped run returns has the part of one it has made."""
    options = {"keep": tp.Sums({"first": lambda x: x[..., 0]}), "draws": 1_500}
    known = RUNS[name](**options)
    rng = np.random.default_rng(4)
    go_on_by(monkeypatch, lambda n_blocks: float(rng.uniform(0.0, 1.6)))
    again = RUNS[name](checkpoint=tp.Checkpoint(tmp_path / "run", seconds=0.0), **options)
    np.testing.assert_array_equal(again.sums.totals.joint, known.sums.totals.joint)
    assert again.expect("first") == known.expect("first")
    assert again.n_round_trips == known.n_round_trips


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numba, simulated", "vector, simulated"])
def test_sums_are_stopped_in_the_middle_of_a_stretch_and_taken_up_there(name, monkeypatch, tmp_path):
    options = {"keep": tp.Sums({"first": lambda x: x[..., 0]}), "draws": 1_500}
    known = RUNS[name](**options)
    turns = count()
    go_on_by(monkeypatch, 0.3)
    keep = SumRecorder.keep
    monkeypatch.setattr(
        SumRecorder, "keep", lambda *block: keep(*block) or (next(turns) == 2 and signal.raise_signal(signal.SIGINT))
    )
    with pytest.warns(UserWarning, match="Stopped by Ctrl-C after"):
        some = RUNS[name](checkpoint=tmp_path / "run", **options)
    assert 0 < some.index.n_iterations < 1_500
    assert int(some.sums.n_draws.sum()) == some.index.n_iterations * some.n_chains
    monkeypatch.undo()
    again = RUNS[name](checkpoint=tmp_path / "run", **options)
    assert again.expect("first") == known.expect("first")


def start(*arguments):
    process = subprocess.Popen(
        [sys.executable, str(SLOW), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


def answer_time(process, number, after):
    """Send a signal once draws are under way; return the seconds until the process is gone."""
    while process.stdout.readline() != "drawing\n":
        assert process.poll() is None, process.stderr.read()
    time.sleep(after)
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    return time.monotonic() - started, out, err


@pytest.mark.slow
@pytest.mark.parametrize(("how", "seconds"), [("python", 0.2), ("python", 1e-6)])
def test_ctrl_c_is_answered_within_a_call_of_the_density(how, seconds, tmp_path):
    process = start(how, seconds, tmp_path / "run")
    taken, out, err = answer_time(process, signal.SIGINT, 1.2)
    assert process.returncode == 0, err
    assert "Stopped by Ctrl-C after" in err
    assert taken < max(2.0, seconds) + 4.0  # the time it takes Python to end on a busy machine
    assert int(out.splitlines()[-1].split()[1]) == tp.load(tmp_path / "run").n_draws > 0


@pytest.mark.long
@pytest.mark.parametrize("how", ["python", "slice", "numba", "vector", "threads", "processes"])
@pytest.mark.parametrize("seconds", [1e-6, 0.01, 1.0, 5.0])
def test_every_engine_and_executor_answers_in_time(how, seconds, tmp_path):
    process = start(how, seconds, tmp_path / "run")
    taken, _, err = answer_time(process, signal.SIGINT, 2.0)
    assert process.returncode == 0, err
    assert taken < max(2.0, seconds) + 4.0


@pytest.mark.slow
def test_sigterm_writes_the_checkpoint_and_ends_the_program(tmp_path):
    process = start("python", 0.2, tmp_path / "run")
    _, _, err = answer_time(process, signal.SIGTERM, 1.0)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "Stopped by SIGTERM after" in err
    assert tp.load(tmp_path / "run").n_draws > 0


@pytest.mark.slow
def test_a_second_ctrl_c_ends_the_program_at_once(tmp_path):
    process = start("python", 30.0, "none")
    while process.stdout.readline() != "calling\n":
        assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err


@pytest.mark.slow
def test_a_checkpoint_is_written_at_its_interval_where_the_density_is_slow(tmp_path):
    """An iteration of all four chains takes 0.2 s, thirty-two of them would take six."""
    seen = []

    def look():
        while not done.is_set():
            file = tmp_path / "run" / "latest"
            if file.exists():
                seen.append(file.stat().st_mtime)
            time.sleep(0.05)

    def slow(x):
        time.sleep(0.05)
        return skewed(x)

    done = threading.Event()
    watching = threading.Thread(target=look)
    watching.start()
    tp.sample(
        tp.Target(slow),
        initial=np.zeros(2),
        ladder=[1.0, 0.5],
        draws=12,
        tuning=tp.Tuning(0),
        chains=4,
        rng=1,
        execution=tp.Execution(engine="scalar", checkpoint=tp.Checkpoint(tmp_path / "run", seconds=0.3)),
        progress=False,
    )
    done.set()
    watching.join()
    assert len(set(seen)) >= 3


class Unlucky:
    """Raises at a call, of whatever class."""

    def __init__(self, at, error):
        self.left, self.error = at, error

    def __call__(self, x):
        self.left -= 1
        if self.left == 0:
            raise self.error
        return skewed(x)


class OwnError(Exception):
    """A user's own class, with a constructor of its own."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")


def short_run(density, checkpoint=None):
    """Run a density in plain Python."""
    execution = tp.Execution(engine="scalar", checkpoint=checkpoint)
    options = {"ladder": [1.0, 0.5], "draws": 320, "tuning": tp.Tuning(64), "chains": 3, "rng": 2, "progress": False}
    return tp.sample(tp.Target(density), initial=np.zeros(2), execution=execution, **options)


ERRORS = [ValueError("bad"), KeyError("x"), OwnError(7, "sensor"), MemoryError(), SystemExit("ended")]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_a_users_function_loses_nothing(error, tmp_path):
    whole = short_run(skewed)
    with pytest.raises(FunctionError, match=rf"raised {type(error).__name__}: .*, in chain \d at \[") as told:
        short_run(Unlucky(1300, error), tp.Checkpoint(tmp_path / "run", 0.0))
    some = told.value.draws
    assert told.value.__cause__ is error
    assert 0 < some.n_draws < 320
    np.testing.assert_array_equal(some.values["x"], whole.values["x"][:, : some.n_draws])
    np.testing.assert_array_equal(tp.load(tmp_path / "run").energy, some.energy)


def test_a_run_goes_on_after_an_error_that_will_not_come_again(tmp_path):
    """States changed in place by the block that failed are not those that are kept."""
    file = tmp_path / "broken"

    def density(x):
        if file.exists() and x[0] > 0.3:
            raise OSError("the disk with the data is away")
        return skewed(x)

    whole = short_run(density)
    kept = tp.Checkpoint(tmp_path / "run", 0.0)
    stop = threading.Timer(0.4, lambda: file.touch())
    stop.start()
    try:
        short_run(density, kept)
    except FunctionError:
        pass
    stop.cancel()
    file.unlink(missing_ok=True)
    assert_same(whole, short_run(density, kept))


@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_a_compiled_function_tells_where_it_raised(method):
    from numba import njit

    @njit
    def density(x):
        if x[0] > 1.5:
            raise ValueError("too far")
        return -0.5 * (x[0] ** 2 + x[1] ** 2)

    with pytest.raises(FunctionError, match="ValueError: too far, in chain") as told:
        tp.sample(
            tp.Target(density),
            initial=np.zeros(2),
            ladder=[1.0, 0.2],
            draws=3_000,
            tuning=tp.Tuning(0),
            chains=3,
            rng=2,
            progress=False,
            method=method,
        )
    assert told.value.position["x"][0] > 1.5


def _counted(x):
    if x[0] > 1.5:
        raise ValueError("too far")
    return -0.5 * (x[0] ** 2 + x[1] ** 2)


def called_back(x):
    return jax.pure_callback(_counted, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential")


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["draws", "sums"])
def test_a_function_that_jax_calls_back_tells_in_which_chain_it_raised_and_where(keep, tmp_path):
    options = {
        "initial": np.zeros(2),
        "ladder": [1.0, 0.5],
        "draws": 3_000,
        "tuning": tp.Tuning(0),
        "chains": 3,
        "rng": 2,
    }
    execution = tp.Execution(engine="vector", checkpoint=tp.Checkpoint(tmp_path / "run", 0.0))
    options |= {"execution": execution, "progress": False, "kernel": tp.kernels.RandomWalk()}
    if keep == "sums":
        options |= {"keep": tp.Sums({"x": lambda x: x})}
    with pytest.raises(FunctionError, match=r"ValueError: too far, in chain \d at \[") as told:
        tp.sample(tp.Target(called_back), **options)
    assert told.value.position[0] > 1.5
    assert 0 <= told.value.chain < 3


def _in_its_valley(x):
    """Raise in one of two valleys, between which no chain can go."""
    if 9.0 < x[0] and x[1] > 0.5:
        raise ValueError("too far")
    return -0.5 * (min(x[0] ** 2, (x[0] - 10.0) ** 2) / 0.01 + x[1] ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("is_batched", [False, True])
@pytest.mark.parametrize("bad", [0, 2, 5])
def test_coupled_chains_tell_which_of_them_raised(bad, is_batched):
    """Six replicas of two ensembles; one alone is where the function raises."""
    starts = [np.array([10.0 if i == bad else 0.0, -3.0 if i == bad else 0.0]) for i in range(6)]
    target = tp.Target(lambda x: np.array([_in_its_valley(row) for row in x]), batched=True) if is_batched else None
    target = target or tp.Target(
        lambda x: jax.pure_callback(_in_its_valley, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential")
    )
    with pytest.raises(FunctionError, match=rf"ValueError: too far, in chain {bad} at \[") as told:
        tp.sample(
            target, initial=starts, ladder=[1.0, 0.9, 0.8], draws=3_000, tuning=tp.Tuning(0), chains=2, rng=2,
            progress=False, method="parallel", kernel=tp.kernels.RandomWalk(), execution=tp.Execution("vector"),
        )  # fmt: skip
    assert told.value.chain == bad
    assert told.value.position[0] > 9.0


def _many(x):
    for row in x:
        _counted(row)
    return -0.5 * (x**2).sum(axis=1)


@pytest.mark.slow
def test_a_function_of_many_positions_tells_where_it_raised():
    options = {"initial": np.zeros(2), "ladder": [1.0, 0.5], "draws": 3_000, "tuning": tp.Tuning(0), "chains": 3}
    with pytest.raises(FunctionError, match=r"ValueError: too far, in chain \d at \[") as told:
        tp.sample(tp.Target(_many, batched=True), rng=2, progress=False, **options)
    assert np.max(told.value.position) > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("batched", [False, True])
def test_populations_tell_where_a_function_raised(batched):
    if batched:
        target = tp.Target.from_likelihood(
            _many,
            lambda x: -0.5 * ((x / 0.6) ** 2).sum(axis=1),
            lambda rng: 0.6 * rng.standard_normal(2),
            batched=True,
        )
    else:
        target = tp.Target.from_likelihood(
            called_back, lambda x: -0.5 * ((x / 0.6) ** 2).sum(), lambda key: 0.6 * jax.random.normal(key, (2,))
        )
    with pytest.raises(FunctionError, match=r"ValueError: too far at \[") as told:
        tp.sample(target, initial=np.zeros(2), method="sequential", draws=600, chains=2, rng=1, progress=False,
                  kernel=tp.kernels.RandomWalk())  # fmt: skip
    assert told.value.position.shape == (2,)
    assert told.value.position[0] > 1.5


def test_the_state_of_a_model_is_told(monkeypatch):
    class Model(type(SELECTION)):
        def step(self, rng, state, k):
            raise RuntimeError("no way on")

    model = Model(SELECTION.covariates, SELECTION.response)
    with pytest.raises(FunctionError, match="RuntimeError: no way on, in chain 0 at"):
        tp.sample(model, ladder=[1.0, 0.5], draws=64, tuning=tp.Tuning(0), chains=2, rng=1, progress=False)
