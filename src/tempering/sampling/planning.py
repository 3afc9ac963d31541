"""Fill in what a user left open: the engine, the kernel, the number of chains, where they start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import SamplerError, TargetError
from tempering.execution.plan import ONE_LEG, PATHS, Plan
from tempering.execution.recipe import EXAMPLE_STREAM
from tempering.kernels.composite import checked, leaves
from tempering.kernels.hamiltonian import Hamiltonian
from tempering.kernels.kernel import trait
from tempering.kernels.random_walk import RandomWalk
from tempering.path import Ladder
from tempering.randomness import seed_of, stream
from tempering.sampling.effort import usual_effort
from tempering.sampling.options import Method
from tempering.sampling.starts import draw_from_base, inside_or_prior, with_reference
from tempering.target import Target
from tempering.target.checks import check_target
from tempering.target.gradients import gradient_of
from tempering.target.layout import Layout
from tempering.target.starting import starting_points

GRADIENTS_FROM = 5  # dimensions: below, a random walk is as good at a fifth of the cost
LEAPFROG_STEPS = 4


def make_plan(
    target: Any,
    *,
    initial: Any,
    ladder: Ladder | Sequence[float] | None,
    path: Any,
    method: Method,
    kernel: Any,
    chains: int | None,
    rng: np.random.Generator | int | None,
    engine: str,
    keeps_sums: bool,
) -> Plan:
    """Check the arguments of `tempering.sample` and fill in the defaults."""
    steps = ladder if isinstance(ladder, Ladder) or ladder is None else Ladder(ladder)
    seed = seed_of(rng)
    if not isinstance(target, Target):
        _check_model(target)
        name = _engine_of_model(target, engine)
        if name == "scalar":
            _check_record(target, seed)
        n_chains = chains if chains is not None else usual_effort(name, method.name).chains
        return Plan(target, None, None, steps, "powers", method.name, method.rung_moves, name, n_chains, seed, ())
    starts = starting_points(initial, target)
    check_target(target, starts)
    example = starts[0] if starts else draw_from_base(target, seed)
    layout = Layout.of(example)
    starts = inside_or_prior(target, layout, starts)
    given = path
    has_ladder = steps is not None or (keeps_sums and method.name == "parallel")
    path = _path_named(path, target, has_ladder=has_ladder)
    if path == "reference":
        target, path = with_reference(target, given, layout, starts or (example,), seed)
    if steps is not None:
        target.check_ladder(steps)
    name = _engine_of_target(target, layout, example, engine)
    kernel = checked(kernel) if kernel is not None else default_kernel(target, layout, example, name)
    if path == "two_legs" and any(trait(leaf, "checks_base") for leaf in leaves(kernel)):
        path = "prior"  # a kernel made for one prior can only be run along it
    usual = usual_effort(name, method.name, target, layout)
    n_chains = chains if chains is not None else usual.chains
    return Plan(
        target, layout, kernel, steps, path, method.name, method.rung_moves, name, n_chains, seed, starts, example,
        dearness=usual.dearness,
    )  # fmt: skip


def _path_named(path: Any, target: Target, *, has_ladder: bool) -> str:
    """Return which path is meant; by default two legs where the ladder is ours to choose, else the target's own."""
    own = "powers" if target.base is None else "prior"
    if path is None:
        return own if has_ladder else "two_legs"
    if not isinstance(path, str):
        return "reference"
    if path not in PATHS:
        raise SamplerError(f"path must be one of {PATHS}, or an object with log_density and sample, but got {path!r}.")
    if path in ONE_LEG and ONE_LEG[path].needs_base and target.base is None:
        raise SamplerError(
            f"path={path!r} needs a prior, but this target is one log density. Write Target.from_likelihood, or leave "
            "path out."
        )
    if path == "two_legs" and has_ladder:
        raise SamplerError(
            "path='two_legs' chooses its own ladders, and coupled chains keep sums along one leg only, but a ladder, "
            "or keep=Sums(...) with method='parallel', was given. Leave path out, or leave those out."
        )
    return path


def default_kernel(target: Target, layout: Layout, example: Any, engine: str) -> Any:
    """Return a random walk, or Hamiltonian moves where there are gradients and enough dimensions to need them."""
    if layout.size < GRADIENTS_FROM:
        return RandomWalk()
    if engine == "scalar":
        functions = [f for f in (target.base, target.energy) if f is not None]
        return Hamiltonian() if all(gradient_of(f) for f in functions) else RandomWalk()
    return Hamiltonian(LEAPFROG_STEPS) if _has_gradient(target, layout, example) else RandomWalk()


def _has_gradient(target: Target, layout: Layout, example: Any) -> bool:
    import jax

    x = np.asarray(layout.flatten(example))
    functions = [layout.on_flat(f) for f in (target.base, target.energy) if f is not None]
    try:
        with jax.enable_x64(True):
            for function in functions:
                jax.eval_shape(jax.grad(function), x)
    except Exception:  # a function that JAX traces but cannot differentiate, for whatever reason of its own
        return False
    return True


def first_log_pseudo_prior(pseudo_prior: str | NDArray[np.float64], ladder: Ladder) -> NDArray[np.float64]:
    """Return the user's log pseudo-prior, or a flat one to be learnt from."""
    if isinstance(pseudo_prior, str):
        return np.zeros(len(ladder))
    if pseudo_prior.shape != (len(ladder),):
        raise SamplerError(
            f"pseudo_prior must hold one log value for each of the {len(ladder)} rungs, but has {len(pseudo_prior)}. "
            "Leave it out to have it learnt."
        )
    return pseudo_prior


def _engine_of_target(target: Target, layout: Layout, position: Any, engine: str) -> str:
    from tempering.engines.scalar_pieces import is_numba

    if engine != "auto":
        return engine
    if is_numba(target.energy):
        return "scalar"
    from tempering.engines.vector import traces

    return "vector" if traces(target, layout, position) else "scalar"


def _engine_of_model(model: Any, engine: str) -> str:
    """Take the engine a model names, or the one its step can run on."""
    if engine != "auto":
        return engine
    if getattr(model, "engine", None) in ("vector", "scalar"):
        return str(model.engine)
    from tempering.engines.scalar_pieces import is_numba

    if is_numba(model.step):
        return "scalar"
    import jax

    try:
        with jax.enable_x64(True):
            key = jax.random.key(0)
            jax.eval_shape(model.step, key, jax.eval_shape(model.initial, key), 1.0)
    except Exception:  # a model in plain Python may fail in any way of its own
        return "scalar"
    return "vector"


def _check_record(model: Any, seed: int) -> None:
    """Refuse what the scalar engine cannot write into one row of numbers."""
    recorded = model.record(model.initial(stream(seed, EXAMPLE_STREAM)))
    try:
        np.asarray(recorded, dtype=float)
    except (TypeError, ValueError) as error:
        raise TargetError(
            f"On the scalar engine record(state) returns a number or a flat array, but {type(model).__name__} returned "
            f"{type(recorded).__name__}. Return np.array([...]), and name its columns by an attribute `names`."
        ) from error


def _check_model(model: Any) -> None:
    if isinstance(model, type):
        raise TargetError(
            f"A target is a tempering.Target or a model object, but got the class {model.__name__}. Write "
            f"{model.__name__}(...)."
        )
    missing = [name for name in ("initial", "step", "energy", "record") if not callable(getattr(model, name, None))]
    if missing:
        raise TargetError(
            f"A target is a tempering.Target or a model with initial, step, energy and record, but "
            f"{type(model).__name__} has no {missing[0]}. Wrap a log density: Target(log_density)."
        )
