"""Settings of a kernel, one row per rung: a step scale, a shape, a centre, and how often to draw afresh.

Every kernel reads the same ones, so that one piece of tuning serves them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.path.ladder import Ladder

if TYPE_CHECKING:
    import jax


class Settings(NamedTuple):
    """What one kernel is set to, rung by rung.

    ``scale`` (m,): step size in units of the shape. ``factor`` (m, d, d) or (m, d, 1): a Cholesky factor of the
    covariance, or standard deviations. ``centre`` (m, d): where independent proposals come from. ``fresh`` (m,): the
    share of proposals that are drawn from the base itself, where it can be drawn from; None: only at k = 0.
    """

    scale: NDArray[np.float64]
    factor: NDArray[np.float64]
    centre: NDArray[np.float64]
    fresh: Any = None


def starting_settings(ladder: Ladder, centre: NDArray[np.float64], scale: float, *, dense: bool) -> Settings:
    """Start with a unit shape and scales proportional to k^(-1/2), as a Gaussian's are.

    Below k = 1e-4 the growth is stopped: there the base, not the energy, sets the scale.
    """
    d, m = len(centre), len(ladder)
    k = np.maximum(ladder.inverse_temperatures, 1e-4)
    shape = np.eye(d) if dense else np.ones((d, 1))
    return Settings(scale / np.sqrt(k), np.tile(shape, (m, 1, 1)), np.tile(centre, (m, 1)), np.zeros(m))


def is_dense(factor: NDArray[np.float64] | jax.Array) -> bool:
    """Whether a factor (or a stack of them) holds full matrices; one dimension is its own diagonal."""
    return bool(factor.shape[-1] > 1)
