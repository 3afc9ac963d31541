"""Everything that one call of `tempering.sample` was told, and which of it goes together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tempering.errors import SamplerError, check_count
from tempering.execution.digest import contents, digest
from tempering.execution.plan import Plan
from tempering.execution.recipe import EXAMPLE_STREAM
from tempering.path import Ladder
from tempering.randomness import stream
from tempering.recorders.quantities import Summands, check_value, failed
from tempering.sampling.effort import Effort
from tempering.sampling.options import Draws, Execution, Method, Sums, Tuning
from tempering.sampling.until import Until


@dataclass(frozen=True)
class Call:
    """Everything that `tempering.sample` was told beside its target; what does not go together is refused."""

    initial: Any
    ladder: Ladder | None
    path: Any
    method: Method
    kernel: Any
    draws: int | None
    until: Until | None
    chains: int | None
    rng: np.random.Generator | int | None
    tuning: Tuning
    execution: Execution
    keep: Any  # "draws", "rounds", Draws or Sums

    def __post_init__(self) -> None:
        for name in ("draws", "chains"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), error=SamplerError)
        _check_kind("tuning", self.tuning, Tuning, "tp.Tuning(iterations=2_000)")
        _check_kind("execution", self.execution, Execution, "tp.Execution(engine='scalar')")
        if self.until is not None:
            _check_kind("until", self.until, Until, "tp.Until(effective_draws=1_000)")
        _check_keep(self.keep, self.method.name, self.until, self.execution)
        if self.method.name == "sequential" and (self.tuning != Tuning() or self.until is not None):
            given = "until" if self.until is not None else "tuning"
            raise SamplerError(
                f"method='sequential' chooses its temperatures and moves on the way and ends at draws, but {given} was "
                "given. Leave it out, or use method='simulated'."
            )
        if self.ladder is not None and self.tuning.objective is not None:
            raise SamplerError(
                f"objective={self.tuning.objective!r} is for ladders that are tuned, but a ladder was given. Leave one "
                "of the two out."
            )

    @property
    def leaves_draws_open(self) -> bool:
        """Whether it is ours to say how long a run is, and it can be gone on with at once."""
        is_here = self.execution.checkpoint is None and self.execution.devices is None
        return self.draws is None and self.until is None and is_here

    @property
    def keeps_sums(self) -> bool:
        """Whether sums are kept, and no draws."""
        return isinstance(self.keep, Sums)

    def filled(self, engine: str, usual: Effort) -> Wanted:
        """Say how much is wanted, by what is usual on an engine where that was left open."""
        until, draws, every, quantities = self.until, self.draws, 1, None
        if draws is None:
            draws = usual.draws
            until = until if until is not None or usual.effective_draws is None else Until(usual.effective_draws)
        if isinstance(self.keep, Draws):
            every = self.keep.every
            draws = max(1, draws // every)
        elif isinstance(self.keep, Sums):
            quantities, every = dict(self.keep.quantities), _stride(self.keep.every, engine, draws)
        tune = usual.iterations if self.tuning.iterations is None else self.tuning.iterations
        return Wanted(
            draws, until, usual.chains if self.chains is None else self.chains, replace(self.tuning, iterations=tune),
            self.path, every, quantities, not self.keeps_sums and self.keep == "rounds", self.execution,
            self.tuning.iterations is None,
        )  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """How much is wanted of a run, and what is kept of it, once every default has been filled in."""

    draws: int  # of each chain that are kept, or summed
    until: Until | None
    chains: int  # or ensembles: more than are tuned, perhaps
    tuning: Tuning
    path: Any  # as it was asked for
    every: int  # iterations from one draw that is kept, or summed, to the next
    quantities: dict[str, Callable[..., Any]] | None  # that are summed; None: draws are kept
    keeps_rounds: bool  # the draws of the tuning rounds, too
    execution: Execution
    leaves_tuning_open: bool = True  # it is ours to say how long it is

    @property
    def tune(self) -> int:
        """Iterations of tuning."""
        return self.tuning.iterations or 0

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have been begun with to be gone on with, beside what is in the plan."""
        known = {"draws": self.draws, "tune": self.tune, "path": self.path} | self.tuning.learnt
        if self.quantities is None:
            return known | ({} if self.every == 1 else {"every": self.every})
        quantities = ", ".join(
            f"{name} ({digest(function, contents(function))})" for name, function in self.quantities.items()
        )
        devices = self.execution.devices
        return known | {
            "keep": "sums",
            "quantities": quantities,
            "sum_every": self.every,
            "chains": self.chains,
            "devices": None if devices is None else len(devices),
        }


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


def check_together(plan: Plan, wanted: Wanted) -> None:
    """Refuse what does not go with the plan, and try the quantities and devices, before a long run."""
    _check_tuning(plan, wanted.tuning)
    _check_devices(plan, wanted)
    if wanted.quantities is not None:
        check_quantities(plan, wanted.quantities)
    elif wanted.until is None and wanted.execution.checkpoint is None:
        check_room(plan, wanted.draws)


def _check_tuning(plan: Plan, tuning: Tuning) -> None:
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


def _check_devices(plan: Plan, wanted: Wanted) -> None:
    if wanted.execution.devices is not None:
        if plan.engine != "vector" or plan.method == "sequential":
            raise SamplerError(
                f"devices are for chains of the vector engine, but this is the {plan.engine} engine, method "
                f"{plan.method!r}. Leave devices out, or write the log density with jax.numpy."
            )
        from tempering.engines.vector import sharding_of

        sharding_of(wanted.execution.devices, wanted.chains)


def check_quantities(plan: Plan, functions: Mapping[str, Callable[..., Any]]) -> None:
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
