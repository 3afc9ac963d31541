"""Posteriors where chains get stuck: twins at correlation .99, two groups, the diabetes data with products."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from models.variable_selection.selection_cases import enumerate_quickly, exact_inclusion, problems, two_groups
from statistical import assert_mean_is, student_cut
from tempering.models.variable_selection import LinearProblem, SizePrior, VariableSelection
from tempering.models.variable_selection.chains import ChainPlan, run_chains, tuned_ladder
from tempering.models.variable_selection.posterior import posterior_of

pytestmark = pytest.mark.long


def test_the_quick_enumeration_is_the_slow_one():
    problem = problems()["unequal slabs"]
    weight, inside = enumerate_quickly(problem)
    assert np.allclose(weight @ inside, exact_inclusion(problem), atol=1e-10)


def twins(n=100, p=18):
    """Return nine pairs of columns with correlation .99."""
    rng = np.random.default_rng(4)
    one = rng.standard_normal((n, p // 2))
    other = 0.99 * one + np.sqrt(1 - 0.99**2) * rng.standard_normal((n, p // 2))
    x = np.hstack([one, other])
    y = one @ np.array([1.0, -0.8, 0.6, 0.5, 0.4, 0.3, 0.0, 0.0, 0.0]) + rng.standard_normal(n)
    x -= x.mean(axis=0)
    return LinearProblem(x / x.std(axis=0), y - y.mean(), SizePrior(expected=4.0), lost=1)


@pytest.mark.parametrize("ladder", [[1.0], [1.0, 0.6, 0.3]])
def test_twins_of_correlation_99_share_their_probability_as_all_262144_models_say(ladder):
    problem = twins()
    weight, inside = enumerate_quickly(problem)
    results = run_chains(problem, ChainPlan(np.array(ladder), 20_000, 2_000, 24), 3)
    estimates = [r.sums.inside[0].sum(axis=0) / r.sums.weight[0].sum() for r in results]
    assert_mean_is(weight @ inside, estimates)
    assert np.std(estimates, axis=0).max() < 0.03  # no chain stays with one of a pair


def share_of_first(problem, q, ladder, draws, seed):
    """Estimate the posterior probability that more of the first group than of the second are in."""
    results = run_chains(problem, ChainPlan(ladder, draws, draws // 4, 1), seed)
    posterior = posterior_of(results, ladder, "screened")
    models = [posterior.model(i) for i in range(len(posterior.first_draws))]
    first = np.array([sum(j < q for j in m) > sum(q <= j < 2 * q for j in m) for m in models])
    return posterior.expect(first[posterior.model_id])


def test_rungs_cross_between_two_groups_where_a_plain_chain_stays_in_one():
    problem, q = two_groups()
    weight, inside = enumerate_quickly(problem)
    truth = float(weight @ (inside[:, :q].sum(axis=1) > inside[:, q : 2 * q].sum(axis=1)))
    assert 0.7 < truth < 0.9
    ladder = tuned_ladder(problem, ChainPlan(np.ones(1), 10, 400, 1), 0)
    tempered = [float(share_of_first(problem, q, ladder, 60_000, seed).value) for seed in range(12)]
    plain = [float(share_of_first(problem, q, np.ones(1), 60_000, seed).value) for seed in range(6)]
    assert_mean_is(truth, tempered)
    assert np.std(tempered, ddof=1) < 0.12
    assert min(plain) > 0.999  # all in one, and sure of it: the error that no length cures


def test_the_diabetes_data_with_squares_and_products_agree_with_a_run_a_hundred_times_longer():
    x, y = load_diabetes(return_X_y=True)
    design = {"interactions": "quadratic", "heredity": "none"}
    plain = VariableSelection(design=design, sampling={"draws": 5_000, "tune": 2_000})
    short = [clone(plain).set_params(random_state=s).fit(x, y) for s in range(8)]
    long = clone(plain).set_params(sampling__draws=500_000, random_state=99).fit(x, y)
    assert len(long.term_names_) == 64
    truth = long.inclusion_probabilities_
    is_open = (truth > 0.001) & (truth < 0.999)  # beyond, errors have long tails
    values = np.array([model.inclusion_probabilities_ for model in short])
    error = np.hypot(values.std(axis=0, ddof=1) / np.sqrt(8), long.inclusion_errors_)
    assert np.abs((values.mean(axis=0) - truth) / error)[is_open].max() < student_cut(8, 64)
    assert np.allclose(values[:, ~is_open], truth[~is_open], atol=1e-3)
    z = (values - truth) / np.array([model.inclusion_errors_ for model in short])
    assert 0.5 < np.mean(z[:, is_open] ** 2) < 2.0
