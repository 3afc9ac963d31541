"""Which rule should be the default? All rules over all problems, on independent draws and on correlated chains.

For every case: mean squared error relative to the cold rung alone, and how often nominal 95 % intervals cover.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tempering as tp
from tempering import problems
from tempering.estimators import RULES, combine
from tempering.execution.workers import processes_or_none


def gaussian(dimension: int) -> problems.GaussianMixture:
    """Return the standard normal."""
    return problems.GaussianMixture(np.ones(1), np.zeros((1, dimension)), np.ones(1))


LADDER = tp.Ladder.geometric(40, 0.1)
MANY = 20  # dimensions: gradients are used from there on
PER_RUNG = 250  # independent draws
COLUMNS = 3  # coordinates looked at, besides |x|^2
CASES: dict[str, Callable[[], Any]] = {
    **{f"Gaussian, d = {d}": partial(gaussian, d) for d in (1, 5, 20, 50, 100)},
    "skewed, d = 5": lambda: problems.skewed(5),
    "skewed, d = 20": lambda: problems.skewed(20),
    "mixture": lambda: problems.mixture().as_vector,
    "ring": problems.ring,
    "banana": problems.Banana,
    "two modes, d = 5": lambda: problems.two_modes(5),
    "Gaussian likelihood, d = 3": lambda: problems.likelihood_gaussian(3),
}  # fmt: skip


def quantities(x: Any) -> Any:
    """Return a few coordinates and |x|^2, last axis."""
    return np.concatenate([x[..., :COLUMNS], np.sum(x**2, axis=-1, keepdims=True)], axis=-1)


def truth_of(problem: Any) -> tuple[Any, Any]:
    """Return the expectations of the quantities, and the scales to judge errors by."""
    mean, covariance = np.atleast_1d(problem.mean), np.atleast_2d(problem.covariance)
    variance = np.diag(covariance)
    square = np.sum(mean**2 + variance)
    truth = np.append(mean[:COLUMNS], square)
    return truth, np.append(np.sqrt(variance[:COLUMNS]), square)


def independent(problem: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Draw exactly from every rung: positions, energies, rungs."""
    x = np.concatenate([problem.sample(rng, PER_RUNG, k).reshape(PER_RUNG, -1) for k in LADDER])
    order = rng.permutation(len(x))  # rungs as a fast chain would visit them
    return x[order], _log_energy(problem, x[order]), np.repeat(np.arange(len(LADDER)), PER_RUNG)[order]


def correlated(problem: Any, seed: int) -> tuple[Any, Any, Any]:
    """Run simulated tempering: positions, energies, rungs, with a leading axis of chains."""
    many = problem.dimension >= MANY  # random walks would hardly leave their rungs
    target = tp.Target(problem.log_density) if many else _target(problem)
    run = tp.sample(
        target,
        initial=problem.initial,
        ladder=LADDER,
        chains=4,
        tuning=tp.Tuning(2500),
        draws=5000,
        rng=seed,
        progress=False,
    )
    return run.values["x"], run.energy, run.rung


def _target(problem: Any) -> tp.Target:
    if isinstance(problem, problems.GaussianLikelihood):
        return tp.Target.from_likelihood(problem.log_likelihood_numba, problem.log_prior_numba)
    return tp.Target(problem.log_density_numba)


def _log_energy(problem: Any, x: Any) -> Any:
    energy = problem.log_likelihood if isinstance(problem, problems.GaussianLikelihood) else problem.log_density
    return np.asarray(energy(x)).reshape(len(x))


KINDS: dict[str, Callable[[Any, int], tuple[Any, Any, Any]]] = {
    "independent": lambda problem, i: independent(problem, np.random.default_rng([7, i])),
    "chains": correlated,
}


def judge(kind: str, name: str, replicates: int) -> list[dict[str, Any]]:
    """Combine the draws of every replicate by every rule; return one row a rule. This is what workers do."""
    warnings.simplefilter("ignore")
    problem, draws = CASES[name](), KINDS[kind]
    truth, scale = truth_of(problem)
    error = {rule: np.full((replicates, truth.size), np.nan) for rule in RULES}
    covers = {rule: np.zeros((replicates, truth.size), dtype=bool) for rule in RULES}
    for i in range(replicates):
        x, energy, rung = draws(problem, i)
        for rule in RULES:
            got = combine(
                quantities(x), None, rung, rule, energy=energy, inverse_temperatures=LADDER.inverse_temperatures
            )
            error[rule][i] = (got.estimate - truth) / scale
            covers[rule][i] = np.abs(got.estimate - truth) < 1.96 * got.standard_error
    cold = np.mean(error["cold_only"] ** 2)
    return [
        {"draws": kind, "case": name, "rule": rule, "relative mse": float(np.mean(error[rule] ** 2) / cold),
         "coverage": float(np.mean(covers[rule]))}
        for rule in RULES
    ]  # fmt: skip


def table(rows: list[dict[str, Any]], kind: str) -> list[dict[str, str]]:
    """Return one line a case, one column a rule: relative error, and coverage in brackets."""
    cases = dict.fromkeys(row["case"] for row in rows if row["draws"] == kind)
    return [
        {"case": case} | {
            row["rule"]: f"{row['relative mse']:.3g} ({row['coverage']:.2f})"
            for row in rows if row["case"] == case and row["draws"] == kind
        }
        for case in cases
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--workers", type=int, help="share the cases out to so many processes; the figures are the same"
    )
    options = parser.parse_args()
    from benchmarks.default_rule import judge as by_name  # workers can import it, however this was started

    jobs = [(kind, name, options.replicates) for kind in KINDS for name in CASES if options.only in name]
    rows = []
    with processes_or_none(options.workers) as pool:
        results = (map if pool is None else pool.map)(by_name, *zip(*jobs, strict=True))
        for kind, found in zip((job[0] for job in jobs), results, strict=True):
            if not rows or rows[-1]["draws"] != kind:
                print(f"{kind}: mean squared error, cold rung alone = 1 (coverage of 95 % intervals)")
                print(f"{'':28s}" + "".join(f"{rule[:12]:>16s}" for rule in RULES))
            rows += found
            cells = (f"{row['relative mse']:8.3g} ({row['coverage']:.2f})" for row in found)
            print(f"{found[0]['case']:28s}" + "".join(f"{cell:>16s}" for cell in cells), flush=True)
    worst = {rule: max(row["relative mse"] for row in rows if row["rule"] == rule) for rule in RULES}
    ordered = sorted(worst.items(), key=lambda pair: pair[1])
    print("worst case: " + ", ".join(f"{rule} {value:.3g}" for rule, value in ordered))
    if options.json:
        smallest = f"the smallest worst case has {ordered[0][0]}, {ordered[0][1]:.3g} of the cold rung's error"
        stored = {"replicates": options.replicates, "worst": smallest} | {kind: table(rows, kind) for kind in KINDS}
        options.json.write_text(json.dumps(stored, indent=1))


if __name__ == "__main__":
    main()
