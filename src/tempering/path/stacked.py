"""Mixtures as the scalar engine knows them: the components of several, stacked; plain Python, or compiled by Numba."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.functions import compiled
from tempering.errors import TargetError

if TYPE_CHECKING:
    from tempering.path.factored import AnyReference
    from tempering.path.reference import Reference

Vector = NDArray[np.float64]
# Where each mixture begins, then of each component: log height, mean, inverse factor, degrees of freedom, sum of the
# weights so far, factor
References = tuple[NDArray[np.int64], Vector, Vector, Vector, Vector, Vector, Vector]


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


def stacked_references(references: Sequence[AnyReference], dimension: int) -> References:
    """Stack the components of several mixtures, and say where each mixture begins."""
    if any(reference.mixture is not reference for reference in references):
        raise TargetError("The scalar engine draws from mixtures of whole vectors alone. Use the vector engine.")
    mixtures = [reference.mixture.dense for reference in references]
    counts = [mixture.n_components for mixture in mixtures]

    def stacked(name: str, shape: tuple[int, ...]) -> Any:
        parts = [np.asarray(getattr(mixture, name), dtype=float) for mixture in mixtures]
        return np.concatenate(parts) if parts else np.empty((0, *shape))

    cumulative = [np.cumsum(mixture.weights) for mixture in mixtures]
    return (
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        stacked("log_heights", ()),
        stacked("means", (dimension,)),
        stacked("inverse_factors", (dimension, dimension)),
        stacked("degrees_of_freedom", ()),
        np.concatenate(cumulative) if cumulative else np.empty(0),
        stacked("factors", (dimension, dimension)),
    )


def compiled_log_density(reference: Reference) -> Callable[[Any], float]:
    """Return the log density of one vector under a mixture, compiled."""
    from numba import njit

    stacked, log_density = stacked_references([reference], reference.dimension), compiled(mixture_log_density)
    found: Callable[[Any], float] = njit(lambda x: log_density(stacked, 0, x), nogil=True, error_model="numpy")
    return found


def compiled_draw(reference: Reference) -> Callable[[np.random.Generator], Any]:
    """Return a function that draws one vector from a mixture, compiled."""
    from numba import njit

    stacked, d, draw_into = (
        stacked_references([reference], reference.dimension),
        reference.dimension,
        compiled(mixture_draw),
    )

    def draw(rng: Any) -> Any:
        x = np.empty(d)
        draw_into(rng, stacked, 0, x)
        return x

    found: Callable[[np.random.Generator], Any] = njit(draw, nogil=True)
    return found
