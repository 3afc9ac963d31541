"""Independent proposals from a heavy-tailed fit of each rung, on both engines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempering.kernels.kernel import Density, Functions, Move, Particle, ScalarMove, Settings, Vector
from tempering.kernels.scalar import evaluate, gaussian_step, move_to_proposal, tempered
from tempering.randomness import accept

DEGREES_OF_FREEDOM = 5.0  # tails heavier than those of any density with a finite fourth moment's Gaussian fit


@dataclass(frozen=True)
class Independence:
    """Propose from a multivariate t with each rung's fitted centre and covariance.

    Works where a rung is close to one hump; mix it with a local kernel otherwise.
    """

    scale: float = 1.0
    covariance: str = "auto"

    def starting_scale(self, dimension: int) -> float:
        """Return the factor by which the fitted covariance's root is stretched."""
        return self.scale

    def target_acceptance(self, dimension: int) -> float | None:
        """Return None: the fit alone decides."""
        return None

    @property
    def scalar_move(self) -> ScalarMove:
        """The move of the scalar engine."""
        return independence

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine."""
        from tempering.kernels import vector

        return vector.independence(density)


def independence(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Settings,
    rung: int, acceptance: Vector,
) -> Particle:  # fmt: skip
    """Propose from the rung's own t distribution, whatever the position."""
    scale, factor, centre = settings
    x, proposal, here, there = particle
    stretch = scale[rung] * np.sqrt(DEGREES_OF_FREEDOM / rng.chisquare(DEGREES_OF_FREEDOM))
    gaussian_step(rng, centre[rung], stretch, factor[rung], proposal)
    evaluate(density, proposal, there)
    log_ratio = tempered(there, coefficients) - tempered(here, coefficients)
    log_ratio += log_proposal(x, scale[rung], factor[rung], centre[rung])
    log_ratio -= log_proposal(proposal, scale[rung], factor[rung], centre[rung])
    acceptance[0] = 0.0
    if accept(rng, log_ratio):
        move_to_proposal(particle)
        acceptance[0] = 1.0
    return particle


def log_proposal(x: Vector, scale: float, factor: NDArray[np.float64], centre: Vector) -> float:
    """Return the log density of the t proposal at ``x``, up to a constant of the rung."""
    d = x.size
    residual = x - centre
    for i in range(d):  # forward substitution; a column factor is its own diagonal
        if factor.shape[1] > 1:
            for j in range(i):
                residual[i] -= factor[i, j] * residual[j]
            residual[i] /= factor[i, i]
        else:
            residual[i] /= factor[i, 0]
    distance = np.sum(residual**2) / scale**2
    return float(-0.5 * (DEGREES_OF_FREEDOM + d) * np.log1p(distance / DEGREES_OF_FREEDOM))
