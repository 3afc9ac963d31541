"""A path that keeps the modes' masses, against powering up: two modes in 25 dimensions, five in 10.

Given one random point in each mode's basin: error of the worst mass, and seconds, compilation included. Then
how often points scattered in a stated box find each mode. ``python -m benchmarks.reference [replicates]``
"""

import sys
import time
from collections.abc import Callable

import numpy as np

import tempering as tp
from tempering.problems import GaussianMixture, five_modes, two_modes
from tempering.reference import along_reference, fit_reference

LADDER = tp.Ladder([1.0, 0.5, 0.0])
BAR_ERROR, BAR_SECONDS = 0.02, 20.0
BOX, SCATTERED = (-12.0, 12.0), 100


def starts_of(problem: GaussianMixture, rng: np.random.Generator) -> list[np.ndarray]:
    """Return one exact draw of each mode: a point of its bulk, sqrt(d) deviations from the summit."""
    return list(problem.means + problem.sds * rng.standard_normal(problem.means.shape))


def worst_error(run: tp.TemperedDraws, problem: GaussianMixture) -> float:
    masses = run.expect(lambda x: 1.0 * (problem.mode_of(x)[..., None] == np.arange(problem.n_modes))).value
    return float(np.max(np.abs(masses - problem.weights)))


def with_reference(problem: GaussianMixture, seed: int) -> float:
    rng = np.random.default_rng(seed)
    starts = starts_of(problem, rng)
    fitted = fit_reference(problem.log_density, starts, rng=rng)
    run = tp.sample(
        along_reference(tp.Target(problem.log_density), fitted.reference),
        initial=starts,
        ladder=LADDER,
        pseudo_prior=-fitted.log_normalisers(LADDER.inverse_temperatures),
        draws=4000,
        tune=320,
        chains=32,
        rng=seed,
        progress=False,
    )
    return worst_error(run, problem)


def powered_up(problem: GaussianMixture, seed: int) -> float:
    starts = starts_of(problem, np.random.default_rng(seed))
    run = tp.sample(
        tp.Target(problem.log_density),
        initial=starts,
        ladder=tp.Ladder.geometric(20, 0.01),
        draws=8000,
        tune=4000,
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


def main(replicates: int = 20) -> int:
    """Print the tables; return how many runs from a reference missed the bar."""
    missed = 0
    for name, problem in (("two modes, d = 25", two_modes()), ("five modes, d = 10", five_modes())):
        for label, method, n in (("reference", with_reference, replicates), ("powered up", powered_up, 3)):
            results = np.array([timed(method, problem, seed) for seed in range(n)])
            passed = np.sum((results[:, 0] < BAR_ERROR) & (results[:, 1] < BAR_SECONDS))
            print(
                f"{name:20s} {label:12s} worst mass off by: median {np.median(results[:, 0]):.4f}, largest "
                f"{results[:, 0].max():.4f}; seconds: median {np.median(results[:, 1]):.1f}, largest "
                f"{results[:, 1].max():.1f} (of the processor {np.median(results[:, 2]):.1f}); "
                f"within {BAR_ERROR} and {BAR_SECONDS:.0f} s: {passed} of {n}",
                flush=True,
            )
            missed += n - int(passed) if method is with_reference else 0
        found = np.mean([found_in_box(problem, seed) for seed in range(replicates)], axis=0)
        widths = problem.sds[:, 0]
        shares = ", ".join(f"sd {sd:g}: {share:.2f}" for sd, share in zip(widths, found, strict=True))
        print(f"{name:20s} found from {SCATTERED} points in [-12, 12]^d: {shares}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
