"""Sums on the device: the vector engine's scan with running sums in its carry, and no trace.

Each group of chains has a table (rung, energy bin, column) to add to, see `tempering.estimators.running_bins`; at the
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

from tempering.engines.index_sums import FROM_COLD, FROM_HOT
from tempering.engines.trace import QUANTUM
from tempering.estimators.running_bins import N_BINS, BatchSums, EnergyBins, batch_of, places_of
from tempering.estimators.running_quantiles import COARSENING, N_COARSE, N_VALUES, value_bin

EVERY = 4  # iterations: quantile sketches and acceptance rates are taken from each fourth one
LARGEST_COUNT = 1 << 24  # whole numbers up to it are exact in single precision
LONGEST_BLOCK = {"cpu": 1 << 14, "device": 1 << 12}  # iterations
CELLS = {"cpu": 1 << 18, "device": 1 << 21}  # (group, rung, bin) at most, for one group at least
SKETCH_CELLS = 1 << 24


class Shape(NamedTuple):
    """What a block is compiled for."""

    n_iterations: int
    n_groups: int
    n_rungs: int
    n_quantities: int
    n_leaves: int
    n_sketches: int  # copies of the quantile sketch: few additions to one place at a time
    is_single: bool

    @property
    def table(self) -> tuple[int, ...]:
        """Shape of the tables."""
        return (self.n_groups, self.n_rungs, N_BINS, 3 + 3 * self.n_quantities)


class Units(NamedTuple):
    """Where sums are kept: the bins of the energy and the units of the quantities."""

    bin_centre: Any
    bin_scale: Any
    centre: Any
    scale: Any

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


class _Drawn(NamedTuple):
    """One iteration of all chains, rows in groups: (group, chain, ...)."""

    h: Any
    index: Any  # energy bin
    before: Any
    after: Any
    proposed: Any
    acceptance: Any


def block_shape(n_units: int, m: int, n_quantities: int, n_leaves: int, chains: int, draws: int) -> Shape:
    """Choose groups and the length of a block: long, but with enough blocks for standard errors."""
    is_single = jax.default_backend() != "cpu"
    where = "device" if is_single else "cpu"
    most = max(1, min(64, CELLS[where] // (m * N_BINS)))
    groups = max(g for g in range(1, most + 1) if n_units % g == 0)
    longest = LONGEST_BLOCK[where]
    if is_single:
        longest = min(longest, LARGEST_COUNT // (chains // groups))
    n_blocks = max(-(-draws // longest), min(-(-128 // groups), draws // QUANTUM), 1)
    length = -(-draws // (n_blocks * QUANTUM)) * QUANTUM
    size = n_quantities * N_COARSE * N_VALUES
    sketches = groups if is_single and groups * size <= SKETCH_CELLS else 1
    return Shape(length, groups, m, n_quantities, n_leaves, sketches, is_single)


@lru_cache(maxsize=32)
def build_sums_block(step: Any, evaluate: Callable[[Any], Any]) -> Any:
    """Compile ``block(keys, units, ends, start, stop, path, kept_in, tilts, shape) -> (units, ends, BlockSums)``.

    ``ends`` are which end of the ladder each chain has seen last; iterations from ``stop`` on are not counted.
    """

    def block(
        keys: Any, units: Any, ends: Any, start: Any, stop: Any, path: Any, kept_in: Units, tilts: Any, shape: Shape
    ) -> Any:
        places = places_of(jnp, kept_in.bins)
        dtype = jnp.float32 if shape.is_single else jnp.float64

        def grouped(part: Any) -> Any:
            return part.reshape((shape.n_groups, -1, *part.shape[ends.ndim :]))

        def one(carry: Any, iteration: Any) -> Any:
            units, ends, trips, table = carry
            before = units.rung
            now = jax.vmap(lambda key: jax.random.fold_in(key, iteration))(keys)
            units, (recorded, energy, rung, proposed, acceptance) = jax.vmap(step, in_axes=(0, 0, None, None, None))(
                now, units, iteration, path, True
            )
            counted = iteration < stop
            ends, arrived = _ends(ends, rung, shape.n_rungs)
            trips = trips + jnp.where(counted, arrived, 0)
            h = (evaluate(recorded) - kept_in.centre) / kept_in.scale
            h = h.reshape((shape.n_groups, -1, shape.n_quantities))
            index, d = kept_in.bins.locate(jnp, grouped(energy), places)
            columns = jnp.concatenate([_powers(d), h, d[..., None] * h, h**2], -1).astype(dtype)
            columns = jnp.where(counted, columns, jnp.zeros((), dtype))
            table = jax.vmap(lambda t, r, b, c: t.at[r, b].add(c))(table, grouped(rung), index, columns)
            rows = (before, rung, proposed, acceptance)
            return (units, ends, trips, table), _Drawn(h, index, *(grouped(row) for row in rows))

        def some(carry: Any, iterations: Any) -> Any:
            inner, rates = carry
            inner, drawn = jax.lax.scan(one, inner, iterations)
            last = jax.tree.map(lambda part: part[-1], drawn)
            return (inner, _add_rates(rates, last, iterations[-1] < stop, shape)), None

        iterations = start + jnp.arange(shape.n_iterations).reshape(-1, EVERY)
        trips = jnp.zeros(ends.shape, jnp.int32)
        first = ((units, ends, trips, jnp.zeros(shape.table, dtype)), _no_rates(shape))
        ((units, ends, trips, table), rates), _ = jax.lax.scan(some, first, iterations)
        return units, ends, _reduced(table, rates, trips, kept_in.bins, tilts, shape)

    return jax.jit(block, static_argnums=8)


def _powers(d: Any) -> Any:
    return jnp.stack([jnp.ones_like(d), d, d**2], -1)


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
    return (
        jnp.zeros(sketch, jnp.int32),
        jnp.zeros((*rates, 2), jnp.int32),
        jnp.zeros((*rates, shape.n_leaves, 2), jnp.float32 if shape.is_single else jnp.float64),
    )


def _add_rates(rates: Any, last: _Drawn, counted: Any, shape: Shape) -> Any:
    """Add one iteration to the quantile sketches and the rates of acceptance."""
    sketch, exchanges, moves = rates
    one = counted.astype(jnp.int32)
    bins = value_bin(jnp, last.h).reshape(shape.n_sketches, -1, shape.n_quantities)
    coarse = (last.index // COARSENING).reshape(shape.n_sketches, -1, 1)
    component = jnp.arange(shape.n_quantities)
    sketch = jax.vmap(lambda s, e, v: s.at[component, e, v].add(one))(sketch, coarse, bins)
    tried = (last.proposed != last.before).astype(jnp.int32) * one
    both = jnp.stack([tried, tried * (last.proposed == last.after)], -1)
    lower = jnp.minimum(last.before, last.proposed)
    exchanges = jax.vmap(lambda t, i, c: t.at[i].add(c))(exchanges, lower, both)
    known = ~jnp.isnan(last.acceptance) & counted
    share = jnp.stack([known.astype(moves.dtype), jnp.where(known, last.acceptance, 0.0).astype(moves.dtype)], -1)
    moves = jax.vmap(lambda t, i, c: t.at[i].add(c))(moves, last.before, share)
    return sketch, exchanges, moves


def _reduced(table: Any, rates: Any, trips: Any, bins: EnergyBins, tilts: Any, shape: Shape) -> BlockSums:
    double = table.astype(jnp.float64)
    q = shape.n_quantities
    whole = double.sum(0)
    sketch, exchanges, moves = (part.sum(0) for part in rates)
    return BlockSums(
        batch_of(jnp, double, bins, tilts, q),
        whole[..., :3],
        whole[..., 3 : 3 + 2 * q].sum(0),
        whole[..., 3 + 2 * q :].sum(1),
        sketch,
        exchanges,
        moves,
        trips.sum(),
    )


@jax.jit
def add_up(total: Any, part: Any) -> Any:
    """Add large sums on the device."""
    return jax.tree.map(lambda a, b: a + b, total, part)


def to_host(tree: Any) -> Any:
    """Bring sums over, in double precision."""
    return jax.tree.map(partial(np.asarray, dtype=np.float64), tree)
