"""What scalar kernels share: a particle, its terms, mixtures among them, and Gaussian steps.

A particle is ``(x, proposal, here, there)``, changed in place; ``here`` and ``there`` hold the terms, and behind them
how often a density was no number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.functions import when_compiled
from tempering.kernels.kernel import Functions, Particle, References, Vector
from tempering.path.reference import Reference


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


def mixture_log_density(references: References, which: int, x: Vector) -> float:
    """Return the log density of one of several mixtures of t distributions, stacked by `stacked_references`."""
    first, log_heights, means, inverse_factors, freedom = references[:5]
    d, largest, total = x.size, -np.inf, 0.0
    for c in range(first[which], first[which + 1]):
        distance = 0.0
        for i in range(d):
            z = 0.0
            for j in range(i + 1):
                z += inverse_factors[c, i, j] * (x[j] - means[c, j])
            distance += z * z
        part = log_heights[c] - 0.5 * (freedom[c] + d) * np.log1p(distance / freedom[c])
        if part > largest:
            largest, total = part, 1.0 + total * np.exp(largest - part)
        else:
            total += np.exp(part - largest)
    return float(largest + np.log(total))


def mixture_draw(rng: np.random.Generator, references: References, which: int, out: Vector) -> None:
    """Draw from one of several stacked mixtures into ``out``."""
    first, _, means, _, freedom, cumulative, factors = references
    uniform, c = rng.random(), first[which]
    while c < first[which + 1] - 1 and uniform >= cumulative[c]:
        c += 1
    stretch = np.sqrt(freedom[c] / rng.chisquare(freedom[c]))
    for i in range(out.size):
        out[i] = means[c, i]
    for j in range(out.size):
        z = stretch * rng.standard_normal()
        for i in range(j, out.size):
            out[i] += factors[c, i, j] * z


def stacked_references(references: Sequence[Reference], dimension: int) -> References:
    """Stack the components of several mixtures, and say where each mixture begins."""
    references = [reference.dense for reference in references]
    counts = [reference.n_components for reference in references]

    def stacked(name: str, shape: tuple[int, ...]) -> Any:
        parts = [np.asarray(getattr(reference, name), dtype=float) for reference in references]
        return np.concatenate(parts) if parts else np.empty((0, *shape))

    cumulative = [np.cumsum(reference.weights) for reference in references]
    return (
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        stacked("log_heights", ()),
        stacked("means", (dimension,)),
        stacked("inverse_factors", (dimension, dimension)),
        stacked("degrees_of_freedom", ()),
        np.concatenate(cumulative) if cumulative else np.empty(0),
        stacked("factors", (dimension, dimension)),
    )


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
