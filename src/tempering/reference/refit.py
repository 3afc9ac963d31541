"""Refit a reference to weighted draws: the population Monte Carlo step (Cappe et al. 2008, Stat. Comput. 18).

It is the EM algorithm of a mixture of t distributions with importance weights on the draws, and lowers the
Kullback-Leibler divergence from the target to q. The last component, the broad one, is not fitted but spread
over the others, so that a mode not yet found can still be entered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.reference.mixture import Reference

Floats = NDArray[np.float64]

BROAD_WEIGHT = 0.05  # what the broad component costs: 5 % of the draws, and of the effective sample size
BROAD_FREEDOM = 5  # heavy tails whose mean energy is still finite: tuning integrates it
BROAD_SCALE = 3.0  # times the spread of all modes together
LEAST_WEIGHT = 0.01  # shared by the modes: even one that seems to weigh nothing is drawn now and then
FREEDOMS = (1, 3, 5, 8, 16)  # to choose from; a Gaussian in 25 dimensions: ESS .43 (3) to .79 (16)
ITERATIONS = 8  # of EM on one set of draws
FEW = 3  # with other degrees of freedom, from where those have led
COUNTS = 1e-9  # of the largest weight: a draw that weighs less in a component is passed over


def assemble(log_masses: Floats, means: Floats, factors: Floats, freedom: int) -> Reference:
    """Make a reference of fitted components, and a broad one over them all."""
    shares = np.exp(log_masses - logsumexp(log_masses))
    shares = (1.0 - LEAST_WEIGHT) * shares + LEAST_WEIGHT / len(shares)
    weights = np.append((1.0 - BROAD_WEIGHT) * shares, BROAD_WEIGHT)
    centre = means.mean(axis=0)  # every mode counts the same: which of them are heavy may not be known yet
    between = means - centre
    spread = (factors @ factors.transpose(0, 2, 1)).mean(axis=0) + between.T @ between / len(means)
    broad = np.linalg.cholesky(BROAD_SCALE**2 * spread)
    return Reference(
        weights / weights.sum(),
        np.vstack([means, centre]),
        np.concatenate([factors, broad[None]]),
        np.append(np.full(len(means), freedom), BROAD_FREEDOM),
    )


def split_reference(reference: Reference) -> Reference:
    """Put three components in the place of each, along its longest axis, with the same mean and covariance.

    Refitted, they can follow what one cannot: a bend, a skew, a long tail on one side.
    """
    weights, means, factors = [], [], []
    for weight, mean, factor in zip(reference.weights[:-1], reference.means[:-1], reference.factors[:-1], strict=True):
        covariance = factor @ factor.T
        variances, axes = np.linalg.eigh(covariance)
        step = np.sqrt(1.2 * variances[-1]) * axes[:, -1]  # 2/3 of 1.2 between them, 1/5 within: 1 in all
        within = np.linalg.cholesky(covariance - 0.8 * variances[-1] * np.outer(axes[:, -1], axes[:, -1]))
        weights += [weight / 3.0] * 3
        means += [mean - step, mean, mean + step]
        factors += [within] * 3
    freedom = int(reference.degrees_of_freedom[0])
    return assemble(np.log(weights), np.array(means), np.array(factors), freedom)


def refit_reference(reference: Reference, values: Floats, log_weights: Floats) -> Reference:
    """Refit all but the broad component to weighted draws, and the degrees of freedom with them.

    Parameters
    ----------
    reference : Reference
        A fitted one: its last component is the broad one.
    values : ndarray, shape (draw, d)
        Draws of whatever distributions, for example of every rung.
    log_weights : ndarray, shape (draw,)
        Log weight of each draw towards the target, up to a constant.

    Returns
    -------
    Reference
        With the degrees of freedom under which the weighted draws are most likely.
    """
    used = log_weights > -np.inf
    values, weights = values[used], np.exp(log_weights[used] - logsumexp(log_weights[used]))
    freedom = int(reference.degrees_of_freedom[0])
    best = fitted_to(reference, reference, values, weights, freedom, ITERATIONS)
    height = float(weights @ best.log_density(values))
    for others in _both_ways(freedom):
        for nu in others:
            fit = fitted_to(best, reference, values, weights, nu, FEW)
            found = float(weights @ fit.log_density(values))
            if found <= height:
                break
            best, height = fit, found
    return best


def _both_ways(freedom: int) -> tuple[list[int], list[int]]:
    """Return the degrees of freedom to choose from above and below, the nearest first."""
    return [nu for nu in FREEDOMS if nu > freedom], [nu for nu in reversed(FREEDOMS) if nu < freedom]


def fitted_to(
    reference: Reference, start: Reference, values: Floats, weights: Floats, freedom: int, iterations: int
) -> Reference:
    """Take steps of EM on draws whose weights sum to one, held near ``start`` where few speak for a component."""
    for _ in range(iterations):
        reference = _em_step(reference, start, values, weights, freedom)
    return reference


def _em_step(reference: Reference, start: Reference, values: Floats, weights: Floats, freedom: int) -> Reference:
    """Take one step of EM, held near the start where few draws speak for a component."""
    n_modes = reference.n_components - 1
    distance = reference.squared_distances(values)
    log_parts = reference.log_parts_at(distance)
    responsibility = np.exp(log_parts - log_parts.max(axis=1, keepdims=True))
    responsibility /= responsibility.sum(axis=1, keepdims=True)
    masses, means, factors = np.zeros(n_modes), np.zeros((n_modes, values.shape[1])), []
    for c in range(n_modes):
        own = truncated(weights * responsibility[:, c])
        mine = np.flatnonzero(own > COUNTS * own.max())
        own = own[mine]
        masses[c] = own.sum()
        pull = own * (freedom + reference.dimension) / (freedom + distance[mine, c])
        mean, factor = _component(values[mine], own, pull, start.means[c], start.factors[c])
        means[c] = mean
        factors.append(factor)
    return assemble(np.log(np.maximum(masses, 1e-300)), means, np.array(factors), freedom)


def _component(
    values: Floats, own: Floats, pull: Floats, old_mean: Floats, old_factor: Floats
) -> tuple[Floats, Floats]:
    """Return mean and factor of one component's weighted draws, shrunk to the old ones while few count."""
    d = len(old_mean)
    n_effective = own.sum() ** 2 / max(float(np.sum(own**2)), 1e-300)
    trust = n_effective / (n_effective + 0.5 * d * (d + 1))  # as many draws as a covariance has entries
    if n_effective < 2.0:
        return old_mean, old_factor
    mean = trust * (pull @ values) / pull.sum() + (1.0 - trust) * old_mean
    residual = values - mean
    covariance = (pull * residual.T) @ residual / own.sum()
    try:
        return mean, np.linalg.cholesky(trust * covariance + (1.0 - trust) * old_factor @ old_factor.T)
    except np.linalg.LinAlgError:
        return old_mean, old_factor


def truncated(weights: Floats) -> Floats:
    """Cut weights at their mean times the root of their number (Ionides 2008): no draw rules alone."""
    positive = weights[weights > 0]
    if positive.size == 0:
        return weights
    return np.asarray(np.minimum(weights, weights.mean() * np.sqrt(positive.size)))
