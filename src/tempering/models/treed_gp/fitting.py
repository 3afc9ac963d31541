"""One fit: tune ladder and pseudo-prior, run the chains, and combine the sums of all rungs."""

from __future__ import annotations

import time
import warnings
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.engines.trace import Schedule
from tempering.errors import InputError
from tempering.estimators.rules import check_rule
from tempering.execution.checkpoint import Checkpoint
from tempering.execution.context import carrying_out
from tempering.learning.density_of_states import DensityOfStates
from tempering.learning.rounds import flat_schedule
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.agreement import prediction_r_hat
from tempering.models.treed_gp.combining import Posterior, combine
from tempering.models.treed_gp.driver import Trace
from tempering.models.treed_gp.engine import Chain, Keep, TreedGPEngine, n_workers
from tempering.models.treed_gp.kept_fit import KeptEngine, identify, read_draws, write_draws
from tempering.models.treed_gp.learning import first_ladder, tune
from tempering.models.treed_gp.map_tree import draw_given_tree
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.pacing import Pace
from tempering.models.treed_gp.records import record_size
from tempering.path.ladder import Ladder
from tempering.randomness import seed_of, stream
from tempering.runs import progress as progress_bars
from tempering.runs.progress import Report

Floats = NDArray[np.float64]

TRACE_LENGTH = 50_000  # draws a chain whose energy and rung are remembered; longer runs are thinned
SLOT_MEMORY = 64e6  # bytes for the resampled trees of a chain
N_STRETCHES = 64  # of energy, for the rule mbar: equally many draws in each
LONG_FIT = 60.0  # seconds from which the user is told beforehand
WORTH_A_TRIAL = 300  # distinct inputs from which a fit is timed beforehand
TRIAL = 1.0  # seconds of that


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


def usual_rounds(n_distinct: int) -> int:
    """Return how many rounds a chain is tuned for, and how many are kept, where nobody says.

    Examples
    --------
    >>> usual_rounds(100), usual_rounds(1600), usual_rounds(1_000_000)
    (20000, 10000, 1500)
    """
    return max(1500, int(20_000 * min(1.0, (400 / n_distinct) ** 0.5)))


def fit(
    model: TreedGPModel,
    plan: Plan,
    *,
    rng: np.random.Generator | int | None,
    progress: bool,
    executor: Executor | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
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
    checkpoint : path or Checkpoint, optional
        A folder where the fit is kept while it goes on.
    """
    check_rule(plan.rule)
    first = plan.ladder if plan.ladder is not None else first_ladder(plan.hottest)
    check_flat(model, first)
    if model.is_large and first.hottest == 0.0:
        raise InputError(
            f"A ladder that ends at k = 0 needs leaves that can hold all {len(model.data.x)} distinct inputs, but "
            f"max_rows is {model.integer[layout.MAX_ROWS]}. Raise max_rows of the prior, or hottest."
        )
    with carrying_out(executor, checkpoint) as execution:
        seed = seed_of(execution.seed(rng))
        identify(execution, model, plan, seed)
        engine = KeptEngine(model, plan.chains, seed, execution.workers, execution)
        preflight(model, plan, seed)
        started = time.perf_counter()
        with progress_bars.bar(plan.tune + plan.draws, show=progress, title="treed GP") as report:
            chains, schedule, states = tune(engine, first, plan.tune, report, is_ours=plan.ladder is None)
            execution.end_tuning()
            keep = Keep(plan.thin, edges_of(plan.rule, schedule, states), plan.points, plan.predict_every)
            begin_sums(engine, chains, plan, keep, len(schedule.ladder))
            traces = draw(engine, chains, schedule, plan, keep, report)
        seconds = time.perf_counter() - started if execution.folder is None else execution.folder.seconds_spent
    found = combine(chains, traces, schedule, keep.edges, plan.rule, plan.kept, stream(seed, plan.chains), seconds)
    best = found.best_rows[found.map_leaves - 1]
    r_hat = prediction_r_hat(model, [chain.sums for chain in chains], found.shares, stream(seed, plan.chains + 2))
    given_tree = draw_given_tree(model, best, stream(seed, plan.chains + 1))
    return replace(found, map_rows=given_tree, prediction_r_hat=r_hat)


def begin_sums(engine: TreedGPEngine, chains: list[Chain], plan: Plan, keep: Keep, n_rungs: int) -> None:
    """Make room for the sums: by rungs, or by stretches of energy."""
    n_strata = len(keep.edges) + 1 if keep.edges.size else n_rungs
    slots = int(np.clip(SLOT_MEMORY / (8 * record_size(chains[0].state) * n_strata), 8, plan.kept))
    engine.keep_sums(chains, n_rungs, n_strata, slots, 0 if plan.points is None else len(plan.points))


def check_flat(model: TreedGPModel, ladder: Ladder) -> None:
    """Refuse a ladder on which flat coefficients have no proper posterior in the smallest leaf."""
    m, smallest = int(model.integer[layout.N_MEAN]), int(model.integer[layout.MIN_LEAF])
    if model.prior.coefficients == "flat" and ladder.hottest * smallest < m:
        raise InputError(
            f"With flat coefficients the hottest k times the rows of the smallest leaf must reach the {m} "
            f"coefficients, but {ladder.hottest:g} times {smallest} does not. Take coefficients='hierarchical', or "
            f"hottest={min(1.0, m / smallest):.2g}."
        )


def edges_of(rule: str, schedule: Schedule, states: DensityOfStates | None) -> Floats:
    """Return the energies between which the sums of the rule ``mbar`` are kept: quantiles of all rungs' energies."""
    if rule != "mbar" or states is None:
        return np.zeros(0)
    p = states.probabilities(schedule.ladder.inverse_temperatures).mean(axis=0)
    levels = np.arange(1, N_STRETCHES) / N_STRETCHES
    return np.unique(np.interp(levels, np.cumsum(p) - p / 2, states.energy))


@dataclass(frozen=True)
class Remembered:
    """A thinned trace of one chain."""

    energy: Floats
    log_weight: Floats
    rung: NDArray[np.int32]
    n_leaves: NDArray[np.int32]
    every: int
    n_round_trips: int


@dataclass
class Drawn:
    """What is remembered of the draws so far: thinned columns of every chain, and its round trips."""

    parts: list[list[tuple[NDArray[Any], ...]]]
    trips: list[RoundTrips]
    n_done: int = 0

    def add(self, traces: list[Trace], every: int) -> None:
        """Remember every so many of a block's draws."""
        first = -self.n_done % every
        for trace, kept, trip in zip(traces, self.parts, self.trips, strict=True):
            columns = (trace.energy, trace.log_weight, trace.rung, trace.n_leaves)
            kept.append(tuple(column[first::every] for column in columns))
            trip.add(trace.rung)
        self.n_done += len(traces[0].rung)


def draw(
    engine: KeptEngine, chains: list[Chain], schedule: Schedule, plan: Plan, keep: Keep, report: Report
) -> list[Remembered]:
    """Run with everything frozen, block by block; go on from the checkpoint where there is one."""
    execution = engine.execution
    assert execution is not None
    pace = Pace(plan.thin if plan.points is None else plan.thin * -(-plan.predict_every // plan.thin))
    every = max(1, -(-plan.draws // TRACE_LENGTH))
    drawn: Drawn | None = read_draws(execution, chains)
    if drawn is None:
        drawn = Drawn([[] for _ in chains], [RoundTrips(len(schedule.ladder)) for _ in chains])
    report(drawn.n_done, "")
    while drawn.n_done < plan.draws:
        n = pace.next(plan.draws - drawn.n_done)
        drawn.add(engine.draw(chains, schedule, n, keep), every)
        is_stopped = execution.interruption.requested and drawn.n_done < plan.draws
        if execution.is_due or is_stopped or drawn.n_done == plan.draws:
            write_draws(execution, chains, drawn, drawn.n_done)
        report(n, "")
        if hasattr(report, "show"):
            report.show(f"{sum(trip.count for trip in drawn.trips)} round trips")
        if is_stopped:
            execution.warn_of_stop(drawn.n_done, plan.draws)
            break
    joined = [[np.concatenate(column) for column in zip(*kept, strict=True)] for kept in drawn.parts]
    return [
        Remembered(energy, log_weight, rung, n_leaves, every, trip.count)
        for (energy, log_weight, rung, n_leaves), trip in zip(joined, drawn.trips, strict=True)
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
    """Estimate the seconds a large fit will take from a chain of its own, which runs for a second; warn if many."""
    if len(model.data.x) <= WORTH_A_TRIAL:
        return 0.0
    trial = TreedGPEngine(model, 1, seed)
    schedule = flat_schedule(Ladder([1.0]), ())
    chains = trial.start(1)
    trial.advance(chains, schedule, 1, moving=False)  # compiled, or read from the cache
    started, a_round, n_rounds = time.perf_counter(), 0.0, 1
    while time.perf_counter() - started < TRIAL:  # the last piece counts: the tree has left its start by then
        before = time.perf_counter()
        trial.advance(chains, schedule, n_rounds, moving=False)
        a_round = (time.perf_counter() - before) / n_rounds
        n_rounds *= 2
    seconds = a_round * (plan.draws + plan.tune) * -(-plan.chains // n_workers(plan.chains))
    if seconds > LONG_FIT:
        warnings.warn(
            f"This fit will take about {_duration(seconds)}: {model.data.n_rows} rows, {a_round:.2g} s per round, "
            f"{plan.draws + plan.tune} rounds, {plan.chains} chains. Fewer draws, leaf='linear' or a smaller "
            "max_rows of the prior would be faster. Ctrl-C ends it early and keeps the draws so far.",
            UserWarning,
            stacklevel=4,
        )
    return seconds


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"
