"""How costly a log density is, as XLA counts its operations before compiling it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tempering.execution.recipe import Recipe
from tempering.target import Target
from tempering.target.layout import Layout


def operations(recipe: Recipe) -> float:
    """Return the operations of one energy, or one step of a model; 0 where JAX does not know."""
    if recipe.engine != "vector":
        return 0.0
    if isinstance(recipe.target, Target):
        return _of_target(recipe.target, Layout.of(recipe.example))
    return _of_model(recipe.target)


@lru_cache(maxsize=64)
def _of_target(target: Target, layout: Layout) -> float:
    import jax

    with jax.enable_x64(True):
        return _counted(jax.jit(layout.on_flat(target.energy)), np.zeros(layout.size))


@lru_cache(maxsize=16)
def _of_model(model: Any) -> float:
    import jax

    with jax.enable_x64(True):
        key = jax.random.key(0)
        return _counted(jax.jit(model.step), key, jax.eval_shape(model.initial, key), 1.0)


def _counted(function: Any, *arguments: Any) -> float:
    found = function.lower(*arguments).cost_analysis()
    return float(found.get("flops", 0.0)) if isinstance(found, dict) else 0.0
