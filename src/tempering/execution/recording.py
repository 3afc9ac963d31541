"""One loop that runs with everything frozen, and the protocol of what it drives: recorders.

A recorder keeps what a run leaves: draws in memory, draws on disk, or sums. It runs a block, makes it count, writes
what it has, and returns it. The loop says how long blocks are, when to write and when to stop, whatever is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from tempering.engines.stopping import AbandonedBlock
from tempering.errors import CheckpointError
from tempering.execution.context import Context
from tempering.execution.pace import Pace

Block = TypeVar("Block")
Result = TypeVar("Result", covariant=True)


class Recorder(Protocol[Block, Result]):
    """What is kept of a run while it runs, and where its chains are."""

    n: int  # draws of each chain that are wanted
    n_done: int  # of them, those that count
    pace: Pace

    def next(self, left: int) -> int:
        """Return how many iterations the next block has, of so many that are left until somebody wants to look."""

    def run(self, n: int) -> Block:
        """Run a block, of so many iterations or a few more. Nothing of it counts yet: it may be abandoned."""

    def keep(self, block: Block) -> None:
        """Make a block count; write if it is time."""

    def save(self, *, is_between_blocks: bool = True) -> None:
        """Write what counts, if it is kept on disk: also where a block was abandoned, or has failed."""

    def so_far(self) -> Result:
        """Return what counts."""

    def finish(self) -> Result:
        """Write all that was wanted, and return it."""


def record(
    execution: Context,
    recorder: Recorder[Block, Result],
    see: Callable[[Block, int], None],
    is_enough: Callable[[bool], bool] = lambda is_look: False,
    next_look: Callable[[int], int] | None = None,
) -> tuple[Result, bool]:
    """Run until the recorder has what it wants, or less if it is enough; return it, and whether it was stopped before.

    ``see`` is told of a block that counts, and how many draws it has added. A block ends at the ``next_look`` after so
    many draws, at the latest; ``is_enough`` is told whether this one did. What was enough when it was kept is enough.
    """
    stopping, n = execution.interruption, recorder.n
    if next_look is not None and 0 < recorder.n_done < n:
        if next_look(recorder.n_done - 1) == recorder.n_done and is_enough(True):
            return recorder.so_far(), False
    stopping.is_requested()  # from here on there is something to return
    while (before := recorder.n_done) < n:
        look = n if next_look is None else min(n, next_look(before))
        started, block = time.monotonic(), None
        with _handing_over(recorder):
            try:
                with stopping.abandoning():
                    block = recorder.run(recorder.next(look - before))
            except AbandonedBlock:
                block = None
            else:
                recorder.keep(block)
        if block is not None:
            recorder.pace.took(recorder.n_done - before, time.monotonic() - started)
            see(block, min(n, recorder.n_done) - before)
        if block is None or (stopping.requested and recorder.n_done < n):
            if not recorder.n_done:
                stopping.stop_tuning(execution.how_to_go_on)
            recorder.save(is_between_blocks=block is not None)
            execution.warn_of_stop(recorder.n_done, n)
            return recorder.so_far(), True
        if recorder.n_done < n and is_enough(recorder.n_done == look):
            recorder.save()
            return recorder.so_far(), False
    with _handing_over(recorder):
        return recorder.finish(), False


@contextmanager
def _handing_over(recorder: Recorder[Any, Any]) -> Iterator[None]:
    """Hand what there is over with an error that stops the run, whatever its class, and write it."""
    try:
        yield
    except Exception as error:
        if recorder.n_done:
            error.draws = recorder.so_far()  # type: ignore[attr-defined]
            if not isinstance(error, CheckpointError):
                recorder.save(is_between_blocks=False)
        raise
