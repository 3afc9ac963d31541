"""Fit a reference to a density whose modes can be climbed to.

Climb to the modes, take their widths and Laplace masses, then refit from weighted draws of q in a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from tempering.errors import TargetError
from tempering.estimators.pareto import pareto_k
from tempering.reference.mixture import Reference
from tempering.reference.modes import Box, Mode, find_modes, is_parted
from tempering.reference.refit import BROAD_WEIGHT, assemble, refit_reference, split_reference
from tempering.reference.surface import Surface

Floats = NDArray[np.float64]

FIRST_FREEDOM = 5
ROUNDS = 4
ENOUGH_GAIN = 1.05  # a round that raises the effective sample size by less is the last, if it is
ENOUGH_SHARE = 0.5  # above this already
FEW_POINTS = 8  # are climbed from one by one
FIRST_STEP = 0.01  # of a rough climb, relative to the spread of the points
ENOUGH_NATS = 0.05  # nearer the target, in Kullback and Leibler's sense, that a refit to draws must be
SPLIT_GAIN = 1.2  # in effective sample size, that splitting the components must bring
DRAWS_PER_DIMENSION = 40  # of a round and a mode, at the least
FAR_DRAWS = 1000  # of a search around the modes
MAX_MODES = 64
NEGLIGIBLE = 30.0  # nats below the heaviest: a mode (or a climb that ran off) that nobody will miss
SEARCHES = 8  # rounds of climbing from far draws, as long as each finds a mode
SEARCH_FREEDOM = 1  # of the draws climbed from: nobody knows how far the next mode is
SUSPECTS = 256  # scouts climbed from at once, where there are gradients
IN_VAIN = 3  # rounds of few climbs that find nothing new, where there are none
CLIMBS = 4  # of a round from its heaviest draws, and as many from any
GOOD_SHARE, GOOD_PARETO_K = 0.02, 1.0  # rungs bridge what is left; but above 1 weights have no mean at all


@dataclass(frozen=True, eq=False)
class FittedReference:
    """A reference and how well it fits, judged by fresh draws of it.

    Attributes
    ----------
    reference : Reference
        One component or more for each mode, in order, and the broad one last.
    masses : ndarray, shape (mode,)
        Share of the target's mass in each mode.
    ess_fraction : float
        Effective sample size of the importance weights of a draw from the reference.
    pareto_k : float
        Shape of the tail of the weights.
    log_normaliser : float
        Log of the integral of the density.
    n_calls : int
        Evaluations of the log density, gradients counted as one each.
    log_weights : ndarray, shape (draw,)
        Of independent draws of the reference: their energies at k = 0 of the path to the target.
    """

    reference: Reference
    masses: Floats
    ess_fraction: float
    pareto_k: float
    log_normaliser: float
    n_calls: int
    log_weights: Floats

    @property
    def n_modes(self) -> int:
        """Number of modes found."""
        return len(self.masses)

    @property
    def is_good(self) -> bool:
        """Whether a few rungs lead from the reference to the target; if not, the plain path is the safer one.

        With a single mode the plain path is no worse, and on curved targets better.
        """
        return self.ess_fraction >= GOOD_SHARE and self.pareto_k < GOOD_PARETO_K

    def log_normalisers(self, inverse_temperatures: ArrayLike) -> Floats:
        """Return log of E_q (pi / q)^k at each k: minus these, a pseudo-prior to start from."""
        k = np.atleast_1d(np.asarray(inverse_temperatures, dtype=float))
        energy = self.log_weights[self.log_weights > -np.inf]
        inside = logsumexp(np.multiply.outer(k, energy), axis=1) - np.log(len(self.log_weights))
        return np.where(k == 0.0, 0.0, inside)

    def __repr__(self) -> str:
        return (
            f"FittedReference({self.n_modes} modes, masses {np.round(self.masses, 3).tolist()}, ESS "
            f"{self.ess_fraction:.2f} a draw, Pareto k {self.pareto_k:.2f}, {self.n_calls} calls)"
        )


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
    draws: int = 1000,
    splits: int = 2,
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
        valley parts them from the modes known so far.
    draws : int
        Of every mode in each round of refitting; four times as many judge the fit.
    splits : int
        How often, at most, each component may be replaced by three, which follow a bend better than one.
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
    surface = Surface(log_density, points.shape[1])
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
        modes = _scouted(surface, _heaviest(modes), edges, np.asarray(scouts, dtype=float), generator)
    reference = _refined(surface, _assembled(modes), draws, splits, generator)
    return _judged(surface, reference, len(modes), 4 * draws, generator)


def improved_reference(
    log_density: Callable[[Any], Any],
    fitted: FittedReference,
    values: Floats,
    log_weights: Floats,
    *,
    draws: int = 1000,
    rng: np.random.Generator | int | None = None,
) -> FittedReference:
    """Refit a reference to the weighted draws of a tuning round, with more components where that is better.

    Chains have been where the reference never draws from. One half of the draws refits, the other judges; what is
    returned is the old fit unless fresh draws confirm that the new one is better.

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
    surface = Surface(log_density, fitted.reference.dimension)
    half, rest = slice(None, None, 2), slice(1, None, 2)
    old = fitted.reference
    candidates = [refit_reference(old, values[half], log_weights[half])]
    if 3 * (old.n_components - 1) <= MAX_MODES:
        candidates.append(refit_reference(split_reference(old), values[half], log_weights[half]))
    weights = np.exp(log_weights[rest] - logsumexp(log_weights[rest]))
    gains = [float(weights @ (q.log_density(values[rest]) - old.log_density(values[rest]))) for q in candidates]
    best = int(np.argmax(gains))
    if gains[best] < ENOUGH_NATS:
        return replace(fitted, n_calls=surface.n_calls)
    judged = _judged(surface, candidates[best], fitted.n_modes, 4 * draws, np.random.default_rng(rng))
    is_better = judged.ess_fraction > fitted.ess_fraction and judged.pareto_k < GOOD_PARETO_K
    return judged if is_better else replace(fitted, n_calls=surface.n_calls)


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
    surface: Surface, modes: tuple[Mode, ...], box: Box | None, scouts: Floats, rng: np.random.Generator
) -> tuple[Mode, ...]:
    """Climb from scouts that a valley parts from the modes, a few at a time, until they lead to none that is new."""
    heights = surface.values(scouts)
    in_vain = 0
    while in_vain < IN_VAIN:
        parted = np.flatnonzero(is_parted(surface, modes, scouts, heights))
        if parted.size == 0:
            break
        chosen = rng.permutation(parted)[: SUSPECTS if surface.is_differentiable else CLIMBS]
        found = _heaviest(find_modes(surface, _roughly_climbed(surface, scouts[chosen], box), box, modes))
        in_vain = 0 if len(found) > len(modes) else in_vain + (IN_VAIN if surface.is_differentiable else 1)
        modes = found
    return modes


def _heaviest(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    ordered = sorted(modes, key=lambda mode: -mode.log_mass)[:MAX_MODES]
    return tuple(mode for mode in ordered if mode.log_mass > ordered[0].log_mass - NEGLIGIBLE)


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


def _judged(
    surface: Surface, reference: Reference, n_modes: int, draws: int, rng: np.random.Generator
) -> FittedReference:
    """Judge a reference by fresh draws of it."""
    n = max(draws, 2 * DRAWS_PER_DIMENSION * reference.dimension)
    values = reference.sample_many(rng, n)
    log_w = surface.values(values) - reference.log_density(values)
    if not np.any(log_w > -np.inf):
        masses = np.full(n_modes, np.nan)
        return FittedReference(reference, masses, 0.0, np.inf, -np.inf, surface.n_calls, log_w)
    log_total = logsumexp(log_w)
    log_parts = reference.log_parts(values)[:, :-1]
    owned = np.exp(log_w - log_total) @ np.exp(log_parts - logsumexp(log_parts, axis=1, keepdims=True))
    return FittedReference(
        reference,
        owned.reshape(n_modes, -1).sum(axis=1) / owned.sum(),
        float(np.exp(2 * log_total - logsumexp(2 * log_w)) / n),
        pareto_k(log_w),
        float(log_total - np.log(n)),
        surface.n_calls,
        log_w,
    )


def _checked_box(box: tuple[ArrayLike, ArrayLike], dimension: int) -> Box:
    lower, upper = (np.broadcast_to(np.asarray(end, dtype=float), (dimension,)) for end in box)
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)) and np.all(lower < upper)):
        raise TargetError(
            f"A box needs finite lower ends below its upper ends, but got {lower.tolist()} and "
            f"{upper.tolist()}. Pass box=(lower, upper)."
        )
    return lower, upper
