"""Sums are the same to the bit whoever runs the chains, however far at a time, and whatever befalls the run."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from execution_cases import RUNS
from same_runs import assert_same_sums
from test_checkpoint import Stopped, stop_after, stop_with_draws
from test_dying_workers import Walker, kill_a_worker

import tempering as tp
from grouped import grouped
from tall_spike import SPIKE, spike
from tempering.errors import CheckpointError, SamplerError
from tempering.estimators.running.batches import in_a_tree
from tempering.execution import blocks, sum_blocks
from tempering.recorders import summing
from turns import go_on_by

QUANTITIES = {
    "vector, simulated": {"beta": lambda x: x, "square": lambda x: (x**2).sum(axis=-1)},
    "vector, parallel": {"beta": lambda x: x},
    "vector, model": {"at": lambda at, far: at, "far": lambda at, far: far},
    "numba, simulated": {"x": lambda x: x, "square": lambda x: (x**2).sum(axis=-1)},
    "python, simulated, model": {"size": lambda **values: sum(values.values())},
    "python, parallel": {"x": lambda x: x[..., 0]},
}
SEVERAL = ("vector, simulated", "numba, simulated")
SLOW_TO_COMPILE = ("vector, parallel", "vector, model")
EACH = [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW_TO_COMPILE)) for name in QUANTITIES]
IN_PROCESSES = [pytest.param(SEVERAL[0], marks=pytest.mark.long), SEVERAL[1], "python, simulated, model"]


def summed(name, **options):
    return RUNS[name](keep=tp.Sums(QUANTITIES[name]), **options)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "WORK", 5e4)


@cache
def alone(name):
    """Run in this process."""
    return summed(name)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_threads_change_nothing(name):
    for n_workers in (1, 2, 7) if name in SEVERAL else (2,):
        with ThreadPoolExecutor(n_workers) as executor:
            assert_same_sums(alone(name), summed(name, executor=executor))


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_PROCESSES)
def test_processes_change_nothing(name, processes):
    assert_same_sums(alone(name), summed(name, executor=processes))


@pytest.mark.long
def test_dask_changes_nothing():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert_same_sums(alone("numba, simulated"), summed("numba, simulated", executor=client.get_executor()))


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVERAL)
def test_the_length_of_a_turn_changes_nothing(name, monkeypatch):
    go_on_by(monkeypatch, lambda n_blocks: n_blocks % 3 + 1)
    assert_same_sums(alone(name), summed(name))


@pytest.mark.parametrize("name", SEVERAL)
def test_sums_of_parts_are_those_of_all_draws(name):
    """Whatever the parts, every draw is counted once: chains that fill up a block are not."""
    draws, sums = RUNS[name](), alone(name)
    assert np.array_equal(sums.visits, draws.visits)
    assert sums.n_round_trips == draws.n_round_trips
    expected = draws.expect(lambda x: x, "ess_optimal").value
    assert np.allclose(sums.expect(next(iter(QUANTITIES[name])), "ess_optimal").value, expected, atol=2e-3)


@pytest.mark.slow
def test_runs_are_cut_into_parts(monkeypatch):
    """Control: if there were one part, nothing above would show anything."""
    sizes = []
    build = sum_blocks.SumRecipe.build
    monkeypatch.setattr(sum_blocks.SumRecipe, "build", lambda self, n: sizes.append(n) or build(self, n))
    summed("vector, simulated")
    assert sizes == [24, 22]  # two parts of 24 chains, and one of 22


@pytest.mark.long
def test_parts_of_unlike_size_keep_as_many_stretches_of_time(monkeypatch):
    """Four parts of 5 chains and one of 2, over 60 stretches: all keep as many apart."""
    monkeypatch.setattr(blocks, "WORK", 1.0)
    monkeypatch.setattr(summing, "LONGEST_BLOCK", {"cpu": 100})
    target = tp.Target(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2))
    sums = tp.sample(
        target,
        initial=np.zeros(2),
        ladder=[1.0, 0.5],
        chains=22,
        draws=6_000,
        tuning=tp.Tuning(64),
        rng=1,
        progress=False,
        kernel=tp.kernels.RandomWalk(),
        keep=tp.Sums({"x": lambda x: x}),
    )
    n_groups, n_times = sums.sums.batches.count.shape[:2]
    assert n_groups == 22
    assert 5 <= n_times <= 11
    assert sums.sums.lengths.sum() == 6_000
    found = sums.expect("x")
    assert np.all(np.abs(found.value - 1.0) < 5 * found.standard_error)


def test_control_another_order_gives_other_bits():
    parts = list(np.random.default_rng(3).normal(size=(7, 50)))
    in_order = sum(parts[1:], parts[0])
    tree = in_a_tree(parts, np.add)
    assert np.allclose(tree, in_order)
    assert not np.array_equal(tree, in_order)


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_a_checkpoint_changes_nothing(name, tmp_path):
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    assert_same_sums(alone(name), summed(name, checkpoint=kept))
    assert_same_sums(alone(name), summed(name, checkpoint=kept))  # read, not computed
    assert_same_sums(alone(name), tp.TemperedSums.load(tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.parametrize("n_writes", [1, 3, 7, 8, 10])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_run_goes_on_wherever_it_was_stopped(name, n_writes, tmp_path, monkeypatch):
    """Alone, then on threads."""
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    go_on_by(monkeypatch, 1)
    with monkeypatch.context() as patch:
        stop_after(patch, n_writes)
        with pytest.raises(Stopped):
            summed(name, checkpoint=kept)
    with ThreadPoolExecutor(2) as executor:
        assert_same_sums(alone(name), summed(name, checkpoint=kept, executor=executor))


def test_what_was_summed_before_is_not_sampled_again(tmp_path, monkeypatch):
    calls = []
    target = tp.Target(lambda x: calls.append(1) or float(-0.5 * (x - 1.0) ** 2))
    options = {
        "initial": 0.0,
        "ladder": [1, 0.5],
        "draws": 640,
        "tuning": tp.Tuning(64),
        "chains": 2,
        "rng": 4,
        "execution": tp.Execution(engine="scalar"),
    }
    options |= {"progress": False, "keep": tp.Sums({"x": lambda x: x})}
    kept = tp.Checkpoint(tmp_path / "run", seconds=0.0)
    go_on_by(monkeypatch, 1)
    tp.sample(target, **options)
    whole = len(calls)
    with monkeypatch.context() as patch:
        stop_with_draws(patch, tmp_path / "run", 500)  # nearly done
        with pytest.raises(Stopped):
            tp.sample(target, **grouped(**options, checkpoint=kept))
    before = len(calls)
    sums = tp.sample(target, **grouped(**options, checkpoint=kept))
    assert len(calls) - before < 0.4 * whole
    assert sums.n_draws == 640


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"keep": tp.Sums({"beta": lambda x: x + 1})}, "quantities: beta"),
        ({"draws": 320}, "draws: 160 there, 320 here"),
        ({"keep": "draws"}, "keep: sums there, None here"),
        ({"keep": tp.Sums(QUANTITIES["vector, simulated"], every=3)}, "sum_every: 1 there, 3 here"),
        ({"chains": 71}, "chains: 70 there, 71 here"),
    ],
)
def test_a_checkpoint_of_other_sums_is_refused(change, match, tmp_path):
    name = "vector, simulated"
    summed(name, checkpoint=tmp_path / "run")
    options = {"keep": tp.Sums(QUANTITIES[name]), "execution": tp.Execution(checkpoint=tmp_path / "run")} | change
    with pytest.raises(CheckpointError, match=match):
        RUNS[name](**options)


def test_a_checkpoint_of_sums_is_no_store_of_draws(tmp_path):
    summed("python, parallel", checkpoint=tmp_path / "sums")
    with pytest.raises(CheckpointError, match=r"keeps sums, not draws\. Write TemperedSums\.load"):
        tp.load(tmp_path / "sums")
    RUNS["python, parallel"](checkpoint=tmp_path / "draws")
    with pytest.raises(CheckpointError, match="is not the checkpoint of a run with keep=Sums"):
        tp.TemperedSums.load(tmp_path / "draws")


def walk(model, **options):
    settings = {"ladder": [1.0, 0.4], "draws": 192, "tuning": tp.Tuning(64), "chains": 3, "rng": 3, "progress": False}
    return tp.sample(model, keep=tp.Sums({"x": lambda x: x[..., 0]}), **grouped(**settings | options))


@pytest.mark.slow
def test_a_part_whose_worker_is_killed_is_done_again(tmp_path):
    alone, killed = walk(Walker()), []
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path, killed))
    killer.start()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        shared = walk(Walker(tmp_path, pause=2e-3), executor=executor)
    killer.join()
    assert killed
    assert os.getpid() not in killed
    assert_same_sums(alone, shared)


def test_a_part_that_fails_twice_stops_the_run_with_the_sums_so_far(tmp_path, monkeypatch):
    go_on_by(monkeypatch, 1)
    with (
        ThreadPoolExecutor(2) as executor,
        pytest.raises(SamplerError, match="raised ZeroDivisionError: nothing left to divide by") as caught,
    ):
        walk(Walker(raises_at=600), executor=executor, checkpoint=tmp_path / "run", draws=640)
    sums = caught.value.draws
    assert isinstance(sums, tp.TemperedSums)
    assert 0 < sums.n_draws < 640
    assert_same_sums(sums, tp.TemperedSums.load(tmp_path / "run"))


@pytest.mark.slow
def test_parts_whose_energies_rise_out_of_their_bins_are_put_together(monkeypatch):
    """A spike a million times as high, found by some parts first."""
    options = SPIKE | {"draws": 2_000, "chains": 64}
    monkeypatch.setattr(blocks, "WORK", 160.0)
    kept = tp.sample(tp.Target(spike), **options)
    run = {**options, "keep": tp.Sums({"x": lambda x: x})}
    sums = tp.sample(tp.Target(spike), **run)
    assert np.array_equal(kept.visits, sums.visits)
    assert abs(kept.expect(lambda x: x, "ess_optimal").value - sums.expect("x", "ess_optimal").value) < 1e-3
    with ThreadPoolExecutor(2) as executor:
        assert_same_sums(sums, tp.sample(tp.Target(spike), execution=tp.Execution(executor=executor), **run))
