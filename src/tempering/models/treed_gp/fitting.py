"""One fit: tune ladder and pseudo-prior, run the chains, and combine the sums of all rungs."""

from __future__ import annotations

import time
import warnings
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering import progress as progress_bars
from tempering.engines.trace import Schedule
from tempering.execution.workers import Workers
from tempering.ladder import Ladder
from tempering.models.treed_gp.combining import Posterior, combine
from tempering.models.treed_gp.engine import Chain, TreedGPEngine, n_workers
from tempering.models.treed_gp.model import LARGE, TreedGPModel
from tempering.models.treed_gp.records import record_length
from tempering.progress import Report
from tempering.pseudo_prior import from_mean_energies
from tempering.randomness import seed_of, stream
from tempering.tuning.density_of_states import DensityOfStates
from tempering.tuning.ladder_choice import choose_ladder
from tempering.tuning.rounds import flat_schedule

Floats = NDArray[np.float64]

TRACE_LENGTH = 50_000  # draws a chain whose energy and rung are remembered; longer runs are thinned
BLOCK = 512  # rounds between two strokes of the bar
SLOT_MEMORY = 64e6  # bytes for the resampled trees of a chain
FIRST_RUNGS = 16
SHARE_OF_START = 0.25  # of the tuning, for the runs at fixed rungs
FIRST_GAIN = 0.1
LONG_FIT = 60.0  # seconds from which the user is told beforehand


@dataclass(frozen=True)
class Plan:
    """How long to run, with what ladder, and what to keep."""

    ladder: Ladder | None  # None: chosen by tuning
    hottest: float
    draws: int
    tune: int
    chains: int
    thin: int
    kept: int
    rule: str
    points: Floats | None = None
    predict_every: int = 10


def fit(
    model: TreedGPModel,
    plan: Plan,
    *,
    rng: np.random.Generator | int | None,
    progress: bool,
    executor: Executor | None = None,
) -> Posterior:
    """Tune, draw and combine.

    Parameters
    ----------
    model : TreedGPModel
    plan : Plan
    rng : int, Generator or None
        Equal seeds give equal fits, whatever the number of threads.
    progress : bool
        Show a bar when the output is a terminal.
    executor : Executor, optional
        Who runs the chains; the fit is the same whoever does.
    """
    seed = seed_of(rng)
    workers = None if executor is None else Workers(executor)
    engine = TreedGPEngine(model, plan.chains, seed, workers)
    preflight(model, plan, seed)
    started = time.perf_counter()
    first = plan.ladder if plan.ladder is not None else first_ladder(plan.hottest)
    with progress_bars.bar(plan.tune + plan.draws, show=progress, title="treed GP") as report:
        chains, schedule = tune(engine, first, plan, report)
        length = int(record_length(chains[0].state))
        slots = int(np.clip(SLOT_MEMORY / (8 * length * len(schedule.ladder)), 8, plan.kept))
        engine.keep_sums(chains, len(schedule.ladder), slots, 0 if plan.points is None else len(plan.points))
        traces = draw(engine, chains, schedule, plan, report)
    if workers is not None:
        workers.close()
    seconds = time.perf_counter() - started
    return combine(chains, traces, schedule, plan.rule, plan.kept, stream(seed, plan.chains), seconds)


def first_ladder(hottest: float) -> Ladder:
    """Return the default ladder, from which tuning starts too."""
    if hottest >= 1.0:
        return Ladder([1.0])
    if hottest > 0.0:
        return Ladder.geometric(FIRST_RUNGS, hottest)
    return Ladder([*Ladder.geometric(FIRST_RUNGS - 1, 1e-3), 0.0])


def tune(engine: TreedGPEngine, ladder: Ladder, plan: Plan, report: Report) -> tuple[list[Chain], Schedule]:
    """Learn the pseudo-prior, and the ladder where none is given."""
    chains = engine.start(len(ladder))
    schedule = flat_schedule(ladder, ())
    if len(ladder) == 1:
        engine.advance(chains, schedule, plan.tune, moving=False)
        report(plan.tune, "")
        return chains, schedule
    budget = plan.tune if plan.ladder is not None else plan.tune // 2
    schedule = start_cold_to_hot(engine, chains, schedule, int(SHARE_OF_START * budget))
    schedule = engine.learn(chains, schedule, gains(budget - int(SHARE_OF_START * budget)))
    report(budget, "")
    if plan.ladder is None:
        schedule = choose(engine, chains, schedule, (plan.tune - budget) // 2)
        rest = plan.tune - budget - (plan.tune - budget) // 2
        schedule = engine.learn(chains, schedule, gains(rest) / 2)
        report(plan.tune - budget, f"ladder: {schedule.ladder}")
    return chains, schedule


def gains(n: int) -> Floats:
    """Return the steps of stochastic approximation: 0.1 nats at first, falling as 1 / t."""
    return FIRST_GAIN / (1.0 + np.arange(n) / max(1.0, 0.05 * n))


def start_cold_to_hot(engine: TreedGPEngine, chains: list[Chain], schedule: Schedule, budget: int) -> Schedule:
    """Start from thermodynamic integration of the mean energies of short runs at each rung, cold to hot."""
    m = len(schedule.ladder)
    each = max(2, budget // (2 * m))
    engine.on_rung(chains, 0)
    engine.advance(chains, schedule, max(2, budget - each * m), moving=False)  # away from the start, cold
    mean_energy = np.zeros(m)
    for rung in range(m):
        engine.on_rung(chains, rung)
        traces = engine.advance(chains, schedule, each, moving=False)
        mean_energy[rung] = np.mean([np.mean(t.energy[each // 4 :]) for t in traces])
    return replace(schedule, log_pseudo_prior=from_mean_energies(schedule.ladder, mean_energy))


def choose(engine: TreedGPEngine, chains: list[Chain], schedule: Schedule, n: int) -> Schedule:
    """Choose the ladder, number of rungs and all, from the energies of a pilot run."""
    traces = engine.advance(chains, schedule, max(n, 2))
    energy = np.stack([t.energy for t in traces])
    rung = np.stack([t.rung for t in traces])
    old = schedule.ladder
    states = DensityOfStates.from_draws(energy, old.inverse_temperatures, rung)
    ladder = choose_ladder(states, old.hottest)
    log_p = -states.log_normaliser(ladder.inverse_temperatures)
    for chain in chains:
        nearest = np.argmin(np.abs(ladder.inverse_temperatures - old[int(chain.walk[0])]))
        chain.walk[0] = int(nearest)
    return Schedule(ladder, log_p - log_p[0], ())


@dataclass(frozen=True)
class Remembered:
    """A thinned trace of one chain."""

    energy: Floats
    log_weight: Floats
    rung: NDArray[np.int32]
    n_leaves: NDArray[np.int32]
    every: int
    n_round_trips: int


def draw(
    engine: TreedGPEngine, chains: list[Chain], schedule: Schedule, plan: Plan, report: Report
) -> list[Remembered]:
    """Run with everything frozen, block by block."""
    block = plan.thin * max(1, BLOCK // plan.thin)
    every = max(1, -(-plan.draws // TRACE_LENGTH))
    parts: list[list[tuple[NDArray[Any], ...]]] = [[] for _ in chains]
    trips = [RoundTrips(len(schedule.ladder)) for _ in chains]
    predict_every = plan.predict_every if plan.points is not None else 0
    done = 0
    while done < plan.draws:
        n = min(block, plan.draws - done)
        traces = engine.advance(chains, schedule, n, thin=plan.thin, points=plan.points, predict_every=predict_every)
        first = -done % every
        for trace, kept, trip in zip(traces, parts, trips, strict=True):
            columns = (trace.energy, trace.log_weight, trace.rung, trace.n_leaves)
            kept.append(tuple(column[first::every] for column in columns))
            trip.add(trace.rung)
        done += n
        report(n, "")
    joined = [[np.concatenate(column) for column in zip(*kept, strict=True)] for kept in parts]
    return [
        Remembered(energy, log_weight, rung, n_leaves, every, trip.count)
        for (energy, log_weight, rung, n_leaves), trip in zip(joined, trips, strict=True)
    ]


class RoundTrips:
    """Count journeys from the cold rung to the hottest and back, block after block."""

    def __init__(self, n_rungs: int) -> None:
        self.hottest = n_rungs - 1
        self.count = 0
        self._end = -1

    def add(self, rung: NDArray[np.int32]) -> None:
        """Follow the chain through one block."""
        if self.hottest == 0:
            return
        for end in rung[(rung == 0) | (rung == self.hottest)]:
            if end == 0 and self._end == self.hottest:
                self.count += 1
            if end == 0 or self._end == 0:
                self._end = int(end)


def preflight(model: TreedGPModel, plan: Plan, seed: int) -> float:
    """Estimate the seconds a large fit will take from three rounds of a chain of its own; warn if many."""
    if len(model.data.x) <= LARGE:
        return 0.0
    trial = TreedGPEngine(model, 1, seed)
    schedule = flat_schedule(Ladder([1.0]), ())
    chains = trial.start(1)
    started = time.perf_counter()
    trial.advance(chains, schedule, 3, moving=False)
    a_round = (time.perf_counter() - started) / 3
    seconds = a_round * (plan.draws + plan.tune) * -(-plan.chains // n_workers(plan.chains))
    if seconds > LONG_FIT:
        warnings.warn(
            f"This fit will take about {_duration(seconds)}: {model.data.n_rows} rows, {a_round:.2g} s a "
            f"round, "
            f"{plan.draws + plan.tune} rounds, {plan.chains} chains; longer if the tree settles on larger "
            "leaves. Fewer draws, leaf='linear' or a subset of the rows would be faster.",
            UserWarning,
            stacklevel=4,
        )
    return seconds


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"
