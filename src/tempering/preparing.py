"""Prepare a run: tune whatever the user left open, along whichever path."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.draws import RunInfo
from tempering.engines.trace import Engine, Schedule
from tempering.errors import EstimatorError
from tempering.estimators import mbar
from tempering.execution.context import Execution
from tempering.execution.journal import JournalEngine
from tempering.execution.recipe import Recipe
from tempering.ladder import Ladder
from tempering.path_choice import modes_as_starts, points_of_base, with_improved, with_seen
from tempering.planning import CALLS_OF_A_FIT, Plan, along_a_good_reference, first_log_pseudo_prior
from tempering.tuning import kernel_settings
from tempering.tuning.density_of_states import Energies
from tempering.tuning.ladder_choice import choose_ladder, choose_short_ladder
from tempering.tuning.pilot import Pilot, explore
from tempering.tuning.rounds import Tuned, Tuner

PAPER_LADDER = (40, 0.1)  # the paper's default, for runs that are not tuned: geometric, m = 40, k_m = 0.1
GOOD_ENOUGH = 0.7  # effective draws a draw of a reference: beyond, refitting it is not worth another compilation
SHARE_BEFORE_REFIT = 0.3  # of what is left of tuning
DRAWS_OF_A_REFIT = 4000
SHARE_OF_SCOUTING = 0.25  # of tuning, spent on hot rungs to see the modes before a reference is fitted to them


def prepare(
    plan: Plan, pseudo_prior: str | NDArray[np.float64], objective: str, tune: int, report: Any
) -> tuple[Plan, Engine, Tuned]:
    """Tune what is open, along a fitted reference if it is as good as it must be."""
    if plan.fitted is not None and plan.ladder is None:
        return _tune_from_reference(plan, objective, tune, report, 0)
    if plan.ladder is not None or tune == 0:
        return plan, *_tune(plan, pseudo_prior, tune, report)
    may_fit = plan.may_fit and tune * plan.n_chains >= CALLS_OF_A_FIT
    explorer = _build_engine(replace(plan, method="simulated", rung_moves="lifted"), 1)
    settings = _first_settings(plan, Ladder([1.0]))
    pilot = explore(
        explorer, plan.leaves, explorer.start(1), settings, has_base=plan.has_base, report=report,
        scouting=int(SHARE_OF_SCOUTING * tune) if may_fit else 0,
    )  # fmt: skip
    spent = pilot.n_iterations
    if may_fit:
        assert plan.layout is not None
        seen = np.concatenate([points_of_base(plan.target, plan.layout, plan.seed), pilot.seen])
        plan, of_fit = _along_fitted(plan, seen, report)
        spent += of_fit
        if plan.fitted is not None:
            return _tune_from_reference(plan, objective, tune, report, spent)
    return plan, *_tune_ladder_too(plan, explorer, pilot, pseudo_prior, objective, tune, report, spent)


def _along_fitted(plan: Plan, seen: NDArray[np.float64], report: Any) -> tuple[Plan, int]:
    """Take the path from a fitted reference, if it is good; its calls are counted as iterations of all chains."""
    assert plan.layout is not None
    target, fitted = with_seen(plan.target, plan.layout, plan.starts, seen, plan.seed)
    iterations = -(-fitted.n_calls // plan.n_chains)
    report(iterations, "")
    plain = replace(plan, may_fit=False)
    if target is None:
        return plain, iterations
    starts = modes_as_starts(plan.target, plan.layout, fitted) or plan.starts
    kernel = along_a_good_reference(plan.kernel) if fitted.ess_fraction >= GOOD_ENOUGH else plan.kernel
    return replace(plain, target=target, fitted=fitted, starts=starts, kernel=kernel), iterations


def _tune(plan: Plan, pseudo_prior: str | NDArray[np.float64], tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune the pseudo-prior and the kernels for a given ladder."""
    ladder = plan.ladder if plan.ladder is not None else Ladder.geometric(*PAPER_LADDER)
    engine = _build_engine(plan, len(ladder))
    learnt = pseudo_prior if isinstance(pseudo_prior, str) and plan.method == "simulated" and len(ladder) > 1 else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=plan.is_powered, keeps=plan.keep_rounds)
    schedule = Schedule(ladder, first_log_pseudo_prior(pseudo_prior, ladder), _first_settings(plan, ladder))
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune)


def _tune_ladder_too(
    plan: Plan, explorer: Engine, pilot: Pilot, pseudo_prior: str | NDArray[np.float64], objective: str, tune: int,
    report: Any, spent: int,
) -> tuple[Engine, Tuned]:  # fmt: skip
    """Tune the ladder too: from what a pilot by simulated tempering's engine has seen, in rounds."""
    known = pilot.energies.density_of_states()
    ladder = choose_ladder(known, pilot.hottest, objective, plan.method)
    schedule = Schedule(ladder, known.log_pseudo_prior(ladder), pilot.settings_for(ladder))
    left = max(tune - spent, tune // 3)
    if plan.method == "parallel":
        engine = _build_engine(plan, len(ladder))
        tuner = Tuner(engine, plan.leaves, None, report, is_powered=plan.is_powered, keeps=plan.keep_rounds)
        tuned = tuner.run(engine.start(len(ladder)), schedule, left)
        return engine, replace(tuned, n_iterations=tuned.n_iterations + spent)
    learnt = pseudo_prior if isinstance(pseudo_prior, str) else "mbar"
    tuner = Tuner(
        explorer, plan.leaves, learnt, report, is_powered=plan.is_powered, objective=objective, keeps=plan.keep_rounds
    )
    states = explorer.on_rung(pilot.states, len(ladder) - 1)  # where the pilot left them
    tuned = tuner.run(states, schedule, left, pilot.energies)
    return explorer, replace(tuned, n_iterations=tuned.n_iterations + spent)


def _tune_from_reference(plan: Plan, objective: str, tune: int, report: Any, spent: int) -> tuple[Plan, Engine, Tuned]:
    """Tune along a fitted reference; refit it to what the chains have seen first, where it could be better."""
    left = max(tune - spent, tune // 3)
    if plan.fitted.ess_fraction < GOOD_ENOUGH and plan.method == "simulated":
        first = int(SHARE_BEFORE_REFIT * left)
        engine, tuned = _rounds_from_reference(replace(plan, keep_rounds=True), objective, first, report)
        better, calls = _refitted(plan, tuned)
        spent, left = spent + tuned.n_iterations + calls, max(left - first, left // 2)
        if better is None:  # go on from there
            tuner = Tuner(engine, plan.leaves, "mbar", report, is_powered=False, keeps=plan.keep_rounds)
            after = tuner.run(tuned.states, tuned.schedule, left, _energies_at_base(plan))
            return plan, engine, replace(after, n_iterations=after.n_iterations + spent)
        plan = better
    engine, tuned = _rounds_from_reference(plan, objective, left, report)
    return plan, engine, replace(tuned, n_iterations=tuned.n_iterations + spent)


def _rounds_from_reference(plan: Plan, objective: str, tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune in rounds: a fit's judged draws are exact energies at k = 0, and few rungs are enough."""
    known = _energies_at_base(plan)
    ladder = choose_short_ladder(known.density_of_states(), objective, plan.method)
    engine = _build_engine(plan, len(ladder))
    log_p = -plan.fitted.log_normalisers(ladder.inverse_temperatures)
    schedule = Schedule(ladder, log_p - log_p[0], _first_settings(plan, ladder))
    learnt = "mbar" if plan.method == "simulated" else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=False, keeps=plan.keep_rounds)
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune, known)


def _energies_at_base(plan: Plan) -> Energies:
    energy = np.asarray(plan.fitted.log_weights, dtype=float)
    return Energies(np.zeros(energy.size), energy)


def _refitted(plan: Plan, tuned: Tuned) -> tuple[Plan | None, int]:
    """Refit the reference to the draws of the last round; return the plan along it, if better, and what that cost."""
    assert plan.layout is not None
    if not tuned.kept:
        return None, 0
    trace, schedule = tuned.kept[-1]
    rows = np.linspace(0, trace.energy.size - 1, min(DRAWS_OF_A_REFIT, trace.energy.size)).astype(int)
    values = trace.values.reshape(-1, trace.values.shape[-1])[rows]
    energy = trace.energy.ravel()
    try:
        mixture = mbar(energy, schedule.ladder.inverse_temperatures, trace.rung.ravel()).log_mixture.ravel()
    except EstimatorError:  # rungs that do not overlap yet
        return None, 0
    weighted = (values, (energy - mixture)[rows])
    target, fitted = with_improved(plan.plain, plan.layout, plan.fitted, weighted, plan.seed)
    iterations = -(-fitted.n_calls // plan.n_chains)
    if target is None:
        return None, iterations
    return replace(plan, target=target, fitted=fitted), iterations


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


def _first_settings(plan: Plan, ladder: Ladder) -> tuple[Any, ...]:
    if plan.layout is None:
        return ()
    return kernel_settings.start(plan.leaves, ladder, plan.layout.flatten(plan.example))


def _build_engine(plan: Plan, n_rungs: int) -> JournalEngine:
    run_by: Execution = plan.execution
    recipe = Recipe(
        plan.target, plan.kernel, plan.example, plan.starts, plan.engine, plan.method, plan.rung_moves, plan.seed,
        n_rungs,
    )  # fmt: skip
    return run_by.engine(recipe, plan.n_chains)
