"""Chains cut into blocks, each run by itself: in this process, or wherever an executor sends it.

The size of a block depends on the chains and the target, never on the workers. Compiled code may round differently
for another number of chains at once, so the same blocks are run whoever runs them; then the draws are the same to
the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import numpy as np

from tempering.engines.stopping import AbandonedBlock, IsStopped, never
from tempering.engines.streams import key_of, words_of
from tempering.engines.trace import Engine, Places, Schedule, Trace, by_array
from tempering.errors import FunctionError
from tempering.execution.pickling import pack, unpack
from tempering.execution.recipe import Packed, Recipe, run_block
from tempering.execution.workers import Workers
from tempering.path import Path

WORK = 4e5  # operations of the log density in one iteration of a block: less would cost more to hand out than to do
LOCKSTEP = 256  # chains from which the vector engine's cost a chain falls no further
LEAST_LOCKSTEP = 4  # chains of a block, however costly each of them is
ROUND = 8  # chains a block is filled up to a multiple of: XLA's loops over an odd number take up to three times as long
MOST_BLOCKS = 64  # more would cost more to send than they give to do


def block_size(engine: str, n_chains: int, chains_per_ensemble: int, operations: float) -> int:
    """Return how many chains (or ensembles) a block has.

    Examples
    --------
    >>> [block_size("vector", n, 1, 100.0) for n in (32, 600, 100_000)]
    [32, 304, 1568]
    >>> block_size("scalar", 8, 1, 100.0), block_size("vector", 100, 1, 2e4), block_size("vector", 32, 1, 1e6)
    (1, 24, 4)
    >>> block_size("vector", 32, 1, np.inf)
    1
    """
    least = int(np.clip(WORK / max(operations, 1.0), LEAST_LOCKSTEP, LOCKSTEP))
    lockstep = 1 if engine == "scalar" or np.isinf(operations) else least
    n_blocks = max(1, min(MOST_BLOCKS, n_chains * chains_per_ensemble // lockstep, n_chains))
    size = -(-n_chains // n_blocks)
    return size if n_blocks == 1 or size < ROUND else -(-size // ROUND) * ROUND


class WholeEngine:
    """Run all chains at once in this process; a checkpoint keeps their states block by block, as those of others."""

    def __init__(self, engine: Engine, n_units: int, size: int) -> None:
        self.name, self.n_chains, self.chains_per_ensemble = engine.name, engine.n_chains, engine.chains_per_ensemble
        self._engine, self._n_units, self._size = engine, n_units, size

    def start(self, path: Path) -> Any:
        """Return the states of all chains at their starting points."""
        return self._engine.start(path)

    def run(self, states: Any, schedule: Schedule, n: int, *, moving: bool = True) -> tuple[Any, Trace]:
        """Advance all chains by ``n`` iterations."""
        return self._engine.run(states, schedule, n, moving=moving)

    def on_rung(self, states: Any, rung: Any, places: Places | None = None) -> Any:
        """Put every chain on a rung."""
        return self._engine.on_rung(states, rung, places)

    def n_invalid(self, states: Any) -> int:
        """Return how often a log density was NaN or +inf so far."""
        return self._engine.n_invalid(states)

    def positions(self, trace: Trace) -> Any:
        """Return the recorded values by name."""
        return self._engine.positions(trace)

    def parts(self, states: Any) -> list[Any]:
        """Return the states, a block each, as they are kept in a checkpoint."""
        return cut(states, self._n_units, self._size)

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the states again."""
        return put_together(list(parts), self._n_units)

    def changes_in_place(self, states: Any) -> bool:
        """Whether a run changes the states it is given, as the scalar engine's does."""
        return isinstance(states, list) and not isinstance(states[0], bytes)

    def copied(self, states: Any) -> Any:
        """Return copies of the states, which a run may change."""
        return self.from_parts(self._copies(states))

    def in_one_piece(self, states: Any) -> tuple[Engine, Any]:
        """Return the engine of all chains and copies of their states, however they are cut and packed."""
        return self._engine, put_together(self._copies(states), self._n_units)

    def _copies(self, states: Any) -> list[Any]:
        return [unpack(pack(part)) for part in self.parts(states)]


class BlockEngine(WholeEngine):
    """Run block after block in this process; states are lists of the blocks' states."""

    def __init__(self, engine: Engine, recipe: Recipe, n_units: int, size: int, is_stopped: IsStopped = never) -> None:
        super().__init__(engine, n_units, size)
        self._block = recipe.build(size)
        self._is_stopped = is_stopped

    def start(self, path: Path) -> list[Any]:
        """Return the states of all blocks at their starting points."""
        return self.from_parts(cut(self._engine.start(path), self._n_units, self._size))

    def run(self, states: list[Any], schedule: Schedule, n: int, *, moving: bool = True) -> tuple[list[Any], Trace]:
        """Advance all blocks by ``n`` iterations, one after the other."""
        parts = []
        for i, state in enumerate(states):
            if self._is_stopped():
                raise AbandonedBlock
            with _counted_from(i * self._size * self.chains_per_ensemble):
                parts.append(self._block.run(state, schedule, n, moving=moving))
        return [state for state, _ in parts], self._side_by_side([trace for _, trace in parts])

    def on_rung(self, states: list[Any], rung: Any, places: Places | None = None) -> list[Any]:
        """Put every chain on a rung: one for all, or one each."""
        rungs = np.broadcast_to(rung, self._n_units)
        rows = rows_of_blocks(self._n_units, self._size, is_padded=True)
        return self.from_parts([
            self._put_on(part, rungs[row], None if places is None else places.of(row))
            for part, row in zip(self.parts(states), rows, strict=True)
        ])  # fmt: skip

    def n_invalid(self, states: list[Any]) -> int:
        """Return how often a log density was NaN or +inf so far, chains that fill up the last block included."""
        return sum(self._engine.n_invalid(part) for part in self.parts(states))

    def parts(self, states: list[Any]) -> list[Any]:
        """Return the states, a block each, as they are kept in a checkpoint."""
        return list(states)

    def from_parts(self, parts: Sequence[Any]) -> list[Any]:
        """Return the states again."""
        return list(parts)

    def _put_on(self, state: Any, rungs: Any, places: Places | None) -> Any:
        n = len(state) if isinstance(state, list) else len(rungs)
        return self._engine.on_rung(state, rungs[:n], None if places is None else places.of(slice(0, n)))

    def _side_by_side(self, traces: list[Trace]) -> Trace:
        """Join the blocks' traces, and leave out the chains that filled up the last."""

        def join(*parts: Any) -> Any:
            if parts[0].flags.c_contiguous:
                return np.concatenate(parts)[: self.n_chains]
            rows = np.concatenate([np.swapaxes(part, 0, 1) for part in parts], axis=1)  # as they lie in memory
            return np.swapaxes(rows, 0, 1)[: self.n_chains]

        return by_array(join, *traces)


class SpreadEngine(BlockEngine):
    """Run blocks on workers; states are lists of bytes, which stay as they are until a block has been done."""

    def __init__(self, engine: Engine, recipe: Recipe, n_units: int, size: int, workers: Workers) -> None:
        WholeEngine.__init__(self, engine, n_units, size)
        self._recipe = Packed(uuid4().hex, recipe) if workers.share_memory else recipe.packed()
        self._workers = workers

    def run(self, states: list[bytes], schedule: Schedule, n: int, *, moving: bool = True) -> tuple[list[bytes], Trace]:
        """Advance all blocks by ``n`` iterations, wherever the executor sends them."""
        blocks = [(self._size, s, schedule, n, moving) for s in states]
        try:
            done = self._workers.run_recipe(run_block, self._recipe, blocks, may_abandon=True)
        except FunctionError as error:  # which counts the chains of its block
            if error.chain is not None:
                error.chain += error.block * self._size * self.chains_per_ensemble
            raise
        return [state for state, _ in done], self._side_by_side([trace for _, trace in done])

    def parts(self, states: list[bytes]) -> list[Any]:
        """Return the states, a block each, as they are kept in a checkpoint."""
        return [unpack(state) for state in states]

    def from_parts(self, parts: Sequence[Any]) -> list[bytes]:
        """Return the states again."""
        return [pack(part) for part in parts]


@contextmanager
def _counted_from(first: int) -> Iterator[None]:
    """Name the chain of the run in an error that names that of a block."""
    try:
        yield
    except FunctionError as error:
        if error.chain is not None:
            error.chain += first
        raise


def rows_of_blocks(n: int, size: int, *, is_padded: bool) -> list[Any]:
    """Return the chains of each block; the last is filled up with its last chain, so that all are alike.

    Examples
    --------
    >>> [row.tolist() for row in rows_of_blocks(5, 2, is_padded=True)]
    [[0, 1], [2, 3], [4, 4]]
    """
    rows = [np.arange(first, first + size) for first in range(0, n, size)]
    return [np.minimum(row, n - 1) for row in rows] if is_padded else [row[row < n] for row in rows]


def cut(states: Any, n: int, size: int, *, is_padded: bool = True) -> list[Any]:
    """Cut the states of ``n`` chains into blocks; lists of states are never filled up."""
    if isinstance(states, list):
        return [[states[i] for i in row] for row in rows_of_blocks(n, size, is_padded=False)]
    import jax

    with jax.enable_x64(True):
        words, unit = words_of(states.keys), jax.tree.map(np.asarray, states.unit)
        return [
            states._replace(keys=key_of(words[row]), unit=jax.tree.map(lambda a: jax.device_put(a[row]), unit))  # noqa: B023
            for row in rows_of_blocks(n, size, is_padded=is_padded)
        ]


def put_together(parts: list[Any], n: int) -> Any:
    """Join the states of blocks to those of ``n`` chains."""
    if isinstance(parts[0], list):
        return [state for part in parts for state in part]
    import jax

    def joined(*arrays: Any) -> Any:
        return jax.device_put(np.concatenate([np.asarray(array) for array in arrays])[:n])

    with jax.enable_x64(True):
        words = np.concatenate([words_of(part.keys) for part in parts])
        unit = jax.tree.map(joined, *(part.unit for part in parts))
        return parts[0]._replace(keys=key_of(words[:n]), unit=unit)
