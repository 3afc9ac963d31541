"""The second method: Gibbs steps on allocations, and random relabelling. NumPy alone, nothing of the package."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.posteriordb.models import Form

STEPS = 3  # of a random walk on each log deviation, between sweeps


class Components(NamedTuple):
    """What a sweep changes."""

    means: Any
    sds: Any
    weights: Any


def start(form: Form, y: Any, rng: np.random.Generator) -> Components:
    """Return components spread over the data at random."""
    k = form.n_components
    sds = np.ones(k) if form.sds == "one" else np.full(k, min(2.0, y.std()))
    return Components(rng.choice(y, k), sds, np.full(k, 1 / k))


def sweep(form: Form, y: Any, at: Components, rng: np.random.Generator) -> Components:
    """Draw allocations, weights and means from their conditionals, move the deviations, and relabel at random."""
    k = form.n_components
    z = (y[:, None] - at.means) / at.sds
    log_p = np.log(at.weights) - np.log(at.sds) - 0.5 * z * z
    gumbel = -np.log(rng.standard_exponential(log_p.shape))
    owner = np.argmax(log_p + gumbel, axis=1)
    counts = np.bincount(owner, minlength=k)
    sums = np.bincount(owner, y, minlength=k)
    weights = rng.dirichlet(form.concentration + counts)
    precision = counts / at.sds**2 + 1 / form.mean_sd**2
    means = sums / at.sds**2 / precision + rng.standard_normal(k) / np.sqrt(precision)
    squares = np.bincount(owner, (y - means[owner]) ** 2, minlength=k)
    sds = at.sds if form.sds == "one" else _moved(form, at.sds, counts, squares, rng)
    order = rng.permutation(k)
    return Components(means[order], sds[order], weights[order])


def _moved(form: Form, sds: Any, counts: Any, squares: Any, rng: np.random.Generator) -> Any:
    """Make a few Metropolis steps on each log deviation; wide ones where a component is empty."""
    width = np.where(counts > 2, 1.5 / np.sqrt(np.maximum(counts, 1)), 1.5)
    for _ in range(STEPS):
        proposed = sds * np.exp(width * rng.standard_normal(len(sds)))
        log_ratio = _log_sd(form, proposed, counts, squares) - _log_sd(form, sds, counts, squares)
        sds = np.where(-rng.standard_exponential(len(sds)) <= log_ratio, proposed, sds)
    return sds


def _log_sd(form: Form, sds: Any, counts: Any, squares: Any) -> Any:
    """Return the log conditional density of each log deviation."""
    log_prior = -0.5 * (sds / 2.0) ** 2 if form.sds == "half-normal" else np.where(sds < 10.0, 0.0, -np.inf)
    return log_prior + (1 - counts) * np.log(sds) - 0.5 * squares / sds**2


def chain(form: Form, y: Any, n: int, thin: int, rng: np.random.Generator) -> Components:
    """Return ``n`` draws, every ``thin``-th, after a tenth as many sweeps of burn-in; arrays of shape (n, k)."""
    at, kept = start(form, y, rng), []
    for nth in range(-n * thin // 10, n * thin):
        at = sweep(form, y, at, rng)
        if nth >= 0 and nth % thin == 0:
            kept.append(at)
    return Components(*(np.array(part) for part in zip(*kept, strict=True)))
