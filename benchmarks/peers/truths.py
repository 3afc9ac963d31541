"""Compute the truth of the posteriors on data by two methods, and store it: ``python -m benchmarks.peers.truths``.

First: where one mode makes it easy, importance sampling from a fitted reference; else a long run of simulated
tempering. Second: tempered SMC from the prior, populations whose spread gives their error. The first is stored, with
the second and the largest difference beside it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

import tempering as tp
from tempering import problems
from tempering.learning.reference import fit_reference

STORE = Path(__file__).parents[2] / "src" / "tempering" / "data" / "posterior_truths.json"
PROBLEMS = {
    "label_switching": problems.label_switching(),
    "sensors": problems.sensors(),
    "logistic": problems.logistic(),
}
DRAWS = {"label_switching": 100_000, "sensors": 200_000, "logistic": 1_000_000}
BATCH, LEAST_ERROR, SEED = 2_000, 1e-6, 2026


def statistics_of(problem: Any, x: Any) -> Any:
    """Return indicators of modes, and summaries with their squares."""
    values = problem.summaries(x)
    indicators = problem.mode_of(x)[:, None] == np.arange(problem.n_modes)
    return np.hstack([indicators, values, values**2])


def by_importance(problem: Any, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return log evidence and statistics with standard errors, from independent draws of a fitted reference."""
    fitted = fit_reference(problem.log_density, problem.initial, rng=rng)
    print(fitted, flush=True)
    with jax.enable_x64(True):
        density = jax.jit(jax.vmap(lambda x: problem.log_density(x) - fitted.reference.log_density(x)))
        draw = jax.jit(jax.vmap(fitted.reference.sample))
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), n)
        draws = np.concatenate([np.asarray(draw(keys[i : i + BATCH])) for i in range(0, n, BATCH)])
        log_w = np.concatenate([np.asarray(density(jnp.asarray(draws[i : i + BATCH]))) for i in range(0, n, BATCH)])
    weights = np.exp(log_w - logsumexp(log_w))
    statistics = statistics_of(problem, draws)
    mean = weights @ statistics
    error = np.sqrt(np.sum((weights[:, None] * (statistics - mean)) ** 2, axis=0))
    relative = np.exp(log_w - log_w.max())
    return {
        "log_evidence": float(logsumexp(log_w) - np.log(n)),
        "log_evidence_error": float(relative.std() / relative.mean() / np.sqrt(n)),
        "statistics": mean,
        "errors": error,
    }


def target_of(problem: Any) -> tp.Target:
    """Return the posterior with its prior apart."""

    def sample_prior(key: Any) -> Any:
        return problem.prior.mean + problem.prior.sd * jax.random.normal(key, (problem.prior.dimension,))

    return tp.Target.from_likelihood(problem.log_likelihood, problem.log_prior, sample_prior)


def population(problem: Any, draws: int, seed: int) -> tp.TemperedDraws:
    """Carry eight populations from the prior to the posterior."""
    return tp.sample(target_of(problem), method="sequential", draws=draws, rng=seed, progress=False)


def flat_values(run: tp.TemperedDraws) -> Any:
    """Return all draws, shape (n, dimension)."""
    values = next(iter(run.values.values())) if isinstance(run.values, dict) else run.values
    return np.asarray(values).reshape(-1, values.shape[-1])


def by_tempering(problem: Any, draws: int, seed: int) -> dict[str, Any]:
    """Return the same from a long run, by moves along gradients wherever its path leads."""
    run = tp.sample(target_of(problem), kernel=tp.kernels.Hamiltonian(), draws=draws, rng=seed, progress=False)
    found = run.expect(lambda x: statistics_of(problem, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1))
    evidence = run.log_evidence()
    return {
        "log_evidence": float(evidence.value),
        "log_evidence_error": float(evidence.standard_error),
        "statistics": np.asarray(found.value),
        "errors": np.asarray(found.standard_error),
    }


def by_populations(problem: Any, draws: int, seeds: range) -> dict[str, Any]:
    """Return the same from independent runs of tempered SMC, with the errors that their spread shows."""
    found = [population(problem, draws, seed) for seed in seeds]
    rows = [run.weights().reshape(-1) @ statistics_of(problem, flat_values(run)) for run in found]
    evidences = [run.log_evidence().value for run in found]
    n = np.sqrt(len(seeds))
    return {
        "log_evidence": float(np.mean(evidences)),
        "log_evidence_error": float(np.std(evidences, ddof=1) / n),
        "statistics": np.mean(rows, axis=0),
        "errors": np.std(rows, axis=0, ddof=1) / n,
    }


def stored_form(problem: Any, found: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return what `tempering.problems.posterior.Truth` reads, and the second method beside it."""
    m, s = problem.n_modes, (len(found["statistics"]) - problem.n_modes) // 2
    masses, mean = found["statistics"][:m], found["statistics"][m : m + s]
    is_symmetric = isinstance(problem, problems.LabelSwitching)
    form: dict[str, Any] = {
        "log_evidence": found["log_evidence"],
        "log_evidence_error": found["log_evidence_error"],
        "mode_masses": (np.full(m, 1 / m) if is_symmetric else masses).tolist(),
        "mode_masses_error": (np.zeros(m) if is_symmetric else found["errors"][:m]).tolist(),
        "mean": mean.tolist(),
        "mean_error": found["errors"][m : m + s].tolist(),
        "sd": np.sqrt(found["statistics"][m + s :] - mean**2).tolist(),
    }
    z = (second["statistics"] - found["statistics"]) / (np.hypot(found["errors"], second["errors"]) + LEAST_ERROR)
    z_evidence = second["log_evidence"] - found["log_evidence"]
    z_evidence /= float(np.hypot(found["log_evidence_error"], second["log_evidence_error"]))
    form["second_method"] = {
        "what": "tempered SMC from the prior",
        "log_evidence": second["log_evidence"],
        "log_evidence_error": second["log_evidence_error"],
        "mode_masses": second["statistics"][:m].tolist(),
        "mean": second["statistics"][m : m + s].tolist(),
        "mean_error": second["errors"][m : m + s].tolist(),
        "largest_z": float(max(np.max(np.abs(z)), abs(z_evidence))),
    }
    return form


def first_method(problem: Any, draws: int) -> dict[str, Any]:
    """Return the truth that is stored."""
    if problem.n_modes == 1:
        return by_importance(problem, draws, np.random.default_rng(SEED))
    return by_tempering(problem, draws, SEED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.truths", description=__doc__)
    parser.add_argument("--only", choices=list(PROBLEMS))
    parser.add_argument("--draws", type=int, help="of a reference, or of each of 32 chains")
    parser.add_argument("--populations", type=int, default=16, help="runs of the second method")
    parser.add_argument("--particles", type=int, default=2_000, help="of each of eight populations of such a run")
    options = parser.parse_args()
    for name in [options.only] if options.only else list(PROBLEMS):
        problem = PROBLEMS[name]
        found = first_method(problem, options.draws or DRAWS[name])
        second = by_populations(problem, options.particles, range(options.populations))
        store = json.loads(STORE.read_text()) if STORE.is_file() else {}
        STORE.write_text(json.dumps(store | {name: stored_form(problem, found, second)}, indent=1) + "\n")
        print(name, json.dumps(stored_form(problem, found, second), indent=1), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
