"""One fit: tune ladder and pseudo-prior, run the chains until they agree, and combine the sums of all rungs."""

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
from tempering.errors import EstimatorError, InputError
from tempering.estimators.rules import check_rule
from tempering.execution.context import carrying_out
from tempering.execution.pace import Pace
from tempering.io.checkpoint import Checkpoint
from tempering.learning.density_of_states import Energies
from tempering.learning.rounds import flat_schedule, n_round_trips
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.agreement import prediction_r_hat
from tempering.models.treed_gp.combining import Posterior, combine
from tempering.models.treed_gp.driver import Trace
from tempering.models.treed_gp.engine import Chain, Keep, TreedGPEngine, n_workers
from tempering.models.treed_gp.kept_fit import KeptEngine, identify, read_draws, write_draws
from tempering.models.treed_gp.learning import energies_of, relearnt, tune
from tempering.models.treed_gp.map_tree import draw_given_tree
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.records import record_size
from tempering.models.treed_gp.settings import Keeping, Tempering, first_ladder
from tempering.path.ladder import Ladder
from tempering.randomness import seed_of, stream
from tempering.sampling import progress as progress_bars
from tempering.sampling.progress import Report

Floats = NDArray[np.float64]

TRACE_LENGTH = 50_000  # draws a chain whose energy and rung are remembered; longer runs are thinned
SLOT_MEMORY = 64e6  # bytes for the resampled trees of a chain
N_STRETCHES = 64  # of energy, for the rule mbar: equally many draws in each
LONG_FIT = 60.0  # seconds from which the user is told beforehand
WORTH_A_TRIAL = 300  # distinct inputs from which a fit is timed beforehand
TRIAL = 1.0  # seconds of that
ENOUGH_ROUND_TRIPS = 10  # of all chains: with fewer, two that agree may both be where they began
CLOSE_R_HAT = 1.02  # of predictions: what chains differ by then adds a fiftieth to the predictive variance


@dataclass(frozen=True)
class Plan:
    """How long to run, how to temper, and what to keep.

    Draws come in stages. If the chains disagree after one, it was tuning: the pseudo-prior is learnt anew from its
    energies too, and the next stage is twice as long.
    """

    tempering: Tempering
    first: int
    """Rounds of the first stage."""
    draws: int
    """Rounds of the longest stage."""
    tune: int
    chains: int
    keep: Keeping
    points: Floats | None = None

    @property
    def most_rounds(self) -> int:
        """Rounds of all stages and of the tuning, if every stage is needed."""
        stages = [self.first]
        while stages[-1] < self.draws:
            stages.append(min(2 * stages[-1], self.draws))
        return self.tune + sum(stages)


def usual_rounds(n_distinct: int) -> tuple[int, int]:
    """Return how many rounds the first and the longest stage have where nobody says; tuning has as many as the first.

    Examples
    --------
    >>> usual_rounds(100), usual_rounds(1600), usual_rounds(1_000_000)
    ((2000, 8000), (1000, 4000), (400, 1600))
    """
    scale = min(1.0, (400 / n_distinct) ** 0.5)
    return max(400, int(2000 * scale)), max(1600, int(8000 * scale))


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
    rule = plan.tempering.rule
    check_rule(rule)
    asked = plan.tempering.fixed_ladder(is_large=model.is_large)
    first = first_ladder(plan.tempering.hottest) if asked is None else asked
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
        with progress_bars.bar(plan.most_rounds, show=progress, title="treed GP") as report:
            chains, schedule, known = tune(engine, first, plan.tune, report, is_ours=asked is None)
            execution.end_tuning()
            drawn: Drawn | None = read_draws(execution, chains)
            stage = Stage(0, plan.first, schedule, known) if drawn is None else drawn.stage
            while True:
                keep = Keep(plan.keep.thin, edges_of(rule, stage), plan.points, plan.keep.predict_every)
                if drawn is None:
                    begin_sums(engine, chains, plan, keep, len(stage.schedule.ladder))
                    drawn = Drawn.of(stage, len(chains))
                traces = draw(engine, chains, drawn, plan, keep, report)
                found = combine(
                    chains, traces, stage.schedule, keep.edges, rule, plan.keep.trees, stream(seed, plan.chains)
                )
                sums, rng_of_points = [chain.sums for chain in chains], stream(seed, plan.chains + 2)
                found = replace(found, prediction_r_hat=prediction_r_hat(model, sums, found.shares, rng_of_points))
                if drawn.n_done < stage.length or stage.length >= plan.draws or is_enough(found):
                    break
                stage, drawn = stage.next(traces, plan.draws), None
        seconds = time.perf_counter() - started if execution.folder is None else execution.folder.seconds_spent
    best = found.best_rows[found.map_leaves - 1]
    given_tree = draw_given_tree(model, best, stream(seed, plan.chains + 1))
    return replace(found, map_rows=given_tree, seconds=seconds)


def is_enough(found: Posterior) -> bool:
    """Say whether the chains agree on the predictions and came round, so that no longer stage is needed."""
    came_round = len(found.ladder) == 1 or found.n_round_trips >= ENOUGH_ROUND_TRIPS
    return came_round and found.prediction_r_hat <= CLOSE_R_HAT


@dataclass(frozen=True)
class Stage:
    """One stage of the draws: how long, how it is tempered, and the energies that say so."""

    index: int
    length: int
    schedule: Schedule
    known: Energies | None

    def next(self, traces: list[Remembered], most: int) -> Stage:
        """Return the stage after this one, which becomes tuning."""
        length, schedule, known = min(2 * self.length, most), self.schedule, self.known
        if known is not None:
            known = known.with_newer(energies_of(traces, schedule.ladder))
            schedule = relearnt(schedule, known, is_ours=False)
        return Stage(self.index + 1, length, schedule, known)


def begin_sums(engine: TreedGPEngine, chains: list[Chain], plan: Plan, keep: Keep, n_rungs: int) -> None:
    """Make room for the sums: by rungs, or by stretches of energy."""
    n_strata = len(keep.edges) + 1 if keep.edges.size else n_rungs
    slots = int(np.clip(SLOT_MEMORY / (8 * record_size(chains[0].state) * n_strata), 8, plan.keep.trees))
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


def edges_of(rule: str, stage: Stage) -> Floats:
    """Return the energies between which the sums of the rule ``mbar`` are kept: quantiles of all rungs' energies."""
    if rule != "mbar" or stage.known is None:
        return np.zeros(0)
    try:
        states = stage.known.density_of_states()
    except EstimatorError:  # rungs that do not overlap
        return np.zeros(0)
    p = states.probabilities(stage.schedule.ladder.inverse_temperatures).mean(axis=0)
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
    """What is remembered of a stage so far: thinned columns of every chain, and all its rungs."""

    stage: Stage
    parts: list[list[tuple[NDArray[Any], ...]]]
    rungs: list[list[NDArray[np.int16]]]
    n_done: int = 0

    @classmethod
    def of(cls, stage: Stage, n_chains: int) -> Drawn:
        """Return what is remembered of nothing."""
        return cls(stage, [[] for _ in range(n_chains)], [[] for _ in range(n_chains)])

    def add(self, traces: list[Trace], every: int) -> None:
        """Remember every so many of a block's draws."""
        first = -self.n_done % every
        for trace, kept, rungs in zip(traces, self.parts, self.rungs, strict=True):
            columns = (trace.energy, trace.log_weight, trace.rung, trace.n_leaves)
            kept.append(tuple(column[first::every] for column in columns))
            rungs.append(trace.rung.astype(np.int16))
        self.n_done += len(traces[0].rung)

    def round_trips(self) -> list[int]:
        """Count each chain's journeys from the cold rung to the hottest and back."""
        n_rungs = len(self.stage.schedule.ladder)
        return [n_round_trips(np.concatenate(rungs, dtype=np.int32)[None], 0, n_rungs) for rungs in self.rungs]


def draw(
    engine: KeptEngine, chains: list[Chain], drawn: Drawn, plan: Plan, keep: Keep, report: Report
) -> list[Remembered]:
    """Run what is left of a stage with everything frozen, piece by piece."""
    execution, stage = engine.execution, drawn.stage
    assert execution is not None
    thin = plan.keep.thin
    pace = Pace(multiple=thin if plan.points is None else thin * -(-plan.keep.predict_every // thin))
    every = max(1, -(-stage.length // TRACE_LENGTH))
    report(drawn.n_done, "")
    while drawn.n_done < stage.length:
        n = pace.next(stage.length - drawn.n_done)
        with pace.measuring(n):
            drawn.add(engine.draw(chains, stage.schedule, n, keep), every)
        is_stopped = execution.interruption.requested and drawn.n_done < stage.length
        if execution.is_due or is_stopped or drawn.n_done == stage.length:
            write_draws(execution, chains, drawn, drawn.n_done)
        report(n, "")
        if hasattr(report, "show"):
            report.show(f"{sum(drawn.round_trips())} round trips")
        if is_stopped:
            execution.warn_of_stop(drawn.n_done, stage.length)
            break
    joined = [[np.concatenate(column) for column in zip(*kept, strict=True)] for kept in drawn.parts]
    return [
        Remembered(energy, log_weight, rung, n_leaves, every, trips)
        for (energy, log_weight, rung, n_leaves), trips in zip(joined, drawn.round_trips(), strict=True)
    ]


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
    rounds = a_round * -(-plan.chains // n_workers(plan.chains))
    seconds, least = rounds * plan.most_rounds, rounds * (plan.tune + plan.first)
    if seconds > LONG_FIT:
        span = _duration(seconds) if plan.first >= plan.draws else f"{_duration(least)} to {_duration(seconds)}"
        warnings.warn(
            f"This fit will take about {span}: {model.data.n_rows} rows, {a_round:.2g} s per round, "
            f"up to {plan.most_rounds} rounds, {plan.chains} chains. Fewer draws, leaf='linear' or a smaller "
            "max_rows of the prior would be faster. Ctrl-C ends it early and keeps the draws so far.",
            UserWarning,
            stacklevel=4,
        )
    return seconds


def _duration(seconds: float) -> str:
    if seconds > 5400:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
