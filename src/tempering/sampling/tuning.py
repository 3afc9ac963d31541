"""Tune whatever the user left open, along whichever path."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tempering.engines.trace import Engine, Schedule, Trace
from tempering.execution.context import Context
from tempering.execution.journal import JournalEngine
from tempering.execution.plan import Plan
from tempering.execution.recipe import Recipe
from tempering.kernels.kernel import calls_of
from tempering.learning import kernel_settings
from tempering.learning.kernel_settings import with_fresh
from tempering.learning.ladder_choice import choose_ladder
from tempering.learning.loop import Learner
from tempering.learning.pilot import Heating, coldest_that_mixes, heated, settled
from tempering.learning.price import Price
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.overlooked import overlooked, striking
from tempering.learning.reference.surface import Surface
from tempering.learning.rounds import Tuned, Tuner
from tempering.learning.two_legs import Frame
from tempering.path import Ladder, Path
from tempering.randomness import stream
from tempering.runs.draws import TemperedDraws
from tempering.runs.positions import positions_of
from tempering.sampling.call import Wanted
from tempering.sampling.packaging import package
from tempering.sampling.planning import first_log_pseudo_prior
from tempering.sampling.progress import Report
from tempering.target.target import cold_density

PAPER_LADDER = (40, 0.1)  # the paper's default, for runs that are not tuned: geometric, m = 40, k_m = 0.1
LEARNING_STREAM, LOOKING_STREAM = 6, 8
BURN_IN = 256  # iterations of coupled chains that start from draws of single ones


def tune(plan: Plan, wanted: Wanted, report: Report, modes: tuple[Mode, ...] = ()) -> tuple[JournalEngine, Tuned]:
    """Tune what is open, with the modes that are known; return the engine, and what it runs by."""
    if plan.path == "two_legs":
        return _tune_two_legs(plan, wanted, report, modes)
    if plan.ladder is not None or wanted.tune == 0:
        return _tune(plan, wanted, report)
    return _tune_ladder_too(plan, wanted, report)


def _tune_two_legs(plan: Plan, wanted: Wanted, report: Report, modes: tuple[Mode, ...]) -> tuple[JournalEngine, Tuned]:
    """Tune two legs by simulated tempering, whichever method then runs along them."""
    assert plan.layout is not None
    target = plan.target
    frame = Frame(target.base is not None, plan.can_redraw)
    start = plan.layout.flatten(plan.example)
    single = replace(plan, method="simulated", rung_moves="lifted" if plan.method == "parallel" else plan.rung_moves)
    engine = build_engine(single, frame.example_path(start))
    learner = Learner(
        engine, plan.leaves, frame, cold_density(target, plan.layout), wanted.tuning.learnt["objective"],
        stream(plan.seed, LEARNING_STREAM), report, keeps=wanted.keeps_rounds or plan.method == "parallel",
        price=Price(calls_of(plan.kernel), plan.dearness), modes=modes,
        to_draw=partial(_to_draw, plan, wanted, engine) if wanted.leaves_tuning_open else None,
        has_one_summit=plan.is_log_concave, needs_safe_leg=plan.needs_safe_leg,
        may_be_product=plan.engine == "vector",
    )  # fmt: skip
    tuned = learner.run(start, first_settings(plan, Ladder([1.0])), wanted.tune)
    if plan.method == "parallel":
        return _coupled(plan, wanted, tuned, report)
    return engine, tuned


def _to_draw(plan: Plan, wanted: Wanted, engine: Engine, trace: Trace, schedule: Schedule) -> float:
    """Return how many iterations are to be drawn; until a number of effective draws, by what a round's were worth."""
    most = wanted.draws * wanted.every
    if wanted.until is None or wanted.until.effective_draws is None:
        return most
    run = package(plan, engine, Tuned(None, schedule, (), 0), trace)
    return min(most, run.n_draws * wanted.until.effective_draws / max(run.effective_draws(), 1e-300))


def overlooked_modes(plan: Plan, tuned: Tuned, run: TemperedDraws) -> tuple[Mode, ...]:
    """Return all modes that are known if draws of the run have led to one that its mixture lacks; else none."""
    positions = positions_of(run)
    if plan.is_log_concave or not run.path.has_two_legs or plan.layout is None or positions is None:
        return ()
    terms = run.terms.reshape(run.rung.size, -1)
    scouts = striking(positions.values.reshape(run.rung.size, -1), run.path.log_target(terms), terms[:, -1])
    most = Price(calls_of(plan.kernel), plan.dearness).most_searched(float(run.rung.size))
    surface = Surface(cold_density(plan.target, plan.layout), plan.layout.size, most_calls=most)
    log_z = run.mbar.log_normalisers
    log_z, rng = log_z[run.path.target] - log_z[run.path.ends[-1]], stream(plan.seed, LOOKING_STREAM)
    return overlooked(surface, tuned.modes, run.path.references[-1], float(log_z), scouts, rng)


def _coupled(plan: Plan, wanted: Wanted, tuned: Tuned, report: Report) -> tuple[JournalEngine, Tuned]:
    """Go on with coupled chains, one a rung, each started from a draw of its own rung."""
    assert plan.layout is not None
    path, (trace, last) = tuned.schedule.path, tuned.kept[-1]
    starts = tuple(plan.layout.unflatten(x) for x in _draws_by_rung(trace, last.path, path, plan.n_chains))
    engine = build_engine(replace(plan, starts=starts), path)
    schedule = replace(tuned.schedule, log_pseudo_prior=np.zeros(len(path)))
    states, _ = engine.run(engine.start(path), schedule, BURN_IN)
    report(BURN_IN, "")
    return engine, replace(tuned, states=states, schedule=schedule, kept=tuned.kept if wanted.keeps_rounds else ())


def _draws_by_rung(trace: Trace, old: Path, path: Path, n_ensembles: int) -> Any:
    """Return draws of the last round for every rung of every ensemble, from the rung nearest to it.

    Inside the support: far ends are drawn from whatever lies there, but chains start where all terms are finite.
    """
    from tempering.learning.two_legs import nearest_rungs

    rung = nearest_rungs(old, path, trace.rung.ravel())
    values = trace.values.reshape(rung.size, -1)
    inside = np.isfinite(trace.terms).all(axis=-1).ravel()
    by_rung = [np.flatnonzero(inside & (rung == r)) for r in range(len(path))]
    anywhere = np.flatnonzero(inside)
    for ensemble in range(n_ensembles):
        for mine in by_rung:
            rows = mine if mine.size else anywhere
            yield values[rows[int((ensemble + 0.5) / n_ensembles * rows.size)]]


def _tune(plan: Plan, wanted: Wanted, report: Report) -> tuple[JournalEngine, Tuned]:
    """Tune the pseudo-prior and the kernels for a given ladder."""
    ladder = plan.ladder if plan.ladder is not None else Ladder.geometric(*PAPER_LADDER)
    path, pseudo_prior = plan.path_of(ladder), wanted.tuning.learnt["pseudo_prior"]
    engine = build_engine(plan, path)
    learnt = pseudo_prior if isinstance(pseudo_prior, str) and plan.method == "simulated" and len(ladder) > 1 else None
    tuner = Tuner(
        engine, plan.leaves, learnt, report, plan.path_of, is_powered=plan.is_powered, keeps=wanted.keeps_rounds,
        anneals=_anneals(plan),
    )  # fmt: skip
    schedule = Schedule(path, first_log_pseudo_prior(pseudo_prior, ladder), first_settings(plan, ladder))
    return engine, tuner.run(engine.start(path), schedule, wanted.tune)


def _tune_ladder_too(plan: Plan, wanted: Wanted, report: Report) -> tuple[JournalEngine, Tuned]:
    """Tune the ladder of one leg too: from what a pilot has seen, in rounds."""
    objective, pseudo_prior, end = wanted.tuning.learnt["objective"], wanted.tuning.pseudo_prior, wanted.tuning.hottest
    single = replace(plan, method="simulated", rung_moves="lifted" if plan.method == "parallel" else plan.rung_moves)
    cold = plan.path_of(Ladder([1.0]))
    explorer = build_engine(single, cold)
    run = Heating(explorer, plan.leaves, explorer.start(cold), plan.path_of, report)
    pilot = heated(run, settled(run, first_settings(plan, Ladder([1.0]))), has_base=plan.has_base, hottest=end)
    hottest = pilot.rungs[-1].k
    if not plan.has_base and end is None:
        hottest, pilot = coldest_that_mixes(run, pilot)
    known = pilot.energies.density_of_states()
    ladder = choose_ladder(known, hottest, objective, plan.method)
    path = plan.path_of(ladder)
    settings = with_fresh(pilot.settings_for(ladder), known, ladder)
    schedule = Schedule(path, known.log_pseudo_prior(ladder), settings)
    left = max(wanted.tune - pilot.n_iterations, wanted.tune // 3)
    how: Any = {"is_powered": plan.is_powered, "keeps": wanted.keeps_rounds}
    if plan.method == "parallel":
        engine = build_engine(plan, path)
        tuner = Tuner(engine, plan.leaves, None, report, plan.path_of, **how)
        tuned = tuner.run(engine.start(path), schedule, left)
    else:
        engine, learnt = explorer, pseudo_prior if isinstance(pseudo_prior, str) else "mbar"
        how["anneals"] = _anneals(plan)
        tuner = Tuner(explorer, plan.leaves, learnt, report, plan.path_of, objective=objective, **how)
        states = explorer.on_rung(pilot.states, len(ladder) - 1)  # where the pilot left them
        tuned = tuner.run(states, schedule, left, pilot.energies)
    return engine, replace(tuned, n_iterations=tuned.n_iterations + pilot.n_iterations)


def _anneals(plan: Plan) -> bool:
    """Whether chains are cooled from the hottest rung: those of a model, whose states start anywhere."""
    return plan.layout is None and plan.method == "simulated"


def first_settings(plan: Plan, ladder: Ladder) -> tuple[Any, ...]:
    """Return the settings that the plan's moves start from; none for a model object."""
    if plan.layout is None:
        return ()
    settings = kernel_settings.start(plan.leaves, ladder, plan.layout.flatten(plan.example))
    return tuple(s._replace(scale=plan.width * s.scale) for s in settings)


def build_engine(plan: Plan, path: Path) -> JournalEngine:
    """Build the engine of a plan along a path."""
    run_by: Context = plan.context
    return run_by.engine(Recipe.of(plan, path), plan.n_chains)
