"""What `sample(..., keep="sums")` refuses, before a long run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tempering.errors import SamplerError
from tempering.execution.recipe import EXAMPLE_STREAM
from tempering.randomness import stream
from tempering.recorders.quantities import Summands, check_functions, check_value, failed
from tempering.runs.planning import Plan

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
    return check_functions(quantities)


def check_sum_every(sum_every: int | None, keep: str, engine: str, draws: int) -> int:
    """Refuse what cannot be; return which iterations are summed, every one or every so many."""
    if sum_every is not None and keep != "sums":
        raise SamplerError(f"sum_every is for keep='sums', but keep is {keep!r}. Leave it out.")
    if sum_every is None:
        if engine != "vector":
            return 1
        from tempering.recorders.summing import default_sum_every

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
