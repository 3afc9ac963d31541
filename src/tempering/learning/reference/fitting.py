"""Fit a reference to a density whose modes can be climbed to.

Climb to the modes, take their widths and Laplace masses, then refit from weighted draws of q in a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from tempering.errors import TargetError
from tempering.learning.reference.fitted import FittedReference, judged
from tempering.learning.reference.mixture import Reference
from tempering.learning.reference.modes import Box, Mode, find_modes, is_parted, is_unexplained
from tempering.learning.reference.refit import BROAD_WEIGHT, assemble, refit_reference, split_reference
from tempering.learning.reference.surface import Surface

Floats = NDArray[np.float64]

FIRST_FREEDOM = 5
ROUNDS = 4
ENOUGH_GAIN = 1.05  # a round that raises the effective sample size by less is the last, if it is
ENOUGH_SHARE = 0.5  # above this already
FEW_POINTS = 8  # are climbed from one by one
FIRST_STEP = 0.01  # of a rough climb, relative to the spread of the points
SPLIT_GAIN = 1.2  # in effective sample size, that splitting the components must bring
DRAWS_PER_DIMENSION = 40  # of a round and a mode, at the least
FAR_DRAWS = 1000  # of a search around the modes
MAX_MODES = 64
NEGLIGIBLE = 30.0  # nats below the heaviest: a mode (or a climb that ran off) that nobody will miss
SEARCHES = 8  # rounds of climbing from far draws, as long as each finds a mode
SEARCH_FREEDOM = 1  # of the draws climbed from: nobody knows how far the next mode is
WORTH = 8.0  # nats: a mode lighter than this, found by scouts that nobody sent, is neither sought further nor kept
LOOKED_AT = 1024  # scouts from which the way to the nearest mode is tried at once
SUSPECTS = 128  # scouts climbed from at once, where there are gradients
IN_VAIN = 3  # rounds of few climbs that find nothing new, where there are none
CLIMBS = 4  # of a round from its heaviest draws, and as many from any


@dataclass(frozen=True)
class _Weighted:
    """Draws with the log of density over proposal, and the log density itself."""

    values: Floats
    log_weights: Floats
    log_density: Floats


def fit_reference(
    log_density: Callable[[Any], Any],
    starts: ArrayLike | Sequence[ArrayLike],
    *,
    box: tuple[ArrayLike, ArrayLike] | None = None,
    scattered: int = 100,
    scouts: ArrayLike | None = None,
    scout_heights: ArrayLike | None = None,
    draws: int = 1000,
    splits: int = 2,
    most_calls: int | None = None,
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
    scouts : array_like, shape (point, d), optional
        Many points, such as the hot draws of a pilot run, that are looked at but not all climbed from: only where a
        valley parts them from the modes known so far, or where they are higher than those explain.
    scout_heights : array_like, shape (point,), optional
        The log density of the scouts, where it is known already.
    draws : int
        Of every mode in each round of refitting; four times as many judge the fit.
    splits : int
        How often, at most, each component may be replaced by three, which follow a bend better than one.
    most_calls : int, optional
        Evaluations of the log density after which `tempering.learning.reference.TooManyCalls` is raised.
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
    surface = Surface(log_density, points.shape[1], most_calls)
    edges = None if box is None else _checked_box(box, points.shape[1])
    if edges is not None:
        points = np.concatenate([points, generator.uniform(*edges, size=(scattered, points.shape[1]))])
    modes = find_modes(surface, _roughly_climbed(surface, points, edges), edges)
    if not modes:
        raise TargetError(
            "A reference needs a starting point inside the support, but the log density is -inf at all "
            f"{len(points)} that were given. Pass other starting points."
        )
    if scouts is None:
        modes = _searched(surface, modes, edges, generator)
    else:
        places = np.asarray(scouts, dtype=float)
        heights = surface.values(places) if scout_heights is None else np.asarray(scout_heights, dtype=float)
        modes = _scouted(surface, _heaviest(modes), edges, (places, heights), generator)
    reference = _refined(surface, _assembled(modes), draws, splits, generator)
    return judged(surface, reference, len(modes), 4 * draws, generator)


def _roughly_climbed(surface: Surface, points: Floats, box: Box | None) -> Floats:
    """Climb from many points at once where there are gradients; exact climbs begin from where these end."""
    if len(points) <= FEW_POINTS or not surface.is_differentiable:
        return points
    spread = np.std(points, axis=0)
    ends = surface.ascend(points, FIRST_STEP * np.where(spread > 0, spread, 1.0))
    return ends if box is None else np.clip(ends, *box)


def _assembled(modes: Sequence[Mode]) -> Reference:
    return assemble(
        np.array([mode.log_mass for mode in modes]),
        np.array([mode.position for mode in modes]),
        np.array([mode.factor for mode in modes]),
        FIRST_FREEDOM,
    )


def _searched(surface: Surface, modes: tuple[Mode, ...], box: Box | None, rng: np.random.Generator) -> tuple[Mode, ...]:
    """Climb from points spread widely around the modes until a round finds nothing new."""
    modes = _heaviest(modes)
    for _ in range(SEARCHES):
        found = _heaviest(find_modes(surface, _far_draws(surface, _assembled(modes), rng), box, modes))
        if len(found) <= len(modes):
            break
        modes = found
    return modes


def _scouted(
    surface: Surface, modes: tuple[Mode, ...], box: Box | None, scouts: tuple[Floats, Floats], rng: np.random.Generator
) -> tuple[Mode, ...]:
    """Climb from scouts that may belong to no known mode, some at a time, until they lead to nothing new."""
    places, heights = scouts
    in_vain = 0
    while in_vain < IN_VAIN:
        suspects = is_unexplained(modes, places, heights)
        looked_at = rng.permutation(len(places))[:LOOKED_AT]
        suspects[looked_at] |= is_parted(surface, modes, places[looked_at], heights[looked_at])
        if not np.any(suspects):
            break
        chosen = rng.permutation(np.flatnonzero(suspects))[: SUSPECTS if surface.is_differentiable else CLIMBS]
        found = _heaviest(find_modes(surface, _roughly_climbed(surface, places[chosen], box), box, modes))
        is_news = len(_heaviest(found, WORTH)) > len(_heaviest(modes, WORTH))
        in_vain = 0 if is_news else in_vain + (IN_VAIN if surface.is_differentiable else 1)
        modes = found
    return _heaviest(modes, WORTH)


def _heaviest(modes: Sequence[Mode], within: float = NEGLIGIBLE) -> tuple[Mode, ...]:
    ordered = sorted(modes, key=lambda mode: -mode.log_mass)[:MAX_MODES]
    return tuple(mode for mode in ordered if mode.log_mass > ordered[0].log_mass - within)


def _far_draws(surface: Surface, reference: Reference, rng: np.random.Generator) -> Floats:
    """Return draws from far around the modes that belong to none: the heaviest, and some of the others."""
    wide = Reference([1.0], reference.means[-1:], reference.factors[-1:], [SEARCH_FREEDOM])
    values = wide.sample_many(rng, FAR_DRAWS)
    log_w = surface.values(values) - reference.log_density(values)
    far = np.argmax(reference.log_parts(values), axis=1) == reference.n_components - 1
    candidates = np.flatnonzero(far & (log_w > -np.inf))
    order = candidates[np.argsort(-log_w[candidates], kind="stable")]
    chosen = np.concatenate([order[:CLIMBS], rng.permutation(order[CLIMBS:])[:CLIMBS]])
    return np.asarray(values[chosen])


def _refined(surface: Surface, reference: Reference, draws: int, splits: int, rng: np.random.Generator) -> Reference:
    """Refit; while that is not enough, put three components in the place of each and refit again."""
    n_modes = reference.n_components - 1
    each = max(draws, DRAWS_PER_DIMENSION * reference.dimension)
    best, share = _refitted(surface, reference, each, rng)
    for split in range(1, splits + 1):
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
