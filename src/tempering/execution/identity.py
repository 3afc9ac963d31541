"""What makes a run the run it is: a checkpoint of any other is refused, with what differs."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np

from tempering.compiling.programs import jitted
from tempering.execution.digest import digest
from tempering.randomness import stream
from tempering.runs.planning import Plan
from tempering.target import Target

STEPS = (0.0, 0.03, -0.11)  # from the start, relative and absolute
PACKAGES = ("tempering", "jax", "jaxlib", "numba", "numpy", "scipy")


def identity_of(plan: Plan, **arguments: Any) -> dict[str, str]:
    """Describe a run by its plan and the other arguments of `tempering.sample`, in a form that can be compared."""
    ladder = "tuned" if plan.ladder is None else str([float(k) for k in plan.ladder.inverse_temperatures])
    known = {
        "target": digest(plan.target),
        "log densities": _log_densities(plan),
        "initial": digest(plan.starts),
        "ladder": ladder,
        "method": plan.method,
        "kernel": digest(plan.kernel),
        "chains": str(plan.n_chains),
        "seed": str(plan.seed),
        "engine": plan.engine,
        "rung_moves": plan.rung_moves,
    }
    return known | {name: described(value) for name, value in arguments.items()} | versions()


def versions() -> dict[str, str]:
    """Return the versions of all that computes."""
    return {name: version(name) for name in PACKAGES} | {"python": python_version()}


def described(value: Any) -> str:
    """Write a value so that it can be compared, and read where it is short."""
    return str(value) if value is None or isinstance(value, str | int | float) else digest(value)


def _log_densities(plan: Plan) -> str:
    """Evaluate the target at some points: data that sit deep inside other libraries' objects show in its values."""
    import jax

    is_traced = plan.engine == "vector"  # operation by operation, JAX would compile more
    with jax.enable_x64(True), np.errstate(all="ignore"):
        if isinstance(plan.target, Target):
            assert plan.layout is not None
            start = plan.layout.flatten(plan.example)
            points = [plan.layout.unflatten(start * (1 + step) + step) for step in STEPS]
            functions = [
                jitted(f, is_brief=True) if is_traced else f
                for f in (plan.target.base, plan.target.energy)
                if f is not None
            ]
            return " ".join(_value(f, point) for f in functions for point in points)
        seeds = [plan.seed, plan.seed + 1]
        streams = [jax.random.key(s) if plan.engine == "vector" else stream(s, 0) for s in seeds]
        return " ".join(_value(plan.target.energy, plan.target.initial(rng)) for rng in streams)


def _value(function: Any, point: Any) -> str:
    """Return ten digits: code that was compiled elsewhere need not round in the same way."""
    try:
        return f"{float(np.asarray(function(point)).squeeze()):.10g}"
    except Exception as error:  # away from the start a density may fail in any way of its own
        return type(error).__name__
