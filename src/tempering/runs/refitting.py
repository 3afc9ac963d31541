"""Tune along a reference fitted to modes or to draws, and refit it to what the chains have seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.engines.trace import Engine, Schedule
from tempering.errors import EstimatorError
from tempering.estimators import mbar
from tempering.execution.context import Execution
from tempering.execution.journal import JournalEngine
from tempering.execution.recipe import Recipe
from tempering.learning import kernel_settings
from tempering.learning.density_of_states import Energies
from tempering.learning.kernel_settings import with_fresh
from tempering.learning.ladder_choice import choose_short_ladder, score_of
from tempering.learning.rounds import Tuned, Tuner
from tempering.learning.settling import ENOUGH_TRIPS
from tempering.path.ladder import Ladder
from tempering.runs.path_choice import FAIR, Attempt, fits_one_mode, modes_as_starts, with_drawn, with_improved
from tempering.runs.planning import Plan, along_a_good_reference, calls_of_a_move

GOOD_ENOUGH = 0.7  # effective draws a draw of a reference: beyond, refitting it is not worth another compilation
MOST_REFITS = 3
ENOUGH_TRIPS_WITH_MODES = 20  # between the cold rung and the hottest, before a fit to draws is trusted
NEARLY_ALL = 0.99  # of the target's mass, that a reference must not miss if cheap moves are to be enough
SHARE_BEFORE_REFIT = 0.3  # of what is left of tuning
DRAWS_OF_A_REFIT = 16_000
WARMER = 0.5  # over the root of the dimension: a reference fitted at k = 1 - that covers tails for a tenth of the draws
ENOUGH_ROUNDS = 480  # iterations of tuning along a reference so good that little is left to learn


@dataclass(frozen=True)
class Drawing:
    """What is known before a reference is fitted to draws: one fitted to climbed modes that was not good enough.

    Chains that have hardly been round may have missed a mode, and a reference without it would hide it for good. Modes
    that were climbed to are kept, and fewer journeys are enough where there are some.
    """

    climbed: Any  # None where climbing was given up

    def has_been_round(self, tuned: Tuned) -> bool:
        """Whether chains have been round often enough."""
        enough = ENOUGH_TRIPS if self.climbed is None else ENOUGH_TRIPS_WITH_MODES
        return sum(done.n_round_trips for done in tuned.rounds) >= enough


def tune_from_reference(plan: Plan, objective: str, tune: int, report: Any, spent: int) -> tuple[Plan, Engine, Tuned]:
    """Tune along a fitted reference; refit it to what the chains have seen first, as often as that pays."""
    left, enough = max(tune - spent, tune // 3), GOOD_ENOUGH
    for _ in range(MOST_REFITS if plan.method == "simulated" else 0):
        if plan.fitted.ess_fraction >= enough and not _misses_much(plan.fitted):
            break
        keeping = replace(plan, keep_rounds=True)
        engine, first = _rounds_from_reference(keeping, objective, int(SHARE_BEFORE_REFIT * left), report)
        better, calls = _refitted(plan, first)
        left = max(left - first.n_iterations - calls, left // 2)
        if better is None:  # go on from there
            tuner = Tuner(engine, plan.leaves, "mbar", report, is_powered=False, keeps=plan.keep_rounds, aims=True)
            joined = joined_rounds(first, tuner.run(first.states, first.schedule, left, first.known))
            return plan, engine, with_spent(spent + calls, joined if plan.keep_rounds else replace(joined, kept=()))
        plan, spent, enough = better, spent + first.n_iterations + calls, FAIR
    engine, tuned = _rounds_from_reference(plan, objective, left, report)
    return plan, engine, with_spent(spent, tuned)


def _rounds_from_reference(plan: Plan, objective: str, tune: int, report: Any) -> tuple[Engine, Tuned]:
    """Tune in rounds: a fit's judged draws are exact energies at k = 0, and few rungs are enough."""
    if plan.fitted.ess_fraction >= GOOD_ENOUGH and tune > ENOUGH_ROUNDS:
        report(tune - ENOUGH_ROUNDS, "")  # not needed
        tune = ENOUGH_ROUNDS
    known = _energies_at_base(plan.fitted)
    states = known.density_of_states()
    ladder = choose_short_ladder(states, objective, plan.method)
    engine = build_engine(plan, len(ladder))
    log_p = -plan.fitted.log_normalisers(ladder.inverse_temperatures)
    schedule = Schedule(ladder, log_p - log_p[0], with_fresh(first_settings(plan, ladder), states, ladder))
    learnt = "mbar" if plan.method == "simulated" else None
    tuner = Tuner(engine, plan.leaves, learnt, report, is_powered=False, keeps=plan.keep_rounds, aims=True)
    return engine, tuner.run(engine.start(len(ladder)), schedule, tune, known)


def _energies_at_base(fitted: Any) -> Energies:
    energy = np.asarray(fitted.log_weights, dtype=float)
    return Energies(np.zeros(energy.size), energy)


def _refitted(plan: Plan, tuned: Tuned) -> tuple[Plan | None, int]:
    """Refit the reference to the draws of the long rounds; return the plan along it, if better, and what that cost."""
    weighted = _weighted_draws(tuned)
    if weighted is None:
        return None, 0
    assert plan.layout is not None
    return plan_along(plan, with_improved(plan.plain, plan.layout, plan.fitted, weighted, plan.seed))


def plan_along_draws(plan: Plan, tuned: Tuned, objective: str, drawing: Drawing) -> tuple[Plan | None, int]:
    """Fit a reference to the draws of a plain path; return the plan along it, if it is better.

    From chains that have hardly been round only a fit that leaves little to explain is taken.
    """
    assert plan.layout is not None
    weighted = _weighted_draws(tuned, k=1.0 - WARMER / np.sqrt(plan.layout.size))
    if weighted is None:
        return None, 0
    assert tuned.known is not None
    plain = score_of(tuned.known.density_of_states(), tuned.schedule.ladder, objective, plan.method)

    def is_better(fitted: Any) -> bool:
        if not drawing.has_been_round(tuned):
            return fits_one_mode(fitted)
        states = _energies_at_base(fitted).density_of_states()
        found = score_of(states, choose_short_ladder(states, objective, plan.method), objective, plan.method)
        return found > max(plain, 0.0) / calls_of_a_move(plan.kernel)

    return plan_along(plan, with_drawn(plan.target, plan.layout, weighted, drawing.climbed, plan.seed, is_better))


def plan_along(plan: Plan, tried: Attempt) -> tuple[Plan | None, int]:
    """Return the plan along a reference, if it is good, and the calls of its fit as iterations of all chains."""
    iterations = as_iterations(plan, tried.n_calls)
    if tried.target is None:
        return None, iterations
    assert plan.layout is not None
    starts = modes_as_starts(plan.plain, plan.layout, tried.fitted) or plan.starts
    along = replace(plan, target=tried.target, fitted=tried.fitted, starts=starts)
    return with_moves_for_it(along), iterations


def with_moves_for_it(plan: Plan) -> Plan:
    """Along a good reference its fresh draws do the work, and the moves between may be cheap."""
    own = plan.plain_kernel
    return replace(plan, kernel=own if _misses_much(plan.fitted) else along_a_good_reference(own))


def _misses_much(fitted: Any) -> bool:
    """Whether chains were where a reference hardly draws from, and local moves have to do the work there."""
    return bool(fitted.missed > 1.0 - NEARLY_ALL)


def _weighted_draws(tuned: Tuned, k: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return draws of the long rounds, thinned, with log weights towards k; None where rungs do not overlap."""
    longest = max((trace.energy.shape[1] for trace, _ in tuned.kept), default=0)
    long = [(trace, schedule) for trace, schedule in tuned.kept if 4 * trace.energy.shape[1] >= longest]
    if not long:
        return None
    values, energy = (np.concatenate([getattr(t, name) for t, _ in long], axis=1) for name in ("values", "energy"))
    at = np.concatenate([schedule.ladder.inverse_temperatures[trace.rung] for trace, schedule in long], axis=1)
    steps, rung = np.unique(-at, return_inverse=True)  # rounds may have had ladders of their own
    energy = energy.ravel()
    try:
        mixture = mbar(energy, -steps, rung.ravel()).log_mixture.ravel()
    except EstimatorError:
        return None
    rows = np.linspace(0, energy.size - 1, min(DRAWS_OF_A_REFIT, energy.size)).astype(int)
    return values.reshape(-1, values.shape[-1])[rows], (k * energy - mixture)[rows]


def with_spent(spent: int, tuned: Tuned) -> Tuned:
    """Count what was spent before."""
    return replace(tuned, n_iterations=tuned.n_iterations + spent)


def joined_rounds(first: Tuned, after: Tuned) -> Tuned:
    """Put two stretches of rounds of one path one after the other."""
    return replace(
        after,
        rounds=first.rounds + after.rounds,
        kept=first.kept + after.kept,
        n_iterations=first.n_iterations + after.n_iterations,
    )


def calls_of_an_iteration(plan: Plan) -> int:
    """Return how many evaluations an iteration of all chains takes."""
    return plan.n_chains * calls_of_a_move(plan.kernel)


def as_iterations(plan: Plan, n_calls: int) -> int:
    """Return how many iterations of all chains make so many calls."""
    return -(-n_calls // calls_of_an_iteration(plan))


def first_settings(plan: Plan, ladder: Ladder) -> tuple[Any, ...]:
    """Return the settings that the plan's moves start from; none for a model object."""
    if plan.layout is None:
        return ()
    return kernel_settings.start(plan.leaves, ladder, plan.layout.flatten(plan.example))


def build_engine(plan: Plan, n_rungs: int) -> JournalEngine:
    """Build the engine of a plan."""
    run_by: Execution = plan.execution
    return run_by.engine(Recipe.of(plan, n_rungs), plan.n_chains)
