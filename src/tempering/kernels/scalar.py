"""What scalar kernels share: a particle, its two log densities, and Gaussian steps.

A particle is ``(x, proposal, here, there)``, changed in place; ``here`` and ``there`` hold (base, energy).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.functions import when_compiled

Vector = NDArray[np.float64]


def tempered(log_densities: Vector, k: float) -> float:
    """Return base + k * energy; at k = 0 the energy plays no part, even if it is -inf."""
    if k == 0.0:
        return float(log_densities[0])
    return float(log_densities[0] + k * log_densities[1])


def evaluate(density: Any, x: Vector, out: Vector) -> None:
    """Write (base, energy) at ``x`` into ``out``.

    Where the base ends the energy is not asked for. NaN becomes +inf: such a point is accepted at once, and
    the loop stops there and names it, instead of rejecting it in silence.
    """
    base, energy, _ = density
    out[0] = base(x)
    if np.isnan(out[0]):
        out[0] = np.inf
    if out[0] == -np.inf:
        out[1] = -np.inf
    else:
        out[1] = energy(x)
        if np.isnan(out[1]):
            out[1] = np.inf


def copy_loops(source: Vector, out: Vector) -> None:
    """Copy by a loop, which compiles to less than a slice does."""
    for i in range(out.size):
        out[i] = source[i]


@when_compiled(copy_loops)
def copy(source: Vector, out: Vector) -> None:
    """Copy ``source`` into ``out``."""
    out[:] = source


def move_to_proposal(particle: Any) -> None:
    """Make the proposal the position."""
    x, proposal, here, there = particle
    copy(proposal, x)
    copy(there, here)


def _gaussian_step_loops(
    rng: np.random.Generator, x: Vector, scale: float, factor: NDArray[np.float64], out: Vector
) -> None:
    d = x.size
    if factor.shape[1] > 1:
        for i in range(d):
            out[i] = x[i]
        for j in range(d):
            z = scale * rng.standard_normal()
            for i in range(j, d):
                out[i] += factor[i, j] * z
    else:
        for i in range(d):
            out[i] = x[i] + scale * factor[i, 0] * rng.standard_normal()


@when_compiled(_gaussian_step_loops)
def gaussian_step(rng: np.random.Generator, x: Vector, scale: float, factor: NDArray[np.float64], out: Vector) -> None:
    """Write ``x + scale * factor @ z`` into ``out``; the factor is lower triangular, or a column."""
    z = rng.standard_normal(x.size)
    out[:] = x + scale * (factor @ z if factor.shape[1] > 1 else factor[:, 0] * z)
