"""Fit a reference to a density whose modes can be climbed to.

Climb to the modes, take their widths and Laplace masses, then refit from weighted draws of q in a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.errors import TargetError
from tempering.learning.reference.fitted import FittedReference, judged
from tempering.learning.reference.modes import Box, find_modes
from tempering.learning.reference.refit import BROAD_WEIGHT, refit_reference, split_reference
from tempering.learning.reference.search import (
    MAX_MODES,
    WORTH,
    assembled,
    heaviest,
    roughly_climbed,
    scouted,
    searched,
)
from tempering.learning.reference.surface import Surface
from tempering.path.reference import Reference

ROUNDS = 4
ENOUGH_GAIN = 1.05  # a round that raises the effective sample size by less is the last, if it is
ENOUGH_SHARE = 0.5  # above this already
SPLIT_GAIN = 1.2  # in effective sample size, that splitting the components must bring
DRAWS_PER_DIMENSION = 40  # of a round and a mode, at the least


@dataclass(frozen=True)
class _Weighted:
    """Draws with the log of density over proposal, and the log density itself."""

    values: Floats
    log_weights: Floats
    log_density: Floats


@dataclass(frozen=True)
class FitEffort:
    """How much a fit of a reference may spend.

    Parameters
    ----------
    draws : int
        Draws of every mode in each round of refitting; four times as many judge the fit.
    splits : int
        How often, at most, each component may be replaced by three, which follow a bend better than one.
    most_calls : int, optional
        Evaluations of the log density after which `tempering.learning.reference.TooManyCalls` is raised.
    """

    draws: int = 1000
    splits: int = 2
    most_calls: int | None = None


def fit_reference(
    log_density: Callable[[Any], Any],
    starts: ArrayLike | Sequence[ArrayLike],
    *,
    box: tuple[ArrayLike, ArrayLike] | None = None,
    scattered: int = 100,
    scouts: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    effort: FitEffort = FitEffort(),
    rng: np.random.Generator | int | None = None,
) -> FittedReference:
    """Fit a mixture of heavy-tailed components to the modes of a density.

    Parameters
    ----------
    log_density : callable
        Log density of one flat vector, up to a constant, -inf outside the support; a JAX function, or any
        other, whose derivatives are then taken by differences.
    starts : array_like, shape (d,) or (start, d)
        Points to climb from: one somewhere in each mode's basin, hot draws, draws of a prior.
    box : pair of array_like, shape (d,), optional
        Lower and upper ends of where modes are sought; ``scattered`` points, uniform in it, are climbed from
        too. A narrow mode in many dimensions is not found so: a random point climbs to the widest mode.
    scattered : int
        Number of points in the box.
    scouts : array_like, shape (point, d), or a pair of it and the log density there, optional
        Many points, such as the hot draws of a pilot run, that are looked at but not all climbed from: only where a
        valley parts them from the modes known so far, or where they are higher than those explain.
    effort : FitEffort
        How much may be spent.
    rng : int, Generator or None
        Source of all randomness.

    Returns
    -------
    FittedReference

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def log_density(x):
    ...     return jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 9.0) ** 2 / 0.25))
    >>> fitted = fit_reference(log_density, [[1.0, -1.0], [8.0, 9.5]], rng=1)
    >>> fitted.n_modes, fitted.is_good, bool(np.allclose(fitted.masses, [0.8, 0.2], atol=0.04))
    (2, True, True)
    """
    generator = np.random.default_rng(rng)
    points = np.unique(np.atleast_2d(np.asarray(starts, dtype=float)), axis=0)
    surface = Surface(log_density, points.shape[1], effort.most_calls)
    edges = None if box is None else _checked_box(box, points.shape[1])
    if edges is not None:
        points = np.concatenate([points, generator.uniform(*edges, size=(scattered, points.shape[1]))])
    modes = find_modes(surface, roughly_climbed(surface, points, edges), edges)
    if not modes:
        raise TargetError(
            "A reference needs a starting point inside the support, but the log density is -inf at all "
            f"{len(points)} that were given. Pass other starting points."
        )
    if scouts is None:
        modes = searched(surface, modes, edges, generator)
    else:
        places, heights = _looked_at(surface, scouts)
        modes = heaviest(scouted(surface, heaviest(modes), edges, (places, heights), generator), WORTH)
    reference = _refined(surface, assembled(modes), effort, generator)
    return judged(surface, reference, len(modes), 4 * effort.draws, generator)


def _looked_at(surface: Surface, scouts: Any) -> tuple[Floats, Floats]:
    """Return scouts and the log density there, which may be known already."""
    if isinstance(scouts, tuple):
        places, heights = (np.asarray(part, dtype=float) for part in scouts)
        return places, heights
    places = np.asarray(scouts, dtype=float)
    return places, surface.values(places)


def _refined(surface: Surface, reference: Reference, effort: FitEffort, rng: np.random.Generator) -> Reference:
    """Refit; while that is not enough, put three components in the place of each and refit again."""
    n_modes = reference.n_components - 1
    each = max(effort.draws, DRAWS_PER_DIMENSION * reference.dimension)
    best, share = _refitted(surface, reference, each, rng)
    for split in range(1, effort.splits + 1):
        if share > ENOUGH_SHARE or n_modes * 3**split > MAX_MODES:
            break
        candidate, found = _refitted(surface, split_reference(best), max(each // 3**split, 200), rng)
        if found < SPLIT_GAIN * share:
            break
        best, share = candidate, found
    return best


def _refitted(surface: Surface, reference: Reference, each: int, rng: np.random.Generator) -> tuple[Reference, float]:
    """Refit from weighted draws, ``each`` of every component, until a round brings little; return the best."""
    best, best_share = reference, 0.0
    for _ in range(ROUNDS):
        drawn = _explore(surface, reference, each, rng)
        share = _predicted_ess_fraction(reference, drawn)
        gain = share / max(best_share, 1e-300)
        if gain > 1.0:
            best, best_share = reference, share
        if gain < ENOUGH_GAIN and share > ENOUGH_SHARE:
            break
        reference = refit_reference(reference, drawn.values, drawn.log_weights)
    return best, best_share


def _explore(surface: Surface, reference: Reference, each: int, rng: np.random.Generator) -> _Weighted:
    """Draw equally from all components, whatever their masses, and weight against that mixture."""
    n = reference.n_components - 1
    counts = np.append(np.full(n, each), int(np.ceil(2 * BROAD_WEIGHT * each * n)))
    proposal = Reference(counts / counts.sum(), reference.means, reference.factors, reference.degrees_of_freedom)
    values = proposal.sample_components(rng, np.repeat(np.arange(n + 1), counts))
    log_density = surface.values(values)
    return _Weighted(values, log_density - proposal.log_density(values), log_density)


def _predicted_ess_fraction(reference: Reference, drawn: _Weighted) -> float:
    """Predict the effective sample size of a draw of q: Z / E_pi(pi / q), from draws of another proposal."""
    n, log_w = len(drawn.log_weights), drawn.log_weights
    if not np.any(log_w > -np.inf):
        return 0.0
    used = log_w > -np.inf
    log_ratio = drawn.log_density[used] - reference.log_density(drawn.values[used])
    log_second = logsumexp(log_w[used] + log_ratio) - logsumexp(log_w[used])
    return float(np.exp(logsumexp(log_w[used]) - np.log(n) - log_second))


def _checked_box(box: tuple[ArrayLike, ArrayLike], dimension: int) -> Box:
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=float), (dimension,)) for end in box)
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)) and np.all(lower < upper)):
        raise TargetError(
            f"A box needs finite lower ends below its upper ends, but got {lower.tolist()} and "
            f"{upper.tolist()}. Pass box=(lower, upper)."
        )
    return lower, upper
