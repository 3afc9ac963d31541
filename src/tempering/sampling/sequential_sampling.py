"""Carry populations from hot to cold, and keep them as the draws of a run."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from tempering.errors import SamplerError
from tempering.execution.movers import spread_mover
from tempering.execution.plan import Plan
from tempering.execution.recipe import kept_target
from tempering.path import Path as TemperingPath
from tempering.populations.sequential import Replicates, sample_sequential
from tempering.runs.draws import RunInfo, TemperedDraws
from tempering.sampling.progress import Report


def sample_sequentially(plan: Plan, draws: int, report: Report) -> TemperedDraws:
    """Carry populations from hot to cold, and keep them all."""
    if plan.layout is None or plan.ladder is not None:
        raise SamplerError(
            "method='sequential' needs a Target and chooses its own temperatures, but got "
            + ("a model object." if plan.layout is None else "a ladder.")
            + " Use method='simulated' or 'parallel'."
        )
    kept = kept_target(plan.target, plan.layout, plan.context.run or "none")  # which also says where a call has failed
    result = sample_sequential(
        kept, plan.layout, plan.starts, plan.kernel, Replicates(plan.n_chains, draws, plan.seed), report=report,
        carried_out=partial(spread_mover, plan.context, example=plan.example),
    )  # fmt: skip
    constrain = plan.target.constrain
    info = RunInfo(
        method="sequential",
        engine="vector (JAX)",
        kernel=repr(plan.kernel),
        rung_moves="none",
        seed=plan.seed,
        seconds=time.perf_counter() - plan.context.started,
        n_iterations=result.rung.shape[1],
    )
    return TemperedDraws(
        values=plan.layout.named(result.values)
        if constrain is None
        else constrain(plan.layout.unflatten(result.values)),
        rung=result.rung,
        terms=result.energy[..., np.newaxis],
        path=TemperingPath.of_energy(result.ladder, is_powered=False),
        log_pseudo_prior=np.zeros(len(result.ladder)),
        proposed=result.rung,
        acceptance=result.acceptance,
        layout=plan.layout,
        settings=result.settings,
        info=info,
    )
