"""Fill in what a user left open: the engine, the kernel, the number of chains, where they start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.devices import has_processor_beside, on_the_processor
from tempering.compiling.functions import is_numba
from tempering.errors import SamplerError, TargetError
from tempering.execution.context import Context
from tempering.execution.plan import ONE_LEG, PATHS, Plan
from tempering.execution.recipe import EXAMPLE_STREAM
from tempering.kernels.composite import checked, leaves
from tempering.kernels.hamiltonian import Hamiltonian
from tempering.kernels.kernel import trait
from tempering.kernels.random_walk import RandomWalk
from tempering.learning.reference.surface import Surface
from tempering.path import Ladder
from tempering.randomness import seed_of, stream
from tempering.sampling.call import Call, Wanted, check_together
from tempering.sampling.effort import Effort, usual_effort
from tempering.sampling.prior_constant import is_normalised
from tempering.sampling.starts import draw_from_base, inside_or_prior, side_by_side, with_reference
from tempering.target import Target
from tempering.target.checks import check_target
from tempering.target.concavity import is_log_concave
from tempering.target.gradients import gradient_of
from tempering.target.layout import Layout
from tempering.target.starting import starting_points
from tempering.target.target import cold_density

GRADIENTS_FROM = 5  # dimensions: below, a random walk is as good at a fifth of the cost
LEAPFROG_STEPS = 4
MOST_DEAR_BESIDE = 0.5  # of an iteration's time that is spent in a density tuned beside an accelerator
TUNING_CHAINS = 1024  # more would fill memory with traces and teach nothing new; the others start from copies


def make_plan(target: Any, call: Call, context: Context) -> tuple[Plan, Wanted]:
    """Fill in whatever a call has left open, and check that all of it goes together."""
    seed = seed_of(context.seed(call.rng))
    plan = (_of_target if isinstance(target, Target) else _of_model)(target, call, context, seed)
    usual = usual_effort(plan.engine, plan.method, plan.target, plan.layout)
    wanted = call.filled(plan.engine, usual.along(plan.path))
    n_chains, starts, path = wanted.chains, plan.starts, plan.path
    tunes_beside = call.keeps_sums and n_chains > usual.chains and _can_tune_beside(plan, call, usual)
    if call.keeps_sums and plan.engine == "vector":
        n_chains = min(n_chains, usual.chains if tunes_beside else TUNING_CHAINS)
    if call.keeps_sums and plan.method == "simulated":
        starts = side_by_side(starts, n_chains)
    if path == "two_legs" and wanted.tune == 0:  # nothing may be learnt
        path = _own_path(plan.target)
    is_concave = path == "two_legs" and plan.engine == "vector" and is_log_concave(plan.target, plan.layout)
    is_known = is_concave and (plan.target.base is None or is_normalised(plan.target, plan.layout))
    plan = replace(
        plan, n_chains=n_chains, starts=starts, path=path, dearness=usual.dearness, is_log_concave=is_concave,
        tunes_beside=tunes_beside, needs_safe_leg=not is_known,
    )  # fmt: skip
    check_together(plan, wanted)
    return plan, wanted


def _can_tune_beside(plan: Plan, call: Call, usual: Effort) -> bool:
    """Whether a few chains are tuned on the processor: a cheap density, whose data are not tied to an accelerator."""
    if (
        plan.engine != "vector"
        or plan.layout is None
        or plan.method != "simulated"
        or usual.dearness > MOST_DEAR_BESIDE
    ):
        return False
    if call.execution.executor is not None or not has_processor_beside():
        return False
    try:
        with on_the_processor():
            Surface(cold_density(plan.target, plan.layout), plan.layout.size).value(plan.layout.flatten(plan.example))
    except Exception:  # JAX's errors about devices have no type of their own
        return False
    return True


def _of_model(model: Any, call: Call, context: Context, seed: int) -> Plan:
    _check_model(model)
    engine = _engine_of_model(model, call.execution.engine)
    if engine == "scalar":
        _check_record(model, seed)
    how = call.method
    return Plan(model, None, None, call.ladder, "powers", how.name, how.rung_moves, engine, seed, (), None, context)


def _of_target(target: Target, call: Call, context: Context, seed: int) -> Plan:
    ladder, kernel, how = call.ladder, call.kernel, call.method
    starts = starting_points(call.initial, target)
    check_target(target, starts)
    example = starts[0] if starts else draw_from_base(target, seed)
    layout = Layout.of(example)
    starts = inside_or_prior(target, layout, starts)
    has_ladder = ladder is not None or (call.keeps_sums and how.name == "parallel")
    path = _path_named(call.path, target, has_ladder=has_ladder)
    if path == "reference":
        target, path = with_reference(target, call.path, layout, starts or (example,), seed)
    if ladder is not None:
        target.check_ladder(ladder)
    engine = _engine_of_target(target, layout, example, call.execution.engine)
    kernel = checked(kernel) if kernel is not None else default_kernel(target, layout, example, engine)
    if path == "two_legs" and any(trait(leaf, "checks_base") for leaf in leaves(kernel)):
        path = "prior"  # a kernel made for one prior can only be run along it
    return Plan(target, layout, kernel, ladder, path, how.name, how.rung_moves, engine, seed, starts, example, context)


def _own_path(target: Target) -> str:
    """Return the path of one leg that a target has of itself."""
    return "powers" if target.base is None else "prior"


def _path_named(path: Any, target: Target, *, has_ladder: bool) -> str:
    """Return which path is meant; by default two legs where the ladder is ours to choose, else the target's own."""
    if path is None:
        return _own_path(target) if has_ladder else "two_legs"
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
