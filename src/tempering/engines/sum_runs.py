"""Long runs in running sums: block after block, on either engine, with no draw kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.engines.index_sums import IndexSums, sums_of_trace
from tempering.engines.trace import LONG_BLOCK, QUANTUM, Schedule, Trace, shortened
from tempering.estimators.running import Quantities, RunningRungs, Totals
from tempering.estimators.running_bins import EnergyBins, tilts_of
from tempering.estimators.running_regrid import regridded

PILOT = 4 * QUANTUM  # iterations, run before the rest and again with it: where energies and quantities lie
DRAWS_AT_ONCE = 1 << 18  # of a trace, on the scalar engine
BLOCKS = 128  # at least, over the chains there are, for standard errors
COLD_ENOUGH = 0.5  # k from which draws say what units the quantities need

Values = Callable[[Trace], dict[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Summed:
    """What a run in sums leaves behind."""

    states: Any
    rungs: RunningRungs
    index: IndexSums


@dataclass(frozen=True)
class Task:
    """One run: its engine, what is frozen while it runs, and what is summed."""

    engine: Any
    schedule: Schedule
    values: Values  # of a trace, by name, leading axes (chain, draw)
    on_device: Any  # recorded values, leading axis chain -> (chain, component); None on the scalar engine
    check: Callable[[Trace], None]  # refuses chains that run off
    report: Callable[[int, str], None]
    is_to_stop: Callable[[], bool] = lambda: False  # asked after every block
    sum_every: int = 1  # iterations from one that is summed to the next, odd; on the scalar engine all are


def pilot_units(task: Task, states: Any) -> tuple[EnergyBins, Quantities]:
    """Run a little, to see where energies and quantities lie; the states are not changed."""
    _, trace = task.engine.run(states, task.schedule, PILOT)
    task.check(trace)
    k = task.schedule.ladder.inverse_temperatures[trace.rung]
    chosen = k >= min(COLD_ENOUGH, float(k.max()))
    values = {name: np.asarray(v, float)[chosen] for name, v in task.values(trace).items()}
    return EnergyBins.around(trace.energy[k == k.max()]), Quantities.like(values, n_leading=1)


def sum_run(task: Task, states: Any, n: int, bins: EnergyBins, quantities: Quantities) -> Summed:
    """Run ``n`` iterations of every chain, or until it is to stop, keeping sums only."""
    stretches = _on_device if task.on_device is not None else _on_host
    rungs: RunningRungs | None = None
    index: IndexSums | None = None
    for stretch in stretches(task, states, n, bins, quantities):
        states = stretch.states
        if rungs is not None and rungs.bins != stretch.rungs.bins:  # energies rose above all that was known
            rungs = regridded(rungs, stretch.rungs.bins, quantities)
        rungs = stretch.rungs if rungs is None else rungs.followed_by(stretch.rungs)
        index = stretch.index if index is None else index.added(stretch.index)
        task.report(stretch.index.n_iterations, "")
        if task.is_to_stop():
            break
    assert rungs is not None
    assert index is not None
    return Summed(states, rungs, index)


def _on_host(task: Task, states: Any, n: int, bins: EnergyBins, quantities: Quantities) -> Iterator[Summed]:
    """Sum up traces, block by block."""
    engine, ladder = task.engine, task.schedule.ladder
    units = engine.n_chains // engine.chains_per_ensemble
    block = min(LONG_BLOCK, DRAWS_AT_ONCE // engine.n_chains, n // -(-BLOCKS // units)) // QUANTUM * QUANTUM
    block = max(block, QUANTUM)
    before, ends = _rungs_of(states, engine), np.zeros(engine.n_chains, np.int8)
    for done in range(0, n, block):
        states, trace = engine.run(states, task.schedule, min(block, -(-(n - done) // QUANTUM) * QUANTUM))
        task.check(trace)
        kept = min(block, n - done)
        short = shortened(trace, kept)
        rungs = RunningRungs.from_draws(
            short.energy, short.rung, task.values(short), ladder.inverse_temperatures, bins=bins,
            quantities=quantities, chains_per_ensemble=engine.chains_per_ensemble,
        )  # fmt: skip
        index, ends = sums_of_trace(short, before, ends, len(ladder))
        before = trace.rung[:, -1]
        yield Summed(states, rungs, index)


def _rungs_of(states: Any, engine: Any) -> NDArray[np.int64]:
    """Return where the chains of the scalar engine are."""
    return np.concatenate([np.atleast_1d(state.rung) for state in states]).astype(np.int64)[: engine.n_chains]


def _on_device(task: Task, states: Any, n: int, bins: EnergyBins, quantities: Quantities) -> Iterator[Summed]:
    """Sum on the device; while one block is being merged here, the next runs there."""
    import jax
    import jax.numpy as jnp

    from tempering.engines import summing
    from tempering.engines.vector import States

    engine, schedule = task.engine, task.schedule
    k = schedule.ladder.inverse_temperatures
    n_leaves = max(1, len(schedule.settings))
    shape = summing.block_shape(engine.n_units, k.size, quantities.size, n_leaves, engine.n_chains, n, task.sum_every)
    block = summing.build_sums_block(engine.step, task.on_device)
    with jax.enable_x64(True):
        path, tilts = engine.path(schedule), jnp.asarray(tilts_of(k))
        stop = states.iteration + n
        ends = jnp.zeros_like(states.unit.rung, dtype=jnp.int8)

    def launch(states: Any, ends: Any, bins: EnergyBins) -> Any:
        kept_in = summing.Units(bins.centre, bins.scale, quantities.centre, quantities.scale)
        with jax.enable_x64(True):
            unit, ends, sums = block(
                states.keys, states.unit, ends, states.iteration, stop, path, kept_in, tilts, shape
            )
        return States(states.keys, unit, states.iteration + shape.n_iterations), ends, sums

    pending = launch(states, ends, bins)
    while pending is not None:
        after, new_ends, sums = pending
        further = launch(after, new_ends, bins) if after.iteration < stop else None
        part = summing.to_host(sums)
        if part.joint[:, -1, 0].any():
            with jax.enable_x64(True):
                bins = _raised(engine, states, path, bins, shape.n_iterations)
            pending = launch(states, ends, bins)
            continue
        task.check(_last_draws(engine, after))
        counted = min(shape.n_iterations, stop - states.iteration)
        totals = Totals(part.joint, part.pooled, part.squares, part.sketch)
        rungs = RunningRungs.of_stretch(k, bins, quantities, totals, part.batch, counted)
        index = IndexSums(part.exchanges, part.moves, int(part.n_round_trips), counted)
        yield Summed(after, rungs, index)
        states, ends, pending = after, new_ends, further


def _last_draws(engine: Any, states: Any) -> Trace:
    """Return where all chains are as a trace of one draw."""
    particles = states.unit[0]
    position = getattr(particles, "position", None)
    if position is None:
        return Trace(np.zeros((engine.n_chains, 1, 1)), None, np.zeros((engine.n_chains, 1), np.int32), None, None)  # type: ignore[arg-type]
    rung = np.asarray(states.unit.rung).reshape(engine.n_chains, 1)
    return Trace(np.asarray(position).reshape(engine.n_chains, 1, -1), None, rung, None, None)  # type: ignore[arg-type]


def _raised(engine: Any, states: Any, path: Any, bins: EnergyBins, n: int) -> EnergyBins:
    """Return bins around the highest energy of a block that left the old ones; refuse one that is not a number."""
    from tempering.engines.scalar import raise_not_finite

    highest, where = _probe(engine.step)(states.keys, states.unit, states.iteration, path, n)
    flat = np.ravel(np.asarray(highest))
    worst = int(np.argmax(np.where(np.isnan(flat), np.inf, flat)))
    if not flat[worst] < np.inf:
        import jax

        lead = np.shape(highest)
        raise_not_finite(
            engine.pieces.positions(
                jax.tree.map(lambda a: np.asarray(a).reshape((-1, *a.shape[len(lead) :]))[worst], where)
            )
        )
    return EnergyBins.around(np.array([flat[worst], flat[worst] - 2 * bins.scale]))


@lru_cache(maxsize=8)
def _probe(step: Any) -> Any:
    """Compile a run that remembers each chain's highest energy and where it was."""
    import jax
    import jax.numpy as jnp

    def probe(keys: Any, units: Any, start: Any, path: Any, n: int) -> Any:
        def once(units: Any, iteration: Any) -> Any:
            now = jax.vmap(lambda key: jax.random.fold_in(key, iteration))(keys)
            return jax.vmap(step, in_axes=(0, 0, None, None, None))(now, units, iteration, path, True)

        def body(carry: Any, iteration: Any) -> Any:
            units, highest, where = carry
            units, (recorded, energy, *_) = once(units, iteration)
            higher = ~(energy <= highest)

            def chosen(new: Any, old: Any) -> Any:
                return jnp.where(higher.reshape(higher.shape + (1,) * (new.ndim - higher.ndim)), new, old)

            return (units, jnp.where(higher, energy, highest), jax.tree.map(chosen, recorded, where)), None

        first, (recorded, energy, *_) = once(units, start)
        (_, highest, where), _ = jax.lax.scan(body, (first, energy, recorded), start + 1 + jnp.arange(n - 1))
        return highest, where

    return jax.jit(probe, static_argnums=4)
