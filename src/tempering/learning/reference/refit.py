"""Refit a reference to weighted draws: the population Monte Carlo step (Cappe et al. 2008, Stat. Comput. 18).

It is the EM algorithm of a mixture of t distributions with importance weights on the draws, and lowers the
Kullback-Leibler divergence from the target to q. The last component, the broad one, is not fitted but spread
over the others, so that a mode not yet found can still be entered.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.learning.reference.em_sums import FewComponents, ManyComponents, prepared
from tempering.path.reference import Reference

BROAD_WEIGHT = 0.05  # what the broad component costs: 5 % of the draws, and of the effective sample size
BROAD_FREEDOM = 5  # heavy tails whose mean energy is still finite: tuning integrates it
BROAD_SCALE = 3.0  # times the spread of all modes together
LEAST_WEIGHT = 0.01  # shared by the modes: even one that seems to weigh nothing is drawn now and then
# To choose from, up to 16 or the dimension: what a normal distribution's length varies by falls with that, and a t
# distribution's with this. A Gaussian in 25 dimensions: ESS .43 (3) to .79 (16).
FREEDOMS = (1, 3, 5, 8, 16, 64, 256)
MOST_FREEDOM = 16
ITERATIONS = 8  # of EM on one set of draws
LEAST_VARIANCE = 1e-12  # of the largest of a covariance
ENOUGH_OF_A_STEP = 1e-3  # nats that a step of EM gains in the mean, below which no other is taken
LEAST_MASS = 1e-300
FEW = 3  # with other degrees of freedom, from where those have led


def assemble(log_masses: Floats, means: Floats, factors: Floats, freedom: int, n_across: int = 1) -> Reference:
    """Make a reference of fitted components, and a broad one over them all; of reduced vectors (`Reference`), too."""
    shares = np.exp(log_masses - np.logaddexp.reduce(log_masses))  # SciPy takes ten times as long on a short array
    shares = (1.0 - LEAST_WEIGHT) * shares + LEAST_WEIGHT / len(shares)
    weights = np.append((1.0 - BROAD_WEIGHT) * shares, BROAD_WEIGHT)
    centre = means.mean(axis=0)  # every mode counts the same: which of them are heavy may not be known yet
    between = means - centre
    spread = (factors @ factors.transpose(0, 2, 1)).mean(axis=0) + between.T @ between / len(means)
    broad = lower_factor(BROAD_SCALE**2 * spread)
    if n_across > 1:
        broad[-1, :-1] = 0.0  # but for rounding
    return Reference(
        weights / weights.sum(),
        np.vstack([means, centre]),
        np.concatenate([factors, broad[None]]),
        np.append(np.full(len(means), freedom), BROAD_FREEDOM),
        n_across,
    )


def with_distance(means: Floats, products: Floats, n_across: int) -> tuple[Floats, Floats]:
    """Return means and covariances whose last coordinate is a distance from 0 in so many dimensions.

    ``products`` (component, d, d) are mean squares and products about the means.
    """
    if n_across == 1:
        return means, products
    means, products = means.copy(), products.copy()
    products[:, -1, -1] = (products[:, -1, -1] + means[:, -1] ** 2) / n_across
    products[:, -1, :-1] = products[:, :-1, -1] = means[:, -1] = 0.0
    return means, products


def lower_factor(covariance: Floats) -> Floats:
    """Return a lower Cholesky factor; a matrix that is not positive definite gets a small variance where it lacks one.

    Examples
    --------
    >>> lower_factor(np.array([[4.0, 0.0], [0.0, 0.0]]))[0, 0]
    np.float64(2.0)
    """
    symmetric = 0.5 * (covariance + covariance.T)
    try:
        return np.asarray(np.linalg.cholesky(symmetric))
    except np.linalg.LinAlgError:
        variances, axes = np.linalg.eigh(np.nan_to_num(symmetric))
        floor = max(LEAST_VARIANCE * float(variances.max()), 1e-280)
        root = (axes * np.sqrt(np.maximum(variances, floor))).T
        triangle = np.asarray(np.linalg.qr(root, mode="r")).T
        return np.asarray(triangle * np.where(np.diagonal(triangle) < 0, -1.0, 1.0))


def split_reference(reference: Reference) -> Reference:
    """Put three components in the place of each, along its longest axis, with the same mean and covariance.

    Refitted, they can follow what one cannot: a bend, a skew, a long tail on one side.
    """
    weights, means, factors = [], [], []
    for weight, mean, factor in zip(reference.weights[:-1], reference.means[:-1], reference.factors[:-1], strict=True):
        covariance = factor @ factor.T
        variances, axes = np.linalg.eigh(covariance)
        step = np.sqrt(1.2 * variances[-1]) * axes[:, -1]  # 2/3 of 1.2 between them, 1/5 within: 1 in all
        within = lower_factor(covariance - 0.8 * variances[-1] * np.outer(axes[:, -1], axes[:, -1]))
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
    size = reference.means.shape[1]
    held = 0.5 * size * (size + 1)  # as many draws as a covariance has entries
    best, height = fitted_to(reference, reference, values, weights, freedom, ITERATIONS, held)
    for others in _both_ways(freedom, reference.dimension):
        for nu in others:
            fit, found = fitted_to(best, reference, values, weights, nu, FEW, held)
            if found <= height:
                break
            best, height = fit, found
    return best


def _both_ways(freedom: int, dimension: int) -> tuple[list[int], list[int]]:
    """Return the degrees of freedom to choose from above and below, the nearest first."""
    most = max(MOST_FREEDOM, dimension)
    return [nu for nu in FREEDOMS if freedom < nu <= most], [nu for nu in reversed(FREEDOMS) if nu < freedom]


def fitted_to(
    reference: Reference,
    start: Reference,
    values: Floats,
    weights: Floats,
    freedom: int,
    iterations: int,
    held: float,
) -> tuple[Reference, float]:
    """Take steps of EM on draws whose weights sum to one, held near ``start`` by as much as ``held`` draws would.

    Return the mean log density of the draws too, as it was before the last step.
    """
    draws = prepared(values, truncated(weights), reference.n_components)
    height = -np.inf
    for _ in range(iterations):
        before, (reference, height) = height, _em_step(reference, start, draws, freedom, held)
        if height - before < ENOUGH_OF_A_STEP:
            break
    return reference, height


def _em_step(
    reference: Reference, start: Reference, draws: FewComponents | ManyComponents, freedom: int, held: float
) -> tuple[Reference, float]:
    """Take one step of EM; components are shrunk to those of the start while few draws speak for them."""
    n = reference.n_components - 1
    masses, n_effective, totals, means, products, height = draws.sums(reference, freedom)
    trust = np.where(n_effective < 2.0, 0.0, n_effective / (n_effective + held))[:, None]
    shrunk = trust * means + (1.0 - trust) * start.means[:n]
    if start.n_across > 1:
        shrunk[:, -1] = 0.0
    off = means - shrunk
    products = products + totals[:, None, None] * off[:, :, None] * off[:, None, :]
    shrunk, products = with_distance(shrunk, products, start.n_across)
    found = (trust / np.maximum(masses, LEAST_MASS)[:, None])[..., None] * products
    old = (1.0 - trust)[..., None] * start.factors[:n] @ start.factors[:n].transpose(0, 2, 1)
    log_masses = np.log(np.maximum(masses, LEAST_MASS))
    return assemble(log_masses, shrunk, factors_of(found + old, start.n_across), freedom, start.n_across), height


def factors_of(covariances: Floats, n_across: int = 1) -> Floats:
    """Return lower Cholesky factors, all at once if all are positive definite."""
    try:
        factors = np.asarray(np.linalg.cholesky(covariances))
    except np.linalg.LinAlgError:
        factors = np.array([lower_factor(covariance) for covariance in covariances])
    if n_across > 1:
        factors[:, -1, :-1] = 0.0  # but for rounding
    return factors


def truncated(weights: Floats) -> Floats:
    """Cut weights at their mean times the root of their number (Ionides 2008): no draw rules alone."""
    return np.asarray(np.minimum(weights, weights.mean() * np.sqrt(weights.size)))
