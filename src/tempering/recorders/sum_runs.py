"""Long runs in running sums: stretch after stretch, on either engine, with no draw kept.

A run is cut into parts, blocks of chains that are summed by themselves. A part after any number of iterations is a
function of the part alone, so that it does not matter who goes on with it, where, or how far at a time; a stretch that
takes long is left in the middle and taken up again there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.programs import jitted
from tempering.engines.trace import QUANTUM, Schedule, Trace, joined
from tempering.estimators.regeneration import tour_ends
from tempering.estimators.running.bins import EnergyBins, tilts_of
from tempering.estimators.running.mixed import MixedSums, RungMixture
from tempering.estimators.running.rungs import Quantities, RunningRungs, Totals, moved_to
from tempering.recorders.index_sums import IndexSums, sums_of_trace

PILOT = 4 * QUANTUM  # iterations, run before the rest and again with it: where energies and quantities lie
DRAWS_AT_ONCE = 1 << 18  # of a trace, on the scalar engine
LONGEST = {True: 1 << 16, False: 1 << 12}  # iterations of a stretch on the scalar engine, compiled or not
BLOCKS = 128  # at least, over the chains there are, for standard errors
COLD_ENOUGH = 0.5  # k from which draws say what units the quantities need

Values = Callable[[Trace], dict[str, NDArray[np.float64]]]


@dataclass(frozen=True, eq=False)
class SumPlan:
    """How a run in sums is cut, and the units it sums in: the same for all its parts."""

    n: int  # iterations of each chain
    length: int  # of a stretch
    n_times: int  # stretches that are kept apart, at most; the more groups of chains there are, the fewer
    sizes: tuple[int, ...]  # chains, or ensembles, of each part
    quantities: Quantities
    sum_every: int = 1  # iterations from one that is summed to the next, odd; on the scalar engine all are


@dataclass(frozen=True)
class Task:
    """What it takes to go on with a part: its engine, what is frozen while it runs, and what is summed."""

    engine: Any
    schedule: Schedule
    values: Values  # of a trace, by name, leading axes (chain, draw)
    on_device: Any  # recorded values, leading axis chain -> (chain, component); None on the scalar engine
    check: Callable[[Trace], None]  # refuses chains that run off
    plan: SumPlan
    is_lifted: bool = False  # whether rung moves remember a direction


@dataclass(frozen=True, eq=False)
class Open:
    """A stretch in the middle: where it began, and what came since."""

    states: Any  # at its beginning; on the scalar engine, where states are changed in place, their rungs alone
    ends: Any
    so_far: Any  # running sums on a device, a trace elsewhere
    n: int  # iterations


@dataclass(frozen=True, eq=False)
class Part:
    """A block of chains between two calls: where it is, and its sums so far."""

    states: Any
    ends: Any  # which end of the ladder each chain has seen last
    bins: EnergyBins  # of no use to the sums of two legs
    rungs: RunningRungs | MixedSums | None = None
    index: IndexSums | None = None
    open: Open | None = None

    @property
    def n_summed(self) -> int:
        """Iterations of each chain in whole stretches."""
        return 0 if self.index is None else self.index.n_iterations

    @property
    def n_done(self) -> int:
        """Iterations of each chain that have been made."""
        return self.n_summed + (0 if self.open is None else self.open.n)


def units_seen(trace: Trace, values: dict[str, NDArray[np.float64]], k: Any) -> tuple[EnergyBins, Quantities]:
    """Say where energies and quantities lie, by a short run; ``k`` are the inverse temperatures of its draws."""
    chosen = k >= min(COLD_ENOUGH, float(k.max()))
    found = {name: np.asarray(v, float)[chosen] for name, v in values.items()}
    return EnergyBins.around(trace.terms[..., 0][k == k.max()]), Quantities.like(found, n_leading=1)


def length_of_stretch(n: int, n_units: int, chains: int, *, is_compiled: bool) -> int:
    """Return the iterations of a stretch, of which traces of ``chains`` are held until its end."""
    most = min(LONGEST[is_compiled], DRAWS_AT_ONCE // chains, n // -(-BLOCKS // n_units))
    return max(most // QUANTUM * QUANTUM, QUANTUM)


def first_part(states: Any, bins: EnergyBins) -> Part:
    """Return a part before its first stretch."""
    if isinstance(states, list):
        return Part(states, np.zeros(sum(np.size(state.rung) for state in states), np.int8), bins)
    return Part(states, np.zeros(states.unit.rung.shape, np.int8), bins)


def advance(task: Task, part: Part, n: int) -> Part:
    """Go on by so many iterations, or to the end; on a device they may be a few more.

    States of the scalar engine are changed in place.
    """
    stretches = _by_stretches if _is_summed_at_the_end(task) else _on_device
    for after, sums in stretches(task, part, min(part.n_done + n, task.plan.n)):
        part = _after_stretch(task, part, after, *sums) if sums else replace(after, rungs=part.rungs, index=part.index)
    return part


def _is_summed_at_the_end(task: Task) -> bool:
    """Whether nothing is known of a stretch before its end: all but the sums by energy on a device."""
    return task.on_device is None or task.schedule.path.has_two_legs


def closed(task: Task, part: Part) -> Part:
    """Return a part as if the stretch that it is in the middle of ended here: what a stopped run returns."""
    if part.open is None:
        return part
    if _is_summed_at_the_end(task):
        return _after_stretch(task, part, part, *_summing(task).close(part.open, part.bins)[0])
    *_, sums = _Device(task, part).launch(part, part.n_done)
    return _after_stretch(task, part, part, *_of_stretch(task, part.bins, sums, part.open.n))


def _after_stretch(task: Task, part: Part, after: Part, rungs: Any, index: IndexSums) -> Part:
    before: Any = part.rungs
    if isinstance(before, RunningRungs):  # energies may have risen above all that was known
        before = moved_to(before, rungs.bins, task.plan.quantities)
    sums = rungs if before is None else before.followed_by(rungs, task.plan.n_times)
    counted = index if part.index is None else part.index.added(index)
    return Part(after.states, after.ends, getattr(rungs, "bins", part.bins), sums, counted)


Sums = tuple[Any, IndexSums]
Stretch = tuple[Part, Sums | None]  # where chains are after it, and its own sums if it has come to its end


def _by_stretches(task: Task, part: Part, goal: int) -> Iterator[Stretch]:
    """Run, and sum up each stretch when it has come to its end."""
    plan, summing = task.plan, _summing(task)
    states, ends, opened, summed = part.states, part.ends, part.open, part.n_summed
    while summed + (0 if opened is None else opened.n) < goal:
        if opened is None:
            opened = Open(_rungs_of(states), ends, None, 0)
        length = min(plan.length, plan.n - summed)
        n = min(length, goal - summed) - opened.n
        states, so_far = summing.add(states, opened, n)
        opened = replace(opened, so_far=so_far, n=opened.n + n)
        if opened.n < length:
            yield Part(states, ends, part.bins, open=opened), None
            return
        sums, ends = summing.close(opened, part.bins)
        yield Part(states, ends, part.bins), sums
        summed, opened = summed + length, None


class _Summing(Protocol):
    """Makes the sums of a stretch."""

    def add(self, states: Any, opened: Open, n: int) -> tuple[Any, Any]:
        """Advance by ``n`` iterations; return the states after them, and what there is of the stretch."""

    def close(self, opened: Open, bins: EnergyBins) -> tuple[Sums, Any]:
        """Return the sums of a stretch at its end, and which end each chain has seen last."""


def _summing(task: Task) -> _Summing:
    return _OfTraces(task) if task.on_device is None else _OfBlocksOnDevice(task)


@dataclass(frozen=True)
class _OfTraces:
    """Keeps the trace of a stretch, and sums it in NumPy."""

    task: Task

    def add(self, states: Any, opened: Open, n: int) -> tuple[Any, Trace]:
        task = self.task
        states, trace = task.engine.run(states, task.schedule, n)
        task.check(trace)
        return states, trace if opened.so_far is None else joined([opened.so_far, trace])

    def close(self, opened: Open, bins: EnergyBins) -> tuple[Sums, Any]:
        task, trace, path = self.task, opened.so_far, self.task.schedule.path
        kept_in: Any = {"quantities": task.plan.quantities, "n_parts": len(task.plan.sizes)}
        if path.has_two_legs:
            mixture = RungMixture(path.coefficients, task.schedule.log_pseudo_prior, path.target)
            ends = tour_ends(trace.rung, trace.proposed, opened.states, path.ends, is_lifted=task.is_lifted)
            rungs: Any = MixedSums.from_draws(
                trace.terms, trace.rung, task.values(trace), mixture, ends=ends, **kept_in
            )
        else:
            rungs = RunningRungs.from_draws(
                trace.terms[..., 0], trace.rung, task.values(trace), task.schedule.ladder.inverse_temperatures,
                bins=bins, chains_per_ensemble=task.engine.chains_per_ensemble, **kept_in,
            )  # fmt: skip
        index, seen = sums_of_trace(trace, opened.states, opened.ends, path)
        return (rungs, index), seen


@dataclass(frozen=True)
class _OfBlocksOnDevice:
    """Sums two legs block by block, on the device where the draws are."""

    task: Task

    def add(self, states: Any, opened: Open, n: int) -> tuple[Any, Any]:
        import jax

        from tempering.recorders import mixed_on_device as mixed

        task, begun = self.task, states
        schedule, of, n_parts = task.schedule, task.plan.quantities, len(task.plan.sizes)
        so_far = mixed.nothing_yet(opened.ends, schedule, of, n_parts) if opened.so_far is None else opened.so_far
        known, add = mixed.Known.of(schedule, of), mixed.build_add(task.on_device, is_lifted=task.is_lifted)
        try:
            with jax.enable_x64(True):
                for after, outputs, made in task.engine.blocks(states, schedule, n):
                    so_far = add(so_far, outputs, states.unit.rung, made, known)
                    states = after
                jax.block_until_ready(so_far)  # type: ignore[no-untyped-call]
        except jax.errors.JaxRuntimeError:
            task.engine.run(begun, schedule, n)  # this says in which chain it was, and where
            raise
        task.check(_last_draws(task.engine, states))
        return states, so_far

    def close(self, opened: Open, bins: EnergyBins) -> tuple[Sums, Any]:
        from tempering.recorders import mixed_on_device as mixed

        sums = mixed.sums_of(opened.so_far, opened.n, self.task.schedule, self.task.plan.quantities)
        return sums, np.asarray(opened.so_far.seen)


def _rungs_of(states: Any) -> NDArray[np.int64]:
    """Return the rung of every chain."""
    found = [np.ravel(state.rung) for state in states] if isinstance(states, list) else [np.ravel(states.unit.rung)]
    return np.concatenate(found).astype(np.int64)


def _on_device(task: Task, part: Part, goal: int) -> Iterator[Stretch]:
    """Sum on the device; while one stretch is being added here, the next runs there."""
    import jax

    from tempering.recorders import summing

    device, plan = _Device(task, part), task.plan
    summed, bins = part.n_summed, part.bins
    try:
        pending = device.launch(part, goal) if part.n_done < goal else None
        while pending is not None:
            after, sums = pending
            assert after.open is not None
            n = after.open.n
            is_whole, then = n == min(plan.length, plan.n - summed), summed + n
            further = (
                device.launch(Part(after.states, after.ends, bins), goal, then) if is_whole and then < goal else None
            )
            found = summing.to_host(sums)
            if not is_whole:
                yield after, None
                return
            if found.joint[:, -1, 0].any():
                bins = _raised(task.engine, after.open, device.line, bins)
                part = Part(after.open.states, after.open.ends, bins)
                pending = device.launch(part, goal, summed)
                continue
            task.check(_last_draws(task.engine, after.states))
            part = Part(after.states, after.ends, bins)
            yield part, _of_stretch(task, bins, found, n)
            summed, pending = then, further
    except jax.errors.JaxRuntimeError:
        begun = part.open or part
        task.engine.run(begun.states, task.schedule, 2 * plan.length)  # this says in which chain it was, and where
        raise


class _Device:
    """Launches what is left of a stretch, or as much of it as is wanted."""

    def __init__(self, task: Task, part: Part) -> None:
        import jax

        from tempering.recorders import summing

        engine, schedule, plan = task.engine, task.schedule, task.plan
        k = schedule.ladder.inverse_temperatures
        self._shape = summing.block_shape(
            engine.n_units, k.size, task.plan.quantities.size, max(1, len(schedule.settings)), engine.n_chains, 0,
            plan.sum_every, len(plan.sizes),
        )  # fmt: skip
        self._block = summing.build_sums_block(engine.step, task.on_device)
        self._plan = plan
        self._stop = part.states.iteration + plan.n - part.n_done
        with jax.enable_x64(True):
            self.line, self._tilts = engine.line(schedule), tilts_of(k)

    def launch(self, part: Part, goal: int, summed: int | None = None) -> tuple[Part, Any]:
        """Return the part after it, in the middle of the stretch or at its end, and the sums of the stretch so far."""
        import jax

        from tempering.engines.vector import States
        from tempering.recorders import summing

        summed, states = part.n_summed if summed is None else summed, part.states
        begun = part.open or Open(states, part.ends, summing.nothing_yet(self._shape, part.ends), 0)
        plan, of = self._plan, self._plan.quantities
        length = min(plan.length, plan.n - summed)
        n_times = -(-(min(length, goal - summed) - begun.n) // self._shape.every)
        units = summing.Units(part.bins.centre, part.bins.scale, of.centre, of.scale, self._tilts)
        span = (states.iteration, n_times, self._stop)
        with jax.enable_x64(True):
            unit, ends, so_far, sums = self._block(
                states.keys, states.unit, part.ends, span, self.line, units, begun.so_far, self._shape
            )
        made = n_times * self._shape.every
        opened = Open(begun.states, begun.ends, so_far, min(length, begun.n + made))
        return Part(States(states.keys, unit, states.iteration + made), ends, part.bins, open=opened), sums


def _of_stretch(task: Task, bins: EnergyBins, sums: Any, n: int) -> Sums:
    """Return the sums of a stretch of ``n`` iterations as they are added to a part's."""
    from tempering.recorders import summing

    found, k = summing.to_host(sums), task.schedule.ladder.inverse_temperatures
    totals = Totals(found.joint, found.pooled, found.squares, found.sketch)
    rungs = RunningRungs.of_stretch(k, bins, task.plan.quantities, totals, found.batch, n)
    return rungs, IndexSums(found.exchanges, found.moves, int(found.n_round_trips), n)


def _last_draws(engine: Any, states: Any) -> Trace:
    """Return where all chains are as a trace of one draw."""
    particles = states.unit[0]
    position = getattr(particles, "position", None)
    if position is None:
        return Trace(np.zeros((engine.n_chains, 1, 1)), None, np.zeros((engine.n_chains, 1), np.int32), None, None)  # type: ignore[arg-type]
    rung = np.asarray(states.unit.rung).reshape(engine.n_chains, 1)
    return Trace(np.asarray(position).reshape(engine.n_chains, 1, -1), None, rung, None, None)  # type: ignore[arg-type]


def _raised(engine: Any, opened: Open, line: Any, bins: EnergyBins) -> EnergyBins:
    """Return bins around the highest energy of a stretch that left the old ones; refuse one that is not a number."""
    highest = float(np.max(np.asarray(opened.so_far.highest)))  # NaN if any is
    if not highest < np.inf:
        _tell_where_not_finite(engine, opened, line)
    return EnergyBins.around(np.array([highest, highest - 2 * bins.scale]))


def _tell_where_not_finite(engine: Any, opened: Open, line: Any) -> None:
    """Run a stretch again to see where the energy of a model is infinite, or no number."""
    import jax

    from tempering.engines.scalar_pieces import raise_not_finite

    states = opened.states
    with jax.enable_x64(True):
        highest, where = _probe(engine.step)(states.keys, states.unit, states.iteration, line, opened.n)
    flat = np.ravel(np.asarray(highest))
    worst = int(np.argmax(np.where(np.isnan(flat), np.inf, flat)))
    lead = len(np.shape(highest))
    raise_not_finite(
        engine.pieces.positions(jax.tree.map(lambda a: np.asarray(a).reshape((-1, *a.shape[lead:]))[worst], where))
    )


@lru_cache(maxsize=8)
def _probe(step: Any) -> Any:
    """Compile a run that remembers each chain's highest energy and where it was."""
    import jax
    import jax.numpy as jnp

    def probe(keys: Any, units: Any, start: Any, path: Any, n: int) -> Any:
        def once(units: Any, iteration: Any) -> Any:
            return jax.vmap(step, in_axes=(0, 0, None, None, None))(keys, units, iteration, path, True)

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
