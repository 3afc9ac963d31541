"""Long runs in running sums: stretch after stretch, on either engine, with no draw kept.

A run is cut into parts, blocks of chains that are summed by themselves. A part after any number of stretches is a
function of the part alone, so that it does not matter who goes on with it, where, or how far at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.programs import jitted
from tempering.engines.trace import LONG_BLOCK, QUANTUM, Schedule, Trace, shortened
from tempering.estimators.running.bins import EnergyBins, tilts_of
from tempering.estimators.running.regrid import regridded
from tempering.estimators.running.rungs import Quantities, RunningRungs, Totals
from tempering.recorders.index_sums import IndexSums, sums_of_trace

PILOT = 4 * QUANTUM  # iterations, run before the rest and again with it: where energies and quantities lie
DRAWS_AT_ONCE = 1 << 18  # of a trace, on the scalar engine
LONGEST = {True: 1 << 16, False: LONG_BLOCK}  # iterations of a stretch on the scalar engine, compiled or not
BLOCKS = 128  # at least, over the chains there are, for standard errors
COLD_ENOUGH = 0.5  # k from which draws say what units the quantities need

Values = Callable[[Trace], dict[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Course:
    """How a run in sums goes on: the same for all its parts."""

    n: int  # iterations of each chain
    length: int  # of a stretch
    n_times: int  # stretches that are kept apart, at most; the more groups of chains there are, the fewer
    n_parts: int = 1
    sum_every: int = 1  # iterations from one that is summed to the next, odd; on the scalar engine all are


@dataclass(frozen=True)
class Task:
    """What it takes to go on with a part: its engine, what is frozen while it runs, and what is summed."""

    engine: Any
    schedule: Schedule
    values: Values  # of a trace, by name, leading axes (chain, draw)
    on_device: Any  # recorded values, leading axis chain -> (chain, component); None on the scalar engine
    check: Callable[[Trace], None]  # refuses chains that run off
    quantities: Quantities
    course: Course


@dataclass(frozen=True, eq=False)
class Part:
    """A block of chains between two stretches: where it is, and its sums so far."""

    states: Any
    ends: Any  # which end of the ladder each chain has seen last
    bins: EnergyBins
    rungs: RunningRungs | None = None
    index: IndexSums | None = None

    @property
    def n_done(self) -> int:
        """Iterations of each chain that have been summed."""
        return 0 if self.index is None else self.index.n_iterations


def units_seen(trace: Trace, values: dict[str, NDArray[np.float64]], k: Any) -> tuple[EnergyBins, Quantities]:
    """Say where energies and quantities lie, by a short run; ``k`` are the inverse temperatures of its draws."""
    chosen = k >= min(COLD_ENOUGH, float(k.max()))
    found = {name: np.asarray(v, float)[chosen] for name, v in values.items()}
    return EnergyBins.around(trace.terms[..., 0][k == k.max()]), Quantities.like(found, n_leading=1)


def length_on_host(n: int, n_units: int, chains: int, *, is_compiled: bool) -> int:
    """Return the iterations of a stretch on the scalar engine, ``chains`` of which are summed at once."""
    most = min(LONGEST[is_compiled], DRAWS_AT_ONCE // chains, n // -(-BLOCKS // n_units))
    return max(most // QUANTUM * QUANTUM, QUANTUM)


def first_part(states: Any, bins: EnergyBins) -> Part:
    """Return a part before its first stretch."""
    if isinstance(states, list):
        return Part(states, np.zeros(sum(np.size(state.rung) for state in states), np.int8), bins)
    return Part(states, np.zeros(states.unit.rung.shape, np.int8), bins)


def advance(task: Task, part: Part, n_stretches: int) -> Part:
    """Go on by so many stretches, or to the end. States of the scalar engine are changed in place."""
    stretches = _on_device if task.on_device is not None else _on_host
    for after, rungs, index in stretches(task, part, n_stretches):
        before, bins = part.rungs, rungs.bins
        if before is not None and before.bins != bins:  # energies rose above all that was known
            before = regridded(before, bins, task.quantities)
        sums = rungs if before is None else before.followed_by(rungs, task.course.n_times)
        counted = index if part.index is None else part.index.added(index)
        part = Part(after.states, after.ends, bins, sums, counted)
    return part


Stretch = tuple[Part, RunningRungs, IndexSums]  # where chains are after it, and its own sums


def _on_host(task: Task, part: Part, n_stretches: int) -> Iterator[Stretch]:
    """Sum up traces."""
    engine, ladder, course = task.engine, task.schedule.ladder, task.course
    states, ends = part.states, part.ends
    for done in islice(range(part.n_done, course.n, course.length), n_stretches):
        before = np.concatenate([np.atleast_1d(state.rung) for state in states]).astype(np.int64)
        kept = min(course.length, course.n - done)
        states, trace = engine.run(states, task.schedule, -(-kept // QUANTUM) * QUANTUM)
        task.check(trace)
        short = shortened(trace, kept)
        rungs = RunningRungs.from_draws(
            short.terms[..., 0], short.rung, task.values(short), ladder.inverse_temperatures, bins=part.bins,
            quantities=task.quantities, chains_per_ensemble=engine.chains_per_ensemble, n_parts=course.n_parts,
        )  # fmt: skip
        index, ends = sums_of_trace(short, before, ends, len(ladder))
        yield Part(states, ends, part.bins), rungs, index


def _on_device(task: Task, part: Part, n_stretches: int) -> Iterator[Stretch]:
    """Sum on the device; while one stretch is being added here, the next runs there."""
    import jax

    from tempering.engines.vector import States
    from tempering.recorders import summing

    engine, schedule, quantities, course = task.engine, task.schedule, task.quantities, task.course
    k = schedule.ladder.inverse_temperatures
    shape = summing.block_shape(
        engine.n_units, k.size, quantities.size, max(1, len(schedule.settings)), engine.n_chains, course.length,
        course.sum_every, course.n_parts,
    )  # fmt: skip
    block = summing.build_sums_block(engine.step, task.on_device)
    states, ends, bins = part.states, part.ends, part.bins
    stop = states.iteration + course.n - part.n_done
    last = min(stop, states.iteration + n_stretches * course.length)
    with jax.enable_x64(True):
        path, tilts = engine.line(schedule), tilts_of(k)

    def launch(states: Any, ends: Any, bins: EnergyBins) -> Any:
        kept_in = summing.Units(bins.centre, bins.scale, quantities.centre, quantities.scale)
        with jax.enable_x64(True):
            unit, ends, sums = block(
                states.keys, states.unit, ends, states.iteration, stop, path, kept_in, tilts, shape
            )
        return States(states.keys, unit, states.iteration + course.length), ends, sums

    pending = launch(states, ends, bins) if states.iteration < last else None
    while pending is not None:
        after, new_ends, sums = pending
        further = launch(after, new_ends, bins) if after.iteration < last else None
        found = summing.to_host(sums)
        if found.joint[:, -1, 0].any():
            with jax.enable_x64(True):
                bins = _raised(engine, states, path, bins, course.length)
            pending = launch(states, ends, bins)
            continue
        task.check(_last_draws(engine, after))
        counted = min(course.length, stop - states.iteration)
        totals = Totals(found.joint, found.pooled, found.squares, found.sketch)
        rungs = RunningRungs.of_stretch(k, bins, quantities, totals, found.batch, counted)
        index = IndexSums(found.exchanges, found.moves, int(found.n_round_trips), counted)
        yield Part(after, new_ends, bins), rungs, index
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
    from tempering.engines.scalar_pieces import raise_not_finite

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
            units, (recorded, terms, *_) = once(units, iteration)
            energy = terms[..., 0]
            higher = ~(energy <= highest)

            def chosen(new: Any, old: Any) -> Any:
                return jnp.where(higher.reshape(higher.shape + (1,) * (new.ndim - higher.ndim)), new, old)

            return (units, jnp.where(higher, energy, highest), jax.tree.map(chosen, recorded, where)), None

        first, (recorded, terms, *_) = once(units, start)
        energy = terms[..., 0]
        (_, highest, where), _ = jax.lax.scan(body, (first, energy, recorded), start + 1 + jnp.arange(n - 1))
        return highest, where

    return jitted(probe, static_argnums=4)
