"""What makes a run the run it is: a checkpoint of any other is refused, with what differs."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np

from tempering.execution.digest import digest
from tempering.planning import Plan
from tempering.target import Target

PACKAGES = ("tempering", "jax", "jaxlib", "numba", "numpy", "scipy")


def identity_of(plan: Plan, **arguments: Any) -> dict[str, str]:
    """Describe a run by its plan and the other arguments of `tempering.sample`, in a form that can be compared."""
    ladder = "tuned" if plan.ladder is None else str([float(k) for k in plan.ladder.inverse_temperatures])
    known = {
        "target": digest(plan.target),
        "log density at the start": _log_density_at_start(plan),
        "initial": digest(plan.starts),
        "ladder": ladder,
        "method": plan.method,
        "kernel": digest(plan.kernel),
        "chains": str(plan.n_chains),
        "seed": str(plan.seed),
        "engine": plan.engine,
        "rung_moves": plan.rung_moves,
    }
    given = {name: _described(value) for name, value in arguments.items()}
    return known | given | {name: version(name) for name in PACKAGES} | {"python": python_version()}


def _described(value: Any) -> str:
    return str(value) if value is None or isinstance(value, str | int | float) else digest(value)


def _log_density_at_start(plan: Plan) -> str:
    """Evaluate the target once: data that sit deep inside other libraries' objects show in its value."""
    import jax

    from tempering.randomness import stream

    with jax.enable_x64(True), np.errstate(all="ignore"):
        if isinstance(plan.target, Target):
            functions = [f for f in (plan.target.base, plan.target.energy) if f is not None]
            return " ".join(_rounded(f(_as_arrays(plan.example))) for f in functions)
        start = jax.random.key(plan.seed) if plan.engine == "vector" else stream(plan.seed, 0)
        return _rounded(plan.target.energy(plan.target.initial(start)))


def _as_arrays(position: Any) -> Any:
    import jax

    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), position)


def _rounded(value: Any) -> str:
    """Ten digits: eager evaluation need not round as compiled code does."""
    return f"{float(np.asarray(value)):.10g}"
