"""Compute the log evidence of the Cox processes of the suite: ``python -m benchmarks.suite_truths``.

Annealed SMC from Laplace's approximation, in coordinates that make it a standard normal: pi_k = N(0, I)^(1 - k) pi^k,
temperatures chosen so that nine tenths of the weights remain effective, Langevin moves tuned by their acceptance.
Independent runs give the error. No part of the package's samplers is used.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from tempering.problems.cox_process import FieldPrior, _made_up_points, counts_on

EFFECTIVE, MOVES, ACCEPTED = 0.9, 4, 0.6


def laplace(grid: int, counts: Any) -> tuple[Any, Any, float]:
    """Return the mode, a factor L of the inverse curvature there, and log |L|; by Newton's method."""
    prior = FieldPrior(grid)
    covariance = prior.tril @ prior.tril.T
    field, area = np.full(grid**2, prior.mean), 1 / grid**2
    for _ in range(60):
        rate = area * np.exp(field)
        half = np.sqrt(rate)
        inner = np.eye(len(field)) + half[:, None] * covariance * half
        shift = rate * (field - prior.mean) + counts - rate
        solved = shift - half * np.linalg.solve(inner, half * (covariance @ shift))
        field = prior.mean + covariance @ solved
    half = np.sqrt(area * np.exp(field))
    inner = np.linalg.solve(np.eye(len(field)) + half[:, None] * covariance * half, half[:, None] * covariance)
    tril = np.linalg.cholesky(covariance - covariance @ (half[:, None] * inner))
    return field, tril, float(np.sum(np.log(np.diag(tril))))


def surface(grid: int) -> Callable[[Any], tuple[Any, Any]]:
    """Return log pi(z) with its gradient, z in coordinates where Laplace's approximation is a standard normal."""
    counts, prior, area = counts_on(_made_up_points(), grid), FieldPrior(grid), 1 / grid**2
    mode, tril, log_volume = laplace(grid, counts)
    white = np.linalg.inv(prior.tril)
    to_white = white @ tril
    offset = white @ (mode - prior.mean)
    height = log_volume - float(np.sum(np.log(np.diag(prior.tril)))) - 0.5 * grid**2 * np.log(2 * np.pi)

    def log_density(z: Any) -> tuple[Any, Any]:
        field = mode + z @ tril.T
        rate, residual = area * np.exp(field), offset + z @ to_white.T
        value = height - 0.5 * np.sum(residual**2, axis=1) + field @ counts - rate.sum(axis=1)
        return value, (counts - rate) @ tril - residual @ to_white

    return log_density


def one_run(log_density: Any, dimension: int, n: int, rng: np.random.Generator) -> tuple[float, int]:
    """Return log evidence and the number of temperatures."""
    z = rng.standard_normal((n, dimension))
    value, gradient = log_density(z)
    k, log_z, step, n_steps = 0.0, 0.0, 1.0 / dimension ** (1 / 3), 0
    while k < 1:
        gap = value + 0.5 * np.sum(z**2, axis=1) + 0.5 * dimension * np.log(2 * np.pi)

        def excess(more: float, gap: Any = gap) -> float:
            return float(np.exp(2 * logsumexp(more * gap) - logsumexp(2 * more * gap)) / n - EFFECTIVE)

        more = 1 - k if excess(1 - k) >= 0 else float(brentq(excess, 0.0, 1 - k))
        log_w = more * gap
        log_z += float(logsumexp(log_w) - np.log(n))
        k, n_steps = min(1.0, k + more), n_steps + 1
        weights = np.exp(log_w - logsumexp(log_w))
        chosen = np.searchsorted(np.cumsum(weights), (np.arange(n) + rng.random()) / n).clip(max=n - 1)
        z, value, gradient = z[chosen], value[chosen], gradient[chosen]
        for _ in range(MOVES):
            z, value, gradient, accepted = _move(log_density, (z, value, gradient), k, step, rng)
            step *= float(np.exp(0.5 * (accepted - ACCEPTED)))
    return log_z, n_steps


def _move(log_density: Any, at: Any, k: float, step: float, rng: np.random.Generator) -> Any:
    """Make one Langevin move of every particle under N(0, I)^(1 - k) pi^k."""
    z, value, gradient = at

    def tempered(z: Any, value: Any, gradient: Any) -> tuple[Any, Any]:
        return k * value - 0.5 * (1 - k) * np.sum(z**2, axis=1), k * gradient - (1 - k) * z

    log_here, slope_here = tempered(z, value, gradient)
    new = z + 0.5 * step**2 * slope_here + step * rng.standard_normal(z.shape)
    new_value, new_gradient = log_density(new)
    log_there, slope_there = tempered(new, new_value, new_gradient)
    forth = np.sum((new - z - 0.5 * step**2 * slope_here) ** 2, axis=1)
    back = np.sum((z - new - 0.5 * step**2 * slope_there) ** 2, axis=1)
    log_ratio = log_there - log_here + 0.5 * (forth - back) / step**2
    accepted = -rng.standard_exponential(len(z)) <= log_ratio
    keep = accepted[:, None]
    return (
        np.where(keep, new, z), np.where(accepted, new_value, value), np.where(keep, new_gradient, gradient),
        float(accepted.mean()),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite_truths", description=__doc__)
    parser.add_argument("--grids", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--particles", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    for grid in options.grids:
        log_density, found = surface(grid), []
        for rng in np.random.default_rng(grid).spawn(options.runs):
            log_z, n_steps = one_run(log_density, grid**2, options.particles, rng)
            found.append(log_z)
            print(f"{grid} x {grid}: {log_z:.4f} by {n_steps} temperatures", flush=True)
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        print(f"{grid} x {grid}: {np.mean(found):.4f} +- {error:.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
