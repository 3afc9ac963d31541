"""Do the two programs have the same posterior? By number, and by sum.

The log odds of all columns at the same models, which decide the chain's law, are compared number by number. On
fourteen columns all models are added up. What the programs say of whole designs is a table of its own: `arbiters`.
"""

import numpy as np
from scipy import stats

from benchmarks.variable_selection.cases import CASES, EXPECTED, design, inclusion_of, linear_problem
from benchmarks.variable_selection.peer import log_odds_of_millipede, runs_of_millipede

DRAWS = {"p500": (40_000, 3_000), "p10000": (4_000, 300)}  # ours, millipede's
MODELS, JUMPS_BETWEEN = 12, 40
OURS_FOR_ONE = 4  # runs of ours for one of the other program; they cost less
SMALL = 14  # columns of which all 16,384 models are added up


def same_log_odds(case: str, python: str) -> dict[str, object]:
    """Compare all log odds at models that a chain of ours meets."""
    from tempering.models.variable_selection.chains import ChainPlan, Walker
    from tempering.models.variable_selection.engine import write_energies, write_prior
    from tempering.randomness import stream

    x, y = design(*CASES[case])
    problem = linear_problem(x, y)
    walker = Walker(problem, ChainPlan(np.ones(1), 50, 50), stream(1, 0))
    models, own = [], []
    for _ in range(MODELS):
        walker.run(JUMPS_BETWEEN, 0, learning=2)
        energies, odds = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        write_energies(problem.data, walker.factor, problem.noise_model, energies)
        write_prior(walker.factor, problem.model_prior, odds)
        models.append(walker.model)
        own.append(energies + odds)
    theirs = log_odds_of_millipede(python, x, y, models)
    return {
        "case": case,
        "what": f"log odds of all columns at {MODELS} models",
        "largest_difference": float(np.abs(theirs - np.array(own)).max()),
    }


def against_all_models(case: str, python: str, runs: int, draws: tuple[int, int]) -> list[dict[str, object]]:
    """Compare both with the sum over all models of the columns with the largest inclusion probabilities."""
    from tempering.models.variable_selection.chains import ChainPlan, run_one

    x, y = design(*CASES[case])
    p = x.shape[1]
    long = inclusion_of(run_one(linear_problem(x, y), ChainPlan(np.ones(1), 10 * draws[0], draws[0]), 99, 0))
    small = np.ascontiguousarray(x[:, np.sort(np.argsort(-long)[:SMALL])])
    expected = EXPECTED * SMALL / p  # each column's own prior probability stays what it was
    problem = linear_problem(small, y, expected, None)
    models, log_posterior = problem.enumerate()
    weight = np.exp(log_posterior - log_posterior.max())
    inside = np.array([[j in model for j in range(SMALL)] for model in map(set, models)])
    truth = weight @ inside / weight.sum()
    plan = ChainPlan(np.ones(1), draws[0], draws[0] // 4)
    own = np.array([inclusion_of(run_one(problem, plan, seed, 0)) for seed in range(1001, 1001 + OURS_FOR_ONE * runs)])
    other = runs_of_millipede(python, small, y, draws[1], draws[1] // 4, runs, expected=expected)
    theirs = np.array([row["pip"] for row in other])
    is_open = (truth > 0.02) & (truth < 0.98)  # nearly sure ones have errors of long tails
    rows = []
    for name, found in (("tempering", own), ("millipede", theirs)):
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        t = np.abs(found.mean(axis=0) - truth)[is_open] / error[is_open]
        rows.append(
            {
                "case": case,
                "what": f"{name} against all models of {SMALL} columns, {len(found)} runs",
                "largest_difference": float(np.abs(found.mean(axis=0) - truth).max()),
                "in_errors": float(t.max()),
                "by_chance": float(min(1.0, len(t) * 2 * stats.t.sf(t.max(), len(found) - 1))),
            }
        )
    return rows


def agreement(case: str, python: str, runs: int) -> list[dict[str, object]]:
    """Return both answers for a design."""
    return [same_log_odds(case, python), *against_all_models(case, python, runs, DRAWS[case])]
