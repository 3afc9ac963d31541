"""Random-walk Metropolis at one inverse temperature, on both engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tempering.kernels.kernel import Density, Functions, Move, Particle, ScalarMove, Settings, Vector
from tempering.kernels.scalar import evaluate, gaussian_step, move_to_proposal, tempered
from tempering.randomness import accept

if TYPE_CHECKING:
    from tempering.kernels.vector import Draw


@dataclass(frozen=True)
class RandomWalk:
    """Propose Gaussian steps and accept by Metropolis' rule.

    Parameters
    ----------
    scale : float, optional
        Starting step size of the cold rung; rung i starts at scale * k_i^(-1/2). By default 2.4 / sqrt(d).
    covariance : {"auto", "dense", "diagonal", "identity"}
        What tuning learns about the shape of each rung; "auto" is dense up to 16 dimensions.
    """

    allocates: ClassVar[bool] = False

    scale: float | None = None
    covariance: str = "auto"

    def starting_scale(self, dimension: int) -> float:
        """Return the step size tuning starts from, in units of the shape."""
        return self.scale if self.scale is not None else 2.4 / float(np.sqrt(dimension))

    def target_acceptance(self, dimension: int) -> float:
        """Return the acceptance to tune to: 0.44 in one dimension, 0.234 in many (Roberts et al. 1997)."""
        return 0.234 + 0.206 / dimension

    @property
    def scalar_move(self) -> ScalarMove:
        """The move of the scalar engine."""
        return random_walk

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine."""
        from tempering.kernels import vector

        return vector.random_walk(density)

    def vector_move_or_draw(self, density: Density, draws: Sequence[Draw]) -> Move:
        """Build the move that may be an exact draw of the rung's source, at an end always."""
        from tempering.kernels import vector

        return vector.random_walk(density, draws)


def random_walk(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Settings,
    rung: int, acceptance: Vector,
) -> Particle:  # fmt: skip
    """Step once; see `tempering.kernels.scalar` for the particle."""
    scale, factor, _ = settings
    x, proposal, here, there = particle
    gaussian_step(rng, x, scale[rung], factor[rung], proposal)
    evaluate(density, proposal, there)
    acceptance[0] = 0.0
    if accept(rng, tempered(there, coefficients) - tempered(here, coefficients)):
        move_to_proposal(particle)
        acceptance[0] = 1.0
    return particle
