"""Populations carried elsewhere: their batches go to workers, and what comes back is kept in the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tempering.engines.callbacks import telling_where
from tempering.engines.stopping import AbandonedBlock
from tempering.execution.context import Context
from tempering.execution.digest import digest
from tempering.execution.pickling import pack, unpack
from tempering.execution.recipe import Packed, Unknown, built, follow_the_parent
from tempering.populations.populations import BatchMover, build_mover
from tempering.target import Target
from tempering.target.layout import Layout


@dataclass(frozen=True, eq=False)
class MoverRecipe:
    """All that a mover is made of."""

    path: Target
    kernel: Any
    example: Any

    def build(self, n_chains: int) -> BatchMover:
        """Build the mover; batches have a size of their own."""
        return build_mover(self.path, self.kernel, Layout.of(self.example))


def run_batch(recipe: Packed, name: str, arguments: bytes) -> Any:
    """Draw or move one batch; this is what workers run."""
    import jax

    follow_the_parent()
    mover = built(recipe)
    if mover is None:
        return Unknown()
    with jax.enable_x64(True), telling_where():
        return getattr(mover, name)(*unpack(arguments))


def spread_mover(execution: Context, mover: BatchMover, path: Target, kernel: Any, *, example: Any) -> BatchMover:
    """Return a mover whose batches are run by the workers there are, or remembered."""
    workers = execution.workers
    recipe: Packed | None = None
    if workers is not None:
        described = MoverRecipe(path, kernel, example)
        recipe = Packed(uuid4().hex, described) if workers.share_memory else Packed.of(described)

    def run(name: str, batches: list[tuple[Any, ...]]) -> list[Any]:
        if workers is None or recipe is None:
            with telling_where():
                return [getattr(mover, name)(*batch) for batch in batches]
        return workers.run_recipe(run_batch, recipe, [(name, pack(batch)) for batch in batches], may_abandon=True)

    def run_or_stop(name: str, batches: list[tuple[Any, ...]]) -> list[Any]:
        try:
            with execution.interruption.abandoning():
                return run(name, batches)
        except AbandonedBlock:
            execution.end_tuning()
            execution.interruption.stop_tuning(f"The populations were not yet at k = 1. {execution.how_to_go_on}")
            raise

    def remembered(name: str, batches: list[tuple[Any, ...]]) -> list[Any]:
        journal = execution.journal
        if journal is None:
            return run_or_stop(name, batches)
        call = digest(name, batches)
        if journal.is_replaying:
            return list(journal.replay(call)[0])
        results = run_or_stop(name, batches)
        journal.record(call, results, list)
        return results

    return mover._replace(elsewhere=remembered)
