"""Where are the sensors? Localisation from noisy and missing distances, with mirror images as modes.

The set-up is that of Ihler, Fisher, Moses & Willsky (2005) with four unknown sensors, as in Ahn, Chen & Welling
(2013) and Tak, Meng & van Dyk (2018); the distances are drawn anew.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tempering.problems.posterior import Posterior, Truth
from tempering.problems.priors import NormalPrior
from tempering.problems.problem import Array, FloatArray, frozen_array, namespace_of

KNOWN = np.array([[0.5, 0.3], [0.3, 0.7]])
HIDDEN = np.array([[0.57, 0.91], [0.10, 0.37], [0.26, 0.14], [0.85, 0.04]])  # where they really are
REACH, NOISE = 0.3, 0.02
_PAIRS = [(i, j) for i in range(4) for j in range(i + 1, 6)]  # 4 and 5 are the known sensors


@dataclass(frozen=True, eq=False)
class Sensors(Posterior):
    r"""Positions of four sensors in the plane from distances among them and to two known ones.

    .. math:: P(\text{pair seen}) = e^{-d^2 / (2 \cdot 0.3^2)}, \quad y \mid \text{seen} \sim N(d, 0.02^2), \quad
        \text{positions} \sim N(0.5, 1)

    Parameters
    ----------
    distances : array_like, shape (14,)
        For the pairs in the order (0, 1), ..., (3, 5); negative where a pair was not seen.

    Examples
    --------
    >>> problem = sensors()
    >>> int(np.sum(problem.distances >= 0)), problem.prior.dimension
    (7, 8)
    """

    distances: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "distances", frozen_array(self.distances, "distances", 1))

    @cached_property
    def prior(self) -> NormalPrior:
        """Normals around the middle of the unit square."""
        return NormalPrior(np.full(8, 0.5), np.ones(8))

    @property
    def initial(self) -> FloatArray:
        """Where the sensors really are."""
        return HIDDEN.reshape(-1)

    @property
    def n_modes(self) -> int:
        """The sides of a line that each of the four sensors may lie on."""
        return 16

    @cached_property
    def truth(self) -> Truth:
        """Evidence and summaries, computed once."""
        return Truth.stored("sensors")

    def log_likelihood(self, x: Array) -> Any:
        """Return the log likelihood, shape (..., 8)."""
        xp = namespace_of(x)
        at = xp.reshape(xp.asarray(x), (*x.shape[:-1], 4, 2))
        at = xp.concat([at, xp.broadcast_to(xp.asarray(KNOWN), (*x.shape[:-1], 2, 2))], axis=-2)
        first, second = (np.array([pair[end] for pair in _PAIRS]) for end in (0, 1))
        squared = xp.sum((at[..., first, :] - at[..., second, :]) ** 2, axis=-1)
        z = (self.distances - xp.sqrt(squared)) / NOISE
        seen = -0.5 * squared / REACH**2 - 0.5 * z * z - np.log(NOISE * np.sqrt(2 * np.pi))
        unseen = xp.log(-xp.expm1(-0.5 * squared / REACH**2))
        return xp.sum(xp.where(self.distances >= 0, seen, unseen), axis=-1)

    def mode_of(self, x: Array) -> Any:
        """Return on which side of the line through the known sensors each sensor lies, as a number from 0 to 15."""
        at = namespace_of(x).reshape(x, (*x.shape[:-1], 4, 2)) - KNOWN[0]
        along = KNOWN[1] - KNOWN[0]
        side = at[..., 0] * along[1] - at[..., 1] * along[0] > 0
        return side @ np.array([1, 2, 4, 8])

    def summaries(self, x: Array) -> Any:
        """Return the positions."""
        return x


def sensors() -> Sensors:
    """Return the network with one drawing of its distances."""
    rng = np.random.default_rng(1799)  # the data, part of the problem: every sensor is seen by two others or more
    at = np.concatenate([HIDDEN, KNOWN])
    distance = np.array([np.linalg.norm(at[i] - at[j]) for i, j in _PAIRS])
    seen = rng.random(len(distance)) < np.exp(-0.5 * (distance / REACH) ** 2)
    return Sensors(np.where(seen, distance + NOISE * rng.standard_normal(len(distance)), -1.0))
