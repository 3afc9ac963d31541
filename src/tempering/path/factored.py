"""A reference whose coordinates are independent, but for some that move and stretch others.

A mixture of whole vectors has few modes and is round; a product of mixtures of single coordinates has as many as there
are combinations, and a coordinate whose middle and width follow another one bends, or opens like a funnel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import TargetError
from tempering.path.reference import Reference

if TYPE_CHECKING:
    from tempering.path.subspace import Array

ENTRIES_AT_ONCE = 2**16  # of distances to all components of all coordinates: half a megabyte
BULK = 2000  # draws, of which the middle half tells how wide it is
NORMAL_QUARTILES = 1.349  # from one to the other, of a standard normal distribution
LOG_ROOT_2PI = float(0.5 * np.log(2 * np.pi))


class Bends(NamedTuple):
    r"""How coordinates follow others, one entry for each: all functions of its parent, where it has one.

    With :math:`u = (x_p - c) / w`, between the two ends, coordinate i is
    :math:`b_0 + b_1 u + b_2 u^2 + e^{s u} z_i`. One without a parent has nothing but zeros, and is :math:`z_i`.
    """

    parents: NDArray[np.int64]  # the coordinate itself, where there is none
    centres: Floats
    widths: Floats
    lowest: Floats  # of the parent: beyond, all stays as it is there
    highest: Floats
    offsets: Floats
    slopes: Floats
    curvatures: Floats
    log_scales: Floats

    @classmethod
    def none(cls, d: int) -> Bends:
        """Let no coordinate follow another."""
        zeros, ones = np.zeros(d), np.ones(d)
        return cls(np.arange(d), zeros, ones, -ones, ones, zeros, zeros, zeros, zeros)


def straightened(bends: Any, follow: Any, x: Array) -> tuple[Any, Any]:
    """Return coordinates as if none followed another, and by how much log volumes shrink; NumPy or JAX.

    ``follow`` has a 1 where a row's coordinate is the parent of a column's.
    """
    xp = x.__array_namespace__()
    moved, log_scale = _effect(bends, x @ follow, xp)
    return (x - moved) * xp.exp(-log_scale), -xp.sum(log_scale, axis=-1)


def bent(bends: Any, follow: Any, z: Array) -> Any:
    """Return the coordinates that are so when straightened: parents have none, and are what they are."""
    xp = z.__array_namespace__()
    moved, log_scale = _effect(bends, z @ follow, xp)
    return moved + xp.exp(log_scale) * z


def _effect(bends: Any, parents: Any, xp: Any) -> tuple[Any, Any]:
    u = (xp.clip(parents, bends.lowest, bends.highest) - bends.centres) / bends.widths
    return bends.offsets + u * (bends.slopes + u * bends.curvatures), u * bends.log_scales


@dataclass(frozen=True, eq=False)
class Factored:
    r"""A product of normal mixtures of single coordinates, each of which may follow another.

    Parameters
    ----------
    weights, means, deviations : array_like, shape (d, component)
        Of every coordinate's mixture, once it is straightened. A weight may be 0.
    bends : Bends
        A coordinate that others follow has no parent.
    mixture : Reference
        What else describes the same: a mixture of whole vectors, to be refitted, and to tell modes apart.

    Examples
    --------
    >>> one = Reference([1.0], [[0.0, 0.0]], [np.eye(2)], [8])
    >>> funnel = Bends.none(2)._replace(
    ...     parents=np.array([0, 0]), lowest=np.full(2, -9.0), highest=np.full(2, 9.0), log_scales=np.array([0.0, 0.5])
    ... )
    >>> q = Factored([[1.0], [1.0]], [[0.0], [0.0]], [[3.0], [1.0]], funnel, one)
    >>> x = q.sample_many(np.random.default_rng(1), 100_000)
    >>> (x[:, 1] * np.exp(-x[:, 0] / 2)).std().round(1), q.log_density(x[:3]).shape
    (np.float64(1.0), (3,))
    """

    weights: Floats
    means: Floats
    deviations: Floats
    bends: Bends
    mixture: Reference
    dimension: int = field(init=False)

    def __init__(self, weights: Any, means: Any, deviations: Any, bends: Bends, mixture: Reference) -> None:
        parts = [np.array(part, dtype=float) for part in (weights, means, deviations)]
        d = mixture.dimension
        is_root = bends.parents == np.arange(d)
        if (
            any(part.shape != parts[0].shape or len(part) != d for part in parts)
            or not np.allclose(parts[0].sum(axis=1), 1.0, rtol=0, atol=1e-9)
            or np.any(parts[0] < 0)
            or np.any(parts[2] <= 0)
            or not np.all(is_root[bends.parents])
        ):
            raise TargetError(
                "A factored reference needs weights, means and deviations of one shape (d, component), weights that "
                "are not negative and sum to 1, positive deviations, and parents that have none themselves. "
                "Make them so."
            )
        for name, part in zip(("weights", "means", "deviations"), parts, strict=True):
            part.setflags(write=False)
            object.__setattr__(self, name, part)
        object.__setattr__(self, "bends", bends)
        object.__setattr__(self, "mixture", mixture)
        object.__setattr__(self, "dimension", d)

    @property
    def summits(self) -> Floats:
        """Summits of what it describes, between which chains may leap."""
        return self.mixture.summits

    @property
    def follow(self) -> Floats:
        """A 1 where a row's coordinate is what a column's follows."""
        return np.asarray(np.eye(self.dimension)[:, self.bends.parents])

    @property
    def log_heights(self) -> Floats:
        """Log of the weight of every component times its height at its mean; minus infinity for none."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights) - np.log(self.deviations) - LOG_ROOT_2PI)

    def log_density(self, x: Array) -> Any:
        """Return log q(x), normalised, for vectors in the last axis."""
        flat = np.asarray(x, dtype=float).reshape(-1, self.dimension)
        found = np.empty(len(flat))
        rows = max(1, ENTRIES_AT_ONCE // self.means.size)
        for first in range(0, len(flat), rows):
            z, log_volume = straightened(self.bends, self.follow, flat[first : first + rows])
            found[first : first + rows] = self._log_densities(z).sum(axis=-1) + log_volume
        return found.reshape(np.shape(x)[:-1])[()]

    def _log_densities(self, z: Floats) -> Floats:
        log_parts = self.log_parts(z)
        largest = log_parts.max(axis=-1, keepdims=True)
        return np.asarray(np.log(np.exp(log_parts - largest).sum(axis=-1)) + largest[..., 0])

    def log_parts(self, z: Floats) -> Floats:
        """Return the log density times weight of each component of each straightened coordinate."""
        off = (z[..., np.newaxis] - self.means) / self.deviations
        return np.asarray(self.log_heights - 0.5 * off**2)

    def sample_many(self, rng: np.random.Generator, n: int) -> Floats:
        """Draw ``n`` independent vectors with NumPy."""
        cumulative = np.cumsum(self.weights, axis=1)[:, :-1]
        chosen = (rng.random((n, self.dimension, 1)) >= cumulative).sum(axis=-1)
        own = np.arange(self.dimension), chosen
        z = self.means[own] + self.deviations[own] * rng.standard_normal((n, self.dimension))
        return np.asarray(bent(self.bends, self.follow, z))

    def widths(self) -> tuple[Floats, Floats, Floats]:
        """Return the middle of every coordinate, its variance within a component, and that of the bulk of its draws.

        One that opens like a funnel has variances without end, or nearly so: its width is that where its parent is
        usual.
        """
        low, middle, high = np.quantile(self.sample_many(np.random.default_rng(0), BULK), (0.25, 0.5, 0.75), axis=0)
        within = np.sum(self.weights * self.deviations**2, axis=1)
        return middle, within, np.maximum(((high - low) / NORMAL_QUARTILES) ** 2, within)

    def __repr__(self) -> str:
        followers = int(np.sum(self.bends.parents != np.arange(self.dimension)))
        return f"Factored({self.dimension} coordinates, {followers} of which follow another)"


AnyReference = Reference | Factored
