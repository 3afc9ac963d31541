"""What makes a run the run it is: a checkpoint of any other is refused, with what differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np

from tempering.compiling.programs import jitted
from tempering.execution.digest import digest
from tempering.execution.plan import Plan
from tempering.io.encoding import classes_around
from tempering.randomness import stream
from tempering.recorders.quantities import Summands
from tempering.target import Target

STEPS = (0.0, 0.03, -0.11)  # from the start, relative and absolute
MOST_SECONDS = 1.0  # spent on evaluating a target before a run, where one call does not take longer
NEAR = 1e-8  # relative
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


def classes_of(plan: Plan) -> dict[str, type]:
    """Return the classes of a user's own that states of a model may be made of."""
    if isinstance(plan.target, Target):
        return {}
    import jax

    with jax.enable_x64(True):
        if plan.engine == "vector":
            example = jax.eval_shape(plan.target.initial, jax.random.key(plan.seed))
        else:
            example = plan.target.initial(stream(plan.seed, 0))
    return classes_around(plan.target, example)


def versions() -> dict[str, str]:
    """Return the versions of all that computes."""
    return {name: version(name) for name in PACKAGES} | {"python": python_version()}


def described(value: Any) -> str:
    """Write a value so that it can be compared, and read where it is short."""
    return str(value) if value is None or isinstance(value, str | int | float) else digest(value)


def _log_densities(plan: Plan) -> str:
    """Evaluate the target at some points: data that sit deep inside other libraries' objects show in its values."""
    import jax

    with jax.enable_x64(True):
        if isinstance(plan.target, Target):
            assert plan.layout is not None
            start = plan.layout.flatten(plan.example)
            return " ".join(values_at(plan, [start * (1 + step) + step for step in STEPS]))
        seeds = [plan.seed, plan.seed + 1]
        streams = [jax.random.key(s) if plan.engine == "vector" else stream(s, 0) for s in seeds]
        return " ".join(_values(plan.target.energy, (plan.target.initial(rng) for rng in streams)))


def values_at(plan: Plan, points: Iterable[Any], quantities: Mapping[str, Any] | None = None) -> list[str]:
    """Return the values of the target's functions at flat positions, of as many as can be had in a second or two.

    Those of ``quantities``, functions of positions with leading axes, come first.
    """
    if quantities:
        points = np.asarray(points)
        return _of_quantities(plan, points, quantities) + values_at(plan, points)
    layout = plan.layout
    assert layout is not None
    is_traced = plan.engine == "vector"  # operation by operation, JAX would compile more
    own = [f for f in (plan.target.base, plan.target.energy) if f is not None]
    functions = [_brief(f) if is_traced else f for f in own]
    return _values(lambda point: [_value(f, point) for f in functions], map(layout.unflatten, points))


@lru_cache(maxsize=16)
def _brief(function: Any) -> Any:
    """Compile once: a checkpoint is compared at its start and at stored draws."""
    return jitted(function, is_brief=True)


def _of_quantities(plan: Plan, points: Any, quantities: Mapping[str, Any]) -> list[str]:
    """Return one number for each quantity at each position: its components, each with a weight of its own."""
    layout, constrain = plan.layout, getattr(plan.target, "constrain", None)
    assert layout is not None
    found = []
    for name, function in quantities.items():
        summands = Summands(((name, function),), layout, constrain)
        try:
            value = summands.on_host(layout.named, points[None])[name].reshape(len(points), -1)
        except Exception as error:  # it is checked elsewhere, and told there
            found.append(type(error).__name__)
        else:
            found += [f"{number:.10g}" for number in value @ np.cos(np.arange(value.shape[1]))]
    return found


def agree(there: str, here: str) -> bool:
    """Whether values are the same, as far as both have been evaluated, to the rounding of another machine."""
    return all(_are_near(one, two) for one, two in zip(there.split(), here.split(), strict=False))


def _are_near(one: str, two: str) -> bool:
    try:
        return one == two or bool(np.isclose(float(one), float(two), rtol=NEAR, atol=0.0))
    except ValueError:  # the name of an error
        return False


def _values(function: Callable[[Any], Any], points: Iterable[Any]) -> list[str]:
    """Evaluate a function at one point after the other, and stop where that takes too long."""
    import jax

    found: list[str] = []
    started = time.monotonic()
    for point in points:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            value = function(point)
        found += value if isinstance(value, list) else [_written(value)]
        if time.monotonic() - started > MOST_SECONDS:
            break
    return found


def _value(function: Any, point: Any) -> str:
    try:
        return _written(function(point))
    except (Exception, SystemExit) as error:  # away from the start a density may fail in any way of its own
        return type(error).__name__


def _written(value: Any) -> str:
    """Return ten digits: eager evaluation need not round as compiled code does."""
    try:
        return f"{float(np.asarray(value).squeeze()):.10g}"
    except (TypeError, ValueError) as error:
        return type(error).__name__
