"""Parts of a run in sums, each a block of chains: gone on with in this process, or wherever an executor sends them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from tempering.engines.scalar import COMPILED, ScalarEngine
from tempering.engines.stopping import AbandonedBlock, IsStopped, never
from tempering.engines.trace import Schedule, Trace
from tempering.errors import FunctionError
from tempering.execution.pickling import pack, unpack
from tempering.execution.recipe import Packed, Recipe, Unknown, built, follow_the_parent
from tempering.execution.workers import Workers
from tempering.learning.rounds import check_spread
from tempering.recorders.quantities import Summands
from tempering.recorders.sum_runs import Part, SumPlan, Task, advance, closed
from tempering.runs.stored_sums import QUICK
from tempering.target.layout import Layout


@dataclass(frozen=True, eq=False)
class SumRecipe:
    """All that summing a block of chains takes; it travels."""

    recipe: Recipe
    functions: tuple[tuple[str, Callable[..., Any]], ...]
    schedule: Schedule
    plan: SumPlan
    is_powered: bool

    def build(self, n_units: int) -> Task:
        """Say how to go on with a block of so many chains, or ensembles."""
        return self.task(self.recipe.build(n_units))

    def task(self, engine: Any) -> Task:
        """Say how to go on with the chains of an engine."""
        recipe, target = self.recipe, self.recipe.target
        layout = None if recipe.kernel is None else Layout.of(recipe.example)
        summands = Summands(self.functions, layout, getattr(target, "constrain", None))
        traced = None
        if recipe.engine == "vector":
            from tempering.recorders.mixed_on_device import is_where_draws_are_summed

            if not self.schedule.path.has_two_legs:
                traced = summands.on_device(engine.pieces.positions, 2 if recipe.method == "parallel" else 1)
            elif is_where_draws_are_summed():
                traced = summands.on_device(engine.pieces.positions, 1)

        def values(trace: Trace) -> dict[str, Any]:
            return summands.on_host(lambda _: engine.positions(trace), trace.values)

        check = partial(check_spread, schedule=self.schedule) if self.is_powered else _no_check
        is_lifted = recipe.rung_moves == "lifted"
        return Task(engine, self.schedule, values, traced, check, self.plan, is_lifted)


def _no_check(trace: Trace) -> None:
    """Take any trace."""


class SumBlocks:
    """Go on with all parts of a run; they are held as bytes, a fraction of their size, from turn to turn."""

    def __init__(
        self, recipe: SumRecipe, sizes: Sequence[int], workers: Workers | None, is_stopped: IsStopped = never
    ) -> None:
        self._is_stopped = is_stopped
        is_sent = workers is not None and not workers.share_memory
        self._recipe = Packed.of(recipe) if is_sent else Packed(uuid4().hex, recipe)
        self._sizes, self._workers = tuple(sizes), workers
        self._per_unit = recipe.recipe.n_rungs if recipe.recipe.method == "parallel" else 1
        is_compiled = workers is None and built(self._recipe, self._sizes[0]).engine.name == COMPILED
        self._threads = ThreadPoolExecutor(os.cpu_count()) if is_compiled and len(self._sizes) > 1 else None

    def advance(self, parts: Sequence[Any], n: int) -> tuple[list[Any], int]:
        """Go on with every part by so many iterations; return the parts, and how many they have made."""
        blocks = [(size, part, n) for size, part in zip(self._sizes, parts, strict=True)]
        if self._workers is not None:
            self._workers.is_stopped = self._is_stopped
            try:
                done = self._workers.run_recipe(advance_squeezed, self._recipe, blocks, may_abandon=True)
            except FunctionError as error:
                raise self._in_run(error, error.block) from error.__cause__
        else:
            run_all = map if self._threads is None else self._threads.map
            done = list(run_all(self._advance_one, range(len(blocks)), blocks))
        return [part for part, _ in done], done[0][1]

    def _advance_one(self, i: int, block: tuple[int, Any, int]) -> Any:
        if self._is_stopped():
            raise AbandonedBlock
        engine = built(self._recipe, block[0]).engine
        if isinstance(engine, ScalarEngine):
            engine.is_stopped = self._is_stopped
        try:
            return advance_squeezed(self._recipe, *block)
        except FunctionError as error:
            raise self._in_run(error, i) from error.__cause__

    def _in_run(self, error: FunctionError, i: int) -> FunctionError:
        """Name the chain of the run in an error that names that of a part."""
        if error.chain is not None:
            error.chain += sum(self._sizes[:i]) * self._per_unit
        return error

    def taken(self, parts: Sequence[Part]) -> list[Any]:
        """Return parts as they are held here."""
        return [squeezed(part) for part in parts]

    def each(self, parts: Sequence[Any]) -> Iterator[Part]:
        """Return parts one by one."""
        return map(released, parts)

    def closed(self, parts: Sequence[Any]) -> Iterator[Part]:
        """Return parts one by one, with what they have of a stretch that has not come to its end."""
        for size, part in zip(self._sizes, self.each(parts), strict=True):
            yield part if part.open is None else closed(built(self._recipe, size), part)


class WholeSums(SumBlocks):
    """One part of all chains of the vector engine, in this process: it stays where it is, on one device or several."""

    def __init__(self, recipe: SumRecipe, engine: Any) -> None:
        self._engine, self._task = engine, recipe.task(engine)

    def advance(self, parts: Sequence[Part], n: int) -> tuple[list[Part], int]:
        """Go on by so many iterations; return the part, and how many it has made."""
        done = [advance(self._task, part, n) for part in parts]
        return done, done[0].n_done

    def closed(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Return the part, with what it has of a stretch that has not come to its end."""
        return (closed(self._task, part) for part in parts)

    def each(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Return the part."""
        return iter(parts)

    def taken(self, parts: Sequence[Part]) -> list[Part]:
        """Return the part, on the devices of its engine."""
        return [replace(part, states=self._engine.placed(part.states)) for part in parts]


def advance_squeezed(recipe: Packed, n_units: int, part: bytes, n: int) -> tuple[bytes, int] | Unknown:
    """Go on with a part that has been sent here, and send it back; this is what workers run."""
    follow_the_parent()
    task = built(recipe, n_units)
    if task is None:
        return Unknown()
    after = advance(task, released(part), n)
    return squeezed(after), after.n_done


def squeezed(part: Part) -> bytes:
    """Return a part as bytes."""
    return zlib.compress(pack(replace(part, ends=np.asarray(part.ends))), QUICK)


def released(part: bytes) -> Part:
    """Return a part again."""
    found: Part = unpack(zlib.decompress(part))
    return found
