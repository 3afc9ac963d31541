"""The pilot of sequential Monte Carlo: one population that chooses the temperatures and the kernel's settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tempering.arrays import Floats
from tempering.engines.streams import child
from tempering.errors import SamplerError
from tempering.estimators.resampling import next_inverse_temperature, systematic
from tempering.kernels.settings import Settings
from tempering.kernels.vector import Particle
from tempering.learning import kernel_settings
from tempering.path.ladder import Ladder
from tempering.populations.populations import (
    BATCH,
    STEPS,
    BatchMover,
    energy_of,
)
from tempering.randomness import stream
from tempering.target.layout import Layout

PILOT_STREAM = 0  # its stream
PILOT_BLOCKS = 4  # of moves on each rung; the kernel's scale is corrected after each
SHARE_KEPT = 0.5  # effective share of a population after a step in k (Del Moral et al. 2012: 1/2 and above)
MAX_RUNGS = 500
STILL = 0.01  # probability that a particle has not moved once on a rung
ENOUGH_MOVED = 4.0  # coordinates: a random walk in d of them needs about d / 4 times as many steps
LEAST_ANCESTORS = 32  # resampled on a rung, in each replicate, before its steps grow longer


class FirstPass(NamedTuple):
    """What a pilot learns, from hot to cold: temperatures, settings and acceptance of each; and its calls."""

    k: list[float]
    settings: list[tuple[Settings, ...]]
    acceptance: list[float]
    n_calls: int

    def sizes(self, draws: int, dimension: int) -> tuple[int, int]:
        """Return how many particles to resample on a rung, and how many steps to take from each.

        Steps enough for a particle to have moved, and, while ancestors do not become too few, for it to have gone
        some way; measured on Gaussians in 3 and 10 dimensions, 2 to 4 times the first number is best in 10.
        """
        stay = 1.0 - np.clip(min(self.acceptance), 0.05, 1.0 - 1e-9)
        least = np.log(STILL) / np.log(stay)
        wanted = least * max(1.0, dimension / ENOUGH_MOVED)
        affordable = draws / (len(self.k) * LEAST_ANCESTORS)
        n_moves = STEPS * int(np.ceil(max(least, min(wanted, affordable)) / STEPS))
        return max(LEAST_ANCESTORS // 2, draws // (len(self.k) * n_moves)), n_moves

    def __str__(self) -> str:
        return (
            f"pilot: {len(self.k)} temperatures, acceptance min {min(self.acceptance):.2f} mean "
            f"{np.mean(self.acceptance):.2f}"
        )


def run_pilot(mover: BatchMover, simple: Sequence[Any], seed: int, layout: Layout) -> FirstPass:
    """Choose temperatures and settings on the way of one population from the base to the target."""
    rng, key = stream(seed, PILOT_STREAM), child(seed, PILOT_STREAM)
    particles = mover.draw(child(key, 0), BATCH)
    k, pilot = 0.0, FirstPass([0.0], [], [], BATCH)
    settings = kernel_settings.start(simple, Ladder([1.0]), np.zeros(layout.size))
    while k < 1.0:
        check_support(energy_of(particles))
        before, k = k, next_inverse_temperature(energy_of(particles), k, SHARE_KEPT)
        log_weights = (k - before) * energy_of(particles)
        settings = _with_shape_of(settings, simple, particles.position, log_weights)
        particles = chosen(particles, systematic(rng, log_weights, BATCH))
        for block in range(PILOT_BLOCKS):
            block_key = child(key, PILOT_BLOCKS * len(pilot.k) + block)
            moved, accepted = mover.move(block_key, particles, k, row_of(settings), STEPS)
            particles, mean = chosen(moved, -1), np.nanmean(accepted, axis=(0, 1))
            tried = np.full((1, len(simple)), BATCH)
            settings = kernel_settings.rescaled(settings, simple, mean[None], tried, 1.0 / (1 + block))
        pilot = FirstPass(
            [*pilot.k, k],
            [*pilot.settings, settings] if pilot.settings else [settings, settings],  # k = 0 needs none
            [*pilot.acceptance, float(np.nanmin(mean))],
            pilot.n_calls + BATCH * STEPS * PILOT_BLOCKS,
        )
        if len(pilot.k) > MAX_RUNGS:
            raise SamplerError(
                f"A path should need no more than {MAX_RUNGS} temperatures, but after so many k is only {k:.2e}. "
                "The base is too far from the target: give a tighter prior, or take method='simulated'."
            )
    return pilot


def row_of(settings: tuple[Settings, ...]) -> tuple[Settings, ...]:
    """Return the settings of the only rung they hold."""
    return tuple(Settings(*(part[0] for part in setting)) for setting in settings)


def chosen(particles: Particle, index: Any) -> Particle:
    """Return the particles of an index (or slice) of the leading axis."""
    return Particle(*(part[index] for part in particles))


def _with_shape_of(
    settings: tuple[Settings, ...], simple: Sequence[Any], values: Floats, log_weights: Floats
) -> tuple[Settings, ...]:
    """Take the weighted population's shape; a step keeps its length in units of the shape."""
    used = log_weights > -np.inf
    shaped = kernel_settings.reshaped(settings, simple, values[used], log_weights[None, used])
    return tuple(new._replace(scale=old.scale) for new, old in zip(shaped, settings, strict=True))


def check_support(energy: Floats) -> None:
    """Refuse populations (in rows) of which no particle lies inside the support."""
    lost = ~np.any(np.atleast_2d(energy) > -np.inf, axis=1)
    if lost.any():
        raise SamplerError(
            f"Some particles of every population must lie inside the support, but the log density is -inf at all "
            f"{np.shape(energy)[-1]} of one. Give a prior that covers the target, or raise draws for larger ones."
        )
