"""Draw with everything frozen, keep every draw, and go on with a run later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from tempering.engines.trace import Trace
from tempering.execution.blocks import WholeEngine
from tempering.execution.context import Context, carrying_out
from tempering.execution.journal import JournalEngine, Past
from tempering.execution.keeping import Chains, DrawRecorder
from tempering.execution.plan import Plan
from tempering.execution.recording import record
from tempering.learning.rounds import Tuned
from tempering.runs.draws import TemperedDraws
from tempering.runs.stored import changed, first_draws, load_checkpoint
from tempering.sampling import progress as progress_bars
from tempering.sampling.call import Wanted
from tempering.sampling.packaging import package
from tempering.sampling.progress import Report
from tempering.sampling.until import Until, UntilDraws

Reopened = Callable[[int], AbstractContextManager[tuple[Context, int]]]


def chains_of(plan: Plan, wanted: Wanted, engine: JournalEngine, tuned: Tuned) -> Chains:
    """Return tuned chains, with everything frozen, on the devices that were named."""
    if wanted.execution.devices is not None:
        engine, tuned = _on_devices(engine, tuned, wanted.execution.devices, plan.context)
    as_draws, is_ragged = partial(package, plan, engine, tuned), getattr(plan.target, "is_ragged", False)
    return Chains(engine, tuned.schedule, tuned.states, as_draws, plan.is_powered, wanted.every, is_ragged)


def draw(
    context: Context,
    recorder: DrawRecorder,
    report: Report,
    until: Until | UntilDraws | None = None,
    reopening: Reopened | None = None,
) -> TemperedDraws:
    """Draw what the recorder wants of every chain, or less if a goal is reached.

    ``reopening(n)`` is where the run goes on when it is asked for more.
    """
    engine, path, started = recorder.chains.engine, recorder.chains.schedule.path, time.perf_counter()
    watch = progress_bars.Watch(report, engine.name, path, engine.n_chains)
    report(min(recorder.n_done, recorder.n), "")

    def see(block: tuple[Any, Trace], n: int) -> None:
        report(n, "")
        watch.see(block[1].rung, block[1].terms)

    def is_enough(is_look: bool) -> bool:
        if until is None:
            return False
        seconds = time.perf_counter() - started
        return until.is_late(seconds) or (is_look and until.is_reached(recorder.so_far, seconds))

    run, is_stopped = record(context, recorder, see, is_enough, None if until is None else until.next_look)
    if is_stopped or isinstance(recorder.states, Past):
        return run
    if run.info is not None:
        run = changed(run, info=replace(run.info, n_invalid=engine.engine.n_invalid(recorder.states)))
    return run if reopening is None else changed(run, go_on=partial(_go_on, recorder, reopening))


@contextmanager
def reopened(plan: Plan, wanted: Wanted, n: int) -> Iterator[tuple[Context, int]]:
    """Open the checkpoint of a run again, if it has one, for ``n`` draws; return how many it has room for, too."""
    with carrying_out(None, wanted.execution.checkpoint) as context:
        room = n if context.folder is None else max(n, int(context.folder.identity["draws"]))
        context.identified(plan, **(wanted.identity | {"draws": room}))
        yield context, room


def _go_on(recorder: DrawRecorder, reopening: Reopened, n: int) -> TemperedDraws:
    """Go on with a run from the states that it ended with, on the workers it had.

    What has been drawn since, in a checkpoint, is not drawn again.
    """
    with reopening(n) as (context, room):
        longer = recorder.longer(room, context.folder)
        if longer.n_done < n or context.folder is None:
            return draw(context, longer, lambda done, line: None, None if room == n else UntilDraws(n), reopening)
        return changed(first_draws(load_checkpoint(context.folder.path), n), go_on=partial(_go_on, recorder, reopening))


def _on_devices(engine: Any, tuned: Tuned, devices: Sequence[Any], context: Context) -> tuple[JournalEngine, Tuned]:
    """Go on with the chains spread over devices."""
    whole, states = engine.engine.in_one_piece(tuned.states)
    n = whole.n_chains // whole.chains_per_ensemble
    wide, states = whole.widened(states, n, devices)
    spread = JournalEngine(WholeEngine(wide, n, n), None, context.interruption, "")
    return spread, replace(tuned, states=states)
