"""Run with everything frozen, block by block: written by the clock, stopped when asked to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tempering.engines.stopping import AbandonedBlock
from tempering.engines.trace import Schedule, Trace
from tempering.execution.context import Context
from tempering.execution.journal import JournalEngine
from tempering.execution.keeping import Keeper
from tempering.execution.pace import longest_block
from tempering.runs.draws import TemperedDraws

See = Callable[[Trace], None]


def draw_in_blocks(
    execution: Context, engine: JournalEngine, keeper: Keeper, states: Any, schedule: Schedule, n: int, *,
    check: See, see: See, is_enough: Callable[[bool], bool] = lambda is_look: False,
    next_look: Callable[[int], int] | None = None,
) -> tuple[TemperedDraws, Any]:  # fmt: skip
    """Keep ``n`` draws of every chain, or fewer if they are enough; return them and the states after them.

    ``check`` refuses a block, ``see`` is told of one that is kept. A block ends at the ``next_look`` after so many
    draws, at the latest; ``is_enough`` is told whether this one did.
    """
    if keeper.states is not None:
        states = keeper.states
    pace, most = engine.pace, longest_block(n)
    execution.interruption.is_requested()  # from here on there are draws to return
    while keeper.n_done < n:
        look = n if next_look is None else next_look(keeper.n_done)
        block = pace.next(min(n, look) - keeper.n_done, most)
        before = keeper.frozen(states)
        try:
            with keeper.keeping(states, before), pace.measuring(block):
                with execution.interruption.abandoning():
                    states, trace = engine.engine.run(states, schedule, block)
                check(trace)
                keeper.add(trace, states)
        except AbandonedBlock:
            keeper.save_frozen(before)
            return execution.stopped(keeper, n), None
        see(trace)
        if execution.interruption.requested and keeper.n_done < n:
            keeper.save(states)
            return execution.stopped(keeper, n), None
        if keeper.n_done < n and is_enough(keeper.n_done == look):
            keeper.save(states)
            return keeper.so_far(), states
    return keeper.finish(states), states
