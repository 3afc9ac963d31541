import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recapture_cases import all_histories, forward_log_probability
from scipy.optimize import minimize

from statistical import seeded_rng
from tempering.data import DIPPER_ARRAY, SYNTHETIC_COUNTS, SYNTHETIC_HISTORIES, SYNTHETIC_TRUTH, path_of
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.likelihood import free_cells, log_likelihood, statistics
from tempering.models.recapture.reading import read


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def synthetic_truth():
    values = np.full((3, 9, 4), 0.5)
    index = {"phi": 0, "p_at_next_occasion": 1, "lambda": 2}
    with open(path_of(SYNTHETIC_TRUTH)) as file:
        for row in csv.DictReader(file):
            cell = (
                index[row["parameter"]],
                int(row["interval_start_year"]) - 1982,
                int(row["age_class"][0]) - 1,
            )
            values[cell] = float(row["value"])
    return values


@pytest.mark.parametrize(("tail", "n_histories"), [(False, 31), (True, 23)])
def test_the_probabilities_of_all_histories_sum_to_one(tail, n_histories):
    values = seeded_rng("sum to one").random((3, 4, 3))
    if tail:
        values[1, -1] = 0.0
    histories = list(all_histories(4, tail))
    assert len(histories) == n_histories
    data = [statistics(Histories([h], years=range(5), tail=tail).to_counts(3)) for h in histories]
    total = sum(np.exp(log_likelihood(d, jnp.asarray(values))) for d in data)
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("tail", [False, True])
def test_counts_give_the_likelihood_of_the_individuals(tail):
    rng = seeded_rng(f"individuals {tail}")
    values = rng.uniform(0.05, 0.95, (3, 6, 3))
    pool = list(all_histories(6, tail))
    codes = np.array([pool[i] for i in rng.integers(len(pool), size=600)])
    for row in codes[:300]:  # later markings
        shift = rng.integers(0, 5)
        row[:] = np.concatenate([np.zeros(shift, int), row[: 7 - shift]])
    codes[:, -1] = np.where(tail & (codes[:, -1] == 1), 0, codes[:, -1])
    codes = codes[(codes != 0).any(axis=1) & (codes[np.arange(600), (codes != 0).argmax(axis=1)] == 1)]
    age = rng.integers(0, 4, len(codes))
    alive_last = np.array([(c == 2).sum() == 0 for c in codes])
    number = np.where(alive_last & (rng.random(len(codes)) < 0.2), -1, 1)
    slow = sum(
        forward_log_probability(c, a, values, 3, tail, n > 0) for c, a, n in zip(codes, age, number, strict=True)
    )
    counts = Histories(codes, years=range(7), age=age, number=number, tail=tail).to_counts(3)
    cells = free_cells(counts)
    fast = log_likelihood(statistics(counts), jnp.where(cells, values, 0.0 if tail else values))
    assert abs(float(fast) - slow) < 1e-9


def test_the_synthetic_set_at_its_truth():
    data = statistics(read(path_of(SYNTHETIC_COUNTS), "counts"))
    assert float(log_likelihood(data, jnp.asarray(synthetic_truth()))) == pytest.approx(-6592.522590028446, abs=1e-9)


def test_the_synthetic_histories_agree_bird_by_bird():
    histories = read(path_of(SYNTHETIC_HISTORIES), "histories")
    values = synthetic_truth()
    unique, times = np.unique(histories.codes, axis=0, return_counts=True)
    slow = sum(n * forward_log_probability(c, 0, values, 4) for c, n in zip(unique, times, strict=True))
    assert slow == pytest.approx(-6592.522590028446, abs=1e-8)


def test_the_dipper_has_its_published_maximum_without_recoveries():
    data = statistics(read(path_of(DIPPER_ARRAY), "arrays").to_counts(1))

    def deviance(x):
        values = jnp.zeros((3, 6, 1)).at[0].set(jax.nn.sigmoid(x[0])).at[1].set(jax.nn.sigmoid(x[1]))
        return -2 * log_likelihood(data, values)

    best = minimize(lambda x: tuple(map(np.asarray, jax.value_and_grad(deviance)(x))), np.zeros(2), jac=True)
    phi, p = 1 / (1 + np.exp(-best.x))
    assert (phi, p) == (pytest.approx(0.56024, abs=5e-6), pytest.approx(0.90258, abs=5e-6))
    assert best.fun == pytest.approx(666.8377, abs=1e-4)


def test_the_gradient_is_that_of_central_differences():
    data = statistics(read(path_of(SYNTHETIC_COUNTS), "counts"))
    values = seeded_rng("gradient").uniform(0.2, 0.8, (3, 9, 4))
    gradient = np.asarray(jax.grad(lambda v: log_likelihood(data, v))(jnp.asarray(values)))
    evaluate = jax.jit(lambda v: log_likelihood(data, v))
    for cell in [(0, 0, 0), (0, 8, 3), (1, 4, 1), (2, 7, 3), (1, 8, 0), (0, 3, 2), (2, 0, 3)]:
        step = np.zeros_like(values)
        step[cell] = 1e-5
        difference = (evaluate(values + step) - evaluate(values - step)) / 2e-5
        assert gradient[cell] == pytest.approx(float(difference), rel=1e-5, abs=1e-4)


def test_a_study_without_recaptures_needs_no_p():
    histories = Histories([[1, 2, 0], [1, 0, 2], [1, 0, 0]], years=range(3))
    data = statistics(histories.to_counts(1))
    values = jnp.array([0.6, 0.0, 0.3])[:, None, None] * jnp.ones((3, 2, 1))
    expected = np.log(0.4 * 0.3) + np.log(0.6 * 0.4 * 0.3) + np.log(1 - 0.4 * 0.3 - 0.6 * 0.4 * 0.3)
    assert float(log_likelihood(data, values)) == pytest.approx(expected, abs=1e-12)
