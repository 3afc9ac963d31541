"""Moves of the vector engine, one chain each; the engine maps them over chains.

A density is a function of a flat vector that returns (base, energy). A move takes a key, a particle, an inverse
temperature and one rung's settings, and returns the particle and the acceptance of each simple kernel in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.kernels.composite import Cycle, Mixture, leaves
from tempering.kernels.independence import DEGREES_OF_FREEDOM
from tempering.kernels.settings import Settings, is_dense
from tempering.kernels.slice_sampling import MAX_STEPS_OUT
from tempering.kernels.uniforms import uniforms

Density = Callable[[Any], tuple[Any, Any]]
Move = Callable[[Any, Any, Any, Any], tuple[Any, Any]]

REDRAW, UNIFORMS = 0x7FFFFFFF, 0x7FFFFFFE  # folded into a key for streams apart: no move takes so many numbers from it


class Draw(NamedTuple):
    """An exact draw of the base: a flat vector made of uniform numbers, or of a key of its own."""

    position: Callable[[Any, Any], Any]  # (the move's key, uniforms) -> flat vector
    n_uniforms: int = 0
    is_exact: Any = True  # an array that says no, where the path at hand has a base that cannot be drawn from

    @classmethod
    def by_key(cls, sample: Callable[[Any], Any]) -> Draw:
        """Make a draw of a function of a key."""
        return cls(lambda key, _: sample(jax.random.fold_in(key, REDRAW)))


class Particle(NamedTuple):
    """A position with its two log densities: nobody evaluates them twice."""

    position: Any
    base: Any
    energy: Any


@jax.custom_jvp
def expose_nan(value: Any) -> Any:
    """Turn NaN into +inf, flat: such a point is accepted at once, seen and named, instead of silently rejected."""
    return jnp.where(jnp.isnan(value), jnp.inf, value)


@expose_nan.defjvp
def _expose_nan_jvp(primals: Any, tangents: Any) -> Any:
    (value,), (tangent,) = primals, tangents
    return expose_nan(value), jnp.where(jnp.isnan(value), 0.0, tangent)


def at(density: Density, position: Any) -> Particle:
    """Evaluate a position. Where the base ends the energy is -inf, whatever the user's function says there."""
    base, energy = density(position)
    base = expose_nan(base)
    outside = base == -jnp.inf
    return Particle(position, base, jnp.where(outside, -jnp.inf, expose_nan(energy)))


def tempered(particle: Particle, k: Any) -> Any:
    """Return base + k * energy; at k = 0 the energy plays no part, even if it is -inf."""
    return particle.base + jnp.where(k == 0.0, 0.0, k * jnp.where(k == 0.0, 0.0, particle.energy))


def shaped(factor: Any, z: Any) -> Any:
    """Return factor @ z, where a factor may be a column of standard deviations."""
    return factor @ z if is_dense(factor) else factor[:, 0] * z


def decide(uniform: Any, old: Particle, new: Particle, log_ratio: Any) -> tuple[Particle, Any]:
    """Accept by Metropolis' rule; return the particle and the probability of it."""
    probability = jnp.exp(jnp.minimum(log_ratio, 0.0))
    accepted = uniform < probability
    particle = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)
    return particle, probability[None]


def normal_of(uniform: Any) -> Any:
    """Return standard normal numbers made of uniform ones in [0, 1), as `jax.random.normal` makes them."""
    least = np.nextafter(np.array(-1.0, uniform.dtype), np.array(0.0, uniform.dtype))
    return np.sqrt(2.0).astype(uniform.dtype) * jax.lax.erf_inv(jnp.maximum(least, uniform * (1.0 - least) + least))


def log_ratio_of_fresh(particle: Particle, fresh: Particle, k: Any) -> Any:
    """Return the log ratio of accepting a draw of the base: the base's densities cancel, and at k = 0 it is certain."""
    return jnp.where(k == 0.0, jnp.inf, k * jnp.where(k == 0.0, 0.0, fresh.energy - particle.energy))


def random_walk(density: Density, draw: Draw | None = None) -> Move:
    """Build random-walk Metropolis; with a ``draw`` of the base, some proposals are such draws, at k = 0 all.

    The density is evaluated once, whichever it is: programs are shorter, to compile and to run.
    """

    def walk(key: Any, particle: Particle, k: Any, setting: Settings) -> tuple[Particle, Any]:
        x = particle.position
        steps, (decision,) = uniforms(key, x.size, 1, dtype=x.dtype)
        there = at(density, x + setting.scale * shaped(setting.factor, normal_of(steps)))
        return decide(decision, particle, there, tempered(there, k) - tempered(particle, k))

    def walk_or_draw(key: Any, particle: Particle, k: Any, setting: Settings) -> tuple[Particle, Any]:
        assert draw is not None
        x = particle.position
        steps, (choice, decision), rest = uniforms(key, x.size, 2, draw.n_uniforms, dtype=x.dtype)
        is_fresh = draw.is_exact & ((k == 0.0) | (choice < (0.0 if setting.fresh is None else setting.fresh)))
        fresh = draw.position(key, rest)
        step = x + setting.scale * shaped(setting.factor, normal_of(steps))
        there = at(density, jnp.where(is_fresh, fresh, step))
        log_ratio = tempered(there, k) - tempered(particle, k)
        log_ratio = jnp.where(is_fresh, log_ratio_of_fresh(particle, there, k), log_ratio)
        moved, acceptance = decide(decision, particle, there, log_ratio)
        return moved, jnp.where(is_fresh, jnp.nan, acceptance)

    return walk if draw is None else walk_or_draw


def independence(density: Density) -> Move:
    """Build independent proposals from the rung's own multivariate t."""
    nu = DEGREES_OF_FREEDOM

    def log_proposal(x: Any, setting: Settings) -> Any:
        residual = x - setting.centre
        if is_dense(setting.factor):
            residual = jax.scipy.linalg.solve_triangular(setting.factor, residual, lower=True)
        else:
            residual = residual / setting.factor[:, 0]
        distance = jnp.sum(residual**2) / setting.scale**2
        return -0.5 * (nu + x.size) * jnp.log1p(distance / nu)

    def move(key: Any, particle: Particle, k: Any, setting: Settings) -> tuple[Particle, Any]:
        key_step, key_tail, key_accept = jax.random.split(key, 3)
        x = particle.position
        z = jax.random.normal(key_step, x.shape, x.dtype)
        stretch = setting.scale * jnp.sqrt(nu / (2.0 * jax.random.gamma(key_tail, nu / 2.0, dtype=x.dtype)))
        proposal = at(density, setting.centre + stretch * shaped(setting.factor, z))
        log_ratio = tempered(proposal, k) - tempered(particle, k)
        log_ratio += log_proposal(x, setting) - log_proposal(proposal.position, setting)
        uniform = jax.random.uniform(key_accept, dtype=x.dtype)
        return decide(uniform, particle, proposal, log_ratio)

    return move


def slice_along_direction(density: Density) -> Move:
    """Build one slice update along a Gaussian direction of the rung's shape."""

    def move(key: Any, particle: Particle, k: Any, setting: Settings) -> tuple[Particle, Any]:
        key_direction, key_slice = jax.random.split(key)
        x = particle.position
        z = jax.random.normal(key_direction, x.shape, x.dtype)
        direction = setting.scale * shaped(setting.factor, z)
        return _slice_along(key_slice, density, particle, k, direction), jnp.ones(1)

    return move


def slice_coordinates(density: Density) -> Move:
    """Build a sweep of slice updates, one a coordinate."""

    def move(key: Any, particle: Particle, k: Any, setting: Settings) -> tuple[Particle, Any]:
        d = particle.position.size
        widths = setting.scale * jnp.sqrt(jnp.sum(setting.factor**2, axis=-1))

        def update(i: Any, particle: Particle) -> Particle:
            direction = jnp.zeros(d).at[i].set(widths[i])
            return _slice_along(jax.random.fold_in(key, i), density, particle, k, direction)

        return jax.lax.fori_loop(0, d, update, particle), jnp.ones(1)

    return move


def _slice_along(key: Any, density: Density, particle: Particle, k: Any, direction: Any) -> Particle:
    """Draw from the slice through the particle along a direction, by stepping out and shrinking (Neal 2003)."""
    key_level, key_place, key_share, key_shrink = jax.random.split(key, 4)
    x = particle.position
    height = tempered(particle, k)
    height = jnp.where(height == jnp.inf, -jnp.inf, height)  # a NaN already seen: nothing lies above it
    level = height - jax.random.exponential(key_level, dtype=x.dtype)

    def inside(shift: Any) -> Any:
        return tempered(at(density, x + shift * direction), k) > level

    def step_out(end: Any, step: float, limit: Any) -> Any:
        def going(carry: Any) -> Any:
            end, taken = carry
            return (taken < limit) & inside(end)

        return jax.lax.while_loop(going, lambda c: (c[0] + step, c[1] + 1), (end, 0))[0]

    left = -jax.random.uniform(key_place, dtype=x.dtype)
    steps_left = jnp.int32(MAX_STEPS_OUT * jax.random.uniform(key_share))
    bracket = (step_out(left, -1.0, steps_left), step_out(left + 1.0, 1.0, MAX_STEPS_OUT - 1 - steps_left))

    def shrinking(carry: Any) -> Any:
        left, right, _, _, found = carry
        return ~found & (right - left > 1e-300)

    def shrink(carry: Any) -> Any:
        left, right, _, i, _ = carry
        shift = left + (right - left) * jax.random.uniform(jax.random.fold_in(key_shrink, i), dtype=x.dtype)
        proposal = at(density, x + shift * direction)
        found = tempered(proposal, k) > level
        left, right = jnp.where(shift < 0, shift, left), jnp.where(shift < 0, right, shift)
        kept = jax.tree.map(lambda a, b: jnp.where(found, a, b), proposal, particle)
        return left, right, kept, i + 1, found

    return jax.lax.while_loop(shrinking, shrink, (*bracket, particle, 0, jnp.array(False)))[2]


def build_move(kernel: Any, density: Density, draw: Draw | None = None) -> Move:
    """Build the move of any kernel; settings are a tuple, one a simple kernel. At k = 0 it is a ``draw``."""
    if draw is None:
        return _build_local(kernel, density)
    if hasattr(kernel, "vector_move_or_draw"):
        simple = kernel.vector_move_or_draw(density, draw)
        return lambda key, particle, k, settings: simple(key, particle, k, settings[0])
    return _redrawing(_build_local(kernel, density), density, draw)


def _build_local(kernel: Any, density: Density) -> Move:
    if isinstance(kernel, Mixture):
        return _mixture(kernel, density)
    if isinstance(kernel, Cycle):
        return _cycle(kernel, density)
    simple = kernel.vector_move(density)
    return lambda key, particle, k, settings: simple(key, particle, k, settings[0])


def _redrawing(move: Move, density: Density, draw: Draw) -> Move:
    """Let an exact draw of the base be proposed after each move: accepted at k = 0, where it starts a new tour."""

    def move_or_redraw(key: Any, particle: Particle, k: Any, settings: Any) -> tuple[Particle, Any]:
        moved, acceptance = move(key, particle, k, settings)
        own = jax.random.fold_in(key, UNIFORMS)
        decision, numbers = uniforms(own, 1, draw.n_uniforms, dtype=particle.position.dtype)
        fresh = at(density, draw.position(key, numbers))
        log_ratio = jnp.where(draw.is_exact, log_ratio_of_fresh(moved, fresh, k), -jnp.inf)
        chosen, _ = decide(decision[0], moved, fresh, log_ratio)
        return chosen, jnp.where(draw.is_exact & (k == 0.0), jnp.nan, acceptance)

    return move_or_redraw


def _parts(kernels: Sequence[Any], density: Density) -> list[tuple[Move, slice]]:
    parts, start = [], 0
    for kernel in kernels:
        n = len(leaves(kernel))
        parts.append((_build_local(kernel, density), slice(start, start + n)))
        start += n
    return parts


def _cycle(kernel: Cycle, density: Density) -> Move:
    parts = _parts(kernel.kernels, density)

    def move(key: Any, particle: Any, k: Any, settings: Any) -> tuple[Any, Any]:
        acceptances = []
        for i, (part, own) in enumerate(parts):
            particle, acceptance = part(jax.random.fold_in(key, i), particle, k, settings[own])
            acceptances.append(acceptance)
        return particle, jnp.concatenate(acceptances)

    return move


def _mixture(kernel: Mixture, density: Density) -> Move:
    parts = _parts(kernel.kernels, density)
    n = len(leaves(kernel))
    log_probabilities = jnp.log(jnp.asarray(kernel.probabilities))

    def branch(part: Move, own: slice) -> Any:
        def run(key: Any, particle: Any, k: Any, settings: Any) -> tuple[Any, Any]:
            particle, acceptance = part(key, particle, k, settings[own])
            return particle, jnp.full(n, jnp.nan, acceptance.dtype).at[own].set(acceptance)

        return run

    branches = [branch(part, own) for part, own in parts]

    def move(key: Any, particle: Any, k: Any, settings: Any) -> tuple[Any, Any]:
        key_choice, key_move = jax.random.split(key)
        which = jax.random.categorical(key_choice, log_probabilities)
        return jax.lax.switch(which, branches, key_move, particle, k, settings)  # type: ignore[no-any-return]

    return move
