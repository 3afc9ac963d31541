"""Does tuning pay? The tuned default against the paper's default ladder, at equal model calls, tuning included.

For every problem: mean squared error of the standardised means and of the mode masses, over replicates, as a ratio. A
gradient counts as one call, and where the default's calls are not known to the last one the paper's ladder gets the
most they may have been.
Then the performance bar on the paper's mixture: root mean squared error of P(theta > 0) at 1e5 model calls.

    python -m benchmarks.tuning [--replicates 20] [--only NAME] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tempering as tp
from benchmarks._model_calls import GRADIENTS, has_gradients, most_calls
from tempering import problems

BAR = "the bar"  # a name to ask for it alone: --only "the bar"
PAPER_LADDER = tp.Ladder.geometric(40, 0.1)


@dataclass(frozen=True)
class Case:
    """A problem made ready: what to run, how long, and the squared error of a run."""

    target: Any
    squared_error: Callable[[tp.TemperedDraws], float]
    options: dict[str, Any] = field(default_factory=dict)
    chains: int = 8
    draws: int = 10_000


def with_exact_moments(problem: Any) -> Case:
    """Take a problem in closed form, compiled by Numba, so that an iteration is one model call."""
    if isinstance(problem, problems.GaussianLikelihood):
        target = tp.Target.from_likelihood(problem.log_likelihood_numba, problem.log_prior_numba)
    else:
        target = tp.Target(problem.log_density_numba)
    sd = np.sqrt(np.diag(np.atleast_2d(problem.covariance)))
    masses = np.atleast_1d(getattr(problem, "mode_masses", [1.0]))

    def squared_error(run: tp.TemperedDraws) -> float:
        x = run.values["x"]
        error = np.mean(((np.ravel(run.combination(x).estimate) - np.ravel(problem.mean)) / sd) ** 2)
        return float(error + error_of_masses(run, problem.mode_of, masses) if masses.size > 1 else error)

    return Case(target, squared_error, {"initial": problem.initial, "execution": tp.Execution(engine="scalar")})


def with_stored_truth(problem: Any) -> Case:
    """Take a posterior on data, whose truth was computed once."""
    truth = problem.truth

    def squared_error(run: tp.TemperedDraws) -> float:
        found = np.ravel(run.combination(problem.summaries(run.values["x"])).estimate)
        error = float(np.mean(((found - truth.mean) / truth.sd) ** 2))
        masses = np.atleast_1d(truth.mode_masses)
        return error + error_of_masses(run, problem.mode_of, masses) if masses.size > 1 else error

    return Case(tp.Target(problem.log_density), squared_error, {"initial": problem.initial})


def with_exact_models(problem: problems.VariableSelection) -> Case:
    """Take the choice between 256 models by reversible jump: error of the inclusion probabilities."""
    p = problem.n_covariates
    truth = problem.mean_record(1.0)[:p]

    def squared_error(run: tp.TemperedDraws) -> float:
        included = np.stack([run.values[name] for name in problem.names[:p]], axis=-1)
        return float(np.sum((np.ravel(run.combination(included).estimate) - truth) ** 2))

    return Case(problem.compiled, squared_error)


def error_of_masses(run: tp.TemperedDraws, mode_of: Callable[[Any], Any], masses: np.ndarray) -> float:
    """Return the sum of the squared errors of the modes' masses."""
    mode = np.asarray(mode_of(run.values["x"])).reshape(run.rung.shape)
    found = [run.combination((mode == j).astype(float)).estimate for j in range(masses.size)]
    return float(np.sum((np.ravel(found) - masses) ** 2))


CASES: dict[str, Callable[[], Case]] = {
    "mixture": lambda: with_exact_moments(problems.mixture().as_vector),
    "ring": lambda: with_exact_moments(problems.ring()),
    "skewed, d = 5": lambda: with_exact_moments(problems.skewed(5)),
    "banana": lambda: with_exact_moments(problems.Banana()),
    "two modes, d = 5": lambda: with_exact_moments(problems.two_modes(5)),
    "five modes, d = 10": lambda: with_exact_moments(problems.five_modes()),
    "unequal modes, d = 5": lambda: with_exact_moments(problems.unequal_modes(5)),
    "Gaussian likelihood, d = 3": lambda: with_exact_moments(problems.likelihood_gaussian(3)),
    "variable selection": lambda: with_exact_models(problems.variable_selection()),
    "label switching": lambda: with_stored_truth(problems.label_switching()),
    "sensors": lambda: with_stored_truth(problems.sensors()),
    "logistic": lambda: with_stored_truth(problems.logistic()),
}


def compare(name: str, replicates: int) -> dict[str, Any]:
    """Run both ladders on one problem, half as many iterations for tuning as draws, as many calls on both sides."""
    case = CASES[name]()
    tune = case.draws // 2
    common = {**case.options, "chains": case.chains, "progress": False}
    tuned, paper, rungs = [], [], []
    for seed in range(replicates):
        run = tp.sample(case.target, rng=seed, tuning=tp.Tuning(tune), draws=case.draws, **common)
        tuned.append(case.squared_error(run))
        rungs.append(len(run.ladder))
        tuning, draws = as_many(run, tune)
        other = tp.sample(case.target, rng=seed, ladder=PAPER_LADDER, tuning=tp.Tuning(tuning), draws=draws, **common)
        paper.append(case.squared_error(other))
    return {
        "problem": name,
        "ratio": float(np.mean(tuned) / np.mean(paper)),
        "tuned": float(np.mean(tuned)),
        "its standard error": float(np.std(tuned, ddof=1) / np.sqrt(replicates)),
        "paper's ladder": float(np.mean(paper)),
        "its standard error ": float(np.std(paper, ddof=1) / np.sqrt(replicates)),
        "rungs": float(np.mean(rungs)),
        "replicates": replicates,
    }


def as_many(run: tp.TemperedDraws, tune: int) -> tuple[int, int]:
    """Return the tuning and the draws that give the paper's ladder as many calls as a tuned run has made."""
    n_chains, n_draws = run.rung.shape
    moves = GRADIENTS if has_gradients(run) else 1
    iterations = -(-most_calls(run) // (n_chains * moves))
    tuning = min(tune, iterations * tune // (tune + n_draws))
    return tuning, iterations - tuning


def performance(replicates: int, calls: int = 100_000, chains: int = 4) -> float:
    """Return the root mean squared error of P(theta > 0) on the paper's mixture, everything counted."""
    target = tp.Target(problems.mixture().as_vector.log_density_numba)
    length = calls // chains
    errors = []
    for seed in range(replicates):
        options = {"initial": np.zeros(1), "chains": chains, "rng": seed, "progress": False}
        spent = tp.sample(target, tuning=tp.Tuning(length // 8), draws=64, **options).info.n_iterations - 64
        run = tp.sample(target, tuning=tp.Tuning(length // 8), draws=length - spent, **options)
        assert run.info.n_iterations * chains <= calls
        errors.append(run.expect(lambda x: x[..., 0] > 0).value - 0.4)
    return float(np.sqrt(np.mean(np.square(errors))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--only", default="", help="problems whose name holds this, or 'the bar'")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()
    print(f"{'problem':30s} {'ratio':>7s} {'tuned':>10s} {'paper':>10s} {'rungs':>6s}")
    for name in CASES:
        if options.only in name:
            row = compare(name, options.replicates)
            stored(options.json, row)
            print(
                f"{name:30s} {row['ratio']:7.3f} {row['tuned']:10.2e} {row['paper' + chr(39) + 's ladder']:10.2e} "
                f"{row['rungs']:6.1f}", flush=True,
            )  # fmt: skip
    if options.only in BAR:
        rmse = performance(5 * options.replicates)
        stored(options.json, rmse=rmse, replicates=5 * options.replicates)
        print(f"P(theta > 0), 1e5 calls, tuning included: root mean squared error {rmse:.4f} (bar 0.015)")
    print(f"{time.perf_counter() - started:.0f} s")


def stored(file: Path | None, row: dict[str, Any] | None = None, **facts: Any) -> None:
    """Put a row, in the place of an older one of its problem, or facts into the results: they fill up bit by bit."""
    if file is None:
        return
    known = json.loads(file.read_text()) if file.is_file() else {"ladders": []}
    if row is not None:
        rows = {old["problem"]: old for old in known["ladders"]} | {row["problem"]: row}
        known["ladders"] = [rows[name] for name in CASES if name in rows]
    file.write_text(json.dumps(known | facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
