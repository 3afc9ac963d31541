"""The compiled rates are those of the general informed chain, which is proved by enumeration (level 3)."""

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from models.variable_selection.selection_cases import problems
from tempering.informed import BALANCING
from tempering.models.variable_selection.engine import KINDS, write_energies, write_prior
from tempering.models.variable_selection.factor import insert, new_factor

PROBLEMS = problems()
EXPLORE = 0.07


def compiled_rates(problem, model, k, kind):
    """Return the compiled log rates and log Z at a model, through the whole loop's own pieces."""
    from tempering.models.variable_selection.chains import ChainPlan, Walker

    plan = ChainPlan(np.array([k]) if k > 0 else np.array([1.0, 0.0]), 1, 0, 1, kind, EXPLORE * problem.n_columns)
    walker = Walker(problem, plan, np.random.default_rng(0))
    for j in model:
        if j not in problem.forced:
            insert(problem.data, walker.factor, j)
    walker.settle()
    walker.course.rung[0] = len(plan.inverse_temperatures) - 1
    trace, _ = walker.run(1, 0, learning=2)
    rates = walker.course.rates  # those of the state that was left
    return np.log(np.maximum(rates, 1e-300)) - np.log(rates.sum()), float(trace.log_total[0])


def general_rates(problem, model, k, kind):
    """Return the same by the definition: h(ratio) times the edge weight, every model factored afresh."""
    energy, base = problem.log_marginal(model), problem.log_prior(model)
    out = np.full(problem.n_columns, -np.inf)
    for j in range(problem.n_columns):
        there = tuple(sorted(set(model) ^ {j}))
        prior = problem.log_prior(there)
        if prior == -np.inf:
            continue
        ratio = k * (problem.log_marginal(there) - energy) + prior - base
        name = "sum" if kind == "weighted" else kind
        out[j] = BALANCING[name](np.array(ratio))
        if kind == "weighted":
            out[j] += np.log(expit(-ratio if j in model else ratio) + EXPLORE)
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["independent", "g-prior", "forced and few", "weak heredity"])
def test_compiled_rates_are_those_of_the_general_chain(name, kind):
    problem = PROBLEMS[name]
    start = tuple(problem.forced)
    for extra in ((), (0,), (0, 3), (1, 2, 4)):
        model = tuple(sorted({*start, *extra}))
        if not problem.is_allowed(model):
            continue
        for k in (1.0, 0.4, 0.0):
            rates, log_total = compiled_rates(problem, model, k, kind)
            truth = general_rates(problem, model, k, kind)
            assert log_total == pytest.approx(logsumexp(truth), abs=1e-8)
            share = np.exp(truth - logsumexp(truth))
            assert np.allclose(np.exp(rates), share, atol=1e-9)


def test_control_another_kind_of_rates_is_seen():
    problem = PROBLEMS["independent"]
    _, log_total = compiled_rates(problem, (0, 3), 1.0, "barker")
    assert abs(log_total - logsumexp(general_rates(problem, (0, 3), 1.0, "min"))) > 1e-3


def test_odds_of_thousands_do_not_overflow():
    """A column that explains everything: its odds are beyond the range of doubles."""
    from models.variable_selection.selection_cases import data
    from tempering.models.variable_selection import LinearProblem

    x, _ = data(n=2000)
    problem = LinearProblem(x, 50.0 * x[:, 2], noise=1.0)
    factor = new_factor(problem.data, problem.largest, problem.n_columns)
    energies, odds = np.zeros(8), np.zeros(8)
    write_energies(problem.data, factor, problem.noise_model, energies)
    write_prior(factor, problem.model_prior, odds)
    assert energies[2] > 1e5
    for kind in KINDS:
        _, log_total = compiled_rates(problem, (), 1.0, kind)
        assert np.isfinite(log_total)
        assert log_total == pytest.approx(logsumexp(general_rates(problem, (), 1.0, kind)), rel=1e-9)
