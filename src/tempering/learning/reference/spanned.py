"""Mixtures in many dimensions: fitted along a few directions that are found from the draws, and across them.

A dense covariance of d dimensions has d (d + 1) / 2 entries to be learnt, and costs d^2 operations a draw. Where modes
differ along a few directions these, a width for every coordinate and one for every component say as much, for d times
the number of directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.learning.limits import DRAWS_OF_A_FIT
from tempering.learning.reference.from_draws import Split, best_of_clusters
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.refit import assemble, refit_reference, truncated
from tempering.learning.reference.search import FIRST_FREEDOM, assembled
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


def around_summit(mode: Mode) -> Reference:
    """Return the normal approximation at a summit, with heavier tails; in many dimensions without its correlations."""
    if mode.position.size <= DENSE_UP_TO:
        return assembled([mode])
    return with_broad(one_around(mode.position, np.linalg.norm(mode.factor, axis=1), FIRST_FREEDOM))


def with_broad(reference: Reference) -> Reference:
    """Add the broad component, which fits leave alone."""
    freedom = int(reference.degrees_of_freedom[0])
    broad = assemble(np.log(reference.weights), reference.means, reference.factors, freedom, reference.n_across)
    return replace(broad, subspace=reference.subspace)


@dataclass(frozen=True)
class Spanned:
    """A mixture along a few directions, and those of either half of its draws.

    Its centre and widths are as many numbers as a draw has: draws that it was fitted to lie nearer to it than others.
    """

    mixture: Reference
    of_halves: tuple[Reference, Reference]

    def log_density_unseen(self, values: Floats) -> Floats:
        """Return the log density of the draws it was fitted to, each half under the mixture of the other."""
        middle = len(values) // 2
        first, second = self.of_halves
        return np.concatenate([second.log_density(values[:middle]), first.log_density(values[middle:])])


def in_a_subspace(
    values: Floats, log_weights: Floats, modes: Sequence[Mode], rng: np.random.Generator
) -> Spanned | None:
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
    modes = modes[: RANKS[-1]]
    try:
        rank = _best_rank(split, spanned(*split.fitting, modes, RANKS[-1], rng), len(modes) - 1, rng)
        whole, first, second = (
            _along(spanned(*some, modes, rank, rng), *some, rng)
            for some in ((split.values, split.log_weights), split.fitting, split.judging)
        )
    except (EstimatorError, np.linalg.LinAlgError, ValueError):  # draws that hardly differ, or hardly any
        return None
    return Spanned(whole, (first, second))


def _along(subspace: Subspace, values: Floats, log_weights: Floats, rng: np.random.Generator) -> Reference:
    """Return the mixture of some draws along a subspace."""
    mixture = _fitted(Split(values, log_weights), subspace, rng)[0]
    return replace(refit_reference(mixture, subspace.reduced(values), log_weights), subspace=subspace)


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
    values: Floats, log_weights: Floats, modes: Sequence[Mode], n_directions: int, rng: np.random.Generator
) -> Subspace:
    """Return directions from summit to summit, and those in which draws vary most besides; at most so many.

    Widths are those of a factor analysis: what no direction explains of each coordinate's variance. Centre and widths
    are moved towards those of the summits by as much as two halves of the draws disagree on them.
    """
    n, d = values.shape
    weights = truncated(np.exp(log_weights - logsumexp(log_weights)))
    weights = weights / weights.sum()
    halves = (slice(0, n // 2), slice(n // 2, n))
    if any(weights[half].sum() == 0.0 for half in halves):  # nothing to compare
        halves = (slice(0, n), slice(0, n))
    summits = np.array([mode.position for mode in modes]).reshape(-1, d)
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
            shares = [np.sum(z[half] ** 2, axis=0) / weights[half].sum() for half in halves]
            shares = [np.maximum(share, LEAST_SHARE) * d / (d - directions.shape[1]) for share in shares]
            first, second = (np.log(deviations) + 0.5 * np.log(share) for share in shares)
            deviations = np.exp(_shrunk(first, second, _log_widths(modes, (first + second) / 2.0)))
    if modes:
        first, second = (weights[half] @ values[half] / weights[half].sum() / deviations for half in halves)
        centre = deviations * _shrunk(first, second, summits.mean(axis=0) / deviations)
    return Subspace(centre, deviations, directions)


def _log_widths(modes: Sequence[Mode], like: Floats) -> Floats:
    """Return the log widths at the heaviest summit, or one width where none is known; about as wide as others are."""
    if not modes:
        return np.full_like(like, like.mean())
    heaviest = max(modes, key=lambda mode: mode.log_mass)
    known = 0.5 * np.log(np.sum(heaviest.factor**2, axis=1))
    return np.asarray(known + np.mean(like - known))


def _shrunk(first: Floats, second: Floats, anchor: Floats) -> Floats:
    """Return the mean of two estimates, nearer to an anchor where they disagree: what they share is no chance.

    This is the rule of James and Stein, with the noise as two halves of the draws tell it.

    Examples
    --------
    >>> _shrunk(np.array([1.0, 1.0]), np.array([1.0, 1.0]), np.zeros(2)), _shrunk(np.ones(1), -np.ones(1), np.zeros(1))
    (array([1., 1.]), array([0.]))
    """
    a, b = first - anchor, second - anchor
    shared, noise = max(float(np.mean(a * b)), 0.0), float(np.mean((a - b) ** 2)) / 4.0
    return np.asarray(anchor + (a + b) / 2.0 * (shared / max(shared + noise, 1e-300)))


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
