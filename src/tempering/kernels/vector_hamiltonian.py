"""Hamiltonian moves of the vector engine (Neal 2011): one gradient more than leapfrog steps, and one value.

A user's density stands in two places of the program, once with its gradient, however many steps there are and whether
or not a fresh draw is tried: compiling each copy takes as long as the whole rest of a move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tempering.kernels import vector
from tempering.kernels.hamiltonian import SPREAD_OF_STEPS
from tempering.kernels.kernel import Density, Move
from tempering.kernels.settings import Settings, is_dense
from tempering.kernels.uniforms import normals_and_uniforms
from tempering.kernels.vector import Draw, Particle, Rung, Tries, at, decide, shaped, tempered


class _Slope(NamedTuple):
    """The whitened gradient at a place, whether a trajectory can go on from there, and whether it is no number."""

    gradient: Any
    goes_on: Any
    n_invalid: Any


class _Trajectory(NamedTuple):
    position: Any
    momentum: Any
    step: Any
    log_step: Any
    slope: _Slope


def hamiltonian(density: Density, n_steps: int, draws: Sequence[Draw] = ()) -> Move:
    """Build Hamiltonian moves in coordinates whitened by the rung's shape; after each, ``draws`` are tried."""
    tries = Tries(draws)

    def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        x = particle.position
        normals, (decision,) = normals_and_uniforms(key, x.size + 1, 1, x.dtype)
        is_local = jnp.asarray(rung.is_local) if draws else jnp.array(True)
        end, log_odds = _followed(density, jnp.where(is_local, n_steps + 1, 0), n_steps, rung, setting, x, normals)

        def decided(i: jax.Array, state: tuple[Particle, Any]) -> tuple[Particle, Any]:
            """Decide on the trajectory's end, then on what is tried after it.

            A value by itself: compiled with its gradient, one of -1e21 may come out as infinite (JAX 0.10.2).
            """
            old, acceptance = state
            is_end, place, by, n_invalid = jnp.array(True), end.position, decision, end.slope.n_invalid
            if draws:
                is_end = i == 0
                tried, uniform = tries.place(key, i - 1, old, rung, setting, drawn)
                place, by = jnp.where(is_end, place, tried.place), jnp.where(is_end, by, uniform)
                n_invalid = jnp.where(is_end, n_invalid, 0)
            there = at(density, place)
            there = there._replace(n_invalid=jnp.maximum(there.n_invalid, n_invalid))
            log_ratio = tempered(there, rung) - tempered(old, rung) + log_odds
            # off the support, or where the gradient is infinite, a trajectory cannot go on, nor could its reverse
            log_ratio = jnp.where(end.slope.goes_on & ~jnp.isnan(log_ratio), log_ratio, -jnp.inf)
            if draws:
                log_ratio = jnp.where(is_end, log_ratio, vector.log_ratio_of_try(old, there, rung, tried))
            new, probability = decide(by, old, there, log_ratio)
            return new, jnp.where(is_end, probability, acceptance)

        # in an iteration without a local move there are no steps, and nothing is evaluated but what is tried after it
        first = jnp.where(is_local, 0, 1)
        drawn = tries.drawn_by_key(key, x)
        unknown = (particle, jnp.full(1, jnp.nan, x.dtype))
        moved, acceptance = jax.lax.fori_loop(first, 1 + tries.n_in(rung), decided, unknown)
        return moved, jnp.where(vector.is_at_end(rung), jnp.nan, acceptance) if draws else acceptance

    return move


def _followed(
    density: Density, n_leaps: jax.Array, n_steps: int, rung: Rung, setting: Settings, x: jax.Array, normals: jax.Array
) -> tuple[_Trajectory, Any]:
    """Return the end of a trajectory of so many leaps, and how much likelier its reverse is drawn than it was."""
    start, luck = normals[: x.size], SPREAD_OF_STEPS * normals[x.size]

    def leap(i: jax.Array, state: _Trajectory) -> _Trajectory:
        """Step, then kick: the first step is none, and the first and the last kick are half ones."""
        place = state.position + state.step * shaped(setting.factor, state.momentum)
        slope = _slope_at(density, place, rung, setting)
        log_step = jnp.where(i == 0, luck + log_width(slope.gradient), state.log_step)
        step = setting.scale * jnp.exp(log_step)
        kick = jnp.where((i == 0) | (i == n_steps), 0.5, 1.0) * step
        after = _Trajectory(place, state.momentum + kick * slope.gradient, step, log_step, slope)
        return jax.tree.map(lambda new, old: jnp.where(state.slope.goes_on, new, old), after, state)  # type: ignore[no-any-return]

    nothing = jnp.zeros((), x.dtype)
    begun = _Slope(jnp.zeros_like(x), jnp.array(True), jnp.zeros((), jnp.int32))
    end = jax.lax.fori_loop(0, n_leaps, leap, _Trajectory(x, start, nothing, nothing, begun))
    back = end.log_step - log_width(end.slope.gradient)  # what the reverse would have to draw
    log_odds = 0.5 * (start @ start - end.momentum @ end.momentum) + 0.5 * (luck**2 - back**2) / SPREAD_OF_STEPS**2
    return end, log_odds


def log_width(slope: jax.Array) -> Any:
    """Return the log of how wide a density is around a place (`kernels.hamiltonian.log_width`)."""
    return -0.5 * jnp.log(1.0 + slope @ slope / slope.size)


def _slope_at(density: Density, x: jax.Array, rung: Rung, setting: Settings) -> _Slope:
    def height(x: jax.Array) -> tuple[Any, Any]:
        particle = at(density, x)
        return tempered(particle, rung), (particle.n_invalid, jnp.all(jnp.isfinite(particle.terms)))

    (value, (n_invalid, is_inside)), gradient = jax.value_and_grad(height, has_aux=True)(x)
    slope = gradient @ setting.factor if is_dense(setting.factor) else gradient * setting.factor[:, 0]
    goes_on = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope))
    no_slope = is_inside & jnp.any(jnp.isnan(slope))  # counted, for nobody comes to such places
    n_invalid = jnp.maximum(n_invalid, no_slope.astype(jnp.int32))
    return _Slope(jnp.where(goes_on, slope, 0.0), goes_on, n_invalid)
