"""Sums on the device: the vector engine's scan with running sums in its carry, and no trace.

Each group of chains has a table (rung, energy bin, column) to add to, see `tempering.estimators.running.bins`; at the
end of a block the tables are reduced on the device, and only the reduced sums travel. Tables are in double precision
on a processor, in single precision on an accelerator, where a block is short enough for its counts to be exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compiling.devices import platform_in_use
from tempering.compiling.programs import jitted
from tempering.engines.trace import QUANTUM
from tempering.estimators.regeneration import FROM_COLD, FROM_HOT
from tempering.estimators.running.batches import MAXIMUM_GROUPS
from tempering.estimators.running.bins import N_BINS, BatchSums, EnergyBins, batch_of, places_of
from tempering.estimators.running.quantiles import COARSENING, N_COARSE, N_VALUES, value_bin

# Iterations of a chain from one that is summed to the next. Neighbours are much alike; on an accelerator summing a
# draw takes half as long again as making it.
SUM_EVERY = {"cpu": 1, "device": 5}
# Iterations, about, from one that quantile sketches and acceptance rates are taken from to the next: odd, since
# exchanges of even and odd pairs take turns
EVERY = {"cpu": 5, "device": 21}
WATCHED = 1 << 12  # chains whose moves and exchanges are counted, at most: rates need no more
LARGEST_COUNT = 1 << 24  # whole numbers up to it are exact in single precision
LONGEST_BLOCK = {"cpu": 1 << 14, "device": 1 << 12}  # iterations
CELLS = {"cpu": 1 << 18, "device": 1 << 20}  # (group, rung, bin) at most, for one group at least; they fit a cache
# iterations compiled into one: on an H200 with a million chains of a mixture 222 us an iteration with 1, 138 with 5,
# 133 with 7, 160 with 15
UNROLLED = {"cpu": 1, "device": 5}
SKETCH_CELLS = 1 << 24


class Shape(NamedTuple):
    """What a block is compiled for, but for its length, which is an argument."""

    n_iterations: int
    n_groups: int
    n_rungs: int
    n_quantities: int
    n_leaves: int
    n_sketches: int  # copies of the quantile sketch: few additions to one place at a time
    every: int
    sum_every: int
    watched: int  # chains of each group
    unrolled: int
    is_single: bool

    @property
    def table(self) -> tuple[int, ...]:
        """Shape of the tables."""
        return (self.n_groups, self.n_rungs, N_BINS, self.n_columns + self.padding)

    @property
    def n_columns(self) -> int:
        """Columns of the tables: 1, d, d^2, the quantities h, and d h."""
        return 3 + 2 * self.n_quantities

    @property
    def padding(self) -> int:
        """Empty columns: an accelerator adds four numbers in single precision at a time."""
        return -self.n_columns % 4 if self.is_single else 0


class Units(NamedTuple):
    """Where sums are kept: the bins of the energy and the units of the quantities."""

    bin_centre: Any
    bin_scale: Any
    centre: Any
    scale: Any
    tilts: Any  # powers of the energy whose weights are summed, by rung

    @property
    def bins(self) -> EnergyBins:
        """Bins of the energy."""
        return EnergyBins(self.bin_centre, self.bin_scale)


class BlockSums(NamedTuple):
    """Reduced sums of one block."""

    batch: BatchSums  # leading axis: group
    joint: Any
    pooled: Any
    squares: Any
    sketch: Any
    exchanges: Any
    moves: Any
    n_round_trips: Any


class Running(NamedTuple):
    """Sums of a block that is not yet at its end, as they are added to."""

    table: Any
    rates: Any
    trips: Any
    highest: Any  # energy of each chain


class _Drawn(NamedTuple):
    """One iteration of all chains, rows in groups: (group, chain, ...)."""

    h: Any
    d: Any
    index: Any  # energy bin
    rung: Any


class _Watched(NamedTuple):
    """The same iteration of the chains whose moves are counted."""

    before: Any
    after: Any
    proposed: Any
    acceptance: Any


def default_sum_every(draws: int) -> int:
    """Return which iterations are summed where the user does not say: odd, and one of them at least."""
    return min(SUM_EVERY[_place()], draws - 1 + draws % 2)


def _place() -> str:
    return "cpu" if platform_in_use() == "cpu" else "device"


def length_on_device(n_units: int, m: int, chains: int, draws: int, sum_every: int = 1, n_parts: int = 1) -> int:
    """Return the iterations of a block: many, but few enough for enough blocks for standard errors.

    ``chains`` of all ``n_units`` (chains or ensembles) in one of ``n_parts`` parts of a run of ``draws`` iterations.
    """
    where = _place()
    groups = groups_on_device(n_units, m, n_parts)
    longest, every = LONGEST_BLOCK[where], _odd_multiple(sum_every, EVERY[where])
    if where != "cpu":
        longest = max(1, min(longest, LARGEST_COUNT // (chains // groups) * sum_every - every))
    n_blocks = max(-(-draws // longest), min(-(-128 // (groups * n_parts)), draws // QUANTUM), 1)
    return -(-draws // (n_blocks * every)) * every


def block_shape(
    n_units: int, m: int, n_quantities: int, n_leaves: int, chains: int, length: int, sum_every: int, n_parts: int = 1
) -> Shape:
    """Say what a block of so many iterations is compiled for."""
    where = _place()
    is_single = where != "cpu"
    groups = groups_on_device(n_units, m, n_parts)
    size = n_quantities * N_COARSE * N_VALUES
    sketches = groups if is_single and groups * size <= SKETCH_CELLS else 1
    watched = min(chains // groups, max(1, WATCHED // groups))
    every = _odd_multiple(sum_every, EVERY[where])
    return Shape(
        length, groups, m, n_quantities, n_leaves, sketches, every, sum_every, watched, UNROLLED[where], is_single
    )


def groups_on_device(n_units: int, m: int, n_parts: int = 1) -> int:
    """Return how many groups of chains have tables of their own: all have equally many."""
    most = max(1, min(MAXIMUM_GROUPS // n_parts, CELLS[_place()] // (m * N_BINS)))
    return max(g for g in range(1, most + 1) if n_units % g == 0)


def _odd_multiple(of: int, least: int) -> int:
    """Return the least odd multiple of an odd number that is not below ``least``."""
    times = -(-least // of)
    return of * (times + 1 - times % 2)


@lru_cache(maxsize=32)
def build_sums_block(step: Any, evaluate: Callable[[Any], Any]) -> Any:
    """Compile ``block(keys, units, ends, span, path, kept_in, so_far, shape)``.

    It returns units, ends, `Running` and `BlockSums`.

    ``ends`` are which end of the ladder each chain has seen last. A ``span`` is the iteration it starts with, how many
    times ``shape.every`` iterations are run, and the iteration from which on none is counted. Round trips are those of
    all iterations, whichever of them are summed.
    """

    def block(
        keys: Any, units: Any, ends: Any, span: Any, path: Any, kept_in: Units, so_far: Running, shape: Shape
    ) -> Any:
        start, n_times, stop = span
        advanced = _stepping(step, keys, path, stop, shape.n_rungs)
        one = _summing(advanced, evaluate, kept_in, stop, shape, ends.ndim)

        def stretch(carry: Any, iterations: Any) -> Any:
            """Run on, and sum the last iteration."""
            chains, table = carry
            unroll = max(1, min(shape.unrolled, shape.sum_every - 1))
            chains, _ = jax.lax.scan(lambda c, i: (advanced(c, i)[0], None), chains, iterations[:-1], unroll=unroll)
            return one((chains, table), iterations[-1])

        def some(i: Any, carry: Any) -> Any:
            inner, rates = carry
            iterations = start + i * shape.every + jnp.arange(shape.every).reshape(-1, shape.sum_every)
            unroll = -(-shape.unrolled // shape.sum_every)
            inner, _ = jax.lax.scan(lambda c, i: (stretch(c, i)[0], None), inner, iterations[:-1], unroll=unroll)
            inner, (drawn, watched) = stretch(inner, iterations[-1])
            return inner, _add_rates(rates, drawn, watched, iterations[-1, -1] < stop, shape)

        first = (((units, ends, so_far.trips, so_far.highest), so_far.table), so_far.rates)
        ((units, ends, trips, highest), table), rates = jax.lax.fori_loop(0, n_times, some, first)
        sums = _reduced(table, rates, trips, kept_in, shape)
        return units, ends, Running(table, rates, trips, highest), sums

    return jitted(block, static_argnums=7, level=None)


def _summing(
    advanced: Callable[[Any, Any], Any], evaluate: Callable[[Any], Any], kept_in: Units, stop: Any, shape: Shape,
    lead: int,
) -> Callable[[Any, Any], Any]:  # fmt: skip
    """Return a function that moves all chains once and adds to the tables, if that is before ``stop``."""
    places, per_scale = places_of(jnp, kept_in.bins), 1.0 / jnp.asarray(kept_in.scale)
    dtype = jnp.float32 if shape.is_single else jnp.float64

    def grouped(part: Any) -> Any:
        return part.reshape((shape.n_groups, -1, *part.shape[lead:]))

    def one(carry: Any, iteration: Any) -> Any:
        chains, table = carry
        before, counted = chains[0].rung, iteration < stop
        chains, (recorded, terms, rung, proposed, acceptance) = advanced(chains, iteration)
        h = ((evaluate(recorded) - kept_in.centre) * per_scale).astype(dtype)
        h = h.reshape((shape.n_groups, -1, shape.n_quantities))
        index, d = kept_in.bins.locate(jnp, grouped(terms[..., 0]), places)  # what is tempered comes first
        drawn = _Drawn(h, d.astype(dtype), index, grouped(rung))
        # computed once, and not again for every column that is added
        drawn = _Drawn(*jax.lax.optimization_barrier(tuple(drawn)))  # type: ignore[no-untyped-call]
        table = _add_columns(table, drawn, counted.astype(dtype), shape)
        watched = (grouped(row)[:, : shape.watched] for row in (before, rung, proposed, acceptance))
        return (chains, table), (drawn, _Watched(*watched))

    return one


def _stepping(step: Any, keys: Any, path: Any, stop: Any, n_rungs: int) -> Callable[[Any, Any], Any]:
    """Return a function that moves all chains once, and counts their round trips before ``stop``."""

    def advanced(carry: Any, iteration: Any) -> Any:
        units, ends, trips, highest = carry
        units, outputs = jax.vmap(step, in_axes=(0, 0, None, None, None))(keys, units, iteration, path, True)
        ends, arrived = _ends(ends, units.rung, n_rungs)
        trips = trips + jnp.where(iteration < stop, arrived, 0)
        return (units, ends, trips, jnp.maximum(highest, outputs[1][..., 0])), outputs

    return advanced


def nothing_yet(shape: Shape, ends: Any) -> Running:
    """Return the sums at the start of a block."""
    with jax.enable_x64(True):
        return _nothing_yet(shape, np.shape(ends))  # type: ignore[no-any-return]


@partial(jitted, static_argnums=(0, 1), is_brief=True)
def _nothing_yet(shape: Shape, chains: tuple[int, ...]) -> Running:
    table = jnp.zeros(shape.table, jnp.float32 if shape.is_single else jnp.float64)
    return Running(table, _no_rates(shape), jnp.zeros(chains, jnp.int32), jnp.full(chains, -jnp.inf))


def _add_columns(table: Any, drawn: _Drawn, counted: Any, shape: Shape) -> Any:
    """Add the columns of all chains, each group to its own table."""
    one, d = jnp.broadcast_to(counted, (*drawn.d.shape, 1)), (counted * drawn.d)[..., None]
    empty = jnp.zeros((*drawn.d.shape, shape.padding), table.dtype)
    columns = [one, d, d * drawn.d[..., None], counted * drawn.h, d * drawn.h, empty]
    add: Any = jax.vmap(lambda t, r, b, c: t.at[r, b].add(c))
    return add(table, drawn.rung, drawn.index, jnp.concatenate(columns, -1))


def _ends(ends: Any, rung: Any, m: int) -> tuple[Any, Any]:
    """Return the ends seen last, and whether a round trip has been completed."""
    if m == 1:
        return ends, jnp.zeros(ends.shape, jnp.int32)
    cold, hot = rung == 0, rung == m - 1
    arrived = cold & (ends == FROM_HOT)
    seen = jnp.where(cold, FROM_COLD, jnp.where(hot & (ends > 0), FROM_HOT, ends))
    return seen.astype(ends.dtype), arrived.astype(jnp.int32)


def _no_rates(shape: Shape) -> Any:
    sketch = (shape.n_sketches, shape.n_quantities, N_COARSE, N_VALUES)
    rates = (shape.n_groups, shape.n_rungs)
    dtype = jnp.float32 if shape.is_single else jnp.float64
    return (
        jnp.zeros(sketch, jnp.int32),
        jnp.zeros((*rates, 2), jnp.int32),
        jnp.zeros((*rates, shape.n_leaves, 2), dtype),
        jnp.zeros((*rates, 1 + shape.n_quantities), dtype),
    )


def _add_rates(rates: Any, drawn: _Drawn, watched: _Watched, counted: Any, shape: Shape) -> Any:
    """Add one iteration to the quantile sketches and the rates of acceptance."""
    sketch, exchanges, moves, squares = rates
    one = counted.astype(jnp.int32)
    bins = value_bin(jnp, drawn.h).reshape(shape.n_sketches, -1, shape.n_quantities)
    coarse = (drawn.index // COARSENING).reshape(shape.n_sketches, -1, 1)
    component = jnp.arange(shape.n_quantities)
    sketch = jax.vmap(lambda s, e, v: s.at[component, e, v].add(one))(sketch, coarse, bins)
    add: Any = jax.vmap(lambda t, i, c: t.at[i].add(c))
    tried = (watched.proposed != watched.before).astype(jnp.int32) * one
    both = jnp.stack([tried, tried * (watched.proposed == watched.after)], -1)
    exchanges = add(exchanges, jnp.minimum(watched.before, watched.proposed), both)
    known = ~jnp.isnan(watched.acceptance) & counted
    share = jnp.stack([known.astype(moves.dtype), jnp.where(known, watched.acceptance, 0.0).astype(moves.dtype)], -1)
    moves = add(moves, watched.before, share)
    h = drawn.h[:, : shape.watched]
    ones = jnp.ones((*h.shape[:-1], 1), h.dtype)
    squares = add(squares, watched.after, counted.astype(h.dtype) * jnp.concatenate([ones, h**2], -1))
    return sketch, exchanges, moves, squares


def _reduced(table: Any, rates: Any, trips: Any, kept_in: Units, shape: Shape) -> BlockSums:
    double = table.astype(jnp.float64)
    q = shape.n_quantities
    whole = double.sum(0)
    sketch, exchanges, moves, squares = (part.sum(0) for part in rates)
    return BlockSums(
        batch_of(jnp, double, kept_in.bins, kept_in.tilts, q),
        whole[..., :3],
        whole[..., 3 : shape.n_columns].sum(0),
        squares,
        sketch,
        exchanges,
        moves,
        trips.sum(),
    )


def to_host(tree: Any) -> Any:
    """Bring sums over, in double precision."""
    return jax.tree.map(partial(np.asarray, dtype=np.float64), tree)
