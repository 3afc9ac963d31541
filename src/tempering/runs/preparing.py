"""Prepare a run: tune whatever the user left open, along whichever path."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.engines.trace import Engine, Schedule
from tempering.learning.kernel_settings import with_fresh
from tempering.learning.ladder_choice import choose_ladder
from tempering.learning.pilot import Pilot, coldest_that_mixes, explore
from tempering.learning.rounds import Tuned, Tuner
from tempering.path.ladder import Ladder
from tempering.runs.draws import RunInfo
from tempering.runs.path_choice import with_seen
from tempering.runs.planning import CALLS_OF_A_FIT, Plan, along_a_good_reference, first_log_pseudo_prior
from tempering.runs.refitting import (
    Drawing,
    as_iterations,
    build_engine,
    calls_of_an_iteration,
    first_settings,
    joined_rounds,
    plan_along,
    plan_along_draws,
    tune_from_reference,
    with_moves_for_it,
    with_spent,
)

PAPER_LADDER = (40, 0.1)  # the paper's default, for runs that are not tuned: geometric, m = 40, k_m = 0.1
SHARE_OF_A_FIT = 0.5  # of the calls that tuning has, spent on climbing at the most
SHARE_OF_SCOUTING = 0.25  # of tuning, spent on hot rungs to see the modes before a reference is fitted to them
CALLS_OF_SCOUTING = 60_000  # at the most


def prepare(
    plan: Plan, pseudo_prior: str | NDArray[np.float64], objective: str, tune: int, report: Any
) -> tuple[Plan, Engine, Tuned]:
    """Tune what is open, along a fitted reference if it is as good as it must be."""
    if plan.fitted is not None and plan.ladder is None:
        return tune_from_reference(with_moves_for_it(plan), objective, tune, report, 0)
    if plan.ladder is not None or tune == 0:
        return plan, *_tune(plan, pseudo_prior, tune, report)
    may_fit = plan.may_fit and tune * calls_of_an_iteration(plan) >= CALLS_OF_A_FIT
    if not may_fit:
        explorer, pilot = _explored(plan, 0, report)
        return _tune_ladder_too(plan, explorer, pilot, pseudo_prior, objective, tune, report, 0)
    scouting = replace(plan, kernel=along_a_good_reference(plan.kernel))  # its moves need only see places
    explorer, pilot = _explored(scouting, _scouting(scouting, tune), report)
    scouted = as_iterations(plan, pilot.n_iterations * calls_of_an_iteration(scouting))
    most_calls = int(SHARE_OF_A_FIT * tune * calls_of_an_iteration(plan))
    along, of_fit, climbed = _along_fitted(plan, pilot, most_calls, report)
    if along is not None:
        return tune_from_reference(along, objective, tune, report, scouted + of_fit)
    plan, before = replace(plan, may_fit=False), of_fit
    if scouting.kernel is not plan.kernel:  # a ladder needs the settings of its own moves
        plan, before = replace(plan, target=plan.plain), scouted + of_fit
        explorer, pilot = _explored(plan, 0, report)
    return _tune_ladder_too(plan, explorer, pilot, pseudo_prior, objective, tune, report, before, Drawing(climbed))


def _explored(plan: Plan, scouting: int, report: Any) -> tuple[Engine, Pilot]:
    """Run a pilot by simulated tempering's engine."""
    explorer = build_engine(replace(plan, method="simulated", rung_moves="lifted"), 1)
    settings = first_settings(plan, Ladder([1.0]))
    return explorer, explore(
        explorer, plan.leaves, explorer.start(1), settings, has_base=plan.has_base, report=report, scouting=scouting
    )


def _along_fitted(plan: Plan, pilot: Pilot, most_calls: int, report: Any) -> tuple[Plan | None, int, Any]:
    """Take the path from a fitted reference, if it is good; its calls are counted as iterations of all chains.

    The fit is returned too, good or not: it knows modes.
    """
    assert plan.layout is not None
    seen = (pilot.seen, pilot.seen_energy)
    tried = with_seen(plan.target, plan.layout, plan.starts, seen, pilot.cold, plan.seed, most_calls)
    along, iterations = plan_along(replace(plan, may_fit=False), tried)
    report(iterations, "")
    return along, iterations, tried.fitted


def _tune(plan: Plan, pseudo_prior: str | NDArray[np.float64], tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune the pseudo-prior and the kernels for a given ladder."""
    ladder = plan.ladder if plan.ladder is not None else Ladder.geometric(*PAPER_LADDER)
    engine = build_engine(plan, len(ladder))
    learnt = pseudo_prior if isinstance(pseudo_prior, str) and plan.method == "simulated" and len(ladder) > 1 else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=plan.is_powered, keeps=plan.keep_rounds)
    schedule = Schedule(ladder, first_log_pseudo_prior(pseudo_prior, ladder), first_settings(plan, ladder))
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune)


def _tune_ladder_too(
    plan: Plan, explorer: Engine, pilot: Pilot, pseudo_prior: str | NDArray[np.float64], objective: str, tune: int,
    report: Any, spent: int, drawing: Drawing | None = None,
) -> tuple[Plan, Engine, Tuned]:  # fmt: skip
    """Tune the ladder too: from what a pilot has seen, in rounds; ``spent`` are iterations before the pilot's.

    The rounds' draws tell the target's shape: where a reference fitted to them is good, it becomes the path.
    """
    hottest = pilot.rungs[-1].k
    if not plan.has_base:
        hottest, pilot = coldest_that_mixes(explorer, plan.leaves, pilot, report)
    spent += pilot.n_iterations
    known = pilot.energies.density_of_states()
    ladder = choose_ladder(known, hottest, objective, plan.method)
    settings = with_fresh(pilot.settings_for(ladder), known, ladder)
    schedule = Schedule(ladder, known.log_pseudo_prior(ladder), settings)
    left = max(tune - spent, tune // 3)
    engine: Engine
    if plan.method == "parallel":
        engine = build_engine(plan, len(ladder))
        tuner = Tuner(engine, plan.leaves, None, report, is_powered=plan.is_powered, keeps=plan.keep_rounds)
        return plan, engine, with_spent(spent, tuner.run(engine.start(len(ladder)), schedule, left))
    learnt = pseudo_prior if isinstance(pseudo_prior, str) else "mbar"
    keeps = plan.keep_rounds or drawing is not None
    tuner = Tuner(explorer, plan.leaves, learnt, report, is_powered=plan.is_powered, objective=objective, keeps=keeps)
    states = explorer.on_rung(pilot.states, len(ladder) - 1)  # where the pilot left them
    if drawing is None:
        return plan, explorer, with_spent(spent, tuner.run(states, schedule, left, pilot.energies))
    tuned, calls = tuner.run(states, schedule, left // 2, pilot.energies), 0
    if drawing.has_been_round(tuned):  # else a fit has to wait for more draws
        along, calls = plan_along_draws(plan, tuned, objective, drawing)
        if along is not None:
            return tune_from_reference(along, objective, tune, report, spent + calls + tuned.n_iterations)
    rest = max(left - tuned.n_iterations - calls, left // 3)
    tuned = joined_rounds(tuned, tuner.run(tuned.states, tuned.schedule, rest, tuned.known))
    along, more_calls = plan_along_draws(plan, tuned, objective, drawing)
    spent += calls + more_calls
    if along is not None:
        return tune_from_reference(along, objective, tune, report, spent + tuned.n_iterations)
    return plan, explorer, with_spent(spent, tuned if plan.keep_rounds else replace(tuned, kept=()))


def _scouting(plan: Plan, tune: int) -> int:
    """Return how many iterations are spent on looking for modes."""
    return min(int(SHARE_OF_SCOUTING * tune), CALLS_OF_SCOUTING // calls_of_an_iteration(plan))


def info_of(plan: Plan, engine: Engine, tuned: Tuned, started: float, n_draws: int) -> RunInfo:
    """Return how a run came about; ``started`` is when, by `time.perf_counter`."""
    return RunInfo(
        method=plan.method,
        engine=engine.name,
        kernel=repr(plan.kernel) if plan.kernel is not None else type(plan.target).__name__,
        rung_moves=plan.rung_moves,
        seed=plan.seed,
        seconds=time.perf_counter() - started,
        rounds=tuned.rounds,
        n_iterations=tuned.n_iterations + n_draws,
        redraws=plan.can_redraw and plan.method == "simulated" and tuned.schedule.ladder.hottest == 0.0,
    )
