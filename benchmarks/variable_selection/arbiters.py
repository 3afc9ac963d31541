"""Who is right where two programs differ: other chains for the same posterior, and the other program with its odds.

Weighted tempered Gibbs of this library is set beside its other balancing functions, the same under rungs, and a plain
Metropolis chain written here, which shares no code with either program. millipede's runs, with its formula and with the
odds themselves in its place, are set beside runs of ours of the same length from the same start: what a short run
remembers of its start is then the same for both. The table gives the column on which any method differs most, and the
largest difference of all open columns, in standardised sums of ranks, and how probable it is by chance.
"""

import math
from typing import Any

import numba
import numpy as np
from scipy import stats

from benchmarks.variable_selection.cases import (
    CASES,
    EXPECTED,
    SLAB_PRECISION,
    design,
    inclusion_of,
    linear_problem,
    places,
    tune_of,
)

NEAR = 3  # columns on either side: the moves of the Metropolis chain
PERMUTATIONS = 4_000
OURS_FOR_ONE = 8  # runs of ours for one of the other program: they cost a hundredth
JUMPS = {"p500": (60_000, 600_000), "p10000": (4_000, 300_000)}  # ours, Metropolis
Runs = dict[str, tuple[int, np.ndarray]]


@numba.njit(cache=True)
def _log_posterior(rows: Any, y: Any, members: Any, size: int, log_odds: float, precision: float) -> float:
    """Return the log posterior of a model, from a factor of its own."""
    n = len(y)
    lower, left, rss = np.zeros((size, size)), np.zeros(size), y @ y
    total = size * (log_odds + 0.5 * math.log(precision))
    for a in range(size):
        for b in range(a + 1):
            value = rows[members[a]] @ rows[members[b]] + (precision if a == b else 0.0)
            for c in range(b):
                value -= lower[a, c] * lower[b, c]
            lower[a, b] = math.sqrt(value) if a == b else value / lower[b, b]
        left[a] = rows[members[a]] @ y
        for c in range(a):
            left[a] -= lower[a, c] * left[c]
        left[a] /= lower[a, a]
        rss -= left[a] ** 2
        total -= math.log(lower[a, a])
    return total - 0.5 * n * math.log(rss)


@numba.njit(cache=True)
def metropolis(
    rng: Any, rows: Any, y: Any, likely: Any, log_odds: float, precision: float, largest: int, steps: int
) -> Any:
    """Return the share of steps, after a fifth of them, in which each column is in.

    Half of the proposals flip a column, from all or from ``likely``, half and half: the choice does not depend on the
    model, so that no ratio of proposals is needed. The others exchange a column for one at most NEAR away.
    """
    p, size, burn = len(rows), 0, steps // 5
    is_in, members, proposed = np.zeros(p, np.bool_), np.zeros(largest + 1, np.int64), np.zeros(largest + 1, np.int64)
    inclusion = np.zeros(p)
    here = _log_posterior(rows, y, members, size, log_odds, precision)
    for step in range(steps):
        there = size
        proposed[:size] = members[:size]
        if rng.random() < 0.5:
            if rng.random() < 0.5:
                j = int(rng.random() * p)
            else:
                j = likely[int(rng.random() * len(likely))]
            if is_in[j]:
                there = 0
                for a in range(size):
                    if members[a] != j:
                        proposed[there] = members[a]
                        there += 1
            else:
                proposed[size], there = j, size + 1
        elif size > 0:
            a, shift = int(rng.random() * size), 1 + int(rng.random() * NEAR)
            j = members[a] + (shift if rng.random() < 0.5 else -shift)
            proposed[a] = j if 0 <= j < p and not is_in[j] else members[a]
        if there <= largest:
            value = _log_posterior(rows, y, proposed, there, log_odds, precision)
            if math.log(1.0 - rng.random()) < value - here:
                is_in[members[:size]] = False
                is_in[proposed[:there]] = True
                size, here = there, value
                members[:size] = proposed[:size]
        if step >= burn:
            for a in range(size):
                inclusion[members[a]] += 1.0
    return inclusion / (steps - burn)


def own_runs(problem: Any, jumps: int, runs: int, kind: str = "weighted", rungs: tuple[float, ...] = (1.0,)) -> Any:
    """Return the inclusion probabilities of chains of this library, shape (run, column)."""
    from tempering.models.variable_selection.chains import ChainPlan, run_one

    plan = ChainPlan(np.array(rungs), jumps, tune_of(jumps), kind=kind)
    results = (run_one(problem, plan, seed, 0) for seed in range(1, runs + 1))
    return np.array([inclusion_of(result, plan.inverse_temperatures) for result in results])


def long_runs(case: str, runs: int) -> Runs:
    """Return the jumps and the inclusion probabilities of independent runs, by method."""
    x, y = design(*CASES[case])
    problem, p = linear_problem(x, y), x.shape[1]
    own, steps = JUMPS[case]
    found: Runs = {
        "weighted tempered Gibbs": (own, own_runs(problem, own, runs)),
        "tempered Gibbs": (own, own_runs(problem, own, runs, "sum")),
        "informed, min(1, r)": (own, own_runs(problem, own, runs, "min")),
        "weighted, rungs 1, 0.85, 0.7": (own, own_runs(problem, own, runs, rungs=(1.0, 0.85, 0.7))),
    }
    near = {int(j) + d for j in places(p) for d in range(-NEAR, NEAR + 1)}
    likely = np.array(sorted(j for j in near if 0 <= j < p))
    log_odds = math.log(EXPECTED / p) - math.log1p(-EXPECTED / p)
    settings = (np.ascontiguousarray(x.T), y, likely, log_odds, SLAB_PRECISION, 100, steps)
    values = [metropolis(np.random.default_rng(seed), *settings) for seed in range(1, runs + 1)]
    return {**found, "Metropolis, flips and exchanges": (steps, np.array(values))}


def judged(case: str, long: Runs, theirs: Runs) -> list[dict[str, object]]:
    """Return a row for each method: long runs beside the first, the other program's beside runs of ours as short."""
    first = next(iter(long.values()))[1]
    beside = dict.fromkeys(long, first)
    if theirs:
        jumps, values = next(iter(theirs.values()))
        short = own_runs(linear_problem(*design(*CASES[case])), jumps, OURS_FOR_ONE * len(values))
        beside |= {"weighted tempered Gibbs, as short": first} | dict.fromkeys(theirs, short)
        long = {**long, "weighted tempered Gibbs, as short": (jumps, short), **theirs}
    gaps = [np.abs(values.mean(axis=0) - first.mean(axis=0)) for _, values in long.values()]
    column = int(np.argmax(np.max(gaps, axis=0)))
    rows = []
    for name, (jumps, values) in long.items():
        row: dict[str, object] = {"case": case, "method": name, "runs": len(values), "jumps": jumps, "column": column}
        row |= {"inclusion": float(values[:, column].mean())}
        row |= {"its_error": float(values[:, column].std(ddof=1) / np.sqrt(len(values)))}
        rows.append(row if values is first else {**row, **difference(beside[name], values)})
    return rows


def difference(one: np.ndarray, other: np.ndarray) -> dict[str, object]:
    """Compare runs of two methods, shapes (run, column), by the ranks of every open column.

    Ranks do not mind that estimates of short runs are far from normal. The probability that the largest difference of
    all columns is as large by chance comes from permutations of the runs, which know how columns go together.
    """
    middle = 0.5 * (one.mean(axis=0) + other.mean(axis=0))
    both = np.vstack([one, other])[:, (middle > 0.02) & (middle < 0.98)]
    n, n_other = len(both), len(other)
    ranks = stats.rankdata(both, axis=0) - (n + 1) / 2
    deviation = np.sqrt(n_other * len(one) * (n + 1) / 12)

    def largest(chosen: np.ndarray) -> float:
        return float(np.abs(ranks[chosen].sum(axis=0)).max() / deviation)

    rng = np.random.default_rng(0)
    found = largest(np.arange(len(one), n))
    as_large = sum(largest(rng.permutation(n)[:n_other]) >= found - 1e-9 for _ in range(PERMUTATIONS))
    gap = np.abs(both[: len(one)].mean(axis=0) - both[len(one) :].mean(axis=0)).max()
    return {"largest_difference": float(gap), "in_errors": found, "by_chance": (as_large + 1) / (PERMUTATIONS + 1)}
