"""The same samplers for chains in lockstep: pure functions of JAX arrays, one chain (or ensemble) each.

They mirror `tempering.rungs.simulated` and `tempering.rungs.parallel` with decisions taken by masks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tempering.errors import SamplerError
from tempering.kernels.uniforms import folded_in, key_and_uniforms
from tempering.kernels.vector import Rung, masked_product
from tempering.rungs.simulated import LOG_2


class Line(NamedTuple):
    """A path as arrays, all by rung: coefficients, sources, log pseudo-prior, and the settings of the simple kernels.

    Arrays may be longer than the line, so that lines of several lengths share one compiled function; then ``n_rungs``
    says how many rungs there are. The arrays of ``references`` among the terms are an argument of the moves, so that
    all references share one, too.
    """

    coefficients: Any  # (rung, term)
    sources: Any
    log_pseudo_prior: Any
    settings: Any
    n_rungs: Any = None
    references: Any = ()
    local_every: Any = 1

    def at(self, rung: Any, iteration: Any) -> Rung:
        """Return what moves need to know of a rung, or of several, and of the iteration, which all chains share."""
        is_local = iteration % self.local_every == 0
        return Rung(self.coefficients[rung], self.sources[rung], is_local)

    @property
    def size(self) -> Any:
        """Number of rungs."""
        return self.coefficients.shape[0] if self.n_rungs is None else self.n_rungs


class Chain(NamedTuple):
    """One chain of simulated tempering: all that the next step needs."""

    particle: Any
    rung: Any
    direction: Any


class Ensemble(NamedTuple):
    """One ensemble of coupled chains: particles in the leading axis, and where each sits."""

    particles: Any
    rung: Any


def is_below(uniform: Any, log_ratio: Any) -> Any:
    """Whether log(1 - uniform) < log_ratio; an exponential costs a third of a logarithm of that kind."""
    return 1.0 - uniform < jnp.exp(jnp.minimum(log_ratio, 0.0)) + (log_ratio > 0.0)


def rung_proposal(uniform: Any, rung: Any, n_rungs: Any) -> tuple[Any, Any]:
    """Return the neighbour that ``uniform`` chooses and the log Hastings factor; ends have one neighbour."""
    at_end = (rung == 0) | (rung == n_rungs - 1)
    inward = jnp.where(rung == 0, 1, -1)
    there = rung + jnp.where(at_end, inward, jnp.where(uniform < 0.5, 1, -1))
    there = jnp.minimum(there, n_rungs - 1)  # a single rung is its own neighbour
    to_end = (there == 0) | (there == n_rungs - 1)
    return there, LOG_2 * (to_end.astype(float) - at_end.astype(float))


def log_rung_ratio(line: Line, here: Any, there: Any, terms: Any) -> Any:
    """Return log of pi_there p(there) / pi_here p(here)."""
    log_p = line.log_pseudo_prior
    change = line.coefficients[there] - line.coefficients[here]
    return masked_product(change, terms) + log_p[there] - log_p[here]


def move_to_neighbour(uniforms: Any, rung: Any, direction: Any, terms: Any, line: Line) -> tuple[Any, Any, Any]:
    """Move as the paper does; ``uniforms`` are two numbers in [0, 1)."""
    there, log_hastings = rung_proposal(uniforms[0], rung, line.size)
    accepted = is_below(uniforms[1], log_rung_ratio(line, rung, there, terms) + log_hastings)
    return jnp.where(accepted, there, rung), direction, there


def move_lifted(uniforms: Any, rung: Any, direction: Any, terms: Any, line: Line) -> tuple[Any, Any, Any]:
    """Go on in the same direction until a proposal is rejected, then turn round."""
    wanted = rung + direction
    there = jnp.clip(wanted, 0, line.size - 1)
    accepted = (there == wanted) & is_below(uniforms[1], log_rung_ratio(line, rung, there, terms))
    return jnp.where(accepted, there, rung), jnp.where(accepted, direction, -direction), there


RUNG_MOVES = {"neighbour": move_to_neighbour, "lifted": move_lifted}


def build_simulated_step(move: Any, terms_of: Any, record: Any, rung_moves: str) -> Any:
    """Build ``step(key, chain, iteration, line, moving) -> (chain, outputs)``; a key is the chain's, for all time."""
    move_rung = _named(RUNG_MOVES, rung_moves)

    def step(key: jax.Array, chain: Chain, iteration: Any, line: Line, moving: Any) -> tuple[Chain, Any]:
        key_move, uniforms = key_and_uniforms(key, iteration)
        setting = jax.tree.map(lambda a: a[chain.rung], line.settings)
        particle, acceptance = move(key_move, chain.particle, line.at(chain.rung, iteration), setting, line.references)
        terms = terms_of(particle)
        rung, direction, proposed = move_rung(uniforms, chain.rung, chain.direction, terms, line)
        rung = jnp.where(moving, rung, chain.rung)
        proposed = jnp.where(moving, proposed, chain.rung)
        outputs = (record(particle), terms, rung, proposed, acceptance.astype(jnp.float32))
        return Chain(particle, rung, jnp.where(moving, direction, chain.direction)), outputs

    return step


def swapped(
    uniforms: Any, parity_or_pair: Any, rung: Any, terms: Any, coefficients: Any, *, single: bool
) -> tuple[Any, Any]:
    """Exchange the rungs of pairs (i, i + 1): all of one parity, or the single pair i.

    Returns the new rung and the proposed rung of every replica. ``uniforms`` has one number a rung; pair (i, i + 1)
    uses the i-th.
    """
    m = coefficients.shape[0]
    replica = jnp.argsort(rung)  # who sits on rung i
    by_rung = terms[replica]
    lower = jnp.arange(m - 1)
    tried = (lower == parity_or_pair) if single else (lower % 2 == parity_or_pair)
    change = coefficients[:-1] - coefficients[1:]
    log_ratio = jax.vmap(masked_product)(change, by_rung[1:]) - jax.vmap(masked_product)(change, by_rung[:-1])
    accepted = tried & is_below(uniforms[:-1], log_ratio)

    def shift(pairs: Any) -> Any:
        up = jnp.concatenate([pairs, jnp.zeros(1, bool)])  # rung i is the lower of a pair
        down = jnp.concatenate([jnp.zeros(1, bool), pairs])
        return jnp.arange(m) + up.astype(rung.dtype) - down.astype(rung.dtype)

    return shift(accepted)[rung].astype(rung.dtype), shift(tried)[rung].astype(rung.dtype)


def _swap_random(key: jax.Array, iteration: Any, rung: Any, terms: Any, c: Any) -> tuple[Any, Any]:
    key_pair, key_accept = jax.random.split(key)
    pair = jax.random.randint(key_pair, (), 0, max(c.shape[0] - 1, 1))
    return swapped(jax.random.uniform(key_accept, c.shape[:1]), pair, rung, terms, c, single=True)


def _swap_even_odd(key: jax.Array, iteration: Any, rung: Any, terms: Any, c: Any) -> tuple[Any, Any]:
    key_parity, key_accept = jax.random.split(key)
    parity = jax.random.randint(key_parity, (), 0, 2)
    return swapped(jax.random.uniform(key_accept, c.shape[:1]), parity, rung, terms, c, single=False)


def _swap_non_reversible(key: jax.Array, iteration: Any, rung: Any, terms: Any, c: Any) -> tuple[Any, Any]:
    return swapped(jax.random.uniform(key, c.shape[:1]), iteration % 2, rung, terms, c, single=False)


SWAPS = {"random": _swap_random, "even_odd": _swap_even_odd, "non_reversible": _swap_non_reversible}


def build_parallel_step(move: Any, terms_of: Any, record: Any, rung_moves: str) -> Any:
    """Build ``step(key, ensemble, iteration, line, moving) -> (ensemble, outputs)``; outputs lead with the replica."""
    swap = _named(SWAPS, rung_moves)

    def step(key: jax.Array, ensemble: Ensemble, iteration: Any, line: Line, moving: Any) -> tuple[Ensemble, Any]:
        key_move, key_swap = jax.random.split(folded_in(key, iteration))
        rung = ensemble.rung
        settings = jax.tree.map(lambda a: a[rung], line.settings)
        keys = jax.random.split(key_move, rung.shape[0])
        moves = jax.vmap(move, in_axes=(0, 0, Rung(0, 0, None), 0, None))
        particles, acceptance = moves(keys, ensemble.particles, line.at(rung, iteration), settings, line.references)
        terms = jax.vmap(terms_of)(particles)
        after, proposed = swap(key_swap, iteration, rung, terms, line.coefficients)
        after, proposed = jnp.where(moving, after, rung), jnp.where(moving, proposed, rung)
        outputs = (jax.vmap(record)(particles), terms, after, proposed, acceptance.astype(jnp.float32))
        return Ensemble(particles, after), outputs

    return step


def _named(table: dict[str, Any], name: str) -> Any:
    if name not in table:
        raise SamplerError(f"rung_moves must be one of {sorted(table)}, but got {name!r}.")
    return table[name]
