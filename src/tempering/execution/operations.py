"""How costly a log density is, as XLA counts its operations before compiling it.

One that JAX calls back chain by chain is as costly as can be: nothing is gained by running chains in lockstep, and a
run that is to stop would wait for the calls of all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tempering.execution.recipe import Recipe
from tempering.target import Target
from tempering.target.layout import Layout


def operations(recipe: Recipe) -> float:
    """Return the operations of one energy, or one step of a model; 0 where JAX does not know, inf if it calls back."""
    if recipe.engine != "vector":
        return 0.0
    if isinstance(recipe.target, Target):
        return operations_of(recipe.target, Layout.of(recipe.example))
    return _of_model(recipe.target)


@lru_cache(maxsize=64)
def operations_of(target: Target, layout: Layout, of_a_logarithm: float = 0.0) -> float:
    """Return the operations of one log density, the prior included, that JAX can trace; inf if it calls back.

    Logarithms, exponentials and their like are no operations to XLA, and count as many as are said.
    """
    import jax

    with jax.enable_x64(True):
        functions = [jax.jit(layout.on_flat(f)) for f in (target.energy, target.base) if f is not None]
        return sum(_counted(of_a_logarithm, function, np.zeros(layout.size)) for function in functions)


@lru_cache(maxsize=16)
def _of_model(model: Any) -> float:
    import jax

    with jax.enable_x64(True):
        key = jax.random.key(0)
        return _counted(0.0, jax.jit(model.step), key, jax.eval_shape(model.initial, key), 1.0)


def _counted(of_a_logarithm: float, function: Any, *arguments: Any) -> float:
    traced = function.trace(*arguments)
    if _calls_back(traced.jaxpr.jaxpr):
        return float("inf")
    found = traced.lower().cost_analysis()
    if not isinstance(found, dict):
        return 0.0
    return float(found.get("flops", 0.0) + of_a_logarithm * found.get("transcendentals", 0.0))


def _calls_back(jaxpr: Any) -> bool:
    """Whether a function of the user's is called for one chain after the other."""
    from jax.extend.core import jaxprs_in_params

    for equation in jaxpr.eqns:
        if str(equation.params.get("vmap_method", "")).startswith("sequential"):
            return True
        if any(_calls_back(inner) for inner in jaxprs_in_params(equation.params)):
            return True
    return False
