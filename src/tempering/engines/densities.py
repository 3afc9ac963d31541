"""A target's functions as the vector engine runs them: terms of flat vectors, and moves.

The arrays of references are arguments: a run that fits one, and fits it again, finds its compiled code again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tempering.engines import reference_arrays
from tempering.engines.reference_arrays import ReferenceArrays
from tempering.errors import TargetError
from tempering.kernels import vector
from tempering.kernels.composite import AnyKernel
from tempering.kernels.settings import Settings
from tempering.target import Target
from tempering.target.layout import Layout


class Functions(NamedTuple):
    """The terms, ``(references, x) -> terms``, and the move, ``(key, particle, rung, settings, references)``."""

    density: Any
    move: Any


@lru_cache(maxsize=64)
def functions_of(target: Target, kernel: AnyKernel, layout: Layout) -> Functions:
    """Return a target's functions, the same for all references."""
    own, sample = _own_terms(target, layout), target.sample_base

    def density(references: Sequence[ReferenceArrays], x: jax.Array) -> Any:
        others = [reference_arrays.log_density(arrays, x) for arrays in references]
        return jnp.concatenate([own(x), jnp.stack(others)]) if others else own(x)

    def move(
        key: jax.Array,
        particle: vector.Particle,
        rung: vector.Rung,
        settings: Sequence[Settings],
        references: Sequence[ReferenceArrays],
    ) -> Any:
        draws = [] if sample is None else [vector.Draw.by_key(lambda key: flat_vector(sample(key)), 1)]
        draws += reference_arrays.draws_of(references, n_own_terms(target))
        return vector.build_move(kernel, partial(density, references), draws)(key, particle, rung, settings)

    return Functions(density, move)


def n_own_terms(target: Target) -> int:
    """Return how many terms a target has by itself: its energy, and its base where there is one."""
    return 1 if target.base is None else 2


def _own_terms(target: Target, layout: Layout) -> Any:
    energy = layout.on_flat(target.energy)
    base = None if target.base is None else layout.on_flat(target.base)

    def terms(x: jax.Array) -> Any:
        value = _scalar(energy(x))
        if base is None:
            return value[None]
        under = _scalar(base(x))
        # where the base ends the energy is -inf, whatever the user's function says there
        return jnp.stack([jnp.where(under == -jnp.inf, -jnp.inf, value), under])

    return terms


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
