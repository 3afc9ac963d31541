"""Mixtures in many dimensions: fitted along a few directions that are found from the draws, and across them.

A dense covariance of d dimensions has d (d + 1) / 2 entries to be learnt, and costs d^2 operations a draw. Where modes
differ along a few directions these, a width for every coordinate and one for every component say as much, for d times
the number of directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.learning.limits import DRAWS_OF_A_FIT
from tempering.learning.reference.from_draws import Split, best_of_clusters
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.refit import assemble, refit_reference, truncated
from tempering.path.reference import Reference
from tempering.path.subspace import Subspace

DENSE_UP_TO = 128  # dimensions: beyond, a move at the quick end takes longer than most targets do
RANKS = (0, 1, 4, 16, 32)  # directions, to choose from by draws that were not fitted to
DRAWS_PER_COORDINATE = 4  # all of them learn every width: this is for the directions
PASSES = 2  # widths and directions in turn
MORE = 8  # directions of a random search for the leading ones
LEAST_SHARE = 1e-12  # of a coordinate's variance that no direction explains


def one_around(centre: Floats, deviations: Floats, freedom: int) -> Reference:
    """Return one component without correlations; in many dimensions as all fits there are, in a subspace."""
    if centre.size <= DENSE_UP_TO:
        return Reference([1.0], centre[None], np.diag(deviations)[None], [freedom])
    subspace = Subspace(centre, deviations, np.empty((centre.size, 0)))
    return Reference([1.0], [[0.0]], [[[1.0]]], [freedom], subspace.n_across, subspace)


def with_broad(reference: Reference) -> Reference:
    """Add the broad component, which fits leave alone."""
    freedom = int(reference.degrees_of_freedom[0])
    broad = assemble(np.log(reference.weights), reference.means, reference.factors, freedom, reference.n_across)
    return replace(broad, subspace=reference.subspace)


def in_a_subspace(
    values: Floats, log_weights: Floats, modes: Sequence[Mode], rng: np.random.Generator
) -> Reference | None:
    """Return the mixture under which draws that were not fitted to are most likely; None if there are too few.

    Parameters
    ----------
    values : ndarray, shape (draw, d)
        Ordered so that the first half of them comes from other chains than the second.
    log_weights : ndarray, shape (draw,)
    modes : sequence of Mode
        Known summits: the directions from one to another are among those of the subspace.
    rng : Generator
    """
    n = max(DRAWS_OF_A_FIT, DRAWS_PER_COORDINATE * values.shape[1])
    split = Split.thinned(values, log_weights, n, rng)
    summits = np.array([mode.position for mode in modes[: RANKS[-1]]]).reshape(-1, values.shape[1])
    try:
        found = spanned(*split.fitting, summits, RANKS[-1], rng)
        best = _best_rank(split, found, len(summits) - 1, rng)
        subspace = spanned(split.values, split.log_weights, summits, best, rng)
        mixture = _fitted(split, subspace, rng)[0]
        whole = refit_reference(mixture, subspace.reduced(split.values), split.log_weights)
    except (EstimatorError, np.linalg.LinAlgError, ValueError):  # draws that hardly differ, or hardly any
        return None
    return replace(whole, subspace=subspace)


def _best_rank(split: Split, found: Subspace, least: int, rng: np.random.Generator) -> int:
    """Return how many of the directions to take: more and more, as long as draws that judge are better described."""
    best, height = 0, -np.inf
    for rank in (rank for rank in RANKS if least <= rank <= found.n_directions):
        reached = _fitted(split, found.of_rank(rank), rng)[1]
        if reached <= height:
            break
        best, height = rank, reached
    return best


def _fitted(split: Split, subspace: Subspace, rng: np.random.Generator) -> tuple[Reference, float]:
    """Return a mixture of reduced vectors, and the mean log density of the draws that judge."""
    within = Split(subspace.reduced(split.values), split.log_weights, subspace.n_across)
    mixture = best_of_clusters(within, rng)
    mixture = max(mixture, refit_reference(mixture, *within.fitting), key=within.log_likelihood)
    return mixture, within.log_likelihood(mixture)


def spanned(
    values: Floats, log_weights: Floats, summits: Floats, n_directions: int, rng: np.random.Generator
) -> Subspace:
    """Return directions from summit to summit, and those in which draws vary most besides; at most so many.

    Widths are those of a factor analysis: what no direction explains of each coordinate's variance.
    """
    n, d = values.shape
    weights = truncated(np.exp(log_weights - logsumexp(log_weights)))
    weights = weights / weights.sum()
    centre = weights @ values
    residual = np.sqrt(weights)[:, None] * (values - centre)
    most = min(n_directions, d - 1, n - 1)
    deviations = np.sqrt(np.sum(residual**2, axis=0))
    for nth in range(PASSES):
        if not np.all(deviations > 0):
            raise EstimatorError("Draws that do not differ in some coordinate say nothing of its width. Run longer.")
        z = residual / deviations
        directions = _between(summits / deviations)[:, :most]
        z = z - (z @ directions) @ directions.T
        more = _leading(z, most - directions.shape[1], rng)
        directions = np.linalg.qr(np.hstack([directions, more]))[0]
        if nth < PASSES - 1:
            z = z - (z @ more) @ more.T
            left = np.maximum(np.sum(z**2, axis=0), LEAST_SHARE) * d / (d - directions.shape[1])
            deviations = deviations * np.sqrt(left)
    return Subspace(centre, deviations, directions)


def _between(summits: Floats) -> Floats:
    """Return orthonormal directions from summit to summit."""
    if len(summits) < 2:
        return np.empty((summits.shape[1], 0))
    _, sizes, rows = np.linalg.svd(summits - summits.mean(axis=0), full_matrices=False)
    return np.asarray(rows[sizes > 1e-6 * sizes[0]].T)


def _leading(rows: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return the leading right singular vectors, by a random search in so many directions and a few more."""
    if n <= 0:
        return np.empty((rows.shape[1], 0))
    found = rng.standard_normal((rows.shape[1], min(n + MORE, *rows.shape)))
    for _ in range(2):
        found = np.linalg.qr(rows.T @ (rows @ found))[0]
    small = np.linalg.svd(rows @ found, full_matrices=False)[2]
    return np.asarray(found @ small[:n].T)
