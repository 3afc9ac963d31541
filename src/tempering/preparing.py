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
from tempering.path_choice import Attempt, fits_one_mode, modes_as_starts, with_drawn, with_improved, with_seen
from tempering.planning import CALLS_OF_A_FIT, Plan, along_a_good_reference, calls_of_a_move, first_log_pseudo_prior
from tempering.tuning import kernel_settings
from tempering.tuning.density_of_states import Energies
from tempering.tuning.kernel_settings import with_fresh
from tempering.tuning.ladder_choice import choose_ladder, choose_short_ladder, score_of
from tempering.tuning.pilot import Pilot, coldest_that_mixes, explore
from tempering.tuning.rounds import Tuned, Tuner
from tempering.tuning.settling import ENOUGH_TRIPS

PAPER_LADDER = (40, 0.1)  # the paper's default, for runs that are not tuned: geometric, m = 40, k_m = 0.1
GOOD_ENOUGH = 0.7  # effective draws a draw of a reference: beyond, refitting it is not worth another compilation
FAIR = 0.3  # likewise, of one that was refitted already
MOST_REFITS = 3
SHARE_BEFORE_REFIT = 0.3  # of what is left of tuning
SHARE_BEFORE_FIT = 0.5  # likewise, along a plain path, whose draws are all that a fit has
SHARE_OF_A_FIT = 0.5  # of the calls that tuning has, spent on climbing at the most
DRAWS_OF_A_REFIT = 16_000
WARMER = 0.5  # over the root of the dimension: a reference fitted at k = 1 - that covers tails for a tenth of the draws
SHARE_OF_SCOUTING = 0.25  # of tuning, spent on hot rungs to see the modes before a reference is fitted to them
CALLS_OF_SCOUTING = 60_000  # at the most
ENOUGH_ROUNDS = 480  # iterations of tuning along a reference so good that little is left to learn


def prepare(
    plan: Plan, pseudo_prior: str | NDArray[np.float64], objective: str, tune: int, report: Any
) -> tuple[Plan, Engine, Tuned]:
    """Tune what is open, along a fitted reference if it is as good as it must be."""
    if plan.fitted is not None and plan.ladder is None:
        return _tune_from_reference(_with_moves_for_it(plan), objective, tune, report, 0)
    if plan.ladder is not None or tune == 0:
        return plan, *_tune(plan, pseudo_prior, tune, report)
    may_fit = plan.may_fit and tune * _calls_of_an_iteration(plan) >= CALLS_OF_A_FIT
    if not may_fit:
        explorer, pilot = _explored(plan, 0, report)
        return _tune_ladder_too(plan, explorer, pilot, pseudo_prior, objective, tune, report, 0, may_fit=False)
    scouting = replace(plan, kernel=along_a_good_reference(plan.kernel))  # its moves need only see places
    explorer, pilot = _explored(scouting, _scouting(scouting, tune), report)
    scouted = _as_iterations(plan, pilot.n_iterations * _calls_of_an_iteration(scouting))
    most_calls = int(SHARE_OF_A_FIT * tune * _calls_of_an_iteration(plan))
    along, of_fit = _along_fitted(plan, (pilot.seen, pilot.seen_energy), most_calls, report)
    if along is not None:
        return _tune_from_reference(along, objective, tune, report, scouted + of_fit)
    plan, before = replace(plan, may_fit=False), of_fit
    if scouting.kernel is not plan.kernel:  # a ladder needs the settings of its own moves
        plan, before = replace(plan, target=plan.plain), scouted + of_fit
        explorer, pilot = _explored(plan, 0, report)
    return _tune_ladder_too(plan, explorer, pilot, pseudo_prior, objective, tune, report, before, may_fit=True)


def _explored(plan: Plan, scouting: int, report: Any) -> tuple[Engine, Pilot]:
    """Run a pilot by simulated tempering's engine."""
    explorer = _build_engine(replace(plan, method="simulated", rung_moves="lifted"), 1)
    settings = _first_settings(plan, Ladder([1.0]))
    return explorer, explore(
        explorer, plan.leaves, explorer.start(1), settings, has_base=plan.has_base, report=report, scouting=scouting
    )


def _along_fitted(
    plan: Plan, seen: tuple[NDArray[np.float64], NDArray[np.float64]], most_calls: int, report: Any
) -> tuple[Plan | None, int]:
    """Take the path from a fitted reference, if it is good; its calls are counted as iterations of all chains."""
    assert plan.layout is not None
    tried = with_seen(plan.target, plan.layout, plan.starts, seen, plan.seed, most_calls)
    along, iterations = _along(replace(plan, may_fit=False), tried)
    report(iterations, "")
    return along, iterations


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
    report: Any, spent: int, *, may_fit: bool,
) -> tuple[Plan, Engine, Tuned]:  # fmt: skip
    """Tune the ladder too: from what a pilot has seen, in rounds; ``spent`` are iterations before the pilot's.

    The first rounds' draws tell the target's shape: where a reference fitted to them is good, it becomes the path.
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
        engine = _build_engine(plan, len(ladder))
        tuner = Tuner(engine, plan.leaves, None, report, is_powered=plan.is_powered, keeps=plan.keep_rounds)
        return plan, engine, _after(spent, tuner.run(engine.start(len(ladder)), schedule, left))
    learnt = pseudo_prior if isinstance(pseudo_prior, str) else "mbar"
    tuner = Tuner(
        explorer, plan.leaves, learnt, report, is_powered=plan.is_powered, objective=objective, keeps=plan.keep_rounds
    )
    states = explorer.on_rung(pilot.states, len(ladder) - 1)  # where the pilot left them
    if not may_fit:
        return plan, explorer, _after(spent, tuner.run(states, schedule, left, pilot.energies))
    first = replace(tuner, keeps=True).run(states, schedule, int(SHARE_BEFORE_FIT * left), pilot.energies)
    along, calls = _drawn(plan, first, objective)
    left = max(left - first.n_iterations - calls, left // 3)
    if along is not None:
        return _tune_from_reference(along, objective, tune, report, spent + first.n_iterations + calls)
    after = tuner.run(first.states, first.schedule, left, first.known)
    return plan, explorer, _after(spent + calls, _joined(first, after, plan.keep_rounds))


def _tune_from_reference(plan: Plan, objective: str, tune: int, report: Any, spent: int) -> tuple[Plan, Engine, Tuned]:
    """Tune along a fitted reference; refit it to what the chains have seen first, as often as that pays."""
    left, enough = max(tune - spent, tune // 3), GOOD_ENOUGH
    for _ in range(MOST_REFITS if plan.method == "simulated" else 0):
        if plan.fitted.ess_fraction >= enough:
            break
        keeping = replace(plan, keep_rounds=True)
        engine, first = _rounds_from_reference(keeping, objective, int(SHARE_BEFORE_REFIT * left), report)
        better, calls = _refitted(plan, first)
        left = max(left - first.n_iterations - calls, left // 2)
        if better is None:  # go on from there
            tuner = Tuner(engine, plan.leaves, "mbar", report, is_powered=False, keeps=plan.keep_rounds)
            after = tuner.run(first.states, first.schedule, left, first.known)
            return plan, engine, _after(spent + calls, _joined(first, after, plan.keep_rounds))
        plan, spent, enough = better, spent + first.n_iterations + calls, FAIR
    engine, tuned = _rounds_from_reference(plan, objective, left, report)
    return plan, engine, _after(spent, tuned)


def _after(spent: int, tuned: Tuned) -> Tuned:
    """Count what was spent before."""
    return replace(tuned, n_iterations=tuned.n_iterations + spent)


def _joined(first: Tuned, after: Tuned, keeps: bool) -> Tuned:
    """Put two stretches of rounds of one path one after the other."""
    kept = first.kept + after.kept if keeps else ()
    return replace(
        after, rounds=first.rounds + after.rounds, kept=kept, n_iterations=first.n_iterations + after.n_iterations
    )


def _rounds_from_reference(plan: Plan, objective: str, tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune in rounds: a fit's judged draws are exact energies at k = 0, and few rungs are enough."""
    if plan.fitted.ess_fraction >= GOOD_ENOUGH and tune > ENOUGH_ROUNDS:
        report(tune - ENOUGH_ROUNDS, "")  # not needed
        tune = ENOUGH_ROUNDS
    known = _energies_at_base(plan.fitted)
    states = known.density_of_states()
    ladder = choose_short_ladder(states, objective, plan.method)
    engine = _build_engine(plan, len(ladder))
    log_p = -plan.fitted.log_normalisers(ladder.inverse_temperatures)
    schedule = Schedule(ladder, log_p - log_p[0], with_fresh(_first_settings(plan, ladder), states, ladder))
    learnt = "mbar" if plan.method == "simulated" else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=False, keeps=plan.keep_rounds)
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune, known)


def _energies_at_base(fitted: Any) -> Energies:
    energy = np.asarray(fitted.log_weights, dtype=float)
    return Energies(np.zeros(energy.size), energy)


def _refitted(plan: Plan, tuned: Tuned) -> tuple[Plan | None, int]:
    """Refit the reference to the draws of the last round; return the plan along it, if better, and what that cost."""
    weighted = _weighted_draws(tuned)
    if weighted is None:
        return None, 0
    assert plan.layout is not None
    return _along(plan, with_improved(plan.plain, plan.layout, plan.fitted, weighted, plan.seed))


def _drawn(plan: Plan, tuned: Tuned, objective: str) -> tuple[Plan | None, int]:
    """Fit a reference to the draws of the last round of a plain path; return the plan along it, if it is better.

    Chains that have hardly been round may have missed a mode, and a reference without it would hide it for good: from
    them only a fit that leaves little to explain is taken.
    """
    assert plan.layout is not None
    weighted = _weighted_draws(tuned, k=1.0 - WARMER / np.sqrt(plan.layout.size))
    if weighted is None:
        return None, 0
    assert tuned.known is not None
    plain = score_of(tuned.known.density_of_states(), tuned.schedule.ladder, objective, plan.method)

    def is_better(fitted: Any) -> bool:
        if tuned.rounds[-1].n_round_trips < ENOUGH_TRIPS:
            return fits_one_mode(fitted)
        states = _energies_at_base(fitted).density_of_states()
        found = score_of(states, choose_short_ladder(states, objective, plan.method), objective, plan.method)
        return found > max(plain, 0.0) / calls_of_a_move(plan.kernel)

    return _along(plan, with_drawn(plan.target, plan.layout, weighted, plan.seed, is_better))


def _along(plan: Plan, tried: Attempt) -> tuple[Plan | None, int]:
    """Return the plan along a reference, if it is good, and the calls of its fit as iterations of all chains."""
    iterations = _as_iterations(plan, tried.n_calls)
    if tried.target is None:
        return None, iterations
    assert plan.layout is not None
    starts = modes_as_starts(plan.plain, plan.layout, tried.fitted) or plan.starts
    along = replace(plan, target=tried.target, fitted=tried.fitted, starts=starts)
    return _with_moves_for_it(along), iterations


def _with_moves_for_it(plan: Plan) -> Plan:
    """Along a good reference its fresh draws do the work, and the moves between may be cheap."""
    return replace(plan, kernel=along_a_good_reference(plan.kernel))


def _scouting(plan: Plan, tune: int) -> int:
    """Return how many iterations are spent on looking for modes."""
    return min(int(SHARE_OF_SCOUTING * tune), CALLS_OF_SCOUTING // _calls_of_an_iteration(plan))


def _calls_of_an_iteration(plan: Plan) -> int:
    return plan.n_chains * calls_of_a_move(plan.kernel)


def _as_iterations(plan: Plan, n_calls: int) -> int:
    """Return how many iterations of all chains make so many calls."""
    return -(-n_calls // _calls_of_an_iteration(plan))


def _weighted_draws(tuned: Tuned, k: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return draws of the last round, thinned, with log weights towards k; None where rungs do not overlap."""
    if not tuned.kept:
        return None
    trace, schedule = tuned.kept[-1]
    energy = trace.energy.ravel()
    rows = np.linspace(0, energy.size - 1, min(DRAWS_OF_A_REFIT, energy.size)).astype(int)
    try:
        mixture = mbar(energy, schedule.ladder.inverse_temperatures, trace.rung.ravel()).log_mixture.ravel()
    except EstimatorError:
        return None
    return trace.values.reshape(-1, trace.values.shape[-1])[rows], (k * energy - mixture)[rows]


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
