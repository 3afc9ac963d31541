"""Effective draws per second, ours beside millipede's; and whether others agree with the answers of both."""

import time

import numpy as np

from benchmarks.variable_selection.arbiters import judged, long_runs
from benchmarks.variable_selection.cases import CASES, design, inclusion_of, linear_problem, tune_of
from benchmarks.variable_selection.peer import runs_of_millipede

DRAWS = {"p500": (20_000, 1_500), "p10000": (4_000, 160)}  # ours, millipede's: seconds of processor time each


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


def compare(case: str, peer: str | None, runs: int) -> dict[str, list[dict[str, object]]]:
    """Return a row of speed for each program, and what other chains say of their answers."""
    n, p = CASES[case]
    x, y = design(n, p)
    mine, his = DRAWS[case]
    found = [("tempering", mine, ours(x, y, mine, runs))]
    if peer is not None:
        for name, mended in (("millipede 0.1.7", False), ("millipede 0.1.7 with the odds", True)):
            found.append((name, his, runs_of_millipede(peer, x, y, his, tune_of(his), runs, mended=mended)))
    long = long_runs(case, runs)
    first, *_, last = (values.mean(axis=0) for _, values in long.values())
    truth = 0.5 * (first + last)  # by weighted tempered Gibbs and by Metropolis
    head = {"case": case, "n": n, "p": p}
    speed = [{**head, "program": name, **summary(rows, truth, draws)} for name, draws, rows in found]
    theirs = {name: (draws, np.array([row["pip"] for row in rows])) for name, draws, rows in found[1:]}
    return {"speed": speed, "arbiters": judged(case, long, theirs)}
