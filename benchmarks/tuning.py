"""Does tuning pay? The tuned default against the paper's default ladder, at equal model calls, tuning included.

For every problem: mean squared error of the standardised means and of the mode masses, over replicates, as a ratio.
Then the performance bar on the paper's mixture: root mean squared error of P(theta > 0) at 1e5 model calls.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import tempering as tp
from tempering import problems

PAPER_LADDER = tp.Ladder.geometric(40, 0.1)
PROBLEMS = {
    "mixture": lambda: problems.mixture().as_vector,
    "ring": problems.ring,
    "skewed, d = 5": lambda: problems.skewed(5),
    "banana": problems.Banana,
    "two modes, d = 5": lambda: problems.two_modes(5),
    "Gaussian likelihood, d = 3": lambda: problems.likelihood_gaussian(3),
}


def target_of(problem: Any) -> tp.Target:
    """Make the Numba target of a problem, so that an iteration is one model call."""
    if isinstance(problem, problems.GaussianLikelihood):
        return tp.Target.from_likelihood(problem.log_likelihood_numba, problem.log_prior_numba)
    return tp.Target(problem.log_density_numba)


def squared_error(problem: Any, run: tp.TemperedDraws) -> float:
    """Return the mean squared error of standardised means, plus that of mode masses where there are modes."""
    x = run.values["x"]
    sd = np.sqrt(np.diag(np.atleast_2d(problem.covariance)))
    error = np.mean(((np.ravel(run.combination(x).estimate) - np.ravel(problem.mean)) / sd) ** 2)
    masses = np.atleast_1d(getattr(problem, "mode_masses", [1.0]))
    if masses.size > 1:
        mode = np.asarray(problem.mode_of(x)).reshape(run.rung.shape)
        found = np.array([run.combination((mode == j).astype(float)).estimate for j in range(masses.size)])
        error += np.sum((found - masses) ** 2)
    return float(error)


def compare(name: str, replicates: int, draws: int, chains: int = 8) -> dict[str, Any]:
    """Run both ladders on one problem with the default lengths, at equal model calls, tuning included."""
    problem = PROBLEMS[name]()
    target = target_of(problem)
    tune = draws // 2
    common = {"initial": problem.initial, "chains": chains, "engine": "scalar", "progress": False}
    tuned, paper, rungs = [], [], []
    for seed in range(replicates):
        run = tp.sample(target, rng=seed, tune=tune, draws=draws, **common)
        tuned.append(squared_error(problem, run))
        rungs.append(len(run.ladder))
        left = run.info.n_iterations - tune  # so that both sides have had the same number of calls
        other = tp.sample(target, rng=seed, ladder=PAPER_LADDER, tune=tune, draws=left, **common)
        paper.append(squared_error(problem, other))
    return {
        "problem": name,
        "paper's ladder": float(np.mean(paper)),
        "tuned": float(np.mean(tuned)),
        "ratio": float(np.mean(tuned) / np.mean(paper)),
        "rungs": float(np.mean(rungs)),
    }


def performance(replicates: int, calls: int = 100_000, chains: int = 4) -> float:
    """Return the root mean squared error of P(theta > 0) on the paper's mixture, everything counted."""
    target = tp.Target(problems.mixture().as_vector.log_density_numba)
    length = calls // chains
    errors = []
    for seed in range(replicates):
        options = {"initial": np.zeros(1), "chains": chains, "rng": seed, "progress": False}
        spent = tp.sample(target, tune=length // 8, draws=64, **options).info.n_iterations - 64
        run = tp.sample(target, tune=length // 8, draws=length - spent, **options)
        assert run.info.n_iterations * chains <= calls
        errors.append(run.expect(lambda x: x[..., 0] > 0).value - 0.4)
    return float(np.sqrt(np.mean(np.square(errors))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--draws", type=int, default=10_000, help="of each of 8 chains; half as many tune")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()
    rows = []
    print(f"{'problem':30s} {'paper':>10s} {'tuned':>10s} {'ratio':>7s} {'rungs':>6s}")
    for name in PROBLEMS:
        if options.only in name:
            row = compare(name, options.replicates, options.draws)
            rows.append(row)
            print(
                f"{name:30s} {row['paper'+chr(39)+'s ladder']:10.2e} {row['tuned']:10.2e} {row['ratio']:7.3f} "
                f"{row['rungs']:6.1f}", flush=True,
            )  # fmt: skip
    rmse = performance(5 * options.replicates)
    print(f"P(theta > 0), 1e5 calls, tuning included: root mean squared error {rmse:.4f} (bar 0.015)")
    print(f"{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"ladders": rows, "rmse": rmse}, indent=1))


if __name__ == "__main__":
    main()
