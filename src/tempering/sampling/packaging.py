"""A trace of the engine as the draws of a run."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from tempering.engines.trace import Engine, Trace
from tempering.execution.plan import Plan
from tempering.learning.rounds import Tuned
from tempering.runs.draws import RunInfo, TemperedDraws
from tempering.runs.positions import Positions
from tempering.runs.store import draws_in_chunk


def package(plan: Plan, engine: Engine, tuned: Tuned, trace: Trace) -> TemperedDraws:
    """Return a trace as the draws of a run."""
    info = info_of(plan, engine, tuned, trace.rung.shape[1])
    return TemperedDraws(
        values=_named_values(plan, engine, trace),
        rung=trace.rung,
        terms=trace.terms,
        path=tuned.schedule.path,
        log_pseudo_prior=tuned.schedule.log_pseudo_prior,
        proposed=trace.proposed,
        acceptance=trace.acceptance,
        chains_per_ensemble=engine.chains_per_ensemble,
        layout=plan.layout,
        positions=_positions(plan, trace),
        settings=tuned.schedule.settings,
        info=info,
        model=getattr(plan.target, "model", None),
    )


def _positions(plan: Plan, trace: Trace) -> Positions | None:
    """Return the flat vectors that chains moved in, where the values shown are functions of them."""
    if getattr(plan.target, "constrain", None) is None:
        return None
    return Positions(trace.values, getattr(plan.target, "coordinates", None))


def package_rounds(plan: Plan, engine: Engine, tuned: Tuned) -> tuple[TemperedDraws, ...]:
    """Return the draws of the tuning rounds, each with the ladder it was made with."""
    return tuple(
        package(plan, engine, replace(tuned, schedule=schedule, rounds=(), n_iterations=0), trace)
        for trace, schedule in tuned.kept
    )


def _named_values(plan: Plan, engine: Engine, trace: Trace) -> Any:
    """Return the values by name, constrained piece by piece: as they would be in a store, to the bit."""
    constrain = getattr(plan.target, "constrain", None)
    if constrain is None:
        return engine.positions(trace)
    length = draws_in_chunk(trace.rung.shape[0], trace.values.shape[-1])
    starts = range(0, max(1, trace.values.shape[1]), length)
    pieces = [constrain(plan.layout.unflatten(trace.values[:, i : i + length])) for i in starts]  # type: ignore[union-attr]
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}


def info_of(plan: Plan, engine: Engine, tuned: Tuned, n_draws: int) -> RunInfo:
    """Return how a run came about."""
    return RunInfo(
        method=plan.method,
        engine=engine.name,
        kernel=repr(plan.kernel) if plan.kernel is not None else type(plan.target).__name__,
        rung_moves=plan.rung_moves,
        seed=plan.seed,
        seconds=time.perf_counter() - plan.context.started,
        rounds=tuned.rounds,
        n_iterations=tuned.n_iterations + n_draws,
        n_invalid=tuned.n_invalid,
        share_of_search=tuned.share_of_search,
        is_log_concave=plan.is_log_concave,
        redraws=plan.method == "simulated" and (bool(tuned.schedule.path.ends) or _model_redraws(plan, tuned)),
    )


def _model_redraws(plan: Plan, tuned: Tuned) -> bool:
    return plan.layout is None and plan.has_base and tuned.schedule.ladder.hottest == 0.0
