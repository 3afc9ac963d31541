"""Draw with everything frozen, keep every draw, and go on with a run later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tempering.engines.trace import Engine, Trace
from tempering.execution.blocks import WholeEngine
from tempering.execution.context import Context, carrying_out
from tempering.execution.drawing import draw_in_blocks
from tempering.execution.journal import JournalEngine, Past
from tempering.execution.keeping import Keeper
from tempering.execution.plan import Plan
from tempering.learning.rounds import Tuned, check_spread
from tempering.runs.draws import TemperedDraws
from tempering.runs.store import draws_in_chunk
from tempering.runs.stored import changed, first_draws, load_checkpoint
from tempering.sampling import progress as progress_bars
from tempering.sampling.preparing import info_of
from tempering.sampling.until import Until, UntilDraws

Reopened = Callable[[int], AbstractContextManager[tuple[Context, int]]]


def draw(
    context: Context,
    engine: Any,
    keeper: Keeper,
    tuned: Tuned,
    n: int,
    report: Any,
    *,
    is_powered: bool = False,
    until: Until | UntilDraws | None = None,
    reopening: Reopened | None = None,
) -> TemperedDraws:
    """Run with everything frozen, block by block; keep ``n`` draws of every chain, or fewer if a goal is reached.

    ``reopening(n)`` is where the run goes on when it is asked for more.
    """
    schedule, started = tuned.schedule, time.perf_counter()
    watch = progress_bars.Watch(report, engine.name, schedule.path, engine.n_chains)
    report(min(keeper.n_done, n), "")

    def check(trace: Trace) -> None:
        if is_powered:
            check_spread(trace, schedule)

    def see(trace: Trace) -> None:
        report(trace.rung.shape[1] - max(0, keeper.n_done - n), "")
        watch.see(trace.rung, trace.terms)

    def is_enough(is_look: bool) -> bool:
        if until is None:
            return False
        seconds = time.perf_counter() - started
        return until.is_late(seconds) or (is_look and until.is_reached(keeper.so_far, seconds))

    run, states = draw_in_blocks(
        context, engine, keeper, tuned.states, schedule, n, check=check, see=see, is_enough=is_enough,
        next_look=None if until is None else until.next_look,
    )  # fmt: skip
    if states is None:  # stopped on the way
        return run
    run = _counted(run, engine, states)
    if reopening is None or isinstance(states, Past):
        return run
    return changed(run, go_on=partial(_go_on, engine, keeper, replace(tuned, states=states), is_powered, reopening))


@contextmanager
def reopened(checkpoint: Any, plan: Plan, said: dict[str, Any], n: int) -> Iterator[tuple[Context, int]]:
    """Open the checkpoint of a run again, if it has one, for ``n`` draws; return how many it has room for, too."""
    with carrying_out(None, checkpoint) as context:
        room = n if context.folder is None else max(n, int(context.folder.identity["draws"]))
        context.identified(plan, **(said | {"draws": room}))
        yield context, room


def _go_on(engine: Any, keeper: Keeper, tuned: Tuned, is_powered: bool, reopening: Reopened, n: int) -> TemperedDraws:
    """Go on with a run from copies of the states that it ended with, on the workers it had.

    What has been drawn since, in a checkpoint, is not drawn again.
    """
    blocks = engine.engine
    tuned = replace(tuned, states=blocks.unpacked(blocks.packed(tuned.states)))
    with reopening(n) as (context, room):
        longer = keeper.longer(room, context.folder)
        if longer.n_done < n or context.folder is None:
            until = None if room == n else UntilDraws(n)
            how: Any = {"is_powered": is_powered, "until": until, "reopening": reopening}
            return draw(context, engine, longer, tuned, room, lambda done, line: None, **how)
        run = first_draws(load_checkpoint(context.folder.path), n)
        return changed(run, go_on=partial(_go_on, engine, keeper, tuned, is_powered, reopening))


def _counted(run: TemperedDraws, engine: Any, states: Any) -> TemperedDraws:
    """Say how many evaluations gave no number."""
    if run.info is None or isinstance(states, Past):
        return run
    return changed(run, info=replace(run.info, n_invalid=engine.engine.n_invalid(states)))


def on_devices(engine: Any, tuned: Tuned, devices: Sequence[Any], context: Context) -> tuple[JournalEngine, Tuned]:
    """Go on with the chains spread over devices."""
    whole, states = engine.engine.in_one_piece(tuned.states)
    n = whole.n_chains // whole.chains_per_ensemble
    wide, states = whole.widened(states, n, devices)
    spread = JournalEngine(WholeEngine(wide, n, n), None, context.interruption, "")
    return spread, replace(tuned, states=states)


def package(plan: Plan, engine: Engine, tuned: Tuned, started: float, trace: Trace) -> TemperedDraws:
    """Return a trace as the draws of a run."""
    info = info_of(plan, engine, tuned, started, trace.rung.shape[1])
    return TemperedDraws(
        values=_named_values(plan, engine, trace),
        rung=trace.rung,
        terms=trace.terms,
        path=tuned.schedule.path,
        log_pseudo_prior=tuned.schedule.log_pseudo_prior,
        proposed=trace.proposed,
        acceptance=trace.acceptance,
        chains_per_ensemble=engine.chains_per_ensemble,
        layout=plan.layout,
        settings=tuned.schedule.settings,
        info=info,
        model=getattr(plan.target, "model", None),
    )


def package_rounds(plan: Plan, engine: Engine, tuned: Tuned, started: float) -> tuple[TemperedDraws, ...]:
    """Return the draws of the tuning rounds, each with the ladder it was made with."""
    return tuple(
        package(plan, engine, replace(tuned, schedule=schedule, rounds=(), n_iterations=0), started, trace)
        for trace, schedule in tuned.kept
    )


def _named_values(plan: Plan, engine: Engine, trace: Trace) -> Any:
    """Return the values by name, constrained piece by piece: as they would be in a store, to the bit."""
    constrain = getattr(plan.target, "constrain", None)
    if constrain is None:
        return engine.positions(trace)
    length = draws_in_chunk(trace.rung.shape[0], trace.values.shape[-1])
    starts = range(0, max(1, trace.values.shape[1]), length)
    pieces = [constrain(plan.layout.unflatten(trace.values[:, i : i + length])) for i in starts]  # type: ignore[union-attr]
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
