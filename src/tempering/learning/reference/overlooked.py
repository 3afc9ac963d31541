"""Modes that draws have come near and that the mixture lacks: seen at one draw in a hundred thousand, they have a mass
that only a climb tells.
"""

from __future__ import annotations

import numpy as np

from tempering.arrays import Floats
from tempering.learning.limits import LACKING, N_STRIKING, WORTH_LOOKING
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.search import scouted
from tempering.learning.reference.surface import Surface, TooManyCalls
from tempering.path.factored import AnyReference

Scouts = tuple[Floats, Floats]  # flat positions, and the log density of the target there


def striking(positions: Floats, log_target: Floats, log_mixture: Floats) -> Scouts:
    """Return the draws that are highest above the mixture."""
    inside = np.flatnonzero(log_target > -np.inf)
    below = log_mixture[inside] - log_target[inside]
    some = np.argpartition(below, N_STRIKING)[:N_STRIKING] if below.size > N_STRIKING else np.arange(below.size)
    highest = inside[some[np.lexsort((some, below[some]))]]
    return positions[highest], log_target[highest]


def overlooked(
    surface: Surface,
    modes: tuple[Mode, ...],
    mixture: AnyReference,
    log_z: float,
    scouts: Scouts,
    rng: np.random.Generator,
) -> tuple[Mode, ...]:
    """Climb from scouts, and return all modes if one is new that has mass and that the mixture hardly knows.

    ``log_z`` is the log of the integral of the target's density.
    """
    if not modes or not len(scouts[0]):
        return ()
    try:
        found = scouted(surface, modes, None, scouts, rng)
    except TooManyCalls:  # a surface too rough to climb
        return ()
    known = {id(mode) for mode in modes}
    for mode in found:
        log_excess = mode.log_height - log_z - float(mixture.log_density(mode.position))
        if id(mode) not in known and mode.log_mass > log_z + np.log(WORTH_LOOKING) and log_excess > np.log(LACKING):
            return found
    return ()
