"""`sample(..., keep="sums")`: run with everything frozen, and keep sums only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tempering.engines.sum_runs import Task, pilot_units, sum_run
from tempering.engines.trace import Trace
from tempering.errors import SamplerError
from tempering.planning import Plan
from tempering.preparing import info_of
from tempering.quantities import apply, check_functions, check_value, failed
from tempering.randomness import stream
from tempering.sums import TemperedSums
from tempering.tuning.rounds import Tuned, check_spread

TUNING_CHAINS = 1024  # more would fill memory with traces and teach nothing new; the others start from copies
KEEP = ("draws", "rounds", "sums")


def check_keep(keep: str, quantities: Any, method: str, *, elsewhere: bool) -> dict[str, Callable[..., Any]]:
    """Refuse arguments that do not go together; return the quantities by name, none where draws are kept."""
    if keep not in KEEP:
        raise SamplerError(f"keep must be one of {KEEP}, but got {keep!r}.")
    if keep == "rounds" and (method == "sequential" or elsewhere):
        raise SamplerError(
            "keep='rounds' is for chains of this process, but the method is 'sequential', or an executor or a "
            "checkpoint was given. Leave them out, or keep='draws'."
        )
    if keep != "sums":
        if quantities is not None:
            raise SamplerError(
                "quantities are for keep='sums', but draws are kept. Ask the draws: run.expect(function)."
            )
        return {}
    if method == "sequential":
        raise SamplerError("keep='sums' is for chains, but the method is 'sequential'. Use 'simulated' or 'parallel'.")
    if elsewhere:
        raise SamplerError(
            "keep='sums' runs in this process and has nothing to put on disk, but an executor or a checkpoint was "
            "given. Leave them out; merge runs of several seeds instead: first.merge(second)."
        )
    return check_functions(quantities)


def check_sum_every(sum_every: int | None, keep: str, engine: str, draws: int) -> int:
    """Refuse what cannot be; return which iterations are summed, every one or every so many."""
    if sum_every is not None and keep != "sums":
        raise SamplerError(f"sum_every is for keep='sums', but keep is {keep!r}. Leave it out.")
    if sum_every is None:
        if engine != "vector":
            return 1
        from tempering.engines.summing import default_sum_every

        return default_sum_every(draws)
    if not isinstance(sum_every, int | np.integer) or isinstance(sum_every, bool) or not 0 < sum_every <= draws:
        raise SamplerError(
            f"sum_every must be a whole number from 1 to the number of draws, {draws}, but got {sum_every!r}. "
            "Leave it out."
        )
    if sum_every % 2 == 0:
        raise SamplerError(
            f"sum_every must be odd, since exchanges of even and odd pairs take turns, but got {sum_every}. Pass "
            f"sum_every={sum_every - 1}."
        )
    if engine != "vector" and sum_every > 1:
        raise SamplerError(
            f"sum_every is for the vector engine, but this is the {engine} engine, which sums every draw. Leave it out."
        )
    return int(sum_every)


def check_devices(plan: Plan, functions: dict[str, Callable[..., Any]], devices: Any) -> Plan:
    """Check quantities and devices before the run; return the plan with as many chains as tuning needs."""
    if functions:
        check_quantities(plan, functions)
    if devices is not None:
        if plan.engine != "vector" or plan.method == "sequential":
            raise SamplerError(
                f"devices are for chains of the vector engine, but this is the {plan.engine} engine, method "
                f"{plan.method!r}. Leave devices out, or write the log density with jax.numpy."
            )
        from tempering.engines.vector import sharding_of

        sharding_of(devices, plan.n_chains)
    if functions and plan.engine == "vector":
        return replace(plan, n_chains=min(plan.n_chains, TUNING_CHAINS))
    return plan


def in_one_piece(engine: Any, tuned: Tuned) -> tuple[Any, Tuned]:
    """Return the engine of all chains and their states, however they were cut and packed."""
    from tempering.execution.blocks import put_together
    from tempering.execution.pickling import unpack

    whole = engine.engine._engine
    units = whole.n_chains // whole.chains_per_ensemble
    states = put_together([unpack(part) for part in engine.engine.packed(tuned.states)], units)
    return whole, replace(tuned, states=states)


def on_devices(engine: Any, tuned: Tuned, devices: Any, execution: Any) -> tuple[Any, Tuned]:
    """Go on with the chains spread over devices."""
    from tempering.execution.blocks import WholeEngine
    from tempering.execution.journal import JournalEngine

    whole, tuned = in_one_piece(engine, tuned)
    wide, states = whole.widened(tuned.states, whole.n_units, devices)
    spread = JournalEngine(WholeEngine(wide, wide.n_units, wide.n_units), None, execution.interruption, "")
    return spread, replace(tuned, states=states)


def check_quantities(plan: Plan, functions: dict[str, Callable[..., Any]]) -> None:
    """Try every quantity on an example, before a long run."""
    if plan.engine == "vector":
        _try_traced(plan, functions)
        return
    recorded = _example_of_scalar(plan)
    values = np.broadcast_to(recorded, (2, 3, recorded.size))
    for name, function in functions.items():
        try:
            value = np.asarray(apply(function, _named(plan, _scalar_positions(plan), values), plan.layout), float)
        except Exception as error:
            raise failed(name, error, plan.engine) from error
        check_value(name, value, (2, 3))


def _example_of_scalar(plan: Plan) -> Any:
    if plan.layout is not None:
        return plan.layout.flatten(plan.example)
    return np.ravel(plan.target.record(plan.target.initial(stream(plan.seed, 3))))


def _scalar_positions(plan: Plan) -> Callable[[Any], Any]:
    if plan.layout is not None:
        return plan.layout.named
    names = getattr(plan.target, "names", None)
    return lambda v: {"x": v} if names is None else {name: v[..., i] for i, name in enumerate(names)}


def _try_traced(plan: Plan, functions: dict[str, Callable[..., Any]]) -> None:
    import jax
    import jax.numpy as jnp

    from tempering.engines import vector

    with jax.enable_x64(True):
        if plan.layout is not None:
            recorded: Any = jax.eval_shape(lambda: jnp.zeros((2, plan.layout.size)))  # type: ignore[union-attr]
            positions: Any = plan.layout.named
        else:
            pieces = vector.model_pieces(plan.target)
            states = jax.eval_shape(pieces.start, jax.random.split(jax.random.key(0), 2))
            recorded, positions = jax.eval_shape(jax.vmap(pieces.record), states), pieces.positions
        for name, function in functions.items():
            evaluate = on_device(((name, function),), plan, positions, 1)
            try:
                jax.eval_shape(evaluate, recorded)
            except SamplerError:
                raise
            except Exception as error:
                raise failed(name, error, plan.engine) from error


def on_device(functions: tuple[tuple[str, Any], ...], plan: Plan, positions: Any, n_leading: int) -> Any:
    """Return a JAX function of recorded values, with leading axes of chains, that gives all components side by side."""
    named = positions if plan.layout is None else None  # a layout's own are new objects every run: none would be found
    return _on_device(functions, plan.layout, getattr(plan.target, "constrain", None), named, n_leading)


@lru_cache(maxsize=32)
def _on_device(functions: Any, layout: Any, constrain: Any, positions: Any, n_leading: int) -> Any:
    import jax
    import jax.numpy as jnp

    def evaluate(recorded: Any) -> Any:
        rows = jax.tree.map(lambda a: a.reshape((-1, 1, *a.shape[n_leading:])), recorded)
        if constrain is None:
            values = positions(rows) if layout is None else layout.named(rows)
        else:
            values = constrain(layout.unflatten(rows))
        columns = []
        for name, function in functions:
            value = apply(function, values, layout)
            lead = jax.tree.leaves(rows)[0].shape[:2]
            check_value(name, value, lead)
            columns.append(jnp.asarray(value, jnp.float64).reshape(lead[0], -1))
        return jnp.concatenate(columns, axis=-1)

    return evaluate


def _named(plan: Plan, positions: Callable[[Any], Any], values: Any) -> Any:
    constrain = getattr(plan.target, "constrain", None)
    return positions(values) if constrain is None else constrain(plan.layout.unflatten(values))  # type: ignore[union-attr]


def sample_sums(
    plan: Plan,
    engine: Any,
    tuned: Tuned,
    functions: dict[str, Callable[..., Any]],
    draws: int,
    report: Any,
    started: float,
    *,
    n_chains: int,
    devices: Any = None,
    sum_every: int = 1,
) -> TemperedSums:
    """Run ``draws`` iterations of ``n_chains`` chains from tuned states, and keep sums of every so many."""

    def values(trace: Trace) -> dict[str, Any]:
        named = _named(plan, lambda _: engine.positions(trace), trace.values)
        return {
            name: np.asarray(_double(apply, function, named, plan.layout), float)
            for name, function in functions.items()
        }

    def check(trace: Trace) -> None:
        if plan.is_powered:
            check_spread(trace, tuned.schedule)

    traced = None
    if plan.engine == "vector":
        lead = 2 if plan.method == "parallel" else 1
        traced = on_device(tuple(functions.items()), plan, engine.pieces.positions, lead)
    interruption = plan.execution.interruption
    task = Task(engine, tuned.schedule, values, traced, check, report, lambda: bool(interruption.requested), sum_every)
    bins, quantities = pilot_units(task, _copied(tuned.states))
    states = tuned.states
    if plan.engine == "vector" and (n_chains != engine.n_units or devices is not None):
        engine, states = engine.widened(states, n_chains, devices)
        task = replace(task, engine=engine)
    summed = sum_run(task, states, draws, bins, quantities)
    done = summed.index.n_iterations
    if done < draws:
        warnings.warn(f"Stopped by Ctrl-C after {done} of {draws} draws a chain.", stacklevel=3)
    info = info_of(plan, engine, tuned, started, done)
    return TemperedSums(
        summed.rungs,
        summed.index,
        tuned.schedule.ladder,
        tuned.schedule.log_pseudo_prior,
        engine.n_chains,
        plan.is_powered,
        info,
    )


def _copied(states: Any) -> Any:
    """Return states that may be run without changing the given ones: those of the scalar engine are its arrays."""
    from tempering.execution.pickling import pack, unpack

    return unpack(pack(states)) if isinstance(states, list) else states


def _double(function: Any, *arguments: Any) -> Any:
    """Call with JAX in double precision, for functions written with it."""
    import jax

    with jax.enable_x64(True):
        return function(*arguments)
