"""Checkpoints: what they hold, what they refuse, and what happens when the disk is full."""

import errno
import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import jax.numpy as jnp
import numpy as np
import pytest
from execution_cases import RUNS, skewed
from same_runs import assert_same

import tempering as tp
from grouped import grouped
from tempering.errors import CheckpointError
from tempering.execution import blocks, keeping
from tempering.io import checkpoint as checkpoints
from tempering.io import durable_files, records
from tempering.runs import store as run_store

TARGET = tp.Target(skewed)
LONGER = [pytest.param(name, marks=pytest.mark.long) for name in ("vector, parallel", "vector, model")]
EVERY = ["vector, simulated", "numba, simulated", "python, simulated, model", *LONGER]


def run(path=None, target=TARGET, **options):
    settings = {
        "initial": np.zeros(2),
        "ladder": [1.0, 0.5],
        "draws": 320,
        "tuning": tp.Tuning(96),
        "chains": 2,
        "rng": 4,
    }
    fixed = {"execution": tp.Execution(engine="scalar", checkpoint=path), "progress": False}
    return tp.sample(target, **grouped(**settings | fixed | options))


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(run_store, "CHUNK", 200)  # 50 draws of 2 chains in 2 dimensions


class Stopped(BaseException):
    """Raised in place of a kill."""


def stop_when(monkeypatch, is_time):
    """Let a run write files until it is time, and then stop it short."""
    write = durable_files.write_atomically

    def watched(target, *parts, **how):
        is_told_once = target.name.startswith(("record", "run.json"))  # what describes a store, or the run
        if not is_told_once and is_time():
            raise Stopped
        return write(target, *parts, **how)

    monkeypatch.setattr(checkpoints, "write_atomically", watched)
    monkeypatch.setattr(records, "write_atomically", watched)


def stop_after(monkeypatch, n_writes):
    """Let a run write so many files, and then stop it short."""
    left = iter(range(n_writes))
    stop_when(monkeypatch, lambda: next(left, None) is None)


def stop_with_draws(monkeypatch, path, n):
    """Stop a run short once so many draws of each chain are written."""

    def is_time():
        return (path / "latest").is_file() and records.read_record(path / "latest")[0]["n_done"] >= n

    stop_when(monkeypatch, is_time)


@pytest.mark.parametrize("name", EVERY)
def test_a_run_with_a_checkpoint_is_the_run_without(name, tmp_path):
    assert_same(RUNS[name](), RUNS[name](checkpoint=tmp_path / "run"))


def test_a_run_that_is_done_is_continued_for_more_draws(tmp_path, small_chunks):
    """In one chunk, and in several; the draws are those of the longer run to the bit."""
    for draws, longer in ((30, 70), (130, 333)):
        path = tmp_path / str(draws)
        run(path, draws=draws)
        assert_same(run(draws=longer), run(path, draws=longer))
        assert_same(run(draws=longer), tp.load(path))
        with pytest.raises(CheckpointError, match=f"draws: {longer} there, {draws} here"):
            run(path, draws=draws)


@pytest.mark.slow
def test_more_goes_on_in_the_checkpoint(tmp_path, small_chunks):
    """As often as one likes, from the same run too; the draws are those of the longer run to the bit, and on disk."""
    for draws, more in ((30, 40), (130, 203)):
        path, longer = tmp_path / str(draws), run(draws=draws + more)
        first = run(path, draws=draws)
        assert_same(longer, first.more(more))
        assert_same(longer, tp.load(path))
        assert_same(run(draws=draws), first)
        assert_same(run(draws=draws + 9), first.more(9))  # all of them are there already
        assert_same(run(draws=draws + more + 9), first.more(more).more(9))
        assert_same(run(draws=draws + more + 9), run(path, draws=draws + more + 9))


def test_more_of_a_run_that_ended_before_its_draws(tmp_path, small_chunks):
    first = run(tmp_path / "run", draws=2_000, until=tp.Until(effective_draws=1.0))
    assert first.n_draws < 1_000
    again = first.more(100)
    assert again.n_draws == first.n_draws + 100
    assert_same(run(draws=again.n_draws), again)
    assert_same(run(draws=2_000), run(tmp_path / "run", draws=2_000))


def test_draws_of_a_checkpoint_stay_on_disk(tmp_path, small_chunks):
    found = run(tmp_path / "run")
    assert found._store is not None
    assert "terms" not in vars(found)


def test_a_continuation_may_be_stopped_too(tmp_path, monkeypatch, small_chunks):
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    run(kept, draws=130)
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 200)
        with pytest.raises(Stopped):
            run(kept, draws=333)
    assert tp.load(tmp_path / "run").n_draws >= 200
    assert_same(run(draws=333), run(kept, draws=333))


@pytest.mark.parametrize("n_writes", [1, 2, 4, 6, 9])
def test_a_run_goes_on_wherever_it_was_stopped(n_writes, tmp_path, monkeypatch, small_chunks):
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_after(patch, n_writes)
        with pytest.raises(Stopped):
            run(kept)
    assert_same(run(), run(kept))


@pytest.mark.slow
def test_another_executor_may_go_on(tmp_path, monkeypatch, small_chunks):
    """Alone, stopped while tuning; on threads, stopped while drawing; alone again."""
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    monkeypatch.setattr(blocks, "WORK", 5e4)
    name = "vector, simulated"
    with ThreadPoolExecutor(3) as executor:
        for is_tuned, who in ((False, None), (True, executor)):
            with monkeypatch.context() as patch:
                stop_with_draws(patch, tmp_path / "run", 30) if is_tuned else stop_after(patch, 2)
                with pytest.raises(Stopped):
                    RUNS[name](checkpoint=kept, executor=who)
    assert_same(RUNS[name](), RUNS[name](checkpoint=kept))


def test_what_was_sampled_before_is_not_sampled_again(tmp_path, monkeypatch):
    calls = []
    target = tp.Target(lambda x: calls.append(1) or skewed(x))
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_when(patch, lambda: len(calls) > 700)
        with pytest.raises(Stopped):
            run(kept, target)
    before = len(calls)
    run(kept, target)
    whole = 2 * (320 + 256)  # chains, and iterations of drawing and tuning
    assert len(calls) - before < 0.7 * whole
    done = len(calls)
    run(kept, target)
    assert len(calls) - done < 50  # starting points, and the values at stored draws


def test_the_seed_of_a_run_without_one_is_remembered(tmp_path, monkeypatch):
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stopped):
            run(kept, rng=None)
    draws = run(kept, rng=None)
    assert_same(draws, run(rng=draws.info.seed))


CHANGES = {
    "target": {"target": tp.Target(lambda x: skewed(x) - 0.5 * x[0] ** 2)},
    "seed": {"rng": 5},
    "ladder": {"ladder": [1.0, 0.4]},
    "draws": {"draws": 160},
    "tune": {"tuning": tp.Tuning(128)},
    "chains": {"chains": 3},
    "method": {"method": "parallel"},
    "kernel": {"kernel": tp.kernels.Slice()},
    "initial": {"initial": np.full(2, 0.25)},
    "pseudo_prior": {"tuning": tp.Tuning(pseudo_prior=[0.0, -1.0])},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_of_another_run_is_refused_with_what_differs(what, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(Stopped):
            run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    with pytest.raises(CheckpointError, match=f"belongs to another run: .*{what}: .* there, .* here"):
        run(tmp_path / "run", **CHANGES[what])


def test_other_data_in_a_dict_show_in_the_values(tmp_path):
    data = {"scale": 1.0, "calls": 0}

    def density(x):
        data["calls"] += 1  # no reason to refuse
        return skewed(x / data["scale"])

    first = run(tmp_path / "run", tp.Target(density))
    assert_same(first, run(tmp_path / "run", tp.Target(density)))
    data["scale"] = 2.0
    with pytest.raises(CheckpointError, match=r"log densities: .*; density: data\['scale'\] has changed"):
        run(tmp_path / "run", tp.Target(density))


class Hidden:
    """Data where no digest looks: in the slots of a class that pretends to be installed."""

    __slots__ = ("edge",)


def test_values_at_stored_draws_are_compared(tmp_path, monkeypatch):
    """The two differ beyond the points near the start alone."""
    hidden = Hidden()
    hidden.edge = 9.0
    target = tp.Target(lambda x: skewed(x) - (5.0 if x[0] > hidden.edge else 0.0))
    run(tmp_path / "run", target)
    hidden.edge = 0.5
    with pytest.raises(CheckpointError, match="the log density, or a quantity, is"):
        run(tmp_path / "run", target)


@pytest.mark.slow
def test_values_of_quantities_are_compared_where_a_run_keeps_sums(tmp_path):
    hidden = Hidden()
    hidden.edge = 9.0
    target = tp.Target(lambda x: -0.5 * jnp.sum(x**2))
    options = {"initial": np.zeros(2), "ladder": [1.0, 0.5], "draws": 64, "tuning": tp.Tuning(0), "chains": 4, "rng": 1}
    options |= {"keep": tp.Sums({"is far": lambda x: x[..., 0] > hidden.edge}), "progress": False}
    tp.sample(target, execution=tp.Execution(checkpoint=tmp_path / "run"), **options)
    tp.sample(target, execution=tp.Execution(checkpoint=tmp_path / "run"), **options)
    hidden.edge = 0.5
    with pytest.raises(CheckpointError, match="the log density, or a quantity, is 0 at one of its draws there and 1"):
        tp.sample(target, execution=tp.Execution(checkpoint=tmp_path / "run"), **options)


HELPER = "def shift(x):\n    return x - {}\n"


def test_what_the_log_density_does_not_show_at_its_start_is_seen_all_the_same(tmp_path, monkeypatch):
    """A list, a dict within an object, a module of the user's: each changed where the first points do not look."""
    edges, tables = [50.0, 60.0], type("Tables", (), {})()
    tables.far = {"bonus": [0.0, 1.0]}
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helper_of_run.py").write_text(HELPER.format(0.0))
    import helper_of_run

    def density(x):
        far = tables.far["bonus"][1] if x[0] > edges[0] else 0.0
        return skewed(x) + far + (helper_of_run.shift(0.0) if x[0] > edges[1] else 0.0)

    first = run(tmp_path / "run", tp.Target(density))
    assert_same(first, run(tmp_path / "run", tp.Target(density)))
    edges[1] = 61.0
    with pytest.raises(CheckpointError, match="density: edges has changed"):
        run(tmp_path / "run", tp.Target(density))
    edges[1] = 60.0
    tables.far["bonus"].append(2.0)
    with pytest.raises(CheckpointError, match=r"Tables\.far\['bonus'\] has changed"):
        run(tmp_path / "run", tp.Target(density))
    tables.far["bonus"].pop()
    run(tmp_path / "run", tp.Target(density))
    (tmp_path / "helper_of_run.py").write_text(HELPER.format(1.0))
    with pytest.raises(CheckpointError, match="belongs to another run: target"):
        run(tmp_path / "run", tp.Target(density))


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    run(tmp_path / "run")
    identity = json.loads((tmp_path / "run/run.json").read_text())
    (tmp_path / "run/run.json.copy").unlink()
    other = checkpoints.Identity(identity["run"] | {"jax": "0.1"}).as_json()
    (tmp_path / "run/run.json").write_text(json.dumps(other))
    with pytest.raises(CheckpointError, match=r"jax: 0\.1 there"):
        run(tmp_path / "run")
    (tmp_path / "run/run.json").write_text(json.dumps(identity | {"format": 99}))
    with pytest.raises(CheckpointError, match="has format 99, but this version reads format 2"):
        run(tmp_path / "run")
    (tmp_path / "run/run.json").write_text("{")
    with pytest.raises(CheckpointError, match="does not say which run it belongs to"):
        run(tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="holds something else"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_runs_cannot_share_a_checkpoint(tmp_path):
    folder = checkpoints.Folder(tp.Checkpoint(tmp_path / "run"))
    with pytest.raises(CheckpointError, match="Another process is writing"):
        run(tmp_path / "run")
    folder.close()
    assert run(tmp_path / "run").n_draws == 320


def test_a_tuning_that_comes_out_otherwise_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stopped):
            run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    monkeypatch.setattr("tempering.learning.rounds.SHARE_OF_START", 0.9)
    monkeypatch.setattr("tempering.learning.kernel_settings.start", _other_start)
    with pytest.raises(CheckpointError, match="step 1 of its tuning comes out otherwise"):
        run(tmp_path / "run")


def _other_start(leaves, ladder, example):
    from tempering.kernels.settings import Settings

    m, d = len(ladder), len(example)
    return tuple(Settings(np.full(m, 0.1), np.tile(np.eye(d), (m, 1, 1)), np.zeros((m, d))) for _ in leaves)


def test_load_opens_what_there_is(tmp_path, monkeypatch, small_chunks):
    whole = run()
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(Stopped):
            run(kept)
    with pytest.raises(CheckpointError, match="has not written any draws yet"):
        tp.load(tmp_path / "run")
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 60)
        with pytest.raises(Stopped):
            run(kept)
    some = tp.load(tmp_path / "run")
    assert 50 < some.n_draws < 320
    np.testing.assert_array_equal(some.values["x"], whole.values["x"][:, : some.n_draws])
    np.testing.assert_array_equal(some.energy, whole.energy[:, : some.n_draws])
    run(kept)
    assert_same(whole, tp.load(tmp_path / "run"))


def test_an_unfinished_store_is_not_taken_for_a_run(tmp_path, monkeypatch, small_chunks):
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 60)
        with pytest.raises(Stopped):
            run(tp.Checkpoint(tmp_path / "run", seconds=0.0))
    with pytest.raises(tp.TemperingError, match="still being written"):
        tp.load(tmp_path / "run" / keeping.STORE)


def test_constrained_values_are_the_same_on_disk(tmp_path, small_chunks):
    target = tp.Target.from_likelihood(
        skewed, lambda x: -0.5 * np.sum(x**2), constrain=lambda x: {"rate": np.exp(x), "at": x}
    )
    assert_same(run(target=target), run(tmp_path / "run", target))


@contextmanager
def files_no_larger_than(size):
    """Let no file of this process grow beyond so many bytes: to the process, the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [5_000, *(pytest.param(size, marks=pytest.mark.long) for size in (500, 20_000))])
def test_a_full_disk_is_told_and_leaves_the_checkpoint_whole(size, tmp_path, small_chunks):
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    with files_no_larger_than(size), pytest.raises(CheckpointError, match="make room, and the same call goes on"):
        run(kept, chains=20)
    assert not list((tmp_path / "run").rglob("latest.partial"))
    assert_same(run(chains=20), run(kept, chains=20))


def test_the_draws_so_far_come_with_a_full_disk(tmp_path, monkeypatch, small_chunks):
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    write = run_store.RunStore.write

    def full(self, first, draws):
        if first >= 100:
            raise OSError(28, "No space left on device")
        write(self, first, draws)

    with monkeypatch.context() as patch:
        patch.setattr(run_store.RunStore, "write", full)
        with pytest.raises(CheckpointError, match="No space left on device") as stopped:
            run(kept)
    whole, some = run(), stopped.value.draws
    assert some.n_draws >= 150
    np.testing.assert_array_equal(some.energy, whole.energy[:, : some.n_draws])
    assert_same(whole, run(kept))


DIGESTS = """
import numpy as np, jax.numpy as jnp, numba, functools
from tempering.execution.digest import digest
import tempering as tp
scale = np.arange(3.0)
class Model:
    def __init__(self): self.data, self.names = scale * 2, {"a", "b", "c"}
    def energy(self, x): return -np.sum(self.data * x**2)
def density(x): return jnp.sum(scale * x) + len({"one", "two", "three"})
things = [density, lambda x: density(x) - 1, numba.njit(lambda x: x + 1.0), functools.partial(density, x=2), Model(),
          Model().energy, tp.kernels.Slice(), {"b": 1, "a": (scale, None)}, tp.problems.skewed(2).log_density]
print(*[digest(thing) for thing in things])
"""


@pytest.mark.slow
def test_digests_are_the_same_in_another_process_and_tell_things_apart():
    seeds = ("0", "1")  # of the order of sets
    outputs = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS], env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout.split()
        for seed in seeds
    ]
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == len(outputs[0]) == 9


def test_deleting_a_checkpoint_deletes_nothing_else(tmp_path):
    run(tmp_path / "run")
    checkpoints.remove(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match="nothing was deleted"):
        checkpoints.remove(tmp_path)


def test_importing_the_package_asks_for_no_file_locks():
    code = "import sys; sys.modules['fcntl'] = None; import tempering"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_file_is_no_checkpoint(tmp_path):
    (tmp_path / "notes.txt").write_text("years of work")
    with pytest.raises(CheckpointError, match=r"A checkpoint is a folder, but .*notes\.txt is a file"):
        run(tmp_path / "notes.txt")
    with pytest.raises(tp.TemperingError, match="It is a file, not a folder"):
        tp.load(tmp_path / "notes.txt")


def test_a_finished_run_on_a_disk_that_cannot_be_written_is_returned(tmp_path, monkeypatch):
    whole = run(tmp_path / "run", draws=64)

    def read_only(file):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(checkpoints, "lock", read_only)
    assert_same(whole, run(tmp_path / "run", draws=64))
    with pytest.raises(CheckpointError, match="cannot be written: Read-only file system"):
        run(tmp_path / "run", draws=128)
    with pytest.raises(CheckpointError, match="cannot be written: Read-only file system"):
        run(tmp_path / "other")


RACE = """
import sys
from tempering.io.checkpoint import Checkpoint, Folder
from tempering.errors import CheckpointError
sys.stdin.readline()
try:
    folder = Folder(Checkpoint(sys.argv[1]))
    folder.identify({"who": sys.argv[2]})
    print("mine", flush=True)
except CheckpointError as error:
    print("Another process" in str(error) or "another run" in str(error), flush=True)
sys.stdin.readline()
"""


def test_of_processes_that_race_for_a_folder_one_gets_it(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racing = [subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path / "run"), str(i)], **pipes) for i in range(3)]
    for process in racing:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.stdout.readline().strip() for process in racing]
    for process in racing:
        process.communicate("end\n", timeout=60)
    assert sorted(said) == ["True", "True", "mine"]
