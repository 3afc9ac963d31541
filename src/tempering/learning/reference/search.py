"""Search for modes: climb from points given, from far draws, or from places that chains have seen.

Nothing finds a mode that no point climbs to; so every round of a run offers the places of its hot draws anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tempering.arrays import Floats
from tempering.learning.reference.climbing import ASCENT, ascend
from tempering.learning.reference.modes import Box, Mode, find_modes, is_parted, is_unexplained
from tempering.learning.reference.refit import assemble
from tempering.learning.reference.surface import Surface
from tempering.path.reference import Reference

FIRST_FREEDOM = 5
FEW_POINTS = 8  # are climbed from one by one
FIRST_STEP = 0.01  # of a rough climb, relative to the spread of the points
FAR_DRAWS = 1000  # of a search around the modes
MAX_MODES = 64
NEGLIGIBLE = 30.0  # nats below the heaviest: a mode (or a climb that ran off) that nobody will miss
SEARCHES = 8  # rounds of climbing from far draws, as long as each finds a mode
SEARCH_FREEDOM = 1  # of the draws climbed from: nobody knows how far the next mode is
# Nats: a mode lighter than this, found by scouts that nobody sent, is neither sought further nor described; but the way
# to it may lead from heavier ones to others.
WORTH = 8.0
MOST_ENTRIES = 1 << 22  # of scouts: distances to modes in many dimensions take long
LOOKED_AT = 1024  # scouts from which the way to the nearest mode is tried at once
SUSPECTS = 128  # scouts climbed from at once, where there are gradients
LOOKING, CLIMBING = 1 / 16, 1 / 2  # of the calls that a search may take: for looking, and for rough climbs
IN_VAIN = 3  # rounds of few climbs that find nothing new, where there are none
CLIMBS = 4  # of a round from its heaviest draws, and as many from any


def roughly_climbed(surface: Surface, points: Floats, box: Box | None) -> Floats:
    """Climb from many points at once where there are gradients; exact climbs begin from where these end."""
    if len(points) <= FEW_POINTS or not surface.is_differentiable:
        return points
    spread = np.std(points, axis=0)
    ends = ascend(surface, points, FIRST_STEP * np.where(spread > 0, spread, 1.0))
    return ends if box is None else np.clip(ends, *box)


def assembled(modes: Sequence[Mode]) -> Reference:
    """Make a reference of modes, by their Laplace masses."""
    return assemble(
        np.array([mode.log_mass for mode in modes]),
        np.array([mode.position for mode in modes]),
        np.array([mode.factor for mode in modes]),
        FIRST_FREEDOM,
    )


def searched(surface: Surface, modes: tuple[Mode, ...], box: Box | None, rng: np.random.Generator) -> tuple[Mode, ...]:
    """Climb from points spread widely around the modes until a round finds nothing new."""
    modes = heaviest(modes)
    for _ in range(SEARCHES):
        found = heaviest(find_modes(surface, _far_draws(surface, assembled(modes), rng), box, modes))
        if len(found) <= len(modes):
            break
        modes = found
    return modes


def scouted(
    surface: Surface, modes: tuple[Mode, ...], box: Box | None, scouts: tuple[Floats, Floats], rng: np.random.Generator
) -> tuple[Mode, ...]:
    """Climb from scouts that may belong to no known mode, some at a time, until they lead to nothing new."""
    places, heights = scouts
    some = rng.permutation(len(places))[: max(LOOKED_AT, MOST_ENTRIES // surface.dimension)]
    places, heights = places[some], heights[some]
    in_vain = 0
    while in_vain < IN_VAIN and not surface.is_exhausted:
        suspects = is_unexplained(modes, places, heights)
        looked_at = rng.permutation(len(places))[: surface.affordable(LOOKED_AT, LOOKING)]
        suspects[looked_at] |= is_parted(surface, modes, places[looked_at], heights[looked_at])
        if not np.any(suspects):
            break
        most = surface.affordable(SUSPECTS, CLIMBING, ASCENT) if surface.is_differentiable else CLIMBS
        chosen = rng.permutation(np.flatnonzero(suspects))[:most]
        found = heaviest(find_modes(surface, roughly_climbed(surface, places[chosen], box), box, modes))
        is_news = len(heaviest(found, WORTH)) > len(heaviest(modes, WORTH))
        in_vain = 0 if is_news else in_vain + (IN_VAIN if surface.is_differentiable else 1)
        modes = found
    return heaviest(modes)


def heaviest(modes: Sequence[Mode], within: float = NEGLIGIBLE) -> tuple[Mode, ...]:
    """Return the modes that are not lighter than the heaviest by so many nats, and not too many of them."""
    if not modes:
        return ()
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
