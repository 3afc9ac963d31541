"""Slice sampling at one inverse temperature: coordinate by coordinate, or along a random direction (Neal 2003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempering.kernels.kernel import Density, Functions, Move, Particle, ScalarMove, Settings, Vector
from tempering.kernels.scalar import evaluate, gaussian_step, move_to_proposal, tempered

MAX_STEPS_OUT = 32  # shared at random between the two sides, which keeps the move exact (Neal 2003, Fig. 3)


@dataclass(frozen=True)
class Slice:
    """Update each coordinate in turn from its slice, stepping out and shrinking.

    ``scale`` is the starting width in units of each coordinate's standard deviation. No tuning of acceptance is
    needed: every update moves.
    """

    scale: float = 3.0
    covariance: str = "diagonal"

    def starting_scale(self, dimension: int) -> float:
        """Return the width in units of the shape."""
        return self.scale

    def target_acceptance(self, dimension: int) -> float | None:
        """Return None: the width follows the shape alone."""
        return None

    @property
    def scalar_move(self) -> ScalarMove:
        """The move of the scalar engine."""
        return slice_coordinates

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine."""
        from tempering.kernels import vector

        return vector.slice_coordinates(density)


@dataclass(frozen=True)
class HitAndRunSlice:
    """Update the whole position from its slice along one random direction, drawn from the shape of the rung."""

    scale: float = 3.0
    covariance: str = "auto"

    def starting_scale(self, dimension: int) -> float:
        """Return the width in units of the shape."""
        return self.scale / float(np.sqrt(dimension))

    def target_acceptance(self, dimension: int) -> float | None:
        """Return None: the width follows the shape alone."""
        return None

    @property
    def scalar_move(self) -> ScalarMove:
        """The move of the scalar engine."""
        return slice_along_direction

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine."""
        from tempering.kernels import vector

        return vector.slice_along_direction(density)


def slice_coordinates(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Settings,
    rung: int, acceptance: Vector,
) -> Particle:  # fmt: skip
    """Update every coordinate once, in order."""
    scale, factor, _ = settings
    x = particle[0]
    direction = np.zeros(x.size)
    for i in range(x.size):
        direction[i] = scale[rung] * _deviation(factor[rung], i)
        slice_along(rng, density, particle, coefficients, direction)
        direction[i] = 0.0
    acceptance[0] = 1.0
    return particle


def slice_along_direction(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Settings,
    rung: int, acceptance: Vector,
) -> Particle:  # fmt: skip
    """Update along one Gaussian direction; its length is the width of the slice's first bracket."""
    scale, factor, _ = settings
    direction = np.zeros(particle[0].size)
    gaussian_step(rng, direction, scale[rung], factor[rung], direction)
    slice_along(rng, density, particle, coefficients, direction)
    acceptance[0] = 1.0
    return particle


def _deviation(factor: NDArray[np.float64], i: int) -> float:
    """Return the standard deviation of coordinate i: the length of the factor's row."""
    return float(np.sqrt(np.sum(factor[i] ** 2)))


def slice_along(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, direction: Vector
) -> None:
    """Draw from the slice through the particle along ``direction``, by stepping out and shrinking."""
    x, proposal, here, there = particle
    level = tempered(here, coefficients) - rng.standard_exponential()
    left = -rng.random()
    right = left + 1.0
    steps_left = int(MAX_STEPS_OUT * rng.random())
    left = _step_out(density, particle, coefficients, direction, left, -1.0, steps_left, level)
    right = _step_out(density, particle, coefficients, direction, right, 1.0, MAX_STEPS_OUT - 1 - steps_left, level)
    while True:
        shift = left + (right - left) * rng.random()
        proposal[:] = x + shift * direction
        evaluate(density, proposal, there)
        if tempered(there, coefficients) > level:
            move_to_proposal(particle)
            return
        if shift < 0.0:
            left = shift
        else:
            right = shift
        if right - left < 1e-300:  # the bracket has closed on the position itself
            return


def _step_out(
    density: Functions,
    particle: Particle,
    coefficients: Vector,
    direction: Vector,
    end: float,
    step: float,
    n_steps: int,
    level: float,
) -> float:
    x, proposal, _, there = particle
    for _ in range(n_steps):
        proposal[:] = x + end * direction
        evaluate(density, proposal, there)
        if tempered(there, coefficients) <= level:
            return end
        end += step
    return end
