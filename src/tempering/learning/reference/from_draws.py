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

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.learning.reference.fitted import MISSED, FittedReference, judged, missed_share
from tempering.learning.reference.refit import (
    LEAST_WEIGHT,
    assemble,
    factors_of,
    fitted_to,
    refit_reference,
    with_distance,
)
from tempering.learning.reference.surface import Surface
from tempering.path.reference import Reference

ENOUGH_NATS = 0.025  # nearer the target, in Kullback and Leibler's sense, that more components must be
# components, tried one after the other; with the broad one they fill a power of two, as compiled code wants them
SIZES = (1, 4, 8, 15, 31, 63)
DRAWS_PER_ENTRY = 1  # of the draws that fit, for every entry of a component's mean and covariance
FIRST_FREEDOM = 8
STEPS = 12  # of EM for the components begun from clusters


@dataclass(frozen=True)
class Split:
    """Draws of which one half fits and the other, of other chains, judges what was fitted: neighbours are alike."""

    values: Floats
    log_weights: Floats
    n_across: int = 1  # dimensions that their last coordinate stands for (`Reference`)

    @classmethod
    def thinned(cls, values: Floats, log_weights: Floats, n: int, rng: np.random.Generator) -> Split:
        """Take at most about ``n`` of the draws for each half: a fit to more would take longer and be no better."""
        middle = len(values) // 2
        halves = [slice(0, middle), slice(middle, None)]
        rows, kept = zip(*(thinned(log_weights[half], n, rng) for half in halves), strict=True)
        least = min(map(len, rows))  # so that the halves stay what they are
        return cls(
            np.concatenate([values[half][row[:least]] for half, row in zip(halves, rows, strict=True)]),
            np.concatenate([log_w[:least] for log_w in kept]),
        )

    @property
    def half(self) -> int:
        """How many draws fit."""
        return len(self.values) // 2

    @property
    def fitting(self) -> tuple[Floats, Floats]:
        """Draws that fit, and their log weights."""
        return self.values[: self.half], self.log_weights[: self.half]

    @property
    def judging(self) -> tuple[Floats, Floats]:
        """Draws that judge, and their log weights."""
        return self.values[self.half :], self.log_weights[self.half :]

    def log_likelihood(self, reference: Reference) -> float:
        """Return the mean log density of the draws that judge: higher is nearer the target."""
        values, log_weights = self.judging
        return float(np.exp(log_weights - logsumexp(log_weights)) @ reference.log_density(values))


def thinned(log_weights: Floats, n: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Keep at most ``n`` draws and return which, with their new log weights: any sum keeps its mean.

    What weighs most stays as it is; of the rest some stay, all with one weight, by systematic sampling (Fearnhead and
    Clifford 2003, J. R. Stat. Soc. B 65, "optimal resampling").

    Examples
    --------
    >>> rows, log_weights = thinned(np.log([5.0, 1.0, 1.0, 1.0, 1.0]), 3, np.random.default_rng(1))
    >>> rows[0], len(rows), np.exp(log_weights).round(3).tolist()
    (np.int64(0), 3, [5.0, 2.0, 2.0])
    """
    largest = float(np.max(log_weights, initial=-np.inf))
    if largest == -np.inf:
        return np.empty(0, dtype=np.intp), np.empty(0)
    weights = np.exp(log_weights - largest)
    used = np.flatnonzero(weights >= np.finfo(float).tiny)  # what is e^708 times lighter than another counts as nothing
    if used.size <= n:
        return used, log_weights[used]
    weights = weights[used]
    falling = np.sort(weights)[::-1]
    rest = np.cumsum(falling[::-1])[::-1][:n]
    common = rest / (n - np.arange(n))  # the weight of those that are drawn, if so many are kept for sure
    cut = common[np.argmax(falling[:n] <= common)]
    ends = np.cumsum(np.minimum(weights / cut, 1.0)) + rng.random()
    taken = np.flatnonzero(np.diff(np.floor(ends), prepend=0.0) > 0)
    return used[taken], np.log(np.maximum(weights[taken], cut)) + largest


def fit_to_draws(
    log_density: Callable[[Any], Any],
    values: Floats,
    log_weights: Floats,
    *,
    modes: FittedReference | None = None,
    draws: int = 1000,
    rng: np.random.Generator | int | None = None,
) -> FittedReference:
    """Fit a reference to weighted draws, and to modes that they have missed.

    Parameters
    ----------
    log_density : callable
        As `fit_reference` takes it; only fresh draws of the reference are evaluated.
    values : ndarray, shape (draw, d)
        Chain after chain.
    log_weights : ndarray, shape (draw,)
        Log weight of every draw towards the target, up to a constant.
    modes : FittedReference, optional
        With components for modes known before, by climbing say: those whose summits the draws' fit misses are kept.
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
    generator, split = np.random.default_rng(rng), Split(values, log_weights)
    best = best_of_clusters(split, generator)
    surface = Surface(log_density, best.dimension)
    fitted = _judged(surface, best, best.n_components - 1, split, draws, generator)
    more = None if modes is None else _with_missed(surface, fitted, modes)
    if more is None:
        return fitted
    again = judged(surface, more, more.n_components - 1, 4 * draws, generator)
    return replace(again, missed=fitted.missed)


def _with_missed(surface: Surface, fitted: FittedReference, modes: FittedReference) -> Reference | None:
    """Add components for the modes whose summits a reference misses; None where it misses none."""
    reference, summits = fitted.reference, modes.reference.means[:-1]
    log_ratio = surface.values(summits) - reference.log_density(summits) - fitted.log_normaliser
    missing = np.flatnonzero(log_ratio > np.log(MISSED))
    if missing.size == 0:
        return None
    room = max(SIZES[-1] - missing.size, 0)
    kept = np.sort(np.argsort(-reference.weights[:-1], kind="stable")[:room])  # the lightest make way
    masses = np.maximum(modes.reference.weights[missing], LEAST_WEIGHT)
    return assemble(
        np.log(np.append(reference.weights[kept], masses)),
        np.concatenate([reference.means[kept], summits[missing]]),
        np.concatenate([reference.factors[kept], modes.reference.factors[missing]]),
        int(reference.degrees_of_freedom[0]),
    )


def _judged(
    surface: Surface, best: Reference, n_modes: int, split: Split, draws: int, rng: np.random.Generator
) -> FittedReference:
    """Refit to all draws what one half has led to, and judge that; ask the other half what the first has missed."""
    reference = refit_reference(best, split.values, split.log_weights)
    fitted = judged(surface, reference, n_modes, 4 * draws, rng)
    missed = missed_share(surface, replace(fitted, reference=best), *split.judging)
    return replace(fitted, missed=missed, n_calls=surface.n_calls)


def best_of_clusters(split: Split, rng: np.random.Generator) -> Reference:
    """Take more and more components as long as the draws that judge are better described."""
    n, d = split.fitting[0].shape
    most = int(n / (DRAWS_PER_ENTRY * d * (d + 3) / 2))
    best = _from_clusters(split, 1, rng)
    height = split.log_likelihood(best)
    for size in SIZES[1:]:
        if size > most:
            break
        candidate = _from_clusters(split, size, rng)
        gain = split.log_likelihood(candidate) - height
        if gain <= ENOUGH_NATS:
            break
        best, height = candidate, height + gain
    return best


def _from_clusters(split: Split, size: int, rng: np.random.Generator) -> Reference:
    """Begin a component from each cluster of the draws, and refit them together."""
    values, log_weights = split.fitting
    weights = np.exp(log_weights - logsumexp(log_weights))
    sample = values[rng.choice(len(weights), len(weights), p=weights)]
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
    within = np.array([_covariance(sample[label == c] - mean, spread) for c, mean in zip(kept, means, strict=True)])
    means, within = with_distance(means, within, split.n_across)
    factors = factors_of(within, split.n_across)
    reference = assemble(np.log(counts[kept]), means, factors, FIRST_FREEDOM, split.n_across)
    return fitted_to(reference, reference, values, weights, FIRST_FREEDOM, STEPS, held=values.shape[1])[0]


def _covariance(residual: Floats, spread: Floats) -> Floats:
    """Return a cluster's covariance, held up by a small part of that of all draws."""
    n, d = residual.shape
    trust = n / (n + 0.5 * d * (d + 1))
    covariance = trust * residual.T @ residual / n + 0.02 * (1.0 - trust) * np.diag(spread**2)
    return np.asarray(covariance + 1e-9 * np.diag(spread**2))


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
