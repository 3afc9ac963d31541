"""Hamiltonian moves of the vector engine (Neal 2011): one gradient more than leapfrog steps, and one value."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tempering.kernels.hamiltonian import SPREAD_OF_STEPS
from tempering.kernels.kernel import Density, Move
from tempering.kernels.settings import Settings, is_dense
from tempering.kernels.vector import Particle, Rung, at, decide, normal_of, shaped, tempered


class _Sloped(NamedTuple):
    """A place on a trajectory: its whitened gradient, and whether one can go on from it."""

    particle: Particle
    slope: jax.Array
    goes_on: Any


class _Trajectory(NamedTuple):
    momentum: Any
    point: _Sloped


def hamiltonian(density: Density, n_steps: int) -> Move:
    """Build Hamiltonian moves in coordinates whitened by the rung's shape."""

    def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        x = particle.position
        uniforms = jax.random.uniform(key, (x.size + 2,), x.dtype)
        normals = normal_of(uniforms[: x.size + 1])
        start, luck = normals[: x.size], SPREAD_OF_STEPS * normals[x.size]
        here = _sloped(density, x, rung, setting)
        log_step = luck + log_width(here.slope)
        step = setting.scale * jnp.exp(log_step)

        def leap(_: Any, state: _Trajectory) -> _Trajectory:
            half = state.momentum + 0.5 * step * state.point.slope
            there = _sloped(density, state.point.particle.position + step * shaped(setting.factor, half), rung, setting)
            after = _Trajectory(half + 0.5 * step * there.slope, there)
            return jax.tree.map(lambda new, old: jnp.where(state.point.goes_on, new, old), after, state)  # type: ignore[no-any-return]

        end = jax.lax.fori_loop(0, n_steps, leap, _Trajectory(start, here))
        # a value by itself: compiled with its gradient, one of -1e21 may come out as infinite (JAX 0.10.2)
        there = at(density, end.point.particle.position)
        there = there._replace(n_invalid=jnp.maximum(there.n_invalid, end.point.particle.n_invalid))
        log_ratio = tempered(there, rung) - tempered(particle, rung)
        log_ratio += 0.5 * (start @ start - end.momentum @ end.momentum)
        back = log_step - log_width(end.point.slope)  # what the reverse would have to draw
        log_ratio += 0.5 * (luck**2 - back**2) / SPREAD_OF_STEPS**2
        # off the support, or where the gradient is infinite, a trajectory cannot go on, nor could its reverse
        log_ratio = jnp.where(end.point.goes_on & ~jnp.isnan(log_ratio), log_ratio, -jnp.inf)
        return decide(uniforms[x.size + 1], particle, there, log_ratio)

    return move


def log_width(slope: jax.Array) -> Any:
    """Return the log of how wide a density is around a place (`kernels.hamiltonian.log_width`)."""
    return -0.5 * jnp.log1p(slope @ slope / slope.size)


def _sloped(density: Density, x: jax.Array, rung: Rung, setting: Settings) -> _Sloped:
    def height(x: jax.Array) -> tuple[Any, Particle]:
        particle = at(density, x)
        return tempered(particle, rung), particle

    (value, particle), gradient = jax.value_and_grad(height, has_aux=True)(x)
    slope = gradient @ setting.factor if is_dense(setting.factor) else gradient * setting.factor[:, 0]
    goes_on = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope))
    no_slope = jnp.isfinite(value) & jnp.any(jnp.isnan(slope))  # counted, for nobody comes to such places
    particle = particle._replace(n_invalid=jnp.maximum(particle.n_invalid, no_slope.astype(jnp.int32)))
    return _Sloped(particle, jnp.where(goes_on, slope, 0.0), goes_on)
