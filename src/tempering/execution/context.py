"""How one run is carried out: by whom, with what checkpoint, and who may stop it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tempering.compiling.devices import platform_in_use
from tempering.engines.scalar import ScalarEngine
from tempering.execution.answers import AnswersOnDisk
from tempering.execution.blocks import BlockEngine, SpreadEngine, WholeEngine, block_size
from tempering.execution.digest import contents
from tempering.execution.identity import agree, classes_of, identity_of, values_at
from tempering.execution.interruption import Interruption, listening
from tempering.execution.journal import Journal, JournalEngine
from tempering.execution.keeping import Chains, DrawRecorder, DrawsInMemory, DrawsOnDisk
from tempering.execution.operations import operations
from tempering.execution.pace import BLOCK, LONGEST, Pace
from tempering.execution.plan import Plan
from tempering.execution.probes import check_probes
from tempering.execution.recipe import Recipe
from tempering.execution.workers import Workers
from tempering.io.checkpoint import STORE, Folder, as_checkpoint, is_of_sums, writing
from tempering.runs.draws import TemperedDraws
from tempering.runs.store import zarr_library
from tempering.runs.stored import is_finished, load_checkpoint, save
from tempering.runs.stored_sums import sums_of_checkpoint
from tempering.runs.sums import TemperedSums


@dataclass(frozen=True)
class Context:
    """By whom a run is carried out, where it is kept, and whether it is to stop."""

    interruption: Interruption
    workers: Workers | None = None
    folder: Folder | None = None
    journal: Journal | None = None
    started: float = field(default_factory=time.perf_counter)

    @property
    def run(self) -> str:
        """The mark of a run with a checkpoint; "" for any other."""
        return "" if self.folder is None else self.folder.id

    @property
    def how_to_go_on(self) -> str:
        """What to do after a run was stopped."""
        if self.folder is None:
            return "Call again to start anew; with checkpoint=... it would go on."
        return f"Call again with the same checkpoint, {self.folder.path}, to go on."

    def engine(self, recipe: Recipe, n_chains: int) -> JournalEngine:
        """Build the engine of a run: chains in blocks, answers from the journal as far as it goes."""
        pace = Pace(BLOCK if self.folder is None else self.folder.seconds, LONGEST[recipe.engine])
        engine = self._blocks(recipe, n_chains)
        return JournalEngine(engine, self.journal, self.interruption, self.how_to_go_on, pace)

    def part_size(self, recipe: Recipe, engine: Any, n_units: int, *, on_devices: bool) -> int:
        """Return how many chains (or ensembles) of an engine are summed together: as many as run at once."""
        at_once = self.workers is None and recipe.engine == "vector" and not _on_processor()
        if on_devices or at_once:
            return n_units
        return block_size(recipe.engine, n_units, engine.chains_per_ensemble, operations(recipe))

    def _blocks(self, recipe: Recipe, n_chains: int) -> WholeEngine:
        whole = recipe.build(n_chains)
        if isinstance(whole, ScalarEngine):
            whole.is_stopped = self.interruption.is_requested
        size = block_size(recipe.engine, n_chains, whole.chains_per_ensemble, operations(recipe))
        if self.workers is not None:
            self.workers.is_stopped = self.interruption.is_requested
            return SpreadEngine(whole, recipe, n_chains, size, self.workers)
        if recipe.engine == "scalar" or size >= n_chains or not _on_processor():
            return WholeEngine(whole, n_chains, size)
        return BlockEngine(whole, recipe, n_chains, size, self.interruption.is_requested)

    def recorder(self, chains: Chains, n: int) -> DrawRecorder:
        """Say where draws go: to the checkpoint, or into memory."""
        if self.folder is None:
            return DrawsInMemory(chains, n)
        self.end_tuning()
        return DrawsOnDisk(chains, n, self.folder)

    def end_tuning(self) -> None:
        """Write the journal, where there is one: draws go on from the states it ends with."""
        if self.journal is not None:
            self.journal.write()

    def seed(self, rng: np.random.Generator | int | None) -> np.random.Generator | int | None:
        """Return the seed a checkpoint was begun with, where the user has left it open."""
        if rng is None and self.folder is not None and "seed" in self.folder.identity:
            return int(self.folder.identity["seed"])
        return rng

    def identified(
        self, plan: Plan, functions: Mapping[str, Any] | None = None, **arguments: Any
    ) -> TemperedDraws | TemperedSums | None:
        """Refuse a checkpoint of another run; return the draws, or the sums (of ``functions``), of one that is done."""
        if self.folder is None:
            return None
        self.folder.classes = classes_of(plan)
        may_grow = plan.method != "sequential" and arguments.get("keep", "draws") == "draws"
        known = identity_of(plan, **arguments)
        self.folder.identify(known, "draws" if may_grow else None, lambda: contents(plan.target, plan.kernel), agree)
        if plan.layout is not None:
            self.folder.values_at = partial(values_at, plan, quantities=functions)
            check_probes(self.folder, agree)
        if is_of_sums(self.folder.path):
            sums, is_whole = sums_of_checkpoint(self.folder.path)
            if is_whole:
                return sums
        else:
            zarr_library()
            n, may_write = arguments["draws"] if may_grow else None, not self.folder.why_not_written
            if is_finished(self.folder.path, n, may_write=may_write):
                return load_checkpoint(self.folder.path)
        self.folder.check_writable()
        self.folder.answers = AnswersOnDisk(self.folder)
        if self.workers is not None and not self.workers.share_memory:
            self.workers.answers = self.folder.answers
        return None

    def finished(self, draws: TemperedDraws) -> TemperedDraws:
        """Write draws that came all at once to the checkpoint, if there is one."""
        if self.folder is not None:
            with writing(self.folder.path):
                save(draws, self.folder.path / STORE, self.folder.id)
            self.folder.pass_answers()
        return draws

    def warn_of_stop(self, n_done: int, n: int) -> None:
        """Say how far a run has come that was ended by Ctrl-C, and how to go on; end the program where it was told to.

        A scheduler that wants its machine back sends SIGTERM: once the checkpoint is written, the process ends.
        """
        by = self.interruption.by
        warnings.warn(f"Stopped by {by} after {n_done} of {n} draws per chain. {self.how_to_go_on}", stacklevel=4)
        self.interruption.end_program()


def _on_processor() -> bool:
    """Whether JAX runs on the processor: on an accelerator all chains run at once."""
    return platform_in_use() == "cpu"


@contextmanager
def carrying_out(executor: Executor | None, checkpoint: Any) -> Iterator[Context]:
    """Open the checkpoint, take on the workers and listen for Ctrl-C, for as long as a run lasts."""
    folder = None if checkpoint is None else Folder(as_checkpoint(checkpoint))
    workers = None
    try:
        workers = None if executor is None else Workers(executor)
        with listening(also_to_terminate=folder is not None) as interruption:
            yield Context(interruption, workers, folder, None if folder is None else Journal(folder))
    finally:
        if workers is not None:
            workers.close()
        if folder is not None:
            folder.close()
