"""`sample(..., keep=Sums(...))`: run with everything frozen, and keep sums only.

A run is cut into parts, blocks of chains that are summed apart, whoever runs them; it goes on
block by block, some stretches of every part each, or a fraction of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np

from tempering.compiling.devices import on_the_processor
from tempering.engines.scalar import COMPILED
from tempering.engines.trace import Engine, Schedule
from tempering.estimators.running.batches import batches_in_time
from tempering.estimators.running.rungs import groups_of
from tempering.execution.blocks import cut
from tempering.execution.context import Context
from tempering.execution.journal import JournalEngine
from tempering.execution.plan import Plan
from tempering.execution.probes import write_probes
from tempering.execution.recipe import Recipe
from tempering.execution.recording import record
from tempering.execution.sum_blocks import SumBlocks, SumRecipe, WholeSums
from tempering.execution.sum_keeping import Parts, SumRecorder, read_parts
from tempering.learning.rounds import Tuned, check_spread
from tempering.learning.two_legs import Frame
from tempering.path import Ladder, Path
from tempering.recorders.quantities import Summands
from tempering.recorders.sum_runs import PILOT, SumPlan, first_part, length_of_stretch, units_seen
from tempering.runs.sums import TemperedSums
from tempering.sampling.call import Wanted
from tempering.sampling.packaging import info_of
from tempering.sampling.progress import Report
from tempering.sampling.tuning import first_settings


def sample_sums(plan: Plan, wanted: Wanted, engine: Any, tuned: Tuned, report: Report) -> TemperedSums:
    """Run from tuned states with everything frozen, and keep sums."""
    assert wanted.quantities is not None
    execution: Context = plan.context
    n_chains, devices = wanted.chains, wanted.execution.devices
    tuned = replace(tuned, states=engine.kept(tuned.states))
    whole, states = engine.engine.in_one_piece(tuned.states)
    if plan.engine == "vector" and (n_chains != plan.n_chains or devices is not None):
        whole, states = whole.widened(states, n_chains, devices)
    path = tuned.schedule.path
    about = {
        "ladder": tuned.schedule.ladder,
        **({"two_legs": path} if path.has_two_legs else {}),
        "log_pseudo_prior": tuned.schedule.log_pseudo_prior,
        "n_chains": whole.n_chains,
        "is_powered": plan.is_powered,
        "info": info_of(plan, whole, tuned, 0),
    }
    execution.end_tuning()
    recipe = Recipe.of(plan, path)
    at = read_parts(execution.folder) or _begin(plan, wanted, engine, tuned, recipe, whole, states)
    sizes = at.plan.sizes
    summing = SumRecipe(recipe, tuple(wanted.quantities.items()), tuned.schedule, at.plan, plan.is_powered)
    if plan.engine == "vector" and len(sizes) == 1 and (execution.workers is None or devices is not None):
        blocks: SumBlocks = WholeSums(summing, whole)
    else:
        blocks = SumBlocks(summing, sizes, execution.workers, execution.interruption.is_requested)
    report(at.n_done, "")
    recorder = SumRecorder(execution.folder, blocks, at, about, execution.started)
    return record(execution, recorder, lambda _, n: report(n, ""))[0]


@contextmanager
def compiled_meanwhile(plan: Plan, wanted: Wanted) -> Iterator[None]:
    """Have the loop of many chains compiled for the accelerator, while few are tuned on the processor."""
    if not plan.tunes_beside or plan.path != "two_legs":
        yield
        return
    other = Thread(target=_compile, args=(plan, wanted.chains), daemon=True)
    other.start()
    yield
    other.join()


def _compile(plan: Plan, n_chains: int) -> None:
    """Run the loop of so many chains once, from where they would start."""
    assert plan.layout is not None
    frame = Frame(plan.target.base is not None, plan.can_redraw)
    path = frame.example_path(plan.layout.flatten(plan.example))
    settings = first_settings(plan, Ladder([1.0]))
    with suppress(Exception):  # what is wrong with it the run itself says
        whole: Any = Recipe.of(plan, path).build(n_chains)
        next(whole.blocks(whole.start(path), Schedule(path, np.zeros(len(path)), settings), 1))


def _begin(
    plan: Plan, wanted: Wanted, engine: JournalEngine, tuned: Tuned, recipe: Recipe, whole: Engine, states: Any
) -> Parts:
    """Run a little, to see where energies and quantities lie; cut the run into parts."""
    assert wanted.quantities is not None
    if wanted.chains > plan.n_chains:
        states = _apart(plan, tuned, whole, states, wanted.draws)
    blocks, schedule = engine.engine, tuned.schedule
    with on_the_processor() if plan.tunes_beside else nullcontext():
        _, trace = engine.run(blocks.copied(tuned.states), schedule, PILOT)
    if plan.is_powered:
        check_spread(trace, schedule)
    if plan.context.folder is not None:
        write_probes(plan.context.folder, trace)
    summands = Summands(tuple(wanted.quantities.items()), plan.layout, getattr(plan.target, "constrain", None))
    values = summands.on_host(lambda _: blocks.positions(trace), trace.values)
    bins, quantities = units_seen(trace, values, schedule.path.inverse_temperatures[trace.rung])
    n = wanted.chains
    size = plan.context.part_size(recipe, whole, n, on_devices=wanted.execution.devices is not None)
    parts = [first_part(part, bins) for part in cut(states, n, size, is_padded=False)]
    sizes = tuple(min(size, n - first) for first in range(0, n, size))
    length, n_times = _stretches(plan, wanted, whole, sizes, schedule.path)
    return Parts(SumPlan(wanted.draws, length, n_times, sizes, quantities, wanted.every), parts)


def _apart(plan: Plan, tuned: Tuned, engine: Any, states: Any, draws: int) -> Any:
    """Let many chains that were copied from few go ways of their own, before any draw of theirs counts.

    Short runs of many chains are as good as their start. Along two legs rungs and places are drawn from all that tuning
    has seen; then chains run for as long as a round trip took, but no longer than they will.
    """
    if tuned.in_equilibrium is not None:
        states = engine.on_rung(states, *tuned.in_equilibrium(engine.n_units))
    last = tuned.rounds[-1] if tuned.rounds else None
    trip = draws if last is None else last.n_iterations * plan.n_chains // max(1, last.n_round_trips)
    for after, _, _ in engine.blocks(states, tuned.schedule, min(trip, draws)):
        states = after
    return states


def _stretches(plan: Plan, wanted: Wanted, whole: Engine, sizes: tuple[int, ...], path: Path) -> tuple[int, int]:
    """Choose stretches that suit all parts."""
    n, each, n_parts, n_rungs = wanted.draws, whole.chains_per_ensemble, len(sizes), len(path)
    if plan.engine == "vector" and not path.has_two_legs:
        from tempering.recorders.summing import groups_on_device, length_on_device

        length = min(length_on_device(size, n_rungs, size * each, n, wanted.every, n_parts) for size in set(sizes))
        n_groups = sum(groups_on_device(size, n_rungs, n_parts) for size in sizes)
    else:
        is_compiled, held = plan.engine == "vector" or whole.name == COMPILED, max(sizes) * each
        if plan.engine == "vector":
            from tempering.recorders.mixed_on_device import is_where_draws_are_summed

            held = 1 if is_where_draws_are_summed() else held  # no traces
        length = length_of_stretch(n, wanted.chains, held, is_compiled=is_compiled)
        n_groups = sum(groups_of(size, n_parts) for size in sizes)
    return length, batches_in_time(n_groups)
