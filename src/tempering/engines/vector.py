"""The vector engine: chains in lockstep under `jax.vmap`, inside one compiled loop.

Double precision by a context of its own: the user's JAX configuration is not touched. A chain's stream is a
function of the seed, its index and the iteration: neither the number of chains nor the blocks change it. The loop's
length is an argument, so that a run may be cut anywhere, by the clock, and is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tempering.compiling.devices import platform_in_use
from tempering.compiling.programs import jitted
from tempering.engines.answers import answers_of
from tempering.engines.callbacks import count_calls, failure
from tempering.engines.densities import functions_of
from tempering.engines.reference_arrays import arrays_of
from tempering.engines.scalar_pieces import check_start, raise_not_finite
from tempering.engines.stopping import TERMINATED
from tempering.engines.streams import child, key_of, keys_of, words_of
from tempering.engines.told import function_error
from tempering.engines.trace import Model, Places, Rungs, Schedule, Trace
from tempering.errors import FunctionError, SamplerError
from tempering.io.encoding import decode, encode
from tempering.kernels import vector
from tempering.path import Path
from tempering.rungs import lockstep
from tempering.target import Target
from tempering.target.checks import N_DRAWS, draws_by_key, mapped, own_names
from tempering.target.layout import Layout

STARTING_STREAM, RUNNING_STREAM = 0, 1
SIGNALS = (
    "AbandonedBlock",
    "KeyboardInterrupt",
    f"SystemExit: {TERMINATED}",
)  # where JAX was calling back
PADDED_TO = 64  # ladders are padded to multiples of it, so that tuning their length compiles nothing anew
MOST_ROWS = 256  # iterations of a block: calling it takes as long as a few of cheap chains
MOST_BYTES = {"cpu": 1 << 22, "device": 1 << 26}  # of its outputs: a cache, or what a call of an accelerator is worth


@dataclass(frozen=True)
class Pieces:
    """One chain's moves: what the engine maps over chains."""

    start: Callable[[Any, Any], Any]  # (keys, one a chain, path) -> particles, stacked
    move: Callable[..., Any]  # (key, particle, rung, settings, references)
    terms: Callable[[Any], Any]
    record: Callable[[Any], Any]
    positions: Callable[[Any], Any]  # recorded values -> by name
    is_light: bool = False  # to run: a loop of them is compiled in less time


Unit = lockstep.Chain | lockstep.Ensemble  # with a leading axis


class States(NamedTuple):
    """All chains between two blocks."""

    keys: Any
    unit: Any  # lockstep.Chain or lockstep.Ensemble, with a leading axis
    iteration: int


class VectorEngine:
    """Run all chains together; see `tempering.engines.trace.Engine` for the contract."""

    def __init__(
        self,
        pieces: Pieces,
        method: str,
        rung_moves: str,
        seed: int,
        n_chains: int,
        n_rungs: int,
        devices: Sequence[jax.Device] | None = None,
    ) -> None:
        self.name = f"vector (JAX, {platform_in_use()})"
        self.pieces = pieces
        self._is_parallel = method == "parallel"
        self.chains_per_ensemble = n_rungs if self._is_parallel else 1
        self.n_units = n_chains
        self.n_chains = n_chains * self.chains_per_ensemble
        self._how = (method, rung_moves, seed)
        self._sharding = None if devices is None else sharding_of(devices, n_chains)
        self.run_by = ""  # the run whose chains these are, as which iterations are kept that take long
        self.step = build_step(pieces, method, rung_moves)
        self._block = _build_block(self.step, pieces.is_light)

    def start(self, path: Path) -> States:
        """Evaluate the starting points; every chain starts on the target's rung, every ensemble on its own."""
        with jax.enable_x64(True):
            keys = keys_of(self._how[2], STARTING_STREAM, self.n_chains)
            particles = self.pieces.start(keys, path)
            return self.placed(States(self._keys(), self._units(particles, path), 0))

    def _keys(self) -> Any:
        return keys_of(self._how[2], RUNNING_STREAM, self.n_units)

    def placed(self, states: States) -> States:
        """Put states on the devices of this engine, where it was given any."""
        if self._sharding is None:
            return states
        keys, unit = jax.device_put((states.keys, states.unit), self._sharding)
        return States(keys, unit, states.iteration)

    def widened(
        self, states: States, n_units: int, devices: Sequence[jax.Device] | None = None
    ) -> tuple[VectorEngine, States]:
        """Return an engine of more chains, which start from copies of these states with streams of their own."""
        engine = VectorEngine(self.pieces, *self._how, n_units, self.chains_per_ensemble, devices)
        with jax.enable_x64(True):
            of = np.arange(n_units) % self.n_units
            unit = jax.tree.map(lambda part: jax.device_put(np.asarray(part)[of]), states.unit)
            return engine, engine.placed(States(engine._keys(), unit, states.iteration))

    def _units(self, particles: vector.Particle, path: Path) -> Any:
        n, n_rungs = self.n_units, len(path)
        if not self._is_parallel:
            rungs = np.full(n, path.target, np.int32), np.ones(n, np.int32)
            return lockstep.Chain(particles, *jax.device_put(rungs))
        rows = jax.tree.map(lambda a: a.reshape((n, n_rungs, *a.shape[1:])), particles)
        return lockstep.Ensemble(rows, jax.device_put(np.tile(np.arange(n_rungs, dtype=np.int32), (n, 1))))

    def run(self, states: States, schedule: Schedule, n: int, *, moving: bool = True) -> tuple[States, Trace]:
        """Advance all chains by ``n`` iterations, however many: all lengths are one program."""
        rows, blocks = _rows_of(states.unit), []
        with jax.enable_x64(True):
            line = self.line(schedule)
            for done in range(0, n, rows):
                try:
                    if n == 1:
                        states, outputs = self._iterated(states, line, moving)
                    else:
                        states, outputs = self._run_block(states, min(rows, n - done), line, moving)
                except (jax.errors.JaxRuntimeError, ValueError) as error:  # as JAX comes to know of it
                    if any(name in str(error) for name in SIGNALS):
                        raise
                    raise self._located(error, states, min(rows, n - done), line, moving) from error
                blocks.append(outputs)
        trace = Trace(*jax.tree.map(self._to_chains, *blocks))
        if np.max(trace.terms) == np.inf:  # of a user's model, which went there by itself
            chain, draw, _ = np.argwhere(trace.terms == np.inf)[0]
            raise_not_finite(self.pieces.positions(jax.tree.map(lambda a: a[chain, draw], trace.values)))
        return states, trace

    def blocks(self, states: States, schedule: Schedule, n: int) -> Iterator[tuple[States, Any, int]]:
        """Advance all chains; yield states after each block, its outputs where they are, and how many rows count."""
        rows = _rows_of(states.unit)
        line = self.line(schedule)
        for done in range(0, n, rows):
            made = min(rows, n - done)
            with jax.enable_x64(True):
                unit, outputs = self._block(states.keys, states.unit, states.iteration, made, line, True, rows)
            states = States(states.keys, unit, states.iteration + made)
            yield states, outputs, made

    def _run_block(self, states: States, n: int, line: lockstep.Line, moving: bool) -> tuple[States, Any]:
        """Run a block of at most as many iterations as it has room for; return the outputs in NumPy."""
        rows = _rows_of(states.unit)
        unit, outputs = self._block(states.keys, states.unit, states.iteration, n, line, moving, rows)
        made = jax.tree.map(lambda part: np.asarray(part)[:n], outputs)
        return States(states.keys, unit, states.iteration + n), made

    def _iterated(self, states: States, line: lockstep.Line, moving: bool) -> tuple[States, Any]:
        """Run one iteration, or find it among the answers from before a kill: alone are those that take long."""
        answers = answers_of(self.run_by)
        if answers is None:
            return self._run_block(states, 1, line, moving)
        given = jax.tree.leaves((words_of(states.keys), states.unit, states.iteration, line, moving))
        call = answers.begun("iteration", tuple(map(np.asarray, given)))
        if call.known is not None:
            unit, outputs = decode(call.known)
            return self.placed(States(states.keys, unit, states.iteration + 1)), outputs
        after, outputs = self._run_block(states, 1, line, moving)
        with suppress(SamplerError):  # a state that is no data
            answers.ended(call, encode((after.unit, outputs)))
        return after, outputs

    def _located(self, error: Exception, states: States, n: int, line: lockstep.Line, moving: bool) -> Exception:
        """Return an error that says which chain of a block raised another one, in a call back to Python, and where.

        The block is run again up to the iteration that fails, and this one chain by chain, operation by operation.
        """
        if "allback" not in str(error):
            return error
        try:
            for _ in range(n):
                states, _ = self._run_block(states, 1, line, moving)
        except (jax.errors.JaxRuntimeError, ValueError):
            line, iteration = jax.device_put(line), states.iteration
            for i in range(self.n_units):
                own = jax.tree.map(lambda part: part[i], states.unit)  # noqa: B023
                count_calls()
                try:
                    with jax.disable_jit():
                        self.step(states.keys[i], own, iteration, line, moving)
                except (Exception, SystemExit) as cause:
                    failed, n = failure(), self.chains_per_ensemble
                    chain = i * n + (0 if failed is None else failed.lane(n))
                    told = function_error(cause, chain, None, self.pieces.positions)
                    told.position = failed.position if told.position is None and failed is not None else told.position
                    return told
        last = str(error).strip().splitlines()[-1]
        return FunctionError(f"an error that did not come again when the block was repeated ({last})")

    def line(self, schedule: Schedule) -> lockstep.Line:
        """Return the schedule as arrays, padded so that paths of several lengths share compiled code."""
        path = schedule.path
        m = len(path.coefficients)
        padding = 0 if self._is_parallel else -m % PADDED_TO  # an ensemble's size is in its shape anyway

        def padded(a: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([a, np.repeat(a[-1:], padding, axis=0)])

        parts = (path.coefficients, path.sources, schedule.log_pseudo_prior, schedule.settings)
        coefficients, sources, log_p, settings = jax.tree.map(padded, parts)
        n_rungs = None if self._is_parallel else m
        return lockstep.Line(coefficients, sources, log_p, settings, n_rungs, _references(path), schedule.local_every)

    def on_rung(self, states: States, rung: Rungs, places: Places | None = None) -> States:
        """Put every chain on a rung: one for all, or one each; at other ``places``, perhaps."""
        unit = states.unit
        with jax.enable_x64(True):
            rungs = np.array(np.broadcast_to(np.asarray(rung, np.int32), unit.rung.shape))
            if places is not None:
                at, terms = jax.device_put((np.asarray(places.values, float), np.asarray(places.terms, float)))
                unit = unit._replace(particle=unit.particle._replace(position=at, terms=terms))
            return states._replace(unit=unit._replace(rung=jax.device_put(rungs)))

    def n_invalid(self, states: States) -> int:
        """Return how often a log density was NaN or +inf so far."""
        unit = states.unit
        particles = unit.particles if self._is_parallel else unit.particle
        return int(np.sum(np.asarray(particles.n_invalid))) if isinstance(particles, vector.Particle) else 0

    def positions(self, trace: Trace) -> Any:
        """Return the recorded values by name."""
        return self.pieces.positions(trace.values)

    def _to_chains(self, *blocks: Any) -> NDArray[Any]:
        """Join blocks of (draw, unit[, replica], ...) to (chain, draw, ...) in NumPy."""
        joined = np.concatenate(blocks)
        array = np.moveaxis(joined, 0, 2 if self._is_parallel else 1)
        return array.reshape((self.n_chains, *array.shape[2:])) if self._is_parallel else array


def _references(path: Path) -> Any:
    """Return the arrays of all references; that of a quick leg is fitted again and again, and has one shape."""
    last = len(path.references) - 1
    return tuple(
        arrays_of(reference, is_fitted=len(path.legs) > 1 and i == last) for i, reference in enumerate(path.references)
    )


def sharding_of(devices: Sequence[Any], n_units: int) -> Any:
    """Return how chains are spread over devices: an equal number each."""
    devices = list(devices)
    if not devices or n_units % len(devices):
        raise SamplerError(
            f"Chains are spread evenly over devices, so that their number must be a multiple of that of the devices, "
            f"but there are {n_units} chains and {len(devices)} devices. Pass "
            f"chains={_rounded_up(n_units, len(devices))}."
        )
    mesh = jax.sharding.Mesh(np.array(devices), ("chains",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("chains"))  # type: ignore[no-untyped-call]


def _rounded_up(n: int, multiple: int) -> int:
    return -(-n // max(multiple, 1)) * max(multiple, 1)


@lru_cache(maxsize=64)
def build_step(pieces: Pieces, method: str, rung_moves: str) -> Any:
    """Build one chain's (or ensemble's) step, once per (target, kernel, method)."""
    build = lockstep.build_parallel_step if method == "parallel" else lockstep.build_simulated_step
    return build(pieces.move, pieces.terms, pieces.record, rung_moves)


def _rows_of(unit: Unit) -> int:
    """Return how many iterations a block has room for, by what the chains take up."""
    taken = 16 * sum(leaf.size for leaf in jax.tree.leaves(unit))
    most = MOST_BYTES["cpu" if platform_in_use() == "cpu" else "device"]
    return int(np.clip(most // taken, 1, MOST_ROWS))


@lru_cache(maxsize=64)
def _build_block(step: Callable[..., Any], is_light: bool) -> Any:
    """Compile once per step: a second run of the same target starts at once."""

    def block(
        keys: jax.Array, units: Unit, start: jax.Array, n: jax.Array, line: lockstep.Line, moving: jax.Array, rows: int
    ) -> Any:
        @partial(jax.jit, inline=True)  # so that it is traced once, for the shapes of its outputs and for the loop
        def once(units: Unit, iteration: jax.Array) -> Any:
            return jax.vmap(step, in_axes=(0, 0, None, None, None))(keys, units, iteration, line, moving)

        def body(i: jax.Array, carry: tuple[Unit, Any]) -> Any:
            units, outputs = carry
            units, made = once(units, start + i)
            return units, jax.tree.map(
                lambda row, rows: jax.lax.dynamic_update_index_in_dim(rows, row, i, 0), made, outputs
            )

        start = jnp.asarray(start, jnp.int64)  # as it is in the loop
        room = jax.tree.map(lambda a: jnp.zeros((rows, *a.shape), a.dtype), jax.eval_shape(once, units, start)[1])
        return jax.lax.fori_loop(0, n, body, (units, room))

    return jitted(block, static_argnums=6, is_light=is_light)


def target_pieces(
    target: Target, kernel: Any, layout: Layout, starts: Sequence[Any], *, is_light: bool = False
) -> Pieces:
    """Make the pieces for a log density and a kernel."""
    functions = functions_of(target, kernel, layout)

    def start(keys: jax.Array, path: Path) -> vector.Particle:
        points = _starting_points(target, layout, starts, keys)
        own = np.column_stack([np.asarray(part, float) for part in mapped(target, own_names(target), layout)(points)])
        own[own[:, -1] == -np.inf] = -np.inf  # where the base ends
        invalid = np.isnan(own) | (own == np.inf)
        terms = path.with_reference_terms(points, np.where(invalid, -np.inf, own))
        bad = np.flatnonzero((terms == -np.inf).any(axis=1))
        if bad.size:
            check_start(layout.unflatten(points[bad[0]]), is_number=not invalid[bad[0]].any())
        return vector.Particle(*jax.device_put((points, terms, invalid.any(axis=1).astype(np.int32))))

    return _KeptPieces(start, functions.move, _particle_terms, _particle_position, layout.named, is_light)


@dataclass(frozen=True)
class _KeptPieces(Pieces):
    """Pieces told apart by their move alone, so that compiled blocks are found again."""

    def __hash__(self) -> int:
        return hash(self.move)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KeptPieces) and self.move is other.move


def _starting_points(target: Target, layout: Layout, starts: Sequence[Any], keys: jax.Array) -> NDArray[np.float64]:
    """Return the flat starting points of all chains: the user's, in turn, or drawn from the prior."""
    if starts:
        rows = np.stack([np.asarray(layout.flatten(position), float) for position in starts])
        return np.asarray(rows[np.arange(len(keys)) % len(rows)])
    assert target.sample_base is not None
    words, n = words_of(keys), max(len(keys), N_DRAWS)  # of as many keys as checks it is a program known already
    drawn = jax.tree.leaves(draws_by_key(target.sample_base)(key_of(np.resize(words, (n, 2)))))
    return np.concatenate([np.asarray(leaf, float).reshape(n, -1) for leaf in drawn], axis=1)[: len(keys)]


def _particle_terms(particle: vector.Particle) -> Any:
    return particle.terms


def _particle_position(particle: vector.Particle) -> Any:
    return particle.position


def model_pieces(model: Model) -> Pieces:
    """Make the pieces for a user's model written in JAX."""
    return _model_pieces(model)


@lru_cache(maxsize=16)
def _model_pieces(model: Model) -> Pieces:
    redraw = getattr(model, "sample_reference", None)

    def move(key: jax.Array, state: object, rung: vector.Rung, settings: object, references: object) -> tuple[Any, Any]:
        k = rung.coefficients[0]
        moved = model.step(key, state, k)
        if redraw is not None:
            fresh = redraw(jax.random.fold_in(key, 0))
            moved = jax.tree.map(lambda a, b: jnp.where(k == 0.0, a, b), fresh, moved)
        return moved, jnp.full(1, jnp.nan, jnp.float32)

    def terms(state: object) -> Any:
        energy = jnp.asarray(model.energy(state), float)
        return jnp.where(jnp.isnan(energy), jnp.inf, energy)[None]

    def record(state: object) -> Any:
        recorded = model.record(state)
        return recorded if isinstance(recorded, dict) else {"x": recorded}

    start = jitted(jax.vmap(model.initial), is_brief=True)
    return Pieces(lambda keys, path: start(keys), move, terms, record, lambda values: values)


def traces(target: Target, layout: Layout, position: object) -> bool:
    """Whether JAX can trace the target's functions at a position, and draw from its base."""
    with jax.enable_x64(True):
        example = np.asarray(layout.flatten(position))
        try:
            for function in (target.base, target.energy):
                if function is not None:
                    jax.eval_shape(layout.on_flat(function), example)
            if target.sample_base is not None:
                jax.eval_shape(target.sample_base, child(0, STARTING_STREAM))
        except Exception:  # whatever JAX or the user's function says, it is not traceable
            return False
    return True
