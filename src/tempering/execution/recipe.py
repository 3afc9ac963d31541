"""A recipe for an engine, which travels; and what a worker does with one."""

from __future__ import annotations

import hashlib
import os
import signal
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import RLock, Thread, current_thread, main_thread
from typing import Any

from tempering.engines.trace import Engine, Schedule, Trace
from tempering.execution.pickling import pack, unpack
from tempering.execution.plan import Plan
from tempering.kernels.kernel import calls_of
from tempering.path import Path
from tempering.randomness import stream
from tempering.target import Target
from tempering.target.layout import Layout

EXAMPLE_STREAM = 3
# Share of an iteration's time that calls of a light density take, and its dimensions: a default run then takes some
# three seconds, of which older emitters of XLA add up to a fifth, where they save one. A dear
# density that needs no heating is answered in another two or three, to which they add a quarter at the most.
LIGHT, LIGHT_UP_TO, DEAR = 0.2, 16, 0.5
KEPT_ENGINES = 8  # a worker's: those of a few runs, with all that was compiled for them


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that an engine is made of."""

    target: Any
    kernel: Any
    example: Any  # a position, for its layout; None for model objects
    starts: tuple[Any, ...]
    engine: str
    method: str
    rung_moves: str
    seed: int
    n_rungs: int
    has_references: bool = False
    run: str = ""  # as whose the answers of long calls are kept
    is_light: bool = False  # a loop that takes no longer to run than to compile

    @classmethod
    def of(cls, plan: Plan, path: Path) -> Recipe:
        """Return the recipe of a plan's engine along a path."""
        return cls(
            plan.target, plan.kernel, plan.example, plan.starts, plan.engine, plan.method, plan.rung_moves, plan.seed,
            len(path), bool(path.references), plan.context.run, _is_light(plan),
        )  # fmt: skip

    def build(self, n_chains: int) -> Engine:
        """Build an engine of ``n_chains`` chains, or ensembles."""
        common = (self.method, self.rung_moves, self.seed, n_chains, self.n_rungs)
        layout = None if self.kernel is None else Layout.of(self.example)
        if self.engine == "vector":
            from tempering.engines import vector

            if layout is None:
                pieces = vector.model_pieces(self.target)
            else:
                target = kept_target(self.target, layout, self.run)
                pieces = vector.target_pieces(target, self.kernel, layout, self.starts, is_light=self.is_light)
            found = vector.VectorEngine(pieces, *common)
            found.run_by = self.run
            return found
        from tempering.engines import scalar_pieces
        from tempering.engines.scalar import ScalarEngine

        if layout is None:
            example = self.target.initial(stream(self.seed, EXAMPLE_STREAM))
            return ScalarEngine(scalar_pieces.model_pieces(self.target, example), *common)
        pieces_of = partial(scalar_pieces.target_pieces, has_references=self.has_references, run=self.run)
        return ScalarEngine(pieces_of(self.target, self.kernel, layout, self.starts), *common)

    def packed(self) -> Packed:
        """Return the recipe as it travels; the starting points stay at home."""
        return Packed.of(replace(self, starts=()))


def _is_light(plan: Plan) -> bool:
    """Whether the moves of a plan follow gradients, which takes long to compile, and it takes no longer to run.

    The density is cheap, or so dear that a run which needs no heating ends after a few hundred iterations.
    """
    if plan.layout is None or calls_of(plan.kernel) <= 1.0:
        return False
    is_short = not plan.needs_safe_leg and plan.dearness > DEAR
    return is_short or (plan.layout.size <= LIGHT_UP_TO and plan.dearness <= LIGHT)


def kept_target(target: Target, layout: Layout, run: str) -> Target:
    """Return a target for the vector engine that JAX calls back in double precision, its answers kept as a run's."""
    from tempering.engines.callbacks import calls_back, with_kept_calls

    return with_kept_calls(target, run) if calls_back(target, layout) else target


@dataclass(frozen=True, eq=False)
class Packed:
    """A recipe by its name, and its bytes (or itself, for workers in this process); None where the name will do.

    What is unpacked has ``build(n_chains)``.
    """

    name: str
    content: Any

    @classmethod
    def of(cls, recipe: Any) -> Packed:
        """Pack a recipe, and name it after its bytes."""
        data = pack(recipe, "A target with its kernel")
        return cls(hashlib.sha256(data).hexdigest(), data)

    def by_name(self) -> Packed:
        """Leave the content out."""
        return replace(self, content=None)


class Unknown:
    """What a worker answers that was sent a name it has not heard of."""


_engines: OrderedDict[tuple[str, int], Any] = OrderedDict()
_building = RLock()


def run_block(
    recipe: Packed, n_chains: int, states: bytes, schedule: Schedule, n: int, moving: bool
) -> tuple[bytes, Trace] | Unknown:
    """Advance one block of chains; this is what workers run."""
    follow_the_parent()
    engine = built(recipe, n_chains)
    if engine is None:
        return Unknown()
    after, trace = engine.run(unpack(states), schedule, n, moving=moving)
    return pack(after), trace


def built(recipe: Packed, n_chains: int = 1) -> Any:
    """Return the engine built before, or build it: compilation happens once a worker. None: it cannot be built."""
    key = recipe.name, n_chains
    with _building:
        if key not in _engines:
            if recipe.content is None:
                return None
            found = unpack(recipe.content) if isinstance(recipe.content, bytes) else recipe.content
            _engines[key] = found.build(n_chains)
        _engines.move_to_end(key)
        while len(_engines) > KEPT_ENGINES:
            _engines.popitem(last=False)
        return _engines[key]


@cache
def follow_the_parent() -> None:
    """In a worker process, leave Ctrl-C to the parent, which the terminal tells too; and end when the parent does.

    A pool's processes would wait for work for ever once their parent is killed.
    """
    parent = parent_process()
    if parent is None or current_thread() is not main_thread():
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()
