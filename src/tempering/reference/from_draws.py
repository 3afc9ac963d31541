"""Fit a reference to the weighted draws of a tempered run, with as many components as they speak for.

Climbing finds modes; draws tell their shapes. A bent or skewed mode is followed by several components, begun from
clusters of the draws. One half of the draws fits, the other half judges, and fresh draws of the reference have the
last word.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.special import logsumexp

from tempering.errors import EstimatorError
from tempering.reference.fitted import GOOD_PARETO_K, FittedReference, judged
from tempering.reference.mixture import Reference
from tempering.reference.refit import assemble, fitted_to, refit_reference
from tempering.reference.surface import Surface

Floats = NDArray[np.float64]

ENOUGH_NATS = 0.05  # nearer the target, in Kullback and Leibler's sense, that a fit to draws must be
SIZES = (1, 4, 8, 16, 32, 64)  # components, tried one after the other
DRAWS_PER_ENTRY = 3  # of the draws that fit, for every entry of a component's mean and covariance
FIRST_FREEDOM = 8
STEPS = 12  # of EM for the components begun from clusters


@dataclass(frozen=True)
class _Split:
    """Draws that fit, and draws of other chains that judge what was fitted."""

    values: Floats
    log_weights: Floats
    other_values: Floats
    other_weights: Floats  # summing to one

    @classmethod
    def of(cls, values: Floats, log_weights: Floats) -> _Split:
        half = len(values) // 2  # neighbours are alike: they must not judge each other
        other = np.exp(log_weights[half:] - logsumexp(log_weights[half:]))
        return cls(values[:half], log_weights[:half], values[half:], other)

    def log_likelihood(self, reference: Reference) -> float:
        """Return the mean log density of the draws that judge: higher is nearer the target."""
        return float(self.other_weights @ reference.log_density(self.other_values))


def fit_to_draws(
    log_density: Callable[[Any], Any],
    values: Floats,
    log_weights: Floats,
    *,
    draws: int = 1000,
    rng: np.random.Generator | int | None = None,
) -> FittedReference:
    """Fit a reference to weighted draws alone.

    Parameters
    ----------
    log_density : callable
        As `fit_reference` takes it; only fresh draws of the reference are evaluated.
    values : ndarray, shape (draw, d)
        Chain after chain.
    log_weights : ndarray, shape (draw,)
        Log weight of every draw towards the target, up to a constant.
    draws : int
        A quarter of those that judge the fit.
    rng : int, Generator or None

    Returns
    -------
    FittedReference
        Its masses are those of the components.

    Examples
    --------
    >>> from tempering.problems import Banana
    >>> values = Banana().sample(np.random.default_rng(1), 4000)
    >>> fitted = fit_to_draws(Banana().log_density, values, np.zeros(4000), rng=1)
    >>> fitted.ess_fraction > 0.6
    True
    """
    generator = np.random.default_rng(rng)
    reference = refit_reference(_best_of_clusters(_Split.of(values, log_weights), generator), values, log_weights)
    surface = Surface(log_density, values.shape[1])
    return judged(surface, reference, reference.n_components - 1, 4 * draws, generator)


def improved_reference(
    log_density: Callable[[Any], Any],
    fitted: FittedReference,
    values: Floats,
    log_weights: Floats,
    *,
    draws: int = 1000,
    rng: np.random.Generator | int | None = None,
) -> FittedReference:
    """Refit a reference to the weighted draws of a tuning round, or replace it by one fitted to them alone.

    Chains have been where the reference never draws from. What is returned is the old fit unless fresh draws confirm
    that the new one is better.

    Parameters
    ----------
    log_density : callable
        As `fit_reference` takes it.
    fitted : FittedReference
    values : ndarray, shape (draw, d)
    log_weights : ndarray, shape (draw,)
        Log weight of every draw towards the target, up to a constant.
    draws : int
        A quarter of those that judge the new fit.
    rng : int, Generator or None
    """
    generator, old = np.random.default_rng(rng), fitted.reference
    split = _Split.of(values, log_weights)
    candidates = [refit_reference(old, split.values, split.log_weights), _best_of_clusters(split, generator)]
    best = max(candidates, key=split.log_likelihood)
    surface = Surface(log_density, old.dimension)
    if split.log_likelihood(best) - split.log_likelihood(old) < ENOUGH_NATS:
        return replace(fitted, n_calls=surface.n_calls)
    n_modes = fitted.n_modes if best is candidates[0] else best.n_components - 1
    new = judged(surface, best, n_modes, 4 * draws, generator)
    is_better = new.ess_fraction > fitted.ess_fraction and new.pareto_k < GOOD_PARETO_K
    return new if is_better else replace(fitted, n_calls=surface.n_calls)


def _best_of_clusters(split: _Split, rng: np.random.Generator) -> Reference:
    """Take more and more components as long as the draws that judge are better described."""
    n, d = split.values.shape
    most = max(1, int(n / (DRAWS_PER_ENTRY * d * (d + 3) / 2)))
    best = _from_clusters(split, 1, rng)
    height = split.log_likelihood(best)
    for size in SIZES[1:]:
        if size > most:
            break
        candidate = _from_clusters(split, size, rng)
        gain = split.log_likelihood(candidate) - height
        if gain <= ENOUGH_NATS / 2:
            break
        best, height = candidate, height + gain
    return best


def _from_clusters(split: _Split, size: int, rng: np.random.Generator) -> Reference:
    """Begin a component from each cluster of the draws, and refit them together."""
    weights = np.exp(split.log_weights - logsumexp(split.log_weights))
    sample = split.values[rng.choice(len(weights), len(weights), p=weights)]
    spread = np.std(sample, axis=0)
    if not np.all(spread > 0):
        raise EstimatorError(
            "A reference can be fitted to draws that differ in every coordinate, but in coordinate "
            f"{int(np.argmin(spread))} they do not. Run longer."
        )
    label = _clusters(sample / spread, size, rng)
    counts = np.bincount(label, minlength=size)
    kept = np.flatnonzero(counts > 0)
    means = np.array([sample[label == c].mean(axis=0) for c in kept])
    factors = np.array([_factor(sample[label == c] - mean, spread) for c, mean in zip(kept, means, strict=True)])
    reference = assemble(np.log(counts[kept]), means, factors, FIRST_FREEDOM)
    return fitted_to(reference, reference, split.values, weights, FIRST_FREEDOM, STEPS)


def _factor(residual: Floats, spread: Floats) -> Floats:
    """Return a Cholesky factor of a cluster's covariance, held up by a small part of that of all draws."""
    n, d = residual.shape
    trust = n / (n + 0.5 * d * (d + 1))
    covariance = trust * residual.T @ residual / n + 0.1 * (1.0 - trust) * np.diag(spread**2)
    return np.linalg.cholesky(covariance + 1e-9 * np.diag(spread**2))


def _clusters(values: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the cluster of every draw: k-means from centres that keep away from each other."""
    centres = values[rng.integers(len(values), size=1)]
    distance = np.full(len(values), np.inf)
    while len(centres) < size:
        distance = np.minimum(distance, np.sum((values - centres[-1]) ** 2, axis=1))
        if distance.sum() == 0:
            break  # fewer places than clusters
        centres = np.vstack([centres, values[rng.choice(len(values), p=distance / distance.sum())]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster is left out by the caller
        return np.asarray(kmeans2(values, centres, minit="matrix")[1], dtype=np.int64)
