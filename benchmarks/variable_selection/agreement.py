"""Do the two programs have the same posterior? Three answers, from the sharpest to the bluntest.

The log odds of all columns at the same models, which decide the chain's law, are compared number by number. On a
dozen columns all models are added up. On the whole design runs of equal length from the same start are compared by
ranks: both programs run the same chain, so that what a short run still remembers of its start is the same for both, and
ranks do not mind that estimates of short runs are far from normal. The probability that the largest difference of all
open columns is as large by chance comes from permutations of the runs, which know how columns go together.
"""

import numpy as np
from scipy import stats

from benchmarks.variable_selection.cases import CASES, EXPECTED, design, inclusion_of, linear_problem
from benchmarks.variable_selection.peer import log_odds_of_millipede, runs_of_millipede

MODELS, JUMPS_BETWEEN = 12, 40
PERMUTATIONS = 4_000
OURS_FOR_ONE = 8  # runs of ours for one of theirs: they cost a hundredth
SMALL = 14  # columns of which all 16,384 models are added up


def same_log_odds(case: str, python: str) -> dict[str, object]:
    """Compare all log odds at models that a chain of ours meets."""
    from tempering.models.variable_selection.chains import ChainPlan, Walker
    from tempering.models.variable_selection.odds import write_energies, write_prior
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
    own = np.array([inclusion_of(run_one(problem, plan, seed, 0)) for seed in range(1, runs + 1)])
    other = runs_of_millipede(python, small, y, draws[1], draws[1] // 4, runs, expected=expected)
    theirs = np.array([row["pip"] for row in other])
    is_open = (truth > 0.02) & (truth < 0.98)  # nearly sure ones have errors of long tails
    rows = []
    for name, found in (("tempering", own), ("millipede", theirs)):
        error = found.std(axis=0, ddof=1) / np.sqrt(runs)
        t = np.abs(found.mean(axis=0) - truth)[is_open] / error[is_open]
        rows.append(
            {
                "case": case,
                "what": f"{name} against all models of {SMALL} columns, {runs} runs",
                "largest_difference": float(np.abs(found.mean(axis=0) - truth).max()),
                "in_errors": float(t.max()),
                "by_chance": float(min(1.0, len(t) * 2 * stats.t.sf(t.max(), runs - 1))),
            }
        )
    return rows


def between_runs(case: str, own: np.ndarray, theirs: np.ndarray) -> dict[str, object]:
    """Compare runs of both programs on the whole design, shapes (run, column), by the ranks of every open column."""
    mean = 0.5 * (own.mean(axis=0) + theirs.mean(axis=0))
    both = np.vstack([own, theirs])[:, (mean > 0.02) & (mean < 0.98)]
    n, n_theirs = len(both), len(theirs)
    ranks = stats.rankdata(both, axis=0) - (n + 1) / 2
    deviation = np.sqrt(n_theirs * len(own) * (n + 1) / 12)

    def largest(chosen: np.ndarray) -> float:
        return float(np.abs(ranks[chosen].sum(axis=0)).max() / deviation)

    rng = np.random.default_rng(0)
    found = largest(np.arange(len(own), n))
    by_chance = np.mean([largest(rng.permutation(n)[:n_theirs]) >= found for _ in range(PERMUTATIONS)])
    return {
        "case": case,
        "what": f"{len(own)} runs of tempering and {n_theirs} of millipede, {both.shape[1]} open columns",
        "largest_difference": float(np.abs(both[: len(own)].mean(axis=0) - both[len(own) :].mean(axis=0)).max()),
        "in_errors": found,
        "by_chance": float(by_chance),
    }


def agreement(case: str, python: str, runs: int, draws: tuple[int, int]) -> list[dict[str, object]]:
    """Return all three answers for a design."""
    from tempering.models.variable_selection.chains import ChainPlan, run_one

    x, y = design(*CASES[case])
    problem, plan = linear_problem(x, y), ChainPlan(np.ones(1), draws[1], draws[1] // 4)
    own = np.array([inclusion_of(run_one(problem, plan, seed, 0)) for seed in range(1, OURS_FOR_ONE * runs + 1)])
    other = runs_of_millipede(python, x, y, draws[1], draws[1] // 4, runs)
    whole = between_runs(case, own, np.array([row["pip"] for row in other]))
    return [same_log_odds(case, python), *against_all_models(case, python, runs, draws), whole]
