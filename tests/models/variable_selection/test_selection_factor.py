"""Rank-one changes against fresh factorisations, for every kind of problem (level 3)."""

import numpy as np
import pytest

from models.variable_selection.selection_cases import problems
from statistical import seeded_rng
from tempering.models.variable_selection import factor as factors
from tempering.models.variable_selection.engine import write_energies, write_prior
from tempering.models.variable_selection.factor import flip, insert, new_factor

PROBLEMS = problems()


def model_of(factor):
    return tuple(sorted(int(j) for j in factor.members[: int(factor.numbers[0])]))


def walk(problem, rng, n, n_rows=None):
    """Flip columns at random within what is allowed; yield (factor, energies, prior odds) after each flip."""
    p = problem.n_columns
    factor = new_factor(problem.data, problem.largest, p if n_rows is None else n_rows)
    for j in problem.forced:
        insert(problem.data, factor, j)
    energies, odds = np.zeros(p), np.zeros(p)
    for _ in range(n):
        write_energies(problem.data, factor, problem.noise_model, energies)
        write_prior(factor, problem.model_prior, odds)
        yield factor, energies, odds
        towards = np.where(factor.is_in == 1, -odds, odds)
        flip(problem.data, factor, int(rng.choice(np.flatnonzero(towards > -np.inf))))


def error_of(problem, rng, n=60, n_rows=None):
    """Return the largest difference of log odds from those of fresh factorisations."""
    worst = 0.0
    for factor, energies, odds in walk(problem, rng, n, n_rows):
        model = model_of(factor)
        for j in range(problem.n_columns):
            without, within = tuple(sorted(set(model) - {j})), tuple(sorted({*model, j}))
            if odds[j] in (np.inf, -np.inf):
                assert not (problem.is_allowed(without) and problem.is_allowed(within))
                continue
            assert problem.is_allowed(without)
            assert problem.is_allowed(within)
            worst = max(worst, abs(energies[j] - problem.log_marginal(within) + problem.log_marginal(without)))
            worst = max(worst, abs(odds[j] - problem.log_prior(within) + problem.log_prior(without)))
    return worst


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_log_odds_are_those_of_fresh_factorisations(name):
    assert error_of(PROBLEMS[name], seeded_rng(name)) < 1e-8


def test_a_small_cache_of_rows_changes_nothing():
    problem = PROBLEMS["forced and few"]
    assert error_of(problem, seeded_rng("small cache"), n_rows=problem.largest + 1) < 1e-8


def test_control_a_forgotten_change_of_the_schur_complements_is_seen():
    rng, problem = seeded_rng("control"), PROBLEMS["independent"]
    worst = 0.0
    for factor, energies, _ in walk(problem, rng, 20):
        model = model_of(factor)
        empty = new_factor(problem.data, problem.largest, problem.n_columns)
        stale = np.zeros(problem.n_columns)
        write_energies(problem.data, empty, problem.noise_model, stale)
        worst = max(worst, np.abs(stale - energies).max()) if model else worst
    assert worst > 1e-3


def test_rounding_does_not_pile_up_over_thousands_of_flips():
    problem = PROBLEMS["independent"]
    steps = walk(problem, seeded_rng("long walk"), 5000)
    for _ in range(5000):
        factor, energies, _ = next(steps)
    model = model_of(factor)
    for j in range(problem.n_columns):
        without, within = tuple(sorted(set(model) - {j})), tuple(sorted({*model, j}))
        assert energies[j] == pytest.approx(problem.log_marginal(within) - problem.log_marginal(without), abs=1e-7)
    assert factors.REFRESH < 5000
