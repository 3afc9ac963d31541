"""The models' fits and the experiments are the same whoever runs their chains."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tempering.data import SYNTHETIC_COUNTS, path_of
from tempering.execution import processes
from tempering.experiments import table2
from tempering.models import MarkRecapture, TreedGP
from tempering.models.recapture import read

X = np.linspace(0.0, 1.0, 25)[:, None]
Y = np.sin(6 * X[:, 0]) + np.where(X[:, 0] > 0.5, 2.0, 0.0)
SETTINGS = {"ladder": [1.0, 0.5, 0.1], "draws": 600, "tune": 300, "chains": 3, "random_state": 1, "progress": False}


@pytest.fixture(scope="module")
def pool():
    with processes(2) as executor:
        yield executor


def predictions(executor=None):
    model = TreedGP(**SETTINGS).fit(X, Y, X_predict=X, executor=executor)
    return model.predict(X, return_std=True), model.running_prediction_[0]


def test_treed_gps_are_the_same_on_processes_and_threads(pool):
    (mean, sd), running = predictions()
    with ThreadPoolExecutor(2) as threads:
        for executor in (threads, pool):
            (other_mean, other_sd), other_running = predictions(executor)
            np.testing.assert_array_equal(mean, other_mean)
            np.testing.assert_array_equal(sd, other_sd)
            np.testing.assert_array_equal(running, other_running)


def test_table_2_is_the_same_on_processes(pool):
    settings = {"n_runs": 3, "n_draws": 2_000, "n_tune": 640}
    assert table2.run(**settings).rows == table2.run(**settings, executor=pool).rows


@pytest.mark.long
@pytest.mark.parametrize("method", ["parallel", "simulated"])
def test_mark_recapture_is_the_same_on_processes(method, pool):
    data = read(path_of(SYNTHETIC_COUNTS), "counts")
    model = MarkRecapture(method=method, draws=64, tune=64, chains=12, ladder=[1.0, 0.5, 0.2, 0.1])
    alone = model.fit(data, rng=1, progress=False)
    shared = model.fit(data, rng=1, progress=False, executor=pool)
    np.testing.assert_array_equal(alone.draws.energy, shared.draws.energy)
    np.testing.assert_array_equal(alone.draws.rung, shared.draws.rung)
