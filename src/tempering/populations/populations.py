"""Whole populations of particles: drawn, weighted, resampled and moved, in batches of one size.

One batch size means one compilation, whatever the number of particles, replicates and temperatures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.arrays import Floats
from tempering.compiling.programs import jitted
from tempering.engines.densities import flat_vector, functions_of
from tempering.engines.streams import child
from tempering.kernels import vector
from tempering.target import Target
from tempering.target.layout import Layout

BATCH = 512  # particles moved together
STEPS = 4  # moves between two returns to Python


class BatchMover(NamedTuple):
    """The compiled draws and moves of one path and kernel; in batches, so that any number of particles will do.

    ``elsewhere(name, batches)`` returns what the method of that name returns for each batch, wherever it is run.
    """

    draw_batch: Any
    move_batch: Any
    layout: Layout
    elsewhere: Callable[[str, list[tuple[Any, ...]]], list[Any]] | None = None

    def draw(self, key: jax.Array, n: int) -> vector.Particle:
        """Draw ``n`` particles of the base."""
        n_batches = -(-n // BATCH)
        parts = self._each("drawn", [(child(key, i),) for i in range(n_batches)])
        particles: vector.Particle = jax.tree.map(lambda *a: np.concatenate(a)[:n], *parts)
        return particles

    def drawn(self, key: jax.Array) -> vector.Particle:
        """Draw one batch."""
        particles: vector.Particle = jax.tree.map(np.asarray, self.draw_batch(key))
        return particles

    def move(
        self, key: jax.Array, particles: vector.Particle, k: float, settings: Any, n_steps: int
    ) -> tuple[vector.Particle, Floats]:
        """Move every particle by ``n_steps``, a multiple of `STEPS`.

        Returns
        -------
        Particle, acceptance
            After every step; leading axes (step, particle).
        """
        n = len(particles.position)
        batches = []
        for batch, start in enumerate(range(0, n, BATCH)):
            index = np.minimum(np.arange(start, start + BATCH), n - 1)  # the last batch repeats its last particle
            now = jax.tree.map(lambda a: a[index], particles)  # noqa: B023
            batches.append((child(key, batch), now, k, settings, n_steps))
        parts = self._each("moved", batches)
        moved, acceptance = jax.tree.map(lambda *a: np.concatenate(a, axis=1)[:, :n], *parts)
        return moved, acceptance

    def moved(self, key: jax.Array, now: vector.Particle, k: float, settings: Any, n_steps: int) -> Any:
        """Move one batch."""
        blocks = []
        for block in range(n_steps // STEPS):
            now, outputs = self.move_batch(child(key, block), now, k, settings)
            blocks.append(jax.tree.map(np.asarray, outputs))
        return jax.tree.map(lambda *a: np.concatenate(a), *blocks)

    def _each(self, name: str, batches: list[tuple[Any, ...]]) -> list[Any]:
        if self.elsewhere is not None:
            return self.elsewhere(name, batches)
        return [getattr(self, name)(*batch) for batch in batches]


def energy_of(particles: vector.Particle) -> Floats:
    """Return what is tempered: the first of the two terms, the base being the second."""
    return np.asarray(particles.terms[..., 0])


@lru_cache(maxsize=32)
def build_mover(path: Target, kernel: Any, layout: Layout) -> BatchMover:
    """Compile once per (path, kernel, layout)."""
    assert path.base is not None
    assert path.sample_base is not None
    sample_base, functions = path.sample_base, functions_of(path, kernel, layout)
    density = partial(functions.density, ())

    def draw_one(key: jax.Array) -> vector.Particle:
        return vector.at(density, flat_vector(sample_base(key)))

    move_all = jax.vmap(vector.build_move(kernel, density), in_axes=(0, 0, None, None))

    def move_batch(key: jax.Array, particles: Any, k: Any, settings: Any) -> Any:
        def body(now: Any, step_key: jax.Array) -> Any:
            rung = vector.Rung(jnp.stack([k, 1.0]), -1)
            moved, acceptance = move_all(jax.random.split(step_key, BATCH), now, rung, settings)
            return moved, (moved, acceptance)

        return jax.lax.scan(body, particles, jax.random.split(key, STEPS))

    draw_batch = jitted(lambda key: jax.vmap(draw_one)(jax.random.split(key, BATCH)))
    return BatchMover(draw_batch, jitted(move_batch), layout)


def along_longest_axis(values: Floats) -> Floats:
    """Return the coordinate of each row along the longest axis of them all, by power iteration.

    Resampling particles in this order keeps the shares of regions that lie apart (Gerber, Chopin & Whiteley 2019).

    Examples
    --------
    >>> np.abs(along_longest_axis(np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])))
    array([5., 0., 5.])
    """
    residual = values - values.mean(axis=0)
    axis = residual[np.argmax(np.sum(residual**2, axis=1))]
    for _ in range(10):
        axis = residual.T @ (residual @ axis)
        axis /= max(float(np.linalg.norm(axis)), 1e-300)
    return np.asarray(residual @ axis)
