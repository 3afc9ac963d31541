"""A path that keeps the modes' masses, against powering up: two modes in 25 dimensions, five in 10.

Given one random point in each mode's basin: error of the worst mass, and seconds, compilation included. Then
how often points scattered in a stated box find each mode: a narrow mode in many dimensions is not found by chance.

    python -m benchmarks.reference [--replicates 20] [--json FILE]
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tempering as tp
from tempering.learning.reference import fit_reference
from tempering.problems import GaussianMixture, five_modes, two_modes

BAR_ERROR, BAR_SECONDS = 0.02, 20.0
BOX, SCATTERED = (-12.0, 12.0), 100


def starts_of(problem: GaussianMixture, rng: np.random.Generator) -> list[np.ndarray]:
    """Return one exact draw of each mode: a point of its bulk, sqrt(d) deviations from the summit."""
    return list(problem.means + problem.sds * rng.standard_normal(problem.means.shape))


def worst_error(run: tp.TemperedDraws, problem: GaussianMixture) -> float:
    masses = run.expect(lambda x: 1.0 * (problem.mode_of(x)[..., None] == np.arange(problem.n_modes))).value
    return float(np.max(np.abs(masses - problem.weights)))


def with_reference(problem: GaussianMixture, seed: int) -> float:
    """Run as a user would, with every default."""
    starts = starts_of(problem, np.random.default_rng(seed))
    run = tp.sample(tp.Target(problem.log_density), initial=starts, path="reference", rng=seed, progress=False)
    return worst_error(run, problem)


def powered_up(problem: GaussianMixture, seed: int) -> float:
    starts = starts_of(problem, np.random.default_rng(seed))
    run = tp.sample(
        tp.Target(problem.log_density),
        initial=starts,
        ladder=tp.Ladder.geometric(20, 0.01),
        draws=8000,
        tuning=tp.Tuning(4000),
        chains=32,
        rng=seed,
        progress=False,
    )
    return worst_error(run, problem)


def timed(method: Callable[[GaussianMixture, int], float], problem: GaussianMixture, seed: int) -> tuple[float, ...]:
    """Return the error, the seconds on the clock and the processor's."""
    clock, processor = time.perf_counter(), time.process_time()
    error = method(problem, seed)
    return error, time.perf_counter() - clock, time.process_time() - processor


def found_in_box(problem: GaussianMixture, seed: int) -> np.ndarray:
    """Say which modes are found from points scattered in the box alone."""
    rng = np.random.default_rng(seed)
    start = rng.uniform(*BOX, size=problem.dimension)
    fitted = fit_reference(problem.log_density, start, box=BOX, scattered=SCATTERED, rng=rng)
    found = problem.mode_of(fitted.reference.means[:-1])
    return np.isin(np.arange(problem.n_modes), found)


def masses(name: str, problem: GaussianMixture, label: str, method: Any, replicates: int) -> dict[str, Any]:
    """Return one row: errors and times of one method over replicates."""
    error, clock, processor = np.array([timed(method, problem, seed) for seed in range(replicates)]).T
    return {
        "problem": name,
        "path": label,
        "runs": replicates,
        "runs within the bars": int(np.sum((error < BAR_ERROR) & (clock < BAR_SECONDS))),
        "error of the worst mass, median": float(np.median(error)),
        "largest": float(error.max()),
        "seconds, median": float(np.median(clock)),
        "largest ": float(clock.max()),
        "of the processor, median": float(np.median(processor)),
    }


def found(name: str, problem: GaussianMixture, replicates: int) -> list[dict[str, Any]]:
    """Return a row for each mode: how often it is found from points in the box alone."""
    shares = np.mean([found_in_box(problem, seed) for seed in range(replicates)], axis=0)
    sds, weights = problem.sds[:, 0], problem.weights
    return [
        {"problem": name, "sd": float(sd), "mass": float(mass), "found in": float(share)}
        for sd, mass, share in zip(sds, weights, shares, strict=True)
    ]


def main() -> int:
    """Print and store the tables; return how many runs from a reference missed the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows, modes = [], []
    for name, problem in (("two modes, d = 25", two_modes()), ("five modes, d = 10", five_modes())):
        for label, method, n in (("fitted", with_reference, options.replicates), ("powered up", powered_up, 3)):
            rows.append(masses(name, problem, label, method, n))
            print("; ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        modes += found(name, problem, options.replicates)
        print(f"found from {SCATTERED} points in [-12, 12]^d: {modes}", flush=True)
    if options.json:
        about = {
            "bars": f"every mass within {BAR_ERROR}, {BAR_SECONDS:.0f} s",
            "box": f"{SCATTERED} points in [-12, 12]^d",
        }
        options.json.write_text(json.dumps({"about": about, "masses": rows, "modes_found": modes}, indent=1))
    return sum(row["runs"] - row["runs within the bars"] for row in rows if row["path"] == "fitted")


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
