"""Effective draws per second, ours beside millipede's."""

import json
import time

import numpy as np

from benchmarks.variable_selection.cases import CASES, design, inclusion_of, linear_problem
from benchmarks.variable_selection.peer import runs_of_millipede

DRAWS = {"p500": (20_000, 600), "p10000": (4_000, 100)}  # ours, millipede's: seconds of processor time each


def tune_of(draws: int) -> int:
    """Return the jumps before those that are kept."""
    return max(draws // 4, 100)


def ours(x: np.ndarray, y: np.ndarray, draws: int, runs: int) -> list[dict[str, object]]:
    """Return seconds and inclusion probabilities of independent runs."""
    from tempering.models.variable_selection.chains import ChainPlan, run_one

    problem = linear_problem(x, y)
    run_one(problem, ChainPlan(np.ones(1), 50, 50), 0, 0)  # compiles
    out: list[dict[str, object]] = []
    for run in range(runs):
        start = time.process_time()
        result = run_one(problem, ChainPlan(np.ones(1), draws, tune_of(draws)), run + 1, 0)
        out.append({"seconds": time.process_time() - start, "pip": inclusion_of(result).tolist()})
    return out


def summary(rows: list[dict[str, object]], truth: np.ndarray, draws: int) -> dict[str, float]:
    """Return seconds and effective draws per second over the columns that are neither in nor out for sure."""
    pip = np.array([row["pip"] for row in rows])
    seconds = float(np.mean([row["seconds"] for row in rows]))
    open_ = (truth > 0.02) & (truth < 0.98)
    # squared distance from the long answer, so that a biased run is not called precise
    ess = truth[open_] * (1 - truth[open_]) / np.mean((pip[:, open_] - truth[open_]) ** 2, axis=0)
    return {
        "seconds": seconds,
        "microseconds_per_jump": 1e6 * seconds / (draws + tune_of(draws)),
        "open_columns": int(open_.sum()),
        "effective_draws_per_second": float(np.median(ess) / seconds),
    }


def compare(case: str, peer: str | None, runs: int) -> list[dict[str, object]]:
    """Return a row for each program."""
    n, p = CASES[case]
    x, y = design(n, p)
    mine, his = DRAWS[case]
    truth = np.mean([row["pip"] for row in ours(x, y, 10 * mine, 2)], axis=0)
    own = ours(x, y, mine, runs)
    rows: list[dict[str, object]] = [{"program": "tempering", "n": n, "p": p, **summary(own, truth, mine)}]
    if peer is not None:
        other = runs_of_millipede(peer, x, y, his, tune_of(his), runs)
        rows.append({"program": "millipede", "n": n, "p": p, **summary(other, truth, his)})
    print(json.dumps(rows, indent=1), flush=True)
    return rows
