"""What scalar kernels share: a particle, its terms, and Gaussian steps.

A particle is ``(x, proposal, here, there)``, changed in place; ``here`` and ``there`` hold the terms, and behind them
how often a density was no number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.functions import when_compiled
from tempering.kernels.kernel import Functions, Particle, Vector
from tempering.path.stacked import mixture_log_density


def tempered(terms: Vector, coefficients: Vector) -> float:
    """Return coefficients . terms; a term that does not count may be minus infinity."""
    total = 0.0
    for i in range(coefficients.size):
        if coefficients[i] != 0.0:
            total += coefficients[i] * terms[i]
    return total


def evaluate(density: Functions, x: Vector, out: Vector) -> None:
    """Write the terms at ``x`` into ``out``; its last entry counts densities that were no number.

    Where the base ends the energy is not asked for. NaN and +inf count as outside the support.
    """
    energy, base, _, references = density
    n_references = references[0].size - 1
    n_own = out.size - 1 - n_references
    inside = True
    if n_own > 1:
        out[1] = base(x)
        if not out[1] < np.inf:
            out[1] = -np.inf
            out[-1] += 1.0
        inside = out[1] > -np.inf
    out[0] = -np.inf
    if inside:
        out[0] = energy(x)
        if not out[0] < np.inf:
            out[0] = -np.inf
            out[-1] += 1.0
    for i in range(n_references):
        out[n_own + i] = mixture_log_density(references, i, x)


def copy_loops(source: Vector, out: Vector) -> None:
    """Copy by a loop, which compiles to less than a slice does."""
    for i in range(out.size):
        out[i] = source[i]


@when_compiled(copy_loops)
def copy(source: Vector, out: Vector) -> None:
    """Copy ``source``, or as much of it as there is room for, into ``out``."""
    out[:] = source[: out.size]


def move_to_proposal(particle: Particle) -> None:
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
