"""The compiled chain against all 2^p models, with calibrated cuts over independent chains (level 5)."""

import numpy as np
import pytest
from scipy.special import logsumexp

from models.variable_selection.selection_cases import exact_inclusion, problems
from statistical import assert_mean_is, assert_mean_is_not
from tempering.models.variable_selection import LinearProblem, SizePrior, engine
from tempering.models.variable_selection.chains import ChainPlan, run_chains, run_one
from tempering.models.variable_selection.posterior import posterior_of

PROBLEMS = problems()
LADDER = np.array([1.0, 0.5, 0.0])
CHAINS = 32


def by_rung(results, rung):
    """Return each chain's inclusion probabilities from one rung's weighted sums."""
    return [r.sums.inside[rung].sum(axis=0) / r.sums.weight[rung].sum() for r in results]


def open_columns(truth):
    """Those whose probability a chain can be wrong about."""
    return (truth > 1e-4) & (truth < 1 - 1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_weighted_tempered_gibbs_has_the_inclusion_probabilities_of_all_models(name):
    problem = PROBLEMS[name]
    truth = exact_inclusion(problem)
    results = run_chains(problem, ChainPlan(np.ones(1), 2000, 200, CHAINS), 11)
    estimates = np.array(by_rung(results, 0))
    is_open = open_columns(truth)
    assert is_open.sum() >= 5
    assert_mean_is(truth[is_open], estimates[:, is_open])
    assert np.allclose(estimates[:, ~is_open], truth[~is_open], atol=1e-3)


@pytest.mark.parametrize("kind", engine.KINDS)
def test_every_kind_of_rates_is_right_on_all_rungs(kind):
    problem = PROBLEMS["independent"]
    truth = exact_inclusion(problem)
    results = run_chains(problem, ChainPlan(LADDER, 3000, 600, CHAINS, kind), 5)
    for rung in (0, 1):
        assert_mean_is(truth, by_rung(results, rung))


def test_control_draws_without_their_weights_are_seen():
    problem = PROBLEMS["independent"]
    truth = exact_inclusion(problem)
    results = run_chains(problem, ChainPlan(np.ones(1), 2000, 200, CHAINS), 11)
    rows = []
    for r in results:
        inside = np.zeros((2000, problem.n_columns))
        inside[0, list(r.start)] = 1
        for t in range(1, 2000):
            inside[t] = inside[t - 1]
            inside[t, r.trace.flipped[t - 1]] = 1 - inside[t, r.trace.flipped[t - 1]]
        rows.append(inside.mean(axis=0))
    assert_mean_is_not(truth, rows)


def test_all_rungs_together_evidence_and_best_models_are_right():
    problem = PROBLEMS["independent"]
    models, log_posterior = problem.enumerate()
    results = run_chains(problem, ChainPlan(LADDER, 4000, 1000, 4), 2)
    posterior = posterior_of(results, LADDER, "screened")
    truth = exact_inclusion(problem)
    z = (np.asarray(posterior.inclusion.value) - truth) / np.asarray(posterior.inclusion.standard_error)
    assert np.abs(z).max() < 6  # 8 columns, 128 batches: 1e-7
    evidence = posterior.log_evidence()
    assert abs(evidence.value - logsumexp(log_posterior)) < 6 * evidence.standard_error < 0.3
    best = posterior.best_models(3)
    order = np.argsort(-log_posterior)[:3]
    assert [found.columns for found in best] == [models[i] for i in order]
    for found, i in zip(best, order, strict=True):
        exact = np.exp(log_posterior[i] - logsumexp(log_posterior))
        assert abs(found.probability - exact) < 6 * found.standard_error
        assert found.log_posterior == pytest.approx(log_posterior[i], abs=1e-8)


def test_standard_errors_of_inclusion_cover():
    """z-scores of 40 fits of 4 chains: their mean square is 1 but for what few batches and 40 fits can tell."""
    problem = PROBLEMS["unequal slabs"]
    truth = exact_inclusion(problem)
    squares = []
    for fit in range(40):
        results = run_chains(problem, ChainPlan(np.ones(1), 1000, 200, 4), 100 + fit)
        found = posterior_of(results, np.ones(1), "screened").inclusion
        squares.append(((np.asarray(found.value) - truth) / np.asarray(found.standard_error)) ** 2)
    mean = np.mean(squares)  # 8 correlated columns: at least 40 independent terms
    assert 0.3 < mean < 2.2, mean


def test_two_threads_give_the_same_chains_as_one():
    problem, plan = PROBLEMS["independent"], ChainPlan(LADDER, 500, 200, 3)
    one, two = run_chains(problem, plan, 9), run_chains(problem, plan, 9, threads=2)
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.trace.flipped, b.trace.flipped)
        assert np.array_equal(a.sums.inside, b.sums.inside)


def test_energies_along_the_chain_are_those_of_its_models():
    problem = PROBLEMS["dense slab"]
    result = run_one(problem, ChainPlan(LADDER, 3000, 200, 1), 4, 0)
    posterior = posterior_of([result], LADDER, "screened")
    for t in (0, 1, 10, 1500, 2999):
        model = posterior.models_at(np.array([t]))[0]
        assert result.trace.energy[t] == pytest.approx(problem.log_marginal(model), abs=1e-7)
        assert result.trace.log_prior[t] == pytest.approx(problem.log_prior(model), abs=1e-8)
        assert result.trace.size[t] == len(model)


def test_the_verdict_is_good_for_a_long_run_and_not_for_a_short_one():
    problem = PROBLEMS["independent"]
    results = run_chains(problem, ChainPlan(np.ones(1), 4000, 500, 4), 2)
    assert posterior_of(results, np.ones(1), "screened").diagnose().is_good
    short = posterior_of(run_chains(problem, ChainPlan(np.ones(1), 100, 0, 4), 2), np.ones(1), "screened").diagnose()
    assert not short.is_good
    assert "independent" in str(short)


def strong_neighbours(n=150):
    """Return columns of which the first two, correlated .9, both have log odds above 60 while the other is out."""
    rng = np.random.default_rng(12)
    first = rng.standard_normal(n)
    second = 0.9 * first + np.sqrt(0.19) * rng.standard_normal(n)
    x = np.column_stack([first, second, rng.standard_normal((n, 3))])
    y = 0.8 * first + 0.6 * second + 0.2 * x[:, 3] + rng.standard_normal(n)
    x -= x.mean(axis=0)
    return LinearProblem(x / x.std(axis=0), y - y.mean(), SizePrior(expected=0.05), max_size=3)


def test_columns_whose_odds_round_to_certainty_are_told_apart():
    """One minus a sigmoid is 0 above log odds of 37: rates made of it would give both columns the same."""
    problem = strong_neighbours()
    none, first, second = (problem.log_marginal(m) + problem.log_prior(m) for m in [(), (0,), (1,)])
    assert min(first, second) - none > 60
    truth = exact_inclusion(problem)[:2]
    results = run_chains(problem, ChainPlan(np.ones(1), 4_000, 500, 24), 5)
    estimates = [found[:2] for found in by_rung(results, 0)]
    assert_mean_is(truth, estimates)
    both = truth.sum() - 1.0  # one of the two is always in
    assert_mean_is_not(np.full(2, 0.5 * (1.0 + both)), estimates)  # where a tie would put them
