"""The models' fits and the experiments are the same whoever runs their chains, and whatever stops them on the way."""

import signal
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from test_checkpoint import Stopped, stop_after
from threadpoolctl import threadpool_limits

import tempering as tp
from tempering.data import SYNTHETIC_COUNTS, path_of
from tempering.errors import CheckpointError
from tempering.execution import processes
from tempering.execution.keeping import DrawsOnDisk
from tempering.experiments import motorcycle, shags, table2
from tempering.models import MarkRecapture, TreedGP
from tempering.models.recapture import read

X = np.linspace(0.0, 1.0, 25)[:, None]
Y = np.sin(6 * X[:, 0]) + np.where(X[:, 0] > 0.5, 2.0, 0.0)
LADDER = (1.0, 0.5, 0.1)
SETTINGS = {"draws": 600, "tune": 300, "chains": 3, "random_state": 1, "progress": False}


@pytest.fixture(scope="module")
def pool():
    with processes(2) as executor:
        yield executor


def fitted(executor=None, checkpoint=None, ladder=LADDER, **settings):
    model = TreedGP(tempering={"ladder": ladder}, **(SETTINGS | settings))
    return model.fit(X, Y, X_predict=X, executor=executor, checkpoint=checkpoint)


@cache
def alone(ladder=None):
    return fitted() if ladder is None else fitted(ladder=ladder)


def assert_same_fit(one, two):
    for mine, other in zip(one.predict(X, return_std=True), two.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(one.running_prediction_, two.running_prediction_)
    np.testing.assert_array_equal(
        one.posterior_.ladder.inverse_temperatures, two.posterior_.ladder.inverse_temperatures
    )
    assert one.posterior_.n_round_trips == two.posterior_.n_round_trips
    np.testing.assert_array_equal(one.posterior_.draws.energy, two.posterior_.draws.energy)


@pytest.mark.long
def test_treed_gps_are_the_same_on_processes_and_threads(pool):
    with ThreadPoolExecutor(2) as threads:
        for executor in (threads, pool):
            assert_same_fit(alone(), fitted(executor))


def test_control_another_seed_is_another_fit():
    with pytest.raises(AssertionError):
        assert_same_fit(alone(), fitted(random_state=2))


@pytest.mark.parametrize("n_writes", [5, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 8, 12, 15))])
def test_a_treed_gp_goes_on_wherever_it_was_stopped(n_writes, tmp_path, monkeypatch, pool):
    """Alone, stopped while its ladder is tuned or while draws are made; then on processes."""
    kept = tp.Checkpoint(tmp_path / "fit", seconds=0.0)
    monkeypatch.setattr("tempering.execution.pace.Pace.next", lambda self, left, most=None: min(100, left))
    with monkeypatch.context() as patch:
        stop_after(patch, n_writes)
        with pytest.raises(Stopped):
            fitted(checkpoint=kept, ladder="tuned")
    assert_same_fit(alone("tuned"), fitted(pool, kept, ladder="tuned"))
    assert_same_fit(alone("tuned"), fitted(checkpoint=kept, ladder="tuned"))  # read, not computed


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    fitted(checkpoint=tmp_path / "fit")
    changes = {"seed": {"random_state": 2}, "every": {"keep": {"thin": 2}}, "target": {"leaf": "linear"}}
    for what, change in changes.items():
        with pytest.raises(CheckpointError, match=f"{what}"):
            fitted(checkpoint=tmp_path / "fit", **change)
    with pytest.raises(CheckpointError, match="target"):
        TreedGP(**SETTINGS).fit(X, Y + 1.0, X_predict=X, checkpoint=tmp_path / "fit")


def test_the_seed_of_a_fit_without_one_is_remembered(tmp_path):
    first = fitted(checkpoint=tmp_path / "fit", random_state=None)
    assert_same_fit(first, fitted(checkpoint=tmp_path / "fit", random_state=None))


def test_ctrl_c_ends_a_fit_at_its_next_block_with_what_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr("tempering.execution.pace.Pace.next", lambda self, left, most=None: min(100, left))
    keep = DrawsOnDisk.keep

    def keep_and_interrupt(self, block):
        keep(self, block)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(DrawsOnDisk, "keep", keep_and_interrupt)
        with pytest.warns(UserWarning, match="Stopped by Ctrl-C after 100 of 600 draws.*Call again with the same"):
            short = fitted(checkpoint=tmp_path / "fit")
    assert short.posterior_.draws.rung.size == 300
    assert_same_fit(alone(), fitted(checkpoint=tmp_path / "fit"))


@pytest.mark.slow
def test_table_2_is_the_same_on_processes(pool):
    settings = {"n_runs": 3, "n_draws": 2_000, "n_tune": 640}
    there = table2.run(**settings, executor=pool).rows
    for n in (1, 2):  # sums round by the threads of BLAS, which the runs must not see
        with threadpool_limits(n, user_api="blas"):
            assert table2.run(**settings).rows == there


@pytest.mark.long
@pytest.mark.parametrize("method", ["parallel", "simulated"])
def test_mark_recapture_is_the_same_on_processes_and_with_a_checkpoint(method, pool, tmp_path, monkeypatch):
    data = read(path_of(SYNTHETIC_COUNTS), "counts")
    model = MarkRecapture(method=method, draws=64, tune=64, chains=12, ladder=[1.0, 0.5, 0.2, 0.1])
    alone = model.fit(data, rng=1, progress=False)
    kept = tp.Checkpoint(tmp_path / "study", seconds=0.0)
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(Stopped):
            model.fit(data, rng=1, progress=False, checkpoint=kept)
    for how in ({"executor": pool}, {"executor": pool, "checkpoint": kept}, {"checkpoint": kept}):
        other = model.fit(data, rng=1, progress=False, **how)
        np.testing.assert_array_equal(alone.draws.energy, other.draws.energy)
        np.testing.assert_array_equal(alone.draws.rung, other.draws.rung)
    with pytest.raises(CheckpointError, match="seed: 1 there, 2 here"):
        model.fit(data, rng=2, progress=False, checkpoint=kept)


@pytest.mark.long
def test_experiments_are_the_same_on_processes_and_with_a_checkpoint(pool, tmp_path):
    few = {"n_draws": 2_000}
    plain = motorcycle.run(**few, folder=tmp_path)
    for _ in range(2):
        kept = motorcycle.run(**few, folder=tmp_path, executor=pool, checkpoint=tmp_path / "motorcycle")
        assert repr(kept.rows) == repr(plain.rows)
    assert sorted(path.name for path in (tmp_path / "motorcycle").iterdir()) == ["tempered", "untempered"]
    few = {"n_draws": 3_200, "n_chains": 8, "progress": False}
    plain = shags.run(**few)
    for _ in range(2):
        assert repr(shags.run(**few, executor=pool, checkpoint=tmp_path / "shags").rows) == repr(plain.rows)
