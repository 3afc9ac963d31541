"""A target in other linear coordinates of the same volume: densities and evidence stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from tempering.arrays import Floats
from tempering.target.layout import Layout
from tempering.target.target import Target


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Positions x = centre + factor z, by z, which lie in flat vectors as positions do."""

    layout: Layout
    centre: Floats
    factor: Floats  # (d, d), of determinant 1
    inverse: Floats

    def placed(self, z: Any) -> Any:
        """Return the position, or positions with leading axes."""
        return self.layout.unflatten(self.flat_position(self.layout.flat(z)))

    def whitened(self, position: Any) -> Any:
        """Return the coordinates of a position."""
        return self.layout.unflatten(self.flat_whitened(self.layout.flat(position)))

    def flat_position(self, z: Any) -> Any:
        """Return the positions of flat vectors of coordinates."""
        return self.centre + z @ self.factor.T

    def flat_whitened(self, x: Any) -> Any:
        """Return the coordinates of flat vectors of positions."""
        return (x - self.centre) @ self.inverse.T

    def after(self, other: Coordinates) -> Coordinates:
        """Return these coordinates of other ones, as coordinates of what those are of."""
        centre = other.flat_position(self.centre)
        return Coordinates(self.layout, centre, other.factor @ self.factor, self.inverse @ other.inverse)


@dataclass(frozen=True)
class _Through:
    """A function of positions, by their coordinates."""

    function: Callable[[Any], Any]
    coordinates: Coordinates

    def __call__(self, z: Any) -> Any:
        return self.function(self.coordinates.placed(z))


@dataclass(frozen=True)
class _Whitened:
    """Draws of positions, as coordinates."""

    sample: Callable[[Any], Any]
    coordinates: Coordinates

    def __call__(self, rng: Any) -> Any:
        return self.coordinates.whitened(self.sample(rng))


def in_coordinates(target: Target, coordinates: Coordinates) -> Target:
    """Return a target of coordinates, whose draws are shown as positions."""
    found = copy(target)
    changed = {
        "energy": _Through(target.energy, coordinates),
        "base": None if target.base is None else _Through(target.base, coordinates),
        "sample_base": None if target.sample_base is None else _Whitened(target.sample_base, coordinates),
        "coordinates": coordinates if target.coordinates is None else coordinates.after(target.coordinates),
        "constrain": _Through(target.constrain or coordinates.layout.by_name, coordinates),
    }
    for name, value in changed.items():
        object.__setattr__(found, name, value)
    return found
