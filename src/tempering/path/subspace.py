"""A few directions in many dimensions: vectors are described along them, and by how far they are from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.arrays import Floats
from tempering.errors import TargetError

if TYPE_CHECKING:
    import jax

    Array = jax.Array | NDArray[np.float64]

LEAST_SQUARE = 1e-300  # of a distance, whose root can then be differentiated


@dataclass(frozen=True, eq=False)
class Subspace:
    r"""Directions in coordinates that are centred and scaled.

    A vector x is reduced to :math:`u = U^T z` and, last, to :math:`|z - U u|`, where :math:`z = (x - c) / s`.

    Parameters
    ----------
    centre : array_like, shape (d,)
    deviations : array_like, shape (d,)
        Widths of what is described, coordinate by coordinate, apart from the directions.
    directions : array_like, shape (d, r)
        Orthonormal columns U; there may be none.

    Examples
    --------
    >>> plane = Subspace(np.zeros(4), np.ones(4), np.eye(4)[:, :2])
    >>> plane.reduced(np.array([1.0, 2.0, 3.0, 4.0]))
    array([1., 2., 5.])
    """

    centre: Floats
    deviations: Floats
    directions: Floats

    def __init__(self, centre: ArrayLike, deviations: ArrayLike, directions: ArrayLike) -> None:
        values = [np.array(value, dtype=float) for value in (centre, deviations, directions)]
        d = values[0].size
        values[2] = values[2].reshape(d, -1)
        r = values[2].shape[1]
        is_orthonormal = np.allclose(values[2].T @ values[2], np.eye(r), atol=1e-8)
        if values[1].shape != (d,) or not np.all(values[1] > 0) or r >= d or not is_orthonormal:
            raise TargetError(
                f"A subspace of {d} dimensions needs as many positive deviations, and fewer directions than that which "
                "are orthonormal. Pass numpy.linalg.qr(directions)[0]."
            )
        for name, value in zip(self.__dataclass_fields__, values, strict=True):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def n_directions(self) -> int:
        """Number of directions."""
        return int(self.directions.shape[1])

    @property
    def n_across(self) -> int:
        """Number of dimensions that are in no direction."""
        return self.centre.size - self.n_directions

    def reduced(self, x: Array) -> Any:
        """Return coordinates along the directions, and the distance from them, for vectors in the last axis."""
        return reduced(self.centre, self.deviations, self.directions, x)

    def placed(self, mean: Array, factor: Array, z: Array) -> Any:
        """Return vectors with a mean and a factor in reduced coordinates, made of standard normal ones of all."""
        return placed(self.centre, self.deviations, self.directions, mean, factor[:-1, :-1], factor[-1, -1], z)

    def slope(self, x: Floats, slope: Floats) -> Floats:
        """Return the gradient by a vector of what has this gradient by its reduced coordinates."""
        z = (x - self.centre) / self.deviations
        off = z - self.directions @ (z @ self.directions)
        distance = np.sqrt(max(float(off @ off), LEAST_SQUARE))
        return np.asarray((self.directions @ slope[:-1] + off * (slope[-1] / distance)) / self.deviations)

    def dense(self, mean: Floats, factor: Floats) -> tuple[Floats, Floats]:
        """Return a mean and a scale matrix in all coordinates."""
        width = factor[-1, -1] ** 2
        within = factor[:-1, :-1] @ factor[:-1, :-1].T - width * np.eye(self.n_directions)
        scale = self.directions @ within @ self.directions.T + width * np.eye(self.centre.size)
        place = self.centre + self.deviations * (self.directions @ mean[:-1])
        return place, scale * np.outer(self.deviations, self.deviations)

    def projected(self, place: Floats, factor: Floats) -> tuple[Floats, Floats]:
        """Return a mean and a covariance in reduced coordinates of those given in all: as near as there is one."""
        scaled = factor / self.deviations[:, None]
        along = self.directions.T @ scaled
        covariance = np.zeros((self.n_directions + 1,) * 2)
        covariance[:-1, :-1] = along @ along.T
        covariance[-1, -1] = max(np.sum(scaled**2) - np.trace(covariance), LEAST_SQUARE) / self.n_across
        mean = np.append(((place - self.centre) / self.deviations) @ self.directions, 0.0)
        return mean, covariance

    def of_rank(self, n_directions: int) -> Subspace:
        """Return the subspace of the first directions alone."""
        return Subspace(self.centre, self.deviations, self.directions[:, :n_directions])

    def __repr__(self) -> str:
        return f"Subspace({self.n_directions} directions in {self.centre.size} dimensions)"


def reduced(centre: Array, deviations: Array, directions: Array, x: Array) -> Any:
    """Return coordinates along directions, and the distance from them; NumPy or JAX."""
    xp = x.__array_namespace__()
    z = (x - centre) / deviations
    along = z @ directions
    off = z - along @ directions.T  # not from squares: a narrow width would be lost in a long way along
    square = xp.maximum(xp.sum(off**2, axis=-1, keepdims=True), LEAST_SQUARE)
    return xp.concatenate([along, xp.sqrt(square)], axis=-1)


def placed(
    centre: Array, deviations: Array, directions: Array, mean: Array, factor: Array, width: Array, z: Array
) -> Any:
    """Return vectors made of standard ones: by a factor along the directions, by one width across; NumPy or JAX."""
    along = z @ directions
    moved = mean[..., :-1] + along @ factor.T - width * along
    return centre + deviations * (moved @ directions.T + width * z)
