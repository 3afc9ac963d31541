"""Moves of the vector engine, one chain each; the engine maps them over chains.

A density is a function of a flat vector that returns the terms. A move takes a key, a particle, a rung's coefficients
and its settings, and returns the particle and the acceptance of each simple kernel in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tempering.kernels.composite import AnyKernel, Cycle, Mixture, leaves
from tempering.kernels.independence import DEGREES_OF_FREEDOM
from tempering.kernels.kernel import Density, Move
from tempering.kernels.settings import Settings, is_dense
from tempering.kernels.slice_sampling import MAX_STEPS_OUT
from tempering.kernels.uniforms import folded_in, normals_and_uniforms

Array = jax.Array | NDArray[np.float64]

EachOwn = tuple[Settings, ...]  # of each simple kernel

LEAPS = 4  # after each move, if there are modes to leap between: together they cost a third of a Hamiltonian one
LEAST_FRESH = 0.1  # of what is proposed after a move: a draw of the source may lead to what no leap does
HALVINGS = 6.0  # of a stretch's log: from 1, as distances vary on the hottest rungs, to 1/64, as in 2,000 dimensions
REDRAW = 0x7FFFFFFF  # folded into a key for a stream apart: no move takes so many numbers from it


class Rung(NamedTuple):
    """What a move needs to know of the rung it is made on."""

    coefficients: Any  # (term,): log pi_r = coefficients . terms
    source: Any  # the term that can be drawn from exactly, to be proposed now and then; -1 where there is none
    is_local: Any = True  # whether a kernel of many calls moves in this iteration; the same for all chains


class Leap(NamedTuple):
    """A step from one known mode to another, whose opposite is as likely; it stretches no volumes."""

    place: Callable[[Any, Any, Any], Any]  # (flat vector, three uniform numbers, at least one a coordinate) -> another
    is_there: Any  # whether there are modes to leap between


class Draw(NamedTuple):
    """Exact draws of some terms: flat vectors made of random numbers, or of a key of their own."""

    position: Callable[[Any, Any, Any, Any], Any]  # (the move's key, source, normals, uniforms) -> flat vector
    first: int  # of the terms: a source from here on, up to the next draw's, is drawn by this one
    n_normals: int = 0
    n_uniforms: int = 0
    leap: Leap | None = None  # between the modes of one of these terms
    is_by_key: bool = False  # by a user's function, with all random numbers it wants
    centre: Any = None  # of these terms, from which positions are stretched

    @classmethod
    def by_key(cls, sample: Callable[[Any], Any], term: int) -> Draw:
        """Make a draw of a function of a key."""
        return cls(lambda key, *_: sample(folded_in(key, REDRAW)), term, is_by_key=True)


class Particle(NamedTuple):
    """A position with its terms, which nobody evaluates twice; and how often a density was no number."""

    position: Any
    terms: Any  # (term,)
    n_invalid: Any


Bracket = tuple[jax.Array, jax.Array, Particle, int, jax.Array]  # ends, last place, tries, whether it is found


def at(density: Density, position: jax.Array) -> Particle:
    """Evaluate a position. NaN and +inf count as outside the support, and are counted."""
    terms = density(position)
    invalid = jnp.isnan(terms) | (terms == jnp.inf)
    return Particle(position, jnp.where(invalid, -jnp.inf, terms), jnp.any(invalid).astype(jnp.int32))


def masked_product(coefficients: jax.Array, terms: jax.Array) -> Any:
    """Return c . t, where a term that does not count may be minus infinity; safe to differentiate."""
    unused = coefficients == 0.0
    return jnp.sum(jnp.where(unused, 0.0, coefficients * jnp.where(unused, 0.0, terms)))


def tempered(particle: Particle, rung: Rung) -> Any:
    """Return the log density of a rung at a particle."""
    return masked_product(rung.coefficients, particle.terms)


def shaped(factor: Array, z: jax.Array) -> Any:
    """Return factor @ z, where a factor may be a column of standard deviations."""
    return factor @ z if is_dense(factor) else factor[:, 0] * z


def decide(uniform: jax.Array, old: Particle, new: Particle, log_ratio: jax.Array) -> tuple[Particle, Any]:
    """Accept by Metropolis' rule; return the particle and the probability of it."""
    probability = jnp.exp(jnp.minimum(log_ratio, 0.0))
    accepted = uniform < probability
    position, terms = (jnp.where(accepted, a, b) for a, b in zip(new[:2], old[:2], strict=True))
    return Particle(position, terms, old.n_invalid + new.n_invalid), probability[None]


def beyond_source(rung: Rung) -> Any:
    """Return what is left of a rung's coefficients once the density drawn from is taken out; at an end nothing is."""
    return rung.coefficients - (jnp.arange(rung.coefficients.shape[0]) == rung.source)


def is_at_end(rung: Rung) -> Any:
    """Whether a rung's density is its source itself."""
    return (rung.source >= 0) & jnp.all(beyond_source(rung) == 0.0)


def log_ratio_of_fresh(particle: Particle, fresh: Particle, rung: Rung) -> Any:
    """Return the log ratio of accepting an exact draw: its own density cancels, so that an end accepts them all."""
    left = beyond_source(rung)
    unused = left == 0.0
    change = jnp.where(unused, 0.0, fresh.terms) - jnp.where(unused, 0.0, particle.terms)
    return jnp.where(rung.source >= 0, jnp.sum(left * change), -jnp.inf)


def fresh_position(
    draws: Sequence[Draw], source: jax.Array, key: jax.Array, normals: jax.Array, uniforms: jax.Array
) -> Any:
    """Return an exact draw of the rung's source."""
    found = draws[0].position(key, source, normals, uniforms)
    for draw in draws[1:]:
        found = jnp.where(source >= draw.first, draw.position(key, source, normals, uniforms), found)
    return found


def numbers_of(draws: Sequence[Draw]) -> tuple[int, int]:
    """Return how many normal and uniform numbers a fresh draw takes at the most."""
    return max((draw.n_normals for draw in draws), default=0), max((draw.n_uniforms for draw in draws), default=0)


def random_walk(density: Density, draws: Sequence[Draw] = ()) -> Move:
    """Build random-walk Metropolis; with ``draws`` of a rung's source some proposals are such draws, at an end all.

    The density is evaluated once, whichever it is, and both are made of the same numbers: programs are shorter, to
    compile and to run.
    """
    n_normals, n_uniforms = numbers_of(draws)

    def walk(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        x = particle.position
        normals, (decision,) = normals_and_uniforms(key, x.size, 1, x.dtype)
        there = at(density, x + setting.scale * shaped(setting.factor, normals))
        return decide(decision, particle, there, tempered(there, rung) - tempered(particle, rung))

    def walk_or_draw(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        x = particle.position
        normals, numbers = normals_and_uniforms(key, max(x.size, n_normals), 2 + n_uniforms, x.dtype)
        often = 0.0 if setting.fresh is None else setting.fresh
        is_fresh = is_at_end(rung) | ((rung.source >= 0) & (numbers[0] < often))
        fresh = fresh_position(draws, rung.source, key, normals, numbers[2:])
        step = x + setting.scale * shaped(setting.factor, normals[: x.size])
        there = at(density, jnp.where(is_fresh, fresh, step))
        log_ratio = tempered(there, rung) - tempered(particle, rung)
        log_ratio = jnp.where(is_fresh, log_ratio_of_fresh(particle, there, rung), log_ratio)
        moved, acceptance = decide(numbers[1], particle, there, log_ratio)
        return moved, jnp.where(is_fresh, jnp.nan, acceptance)

    return walk_or_draw if draws else walk


def independence(density: Density) -> Move:
    """Build independent proposals from the rung's own multivariate t."""
    nu = DEGREES_OF_FREEDOM

    def log_proposal(x: jax.Array, setting: Settings) -> Any:
        residual = x - setting.centre
        if is_dense(setting.factor):
            residual = jax.scipy.linalg.solve_triangular(setting.factor, residual, lower=True)
        else:
            residual = residual / setting.factor[:, 0]
        distance = jnp.sum(residual**2) / setting.scale**2
        return -0.5 * (nu + x.size) * jnp.log1p(distance / nu)

    def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        key_step, key_tail, key_accept = jax.random.split(key, 3)
        x = particle.position
        z = jax.random.normal(key_step, x.shape, x.dtype)
        stretch = setting.scale * jnp.sqrt(nu / (2.0 * jax.random.gamma(key_tail, nu / 2.0, dtype=x.dtype)))
        proposal = at(density, setting.centre + stretch * shaped(setting.factor, z))
        log_ratio = tempered(proposal, rung) - tempered(particle, rung)
        log_ratio += log_proposal(x, setting) - log_proposal(proposal.position, setting)
        uniform = jax.random.uniform(key_accept, dtype=x.dtype)
        return decide(uniform, particle, proposal, log_ratio)

    return move


def slice_along_direction(density: Density) -> Move:
    """Build one slice update along a Gaussian direction of the rung's shape."""

    def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        key_direction, key_slice = jax.random.split(key)
        x = particle.position
        z = jax.random.normal(key_direction, x.shape, x.dtype)
        direction = setting.scale * shaped(setting.factor, z)
        return _slice_along(key_slice, density, particle, rung, direction), jnp.ones(1)

    return move


def slice_coordinates(density: Density) -> Move:
    """Build a sweep of slice updates, one a coordinate."""

    def move(key: jax.Array, particle: Particle, rung: Rung, setting: Settings) -> tuple[Particle, Any]:
        d = particle.position.size
        widths = setting.scale * jnp.sqrt(jnp.sum(setting.factor**2, axis=-1))

        def update(i: jax.Array, particle: Particle) -> Particle:
            direction = jnp.zeros(d).at[i].set(widths[i])
            return _slice_along(folded_in(key, i), density, particle, rung, direction)

        return jax.lax.fori_loop(0, d, update, particle), jnp.ones(1)

    return move


def _slice_along(key: jax.Array, density: Density, particle: Particle, rung: Rung, direction: jax.Array) -> Particle:
    """Draw from the slice through the particle along a direction, by stepping out and shrinking (Neal 2003)."""
    key_level, key_place, key_share, key_shrink = jax.random.split(key, 4)
    x = particle.position
    height = tempered(particle, rung)
    level = height - jax.random.exponential(key_level, dtype=x.dtype)

    def inside(shift: jax.Array) -> Any:
        return tempered(at(density, x + shift * direction), rung) > level

    def step_out(end: jax.Array, step: float, limit: jax.Array) -> Any:
        def going(carry: tuple[jax.Array, int]) -> Any:
            end, taken = carry
            return (taken < limit) & inside(end)

        return jax.lax.while_loop(going, lambda c: (c[0] + step, c[1] + 1), (end, 0))[0]

    left = -jax.random.uniform(key_place, dtype=x.dtype)
    steps_left = jnp.int32(MAX_STEPS_OUT * jax.random.uniform(key_share))
    bracket = (step_out(left, -1.0, steps_left), step_out(left + 1.0, 1.0, MAX_STEPS_OUT - 1 - steps_left))

    def shrinking(carry: Bracket) -> Any:
        left, right, _, _, found = carry
        return ~found & (right - left > 1e-300)

    def shrink(carry: Bracket) -> Any:
        left, right, last, i, _ = carry
        shift = left + (right - left) * jax.random.uniform(folded_in(key_shrink, i), dtype=x.dtype)
        proposal = at(density, x + shift * direction)
        found = tempered(proposal, rung) > level
        left, right = jnp.where(shift < 0, shift, left), jnp.where(shift < 0, right, shift)
        position, terms = (jnp.where(found, a, b) for a, b in zip(proposal[:2], particle[:2], strict=True))
        return left, right, Particle(position, terms, last.n_invalid + proposal.n_invalid), i + 1, found

    return jax.lax.while_loop(shrinking, shrink, (*bracket, particle, 0, jnp.array(False)))[2]


def build_move(kernel: AnyKernel, density: Density, draws: Sequence[Draw] = ()) -> Move:
    """Build the move of any kernel; settings are a tuple, one a simple kernel. At an end it is one of the ``draws``."""
    if not draws:
        return _build_local(kernel, density)
    if hasattr(kernel, "vector_move_or_draw"):
        simple = kernel.vector_move_or_draw(density, draws)
        return lambda key, particle, rung, settings: simple(key, particle, rung, settings[0])
    return _redrawing(_build_local(kernel, density), density, draws)


def _build_local(kernel: AnyKernel, density: Density) -> Move:
    if isinstance(kernel, Mixture):
        return _mixture(kernel, density)
    if isinstance(kernel, Cycle):
        return _cycle(kernel, density)
    simple = kernel.vector_move(density)
    return lambda key, particle, rung, settings: simple(key, particle, rung, settings[0])


class Try(NamedTuple):
    """A place, whether it is reached by a step (or drawn from the source), and by how much a step stretches volumes."""

    place: Any
    is_step: Any
    log_volume: Any


class Tries:
    """What is proposed after a local move, if there are ``draws``: one of the rung's source, at an end always.

    Elsewhere it may be a leap to another mode instead, the more often the less such draws are accepted; and where they
    hardly ever are, a stretch: the distance from the middle of a source with heavy tails varies widely on the rungs
    near it, and a local move changes it by one part in the root of twice the dimension.
    """

    def __init__(self, draws: Sequence[Draw]) -> None:
        self._draws = draws
        self._leap = next((draw.leap for draw in draws if draw.leap is not None), None)
        self._centre = next((draw.centre for draw in draws if draw.centre is not None), None)

    def drawn_by_key(self, key: jax.Array, x: jax.Array) -> Any:
        """Return what a user's function draws, one for all tries of an iteration: it may take as long as they all."""
        draws = [draw.position(key, None, None, None) for draw in self._draws if draw.is_by_key]
        return draws[0] if draws else x

    def _source(self, drawn: jax.Array, old: Particle, is_first: jax.Array) -> Sequence[Draw]:
        """Return the draws as a try makes them: later tries of what is drawn only once stay where they are.

        The same draw proposed again would depend on the place that it has led to.
        """
        place = jnp.where(is_first, drawn, old.position)
        return [draw._replace(position=lambda *_: place) if draw.is_by_key else draw for draw in self._draws]

    def n_in(self, rung: Rung) -> Any:
        """Return how many there are in an iteration, the same number for all chains."""
        if self._leap is None:
            return min(len(self._draws), 1)
        return jnp.where(self._leap.is_there & rung.is_local, LEAPS, 1)

    def place(
        self, key: jax.Array, i: jax.Array, old: Particle, rung: Rung, setting: Settings, drawn: jax.Array
    ) -> tuple[Try, Any]:
        """Return what is tried for the i-th time, and the uniform number that decides on it."""
        (n_normals, n_uniforms), x = numbers_of(self._draws), old.position
        n = n_uniforms if self._leap is None else max(n_uniforms, x.size)
        normals, numbers = normals_and_uniforms(key, n_normals + 1, 6 + n, x.dtype, 1 + i)  # 0 is the move's own
        place = fresh_position(self._source(drawn, old, i == 0), rung.source, key, normals[:-1], numbers[6:])
        fresh = 0.0 if setting.fresh is None else setting.fresh
        is_step = ~is_at_end(rung) & (numbers[1] >= jnp.maximum(fresh, LEAST_FRESH))
        is_leap, is_stretch, log_stretch = jnp.array(False), jnp.array(False), jnp.zeros((), x.dtype)
        if self._centre is not None:
            is_stretch = is_step & (fresh < LEAST_FRESH)
        if self._leap is not None:
            is_leap = is_step & self._leap.is_there & ~(is_stretch & (numbers[5] < 1.0 / LEAPS))
            is_stretch = is_stretch & ~is_leap
            place = jnp.where(is_leap, self._leap.place(x, numbers[2:5], numbers[6:]), place)
        if self._centre is not None:
            log_stretch = jnp.where(is_stretch, normals[-1] * jnp.exp2(-HALVINGS * numbers[2]), 0.0)
            place = jnp.where(is_stretch, self._centre + jnp.exp(log_stretch) * (x - self._centre), place)
        return Try(place, is_leap | is_stretch, x.size * log_stretch), numbers[0]


def log_ratio_of_try(old: Particle, there: Particle, rung: Rung, tried: Try) -> Any:
    """Return the log ratio of accepting what was tried: leaps and stretches are steps, draws of the source are not."""
    step = tempered(there, rung) - tempered(old, rung) + tried.log_volume
    return jnp.where(tried.is_step, step, log_ratio_of_fresh(old, there, rung))


def _redrawing(move: Move, density: Density, draws: Sequence[Draw]) -> Move:
    """Let an exact draw of the rung's source be proposed after each move: at an end it starts a new tour.

    A draw takes one call, a local move many. In iterations without one all chains stay where they are: a condition
    that they share is branched on, where one of each chain's own would have both ways computed.
    """
    tries = Tries(draws)

    def move_or_redraw(key: jax.Array, particle: Particle, rung: Rung, settings: EachOwn) -> tuple[Particle, Any]:
        def local(key: jax.Array, particle: Particle, settings: EachOwn) -> tuple[Particle, Any]:
            moved, acceptance = move(key, particle, rung, settings)
            return moved, acceptance.astype(float)

        def stay(key: jax.Array, particle: Particle, settings: EachOwn) -> tuple[Particle, Any]:
            return particle, jnp.full(len(settings), jnp.nan)

        def redraw(i: jax.Array, old: Particle) -> Particle:
            tried, decision = tries.place(key, i, old, rung, settings[0], drawn)
            there = at(density, tried.place)
            return decide(decision, old, there, log_ratio_of_try(old, there, rung, tried))[0]

        moved, acceptance = jax.lax.cond(rung.is_local, local, stay, key, particle, settings)
        drawn = tries.drawn_by_key(key, moved.position)
        moved = jax.lax.fori_loop(0, tries.n_in(rung), redraw, moved)
        return moved, jnp.where(is_at_end(rung), jnp.nan, acceptance)

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

    def move(key: jax.Array, particle: Particle, rung: Rung, settings: EachOwn) -> tuple[Particle, Any]:
        acceptances = []
        for i, (part, own) in enumerate(parts):
            particle, acceptance = part(folded_in(key, i), particle, rung, settings[own])
            acceptances.append(acceptance)
        return particle, jnp.concatenate(acceptances)

    return move


def _mixture(kernel: Mixture, density: Density) -> Move:
    parts = _parts(kernel.kernels, density)
    n = len(leaves(kernel))
    log_probabilities = jnp.log(jnp.asarray(kernel.probabilities))

    def branch(part: Move, own: slice) -> Any:
        def run(key: jax.Array, particle: Particle, rung: Rung, settings: EachOwn) -> tuple[Particle, Any]:
            particle, acceptance = part(key, particle, rung, settings[own])
            return particle, jnp.full(n, jnp.nan, acceptance.dtype).at[own].set(acceptance)

        return run

    branches = [branch(part, own) for part, own in parts]

    def move(key: jax.Array, particle: Particle, rung: Rung, settings: EachOwn) -> tuple[Particle, Any]:
        key_choice, key_move = jax.random.split(key)
        which = jax.random.categorical(key_choice, log_probabilities)
        return jax.lax.switch(which, branches, key_move, particle, rung, settings)  # type: ignore[no-any-return]

    return move
