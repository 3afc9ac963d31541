"""A target's functions as the vector engine runs them: of flat vectors, and of the arrays of a reference.

What is compiled does not depend on the reference at k = 0: a run that fits one, and refits it, finds its code again.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tempering.errors import TargetError
from tempering.kernels import vector
from tempering.kernels.composite import leaves
from tempering.target import Target
from tempering.target.layout import Layout


class Functions(NamedTuple):
    """The density, ``(reference, x) -> (base, energy)``, the move, and the arrays that both are to be called with."""

    density: Any
    move: Any  # (key, particle, k, settings), and the reference where there is one
    reference: Any = None


def functions_of(target: Target, kernel: Any, layout: Layout) -> Functions:
    """Return a target's functions, the same for all references to the same plain target."""
    bridge, on_processor = target.bridge, jax.default_backend() == "cpu"
    if bridge is None or any(getattr(leaf, "checks_base", False) for leaf in leaves(kernel)):
        return Functions(*_own(target, kernel, layout))
    if bridge.reference is None and not on_processor:  # asking each time would cost more than compiling again
        return Functions(*_own(target, kernel, layout))
    from tempering.learning.reference.arrays import arrays_of

    arrays = arrays_of(bridge.reference, layout.size)
    return Functions(*_bridged(bridge.plain, kernel, layout), arrays if on_processor else arrays._replace(is_on=None))


@lru_cache(maxsize=64)
def _own(target: Target, kernel: Any, layout: Layout) -> tuple[Any, Any]:
    density, draw = _density(target, layout), _draw(target)
    return lambda reference, x: density(x), vector.build_move(kernel, density, draw)


@lru_cache(maxsize=64)
def _bridged(plain: Target, kernel: Any, layout: Layout) -> tuple[Any, Any]:
    from tempering.learning.reference import arrays

    density_of_plain, draw_of_plain = _density(plain, layout), _draw(plain)

    def density(reference: Any, x: Any) -> tuple[Any, Any]:
        base, energy = density_of_plain(x)

        def along(x: Any) -> tuple[Any, Any]:
            log_q = arrays.log_density(reference, x)
            outside = base == -jnp.inf  # there the energy is what it is, and not to be asked
            return log_q, jnp.where(outside, -jnp.inf, base + jnp.where(outside, 0.0, energy)) - log_q

        return (
            along(x) if reference.is_on is None else jax.lax.cond(reference.is_on, along, lambda x: (base, energy), x)
        )

    def move(key: Any, particle: Any, k: Any, settings: Any, reference: Any) -> Any:
        draw = arrays.draw_of(reference)
        if reference.is_on is not None:
            draw = _first_or(draw_of_plain, draw, reference.is_on)
        return vector.build_move(kernel, partial(density, reference), draw)(key, particle, k, settings)

    return density, move


def _first_or(second: vector.Draw | None, first: vector.Draw, is_first: Any) -> vector.Draw:
    """Return one of two draws; where there is no second one, a draw that says whether it is the first."""
    if second is None:
        return first._replace(is_exact=is_first)

    def position(key: Any, uniforms: Any) -> Any:
        return jax.lax.cond(is_first, first.position, second.position, key, uniforms)  # one of them alone is made

    return vector.Draw(position, first.n_uniforms)


def _density(target: Target, layout: Layout) -> Any:
    energy = layout.on_flat(target.energy)
    base = None if target.base is None else layout.on_flat(target.base)

    def density(x: Any) -> tuple[Any, Any]:
        value = _scalar(energy(x))
        return (jnp.zeros_like(value) if base is None else _scalar(base(x))), value

    return density


def _draw(target: Target) -> vector.Draw | None:
    sample = target.sample_base
    return None if sample is None else vector.Draw.by_key(lambda key: flat_vector(sample(key)))


def flat_vector(position: Any) -> Any:
    """Return a position as one flat vector."""
    return jnp.concatenate([jnp.ravel(leaf).astype(float) for leaf in jax.tree.leaves(position)])


def _scalar(value: Any) -> Any:
    if value is None or jnp.shape(value) != ():
        came = "None" if value is None else f"shape {jnp.shape(value)}"
        raise TargetError(
            f"A log density must return one number, but it returned {came}. Sum over the coordinates, and look for a "
            "missing return."
        )
    return jnp.asarray(value, jnp.result_type(float))
