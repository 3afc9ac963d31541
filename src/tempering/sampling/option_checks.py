"""Which options of `tempering.sample` go together; quantities and devices are tried before a long run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tempering.errors import SamplerError
from tempering.execution.plan import Plan
from tempering.execution.recipe import EXAMPLE_STREAM
from tempering.randomness import stream
from tempering.recorders.quantities import Summands, check_value, failed
from tempering.sampling.options import Draws, Execution, Method, Sums, Tuning, check_count
from tempering.sampling.sum_sampling import Wanted
from tempering.sampling.until import Until

TUNING_CHAINS = 1024  # more would fill memory with traces and teach nothing new; the others start from copies


def check_options(
    method: Method,
    ladder: Any,
    draws: int | None,
    until: Until | None,
    chains: int | None,
    tuning: Tuning,
    execution: Execution,
    keep: Any,
) -> None:
    """Refuse options of `tempering.sample` that do not go together, before anything runs."""
    if draws is not None:
        check_count("draws", draws)
    if chains is not None:
        check_count("chains", chains)
    _check_kind("tuning", tuning, Tuning, "tp.Tuning(iterations=2_000)")
    _check_kind("execution", execution, Execution, "tp.Execution(engine='scalar')")
    if until is not None:
        _check_kind("until", until, Until, "tp.Until(effective_draws=1_000)")
    _check_keep(keep, method.name, until, execution)
    if method.name == "sequential" and (tuning != Tuning() or until is not None):
        given = "until" if until is not None else "tuning"
        raise SamplerError(
            f"method='sequential' chooses its temperatures and moves on the way and ends at draws, but {given} was "
            "given. Leave it out, or use method='simulated'."
        )
    if ladder is not None and tuning.objective is not None:
        raise SamplerError(
            f"objective={tuning.objective!r} is for ladders that are tuned, but a ladder was given. Leave one of the "
            "two out."
        )


def _check_kind(name: str, value: Any, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise SamplerError(f"{name} must be a tempering.{kind.__name__}, but got {value!r}. Write {name}={example}.")


def _check_keep(keep: Any, method: str, until: Until | None, execution: Execution) -> None:
    if isinstance(keep, Sums):
        if method == "sequential" or until is not None:
            raise SamplerError(
                "keep=Sums(...) is for chains of a given length, but "
                + ("the method is 'sequential'" if method == "sequential" else "until was given")
                + ". Keep draws, or leave it out."
            )
    elif isinstance(keep, Draws):
        if keep.every > 1 and method == "sequential":
            raise SamplerError("keep=Draws(every=...) is for chains, but the method is 'sequential'. Leave it out.")
    elif keep == "sums":
        raise SamplerError("keep='sums' is now written with its quantities: keep=tp.Sums({'x': lambda x: x}).")
    elif keep not in ("draws", "rounds"):
        raise SamplerError(f"keep must be 'draws', 'rounds', a tempering.Draws or a tempering.Sums, but got {keep!r}.")
    elif keep == "rounds" and (method == "sequential" or execution.is_elsewhere):
        raise SamplerError(
            "keep='rounds' is for chains of this process, but the method is 'sequential', or an executor or a "
            "checkpoint was given. Leave them out, or keep='draws'."
        )


def check_plan(plan: Plan, tuning: Tuning) -> None:
    """Refuse a pseudo-prior for a run that has none or whose rungs are not known, and the end of a given ladder."""
    if tuning.hottest is not None and (plan.ladder is not None or plan.path == "two_legs" or tuning.iterations == 0):
        raise SamplerError(
            "hottest is for a ladder of one leg that is tuned, but this one is given, not tuned, or has two legs. "
            "Leave hottest out, or leave the ladder out and name a path."
        )
    if tuning.hottest == 0.0 and not plan.has_base:
        raise SamplerError(
            "A ladder can end at k = 0 only if there is a prior there, but this target has none. Give a hottest k > 0."
        )
    given = tuning.pseudo_prior
    if given is None:
        return
    if plan.method != "simulated":
        raise SamplerError(
            f"pseudo_prior is for method='simulated', but the method is {plan.method!r}, which has none. Leave it out."
        )
    if not isinstance(given, str) and plan.ladder is None and tuning.iterations != 0:
        raise SamplerError(
            "pseudo_prior holds one log value per rung, but the ladder is to be tuned. Give the ladder too, or leave "
            "pseudo_prior out."
        )
    if plan.path == "two_legs" and tuning.iterations != 0:
        raise SamplerError(
            f"pseudo_prior={given!r} is for a path of one leg; the two legs of the default path learn theirs by MBAR. "
            "Leave it out, or give a ladder or path='powers'."
        )


def check_room(plan: Plan, draws: int, memory: int | None = None) -> None:
    """Refuse draws that the memory of this machine cannot hold, before any of them is made."""
    if memory is None:
        if not hasattr(os, "sysconf"):  # on Windows
            return
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = 3 + (1 if plan.layout is None else plan.layout.size)  # beside values a term, rungs and an acceptance
    needed = 8 * size * draws * plan.n_chains
    if needed > memory:
        raise SamplerError(
            f"Some {needed / 2**30:,.0f} GiB would be needed for {draws:,} draws of {plan.n_chains:,} chains, but this "
            f"machine has {memory / 2**30:,.0f} GiB of memory. Make fewer; or keep them on disk, by "
            "Execution(checkpoint=...), or their sums alone, by keep=Sums(...)."
        )


def wanted_sums(plan: Plan, sums: Sums, draws: int, devices: Sequence[Any] | None) -> Wanted:
    """Try the quantities on an example; return what is to be summed, over how much."""
    functions = dict(sums.quantities)
    check_quantities(plan, functions)
    return Wanted(functions, draws, plan.n_chains, _stride(sums.every, plan.engine, draws), devices)


def _stride(every: int | None, engine: str, draws: int) -> int:
    """Return which iterations are summed, every one or every so many."""
    if every is None:
        if engine != "vector":
            return 1
        from tempering.recorders.summing import default_sum_every

        return default_sum_every(draws)
    if every > draws:
        raise SamplerError(f"every must be at most the number of draws, {draws}, but got {every}. Leave it out.")
    if engine != "vector" and every > 1:
        raise SamplerError(
            f"every is for the vector engine, but this is the {engine} engine, which sums every draw. Leave it out."
        )
    return int(every)


def check_devices(plan: Plan, devices: Any, *, keeps_sums: bool) -> Plan:
    """Check devices before the run; return the plan with as many chains as tuning needs."""
    if devices is not None:
        if plan.engine != "vector" or plan.method == "sequential":
            raise SamplerError(
                f"devices are for chains of the vector engine, but this is the {plan.engine} engine, method "
                f"{plan.method!r}. Leave devices out, or write the log density with jax.numpy."
            )
        from tempering.engines.vector import sharding_of

        sharding_of(devices, plan.n_chains)
    if keeps_sums and plan.engine == "vector":
        return replace(plan, n_chains=min(plan.n_chains, TUNING_CHAINS))
    return plan


def check_quantities(plan: Plan, functions: dict[str, Callable[..., Any]]) -> None:
    """Try every quantity on an example, before a long run."""
    for name, function in functions.items():
        summands = Summands(((name, function),), plan.layout, getattr(plan.target, "constrain", None))
        try:
            if plan.engine == "vector":
                _try_traced(plan, summands)
            else:
                _try_on_host(plan, summands)
        except SamplerError:
            raise
        except Exception as error:
            raise failed(name, error, plan.engine) from error


def _try_on_host(plan: Plan, summands: Summands) -> None:
    if plan.layout is not None:
        recorded: Any = plan.layout.flatten(plan.example)
        positions: Callable[..., Any] = plan.layout.named
    else:
        from tempering.engines.scalar_pieces import positions_of

        recorded = np.ravel(plan.target.record(plan.target.initial(stream(plan.seed, EXAMPLE_STREAM))))
        positions = positions_of(plan.target)
    found = summands.on_host(positions, np.broadcast_to(recorded, (2, 3, recorded.size)))
    for name, value in found.items():
        check_value(name, value, (2, 3))


def _try_traced(plan: Plan, summands: Summands) -> None:
    import jax
    import jax.numpy as jnp

    from tempering.engines import vector

    with jax.enable_x64(True):
        if plan.layout is not None:
            recorded: Any = jax.eval_shape(lambda: jnp.zeros((2, plan.layout.size)))  # type: ignore[union-attr]
            positions: Any = plan.layout.named
        else:
            pieces = vector.model_pieces(plan.target)
            states = jax.eval_shape(lambda keys: pieces.start(keys, ()), jax.random.split(jax.random.key(0), 2))
            recorded, positions = jax.eval_shape(jax.vmap(pieces.record), states), pieces.positions
        jax.eval_shape(summands.on_device(positions, 1), recorded)
