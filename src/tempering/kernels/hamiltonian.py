"""Hamiltonian moves at one inverse temperature (Neal 2011): gradients by JAX, or those that a target brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tempering.errors import TargetError, check_count
from tempering.kernels.kernel import Density, Function, Functions, Move, Particle, ScalarMove, Settings, Vector
from tempering.kernels.scalar import move_to_proposal, tempered
from tempering.kernels.settings import is_dense
from tempering.path.stacked import References
from tempering.randomness import accept
from tempering.target.gradients import gradient_of

if TYPE_CHECKING:
    from tempering.kernels.vector import Draw

SPREAD_OF_STEPS = 0.5  # standard deviation of a step's log: below .3 moves are lost in few dimensions, above .8 in many
LEAST_SCALE = 0.05


@dataclass(frozen=True)
class Hamiltonian:
    """Follow the gradient for a few leapfrog steps, in coordinates whitened by the rung's shape.

    Steps are short where the density is narrow: their size is drawn around one that the gradient at the start sets,
    and the move is accepted by how likely the gradient at its end would have set it (Bou-Rabee, Carpenter and Marsden
    2024). So one scale serves modes of different widths, and a funnel's neck as well as its mouth.

    A move takes one gradient more than it has leapfrog steps. On the scalar engine the target must bring its gradient:
    an object with ``log_density`` and ``log_density_gradient``, such as a BridgeStan model.

    Parameters
    ----------
    n_steps : int
        Leapfrog steps of a move. The scale of their size is tuned.
    covariance : {"auto", "dense", "diagonal", "identity"}
        What tuning learns about the shape of each rung; "auto" is dense up to 16 dimensions.
    """

    needs_gradient: ClassVar[bool] = True

    n_steps: int = 4
    covariance: str = "auto"

    def __post_init__(self) -> None:
        check_count("n_steps", self.n_steps, error=TargetError)

    def starting_scale(self, dimension: int) -> float:
        """Return the step size tuning starts from, in units of the shape, or of the density's width if that is less."""
        return 0.7

    def target_acceptance(self, dimension: int) -> float:
        """Return the acceptance to tune to: 0.65 is best for long trajectories (Beskos et al. 2013), more for short."""
        return 0.7

    @property
    def calls(self) -> float:
        """Evaluations that a move is worth: a gradient takes about as long as three (Griewank and Walther 2008)."""
        return 3.0 * (self.n_steps + 1) + 1.0

    @property
    def local_scales(self) -> tuple[float, float]:
        """The least and the largest scale in a shape that was learnt.

        Stiff directions need the one. At the other a move is a quarter of a period, after which a normal distribution
        has forgotten where it began; steps are 1/sqrt(2) of their scale there. Longer moves would come back.
        """
        return LEAST_SCALE, 2.0 * np.sqrt(2.0) * np.sin(0.25 * np.pi / self.n_steps)

    @property
    def scalar_move(self) -> ScalarMove:
        """The move of the scalar engine."""
        return _of_length(self.n_steps)

    def vector_move(self, density: Density) -> Move:
        """Build the move of the vector engine."""
        from tempering.kernels.vector_hamiltonian import hamiltonian

        return hamiltonian(density, self.n_steps)

    def vector_move_or_draw(self, density: Density, draws: Sequence[Draw]) -> Move:
        """Build the move after which an exact draw of the rung's source is tried."""
        from tempering.kernels.vector_hamiltonian import hamiltonian

        return hamiltonian(density, self.n_steps, draws)


@lru_cache(maxsize=32)
def _of_length(n_steps: int) -> ScalarMove:
    return partial(hamiltonian, n_steps=n_steps)


def hamiltonian(
    rng: np.random.Generator, density: Functions, particle: Particle, coefficients: Vector, settings: Settings,
    rung: int, acceptance: Vector, *, n_steps: int,
) -> Particle:  # fmt: skip
    """Follow one trajectory; a trajectory that leaves the support is rejected, as its reverse would be."""
    scale, factor, _ = settings
    x, proposal, here, there = particle
    start, luck = rng.standard_normal(x.size), SPREAD_OF_STEPS * rng.standard_normal()
    momentum, proposal[:] = start, x
    with np.errstate(over="ignore", invalid="ignore"):  # of trajectories that run off
        slope = whitened_slope(density, proposal, coefficients, factor[rung], there)
        log_step = luck + log_width(slope) if slope is not None else 0.0
        step = scale[rung] * np.exp(log_step)
        for _ in range(n_steps):
            if slope is None:
                break
            momentum = momentum + 0.5 * step * slope
            proposal[:] = proposal + step * _coloured(factor[rung], momentum)
            slope = whitened_slope(density, proposal, coefficients, factor[rung], there)
            if slope is not None:
                momentum = momentum + 0.5 * step * slope
        log_ratio = tempered(there, coefficients) - tempered(here, coefficients)
        log_ratio += 0.5 * float(start @ start - momentum @ momentum)
        if slope is not None:
            back = log_step - log_width(slope)  # what the reverse would have to draw
            log_ratio += 0.5 * (luck**2 - back**2) / SPREAD_OF_STEPS**2
    if slope is None or np.isnan(log_ratio):
        log_ratio = -np.inf
    acceptance[0] = np.exp(min(log_ratio, 0.0))
    if accept(rng, log_ratio):
        move_to_proposal(particle)
    return particle


def log_width(slope: Vector) -> float:
    """Return the log of how wide a density is around a place, by its gradient in whitened coordinates; 0 at the most.

    For a normal distribution of standard deviation s the root mean square of a gradient's parts is 1 / s.
    """
    return float(-0.5 * np.log1p(slope @ slope / slope.size))


def whitened_slope(
    density: Functions, x: Vector, coefficients: Vector, factor: NDArray[np.float64], out: Vector
) -> Vector | None:
    """Write the terms at ``x`` into ``out`` and return the gradient of the rung in whitened coordinates.

    None where a trajectory cannot go on: outside the support, where the density is not a number, or where the gradient
    is infinite or not a number; the latter is counted, for nobody comes to such places.
    """
    energy, base, _, references = density
    n_references = references[0].size - 1
    n_own = out.size - 1 - n_references
    slope = np.zeros(x.size)
    out[:-1] = -np.inf
    for i, function in list(enumerate((energy, base)))[:n_own][::-1]:
        value, gradient = _value_and_gradient(function, x)
        if not value < np.inf:
            out[-1] += 1.0
        if not np.isfinite(value):
            return None
        out[i] = value
        if coefficients[i] != 0.0:
            slope = slope + coefficients[i] * gradient
    for i in range(n_references):
        out[n_own + i], gradient = mixture_slope(references, i, x)
        slope = slope + coefficients[n_own + i] * gradient
    if not np.all(np.isfinite(slope)):
        out[-1] += float(np.any(np.isnan(slope)))
        return None
    return np.asarray(factor.T @ slope if is_dense(factor) else factor[:, 0] * slope)


def _value_and_gradient(function: Function, x: Vector) -> tuple[float, Vector]:
    """Return the value and the gradient, checked."""
    value_and_gradient = gradient_of(function)
    assert value_and_gradient is not None
    value, gradient = value_and_gradient(x)
    slope = np.asarray(gradient, dtype=float)
    if slope.shape != x.shape:
        raise TargetError(
            f"log_density_gradient must return the value and a gradient of shape {x.shape}, but the gradient has shape "
            f"{slope.shape}. Return one derivative per coordinate."
        )
    return float(value), slope


def mixture_slope(references: References, which: int, x: Vector) -> tuple[float, Vector]:
    """Return the log density of one of several stacked mixtures, and its gradient."""
    first, log_heights, means, inverse_factors, freedom = references[:5]
    own = slice(first[which], first[which + 1])
    z = np.einsum("cij,cj->ci", inverse_factors[own], x - means[own])
    distance = np.sum(z**2, axis=1)
    log_parts = log_heights[own] - 0.5 * (freedom[own] + x.size) * np.log1p(distance / freedom[own])
    value = float(np.logaddexp.reduce(log_parts))
    pull = (freedom[own] + x.size) / (freedom[own] + distance)
    slopes = -pull[:, None] * np.einsum("cij,ci->cj", inverse_factors[own], z)
    return value, np.asarray(np.exp(log_parts - value) @ slopes)


def _coloured(factor: NDArray[np.float64], y: Vector) -> Vector:
    return np.asarray(factor @ y if is_dense(factor) else factor[:, 0] * y)
