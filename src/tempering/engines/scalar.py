"""The scalar engine: one chain at a time, compiled by Numba or as plain Python, for any state at all.

Compiled chains release the interpreter's lock and run on threads; every chain owns its stream, so that the
number of threads changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.engines import loops
from tempering.engines.compiling import bind, compiled
from tempering.engines.trace import Schedule, Trace
from tempering.errors import NotANumberError, TargetError
from tempering.gradients import WithGradient, gradient_of
from tempering.kernels.composite import leaves, scalar_move, scalar_settings
from tempering.kernels.scalar import evaluate
from tempering.layout import Layout
from tempering.randomness import stream
from tempering.samplers import parallel, simulated
from tempering.starting import check_value
from tempering.target import Target

RUNG_MOVES = {"lifted": simulated.move_lifted, "neighbour": simulated.move_to_neighbour}
SWAPS = {
    "non_reversible": parallel.swap_non_reversible,
    "even_odd": parallel.swap_even_odd,
    "random": parallel.swap_random,
}
STARTING_STREAM, RUNNING_STREAM = 0, 1
COMPILED = "scalar (Numba)"


@dataclass(frozen=True)
class Pieces:
    """What the loops need of a target with a kernel, or of a user's model."""

    functions: tuple[Any, Any, Any]
    bindings: dict[str, Callable[..., Any]]
    is_compiled: bool
    n_leaves: int
    width: int  # numbers recorded a draw
    new_particle: Callable[[int, np.random.Generator], Any]
    stack: Callable[[list[Any]], Any]
    settings: Callable[[Schedule], Any]
    positions: Callable[[NDArray[np.float64]], Any]
    allocates: bool = True  # whether a move makes arrays


@dataclass(frozen=True)
class Chain:
    """One chain of simulated tempering between two blocks."""

    rng: np.random.Generator
    particle: Any
    rung: int = 0
    direction: int = 1


@dataclass(frozen=True)
class Ensemble:
    """One ensemble of coupled chains between two blocks."""

    rng: np.random.Generator
    particles: Any
    rung: NDArray[np.int64]
    replica: NDArray[np.int64]
    iteration: int = 0


class ScalarEngine:
    """Run chains one by one; see `tempering.engines.trace.Engine` for the contract."""

    def __init__(self, pieces: Pieces, method: str, rung_moves: str, seed: int, n_chains: int, n_rungs: int) -> None:
        self.name = COMPILED if pieces.is_compiled else "scalar (Python)"
        self._pieces = pieces
        self._seed = seed
        self._is_parallel = method == "parallel"
        self.chains_per_ensemble = n_rungs if self._is_parallel else 1
        self._n_units = n_chains
        self.n_chains = n_chains * self.chains_per_ensemble
        body: Callable[..., Any] = loops.couple if self._is_parallel else loops.simulate
        rung_piece: dict[str, Any] = (
            {"swap": SWAPS[rung_moves]} if self._is_parallel else {"move_rung": RUNG_MOVES[rung_moves]}
        )
        names = body.__code__.co_names
        bindings = {name: f for name, f in pieces.bindings.items() if name in names}
        self._loop = bind(body, **bindings, **rung_piece)
        self._fast: Any = None
        self._compiling = Lock()
        self._threads = ThreadPoolExecutor(os.cpu_count()) if pieces.is_compiled and n_chains > 1 else None

    def start(self, n_rungs: int) -> list[Any]:
        """Draw the starting particles; every chain starts on the cold rung, every ensemble on its own."""
        return [self._start(i, n_rungs) for i in range(self._n_units)]

    def _start(self, index: int, n_rungs: int) -> Any:
        starting = stream(self._seed, STARTING_STREAM, index)
        running = stream(self._seed, RUNNING_STREAM, index)
        if not self._is_parallel:
            return Chain(running, self._pieces.new_particle(index, starting))
        particles = [self._pieces.new_particle(index * n_rungs + r, starting) for r in range(n_rungs)]
        order = np.arange(n_rungs)
        return Ensemble(running, self._pieces.stack(particles), order, order.copy())

    def run(self, states: list[Any], schedule: Schedule, n: int, *, moving: bool = True) -> tuple[list[Any], Trace]:
        """Advance every chain by ``n`` iterations, on threads when compiled."""
        settings = self._pieces.settings(schedule)
        one = self._run_ensemble if self._is_parallel else self._run_chain

        m = self.chains_per_ensemble
        outputs = self._outputs((m * len(states), n))

        def advance(i: int, state: Any) -> Any:
            rows = slice(i * m, (i + 1) * m) if self._is_parallel else i
            return one(state, tuple(part[rows] for part in outputs), schedule, settings, moving)

        run_all = map if self._threads is None else self._threads.map
        return list(run_all(advance, range(len(states)), states)), Trace(*outputs)

    def on_rung(self, states: list[Chain], rung: Any) -> list[Chain]:
        """Put every chain on a rung: one for all, or one each."""
        rungs = np.broadcast_to(rung, len(states))
        return [replace(state, rung=int(r)) for state, r in zip(states, rungs, strict=True)]

    def positions(self, trace: Trace) -> Any:
        """Return the recorded values by name."""
        return self._pieces.positions(trace.values)

    def _outputs(self, lead: tuple[int, ...]) -> tuple[NDArray[Any], ...]:
        return (
            np.empty((*lead, self._pieces.width)),
            np.empty(lead),
            np.empty(lead, dtype=np.int32),
            np.empty(lead, dtype=np.int32),
            np.empty((*lead, self._pieces.n_leaves), dtype=np.float32),
        )

    def _run_chain(self, chain: Chain, out: Any, schedule: Schedule, settings: Any, moving: bool) -> Chain:
        k, log_p = np.array(schedule.ladder.inverse_temperatures), np.array(schedule.log_pseudo_prior)
        arguments = (
            chain.rng, *self._pieces.functions, chain.particle, settings, chain.rung, chain.direction,
            k, log_p, moving, out,
        )  # fmt: skip
        particle, rung, direction, done = self._call(arguments)
        if done < out[1].size:
            raise_not_finite(self._pieces.positions(out[0][done]))
        return Chain(chain.rng, particle, int(rung), int(direction))

    def _run_ensemble(self, ensemble: Ensemble, out: Any, schedule: Schedule, settings: Any, moving: bool) -> Ensemble:
        m, n = out[1].shape
        rung, replica = ensemble.rung.copy(), ensemble.replica.copy()
        scratch = (np.empty(m), np.empty(m, dtype=np.int64))
        arguments = (
            ensemble.rng, *self._pieces.functions, ensemble.particles, settings, rung, replica,
            np.array(schedule.ladder.inverse_temperatures), ensemble.iteration, moving, (*out, *scratch),
        )  # fmt: skip
        done, culprit = self._call(arguments)
        if done < n:
            raise_not_finite(self._pieces.positions(out[0][culprit, done]))
        return Ensemble(ensemble.rng, ensemble.particles, rung, replica, ensemble.iteration + n)

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        if not self._pieces.is_compiled:
            with quiet():
                return self._loop(*arguments)
        if self._fast is None:  # the types of the arguments never change
            with self._compiling:
                self._fast = self._fast or compiled(
                    self._loop, _signature(arguments, self._pieces), allocates=self._pieces.allocates
                )
        return self._fast(*arguments)


def quiet() -> np.errstate:
    """Let a user's density overflow or divide by zero without a warning: what comes out is looked at."""
    return np.errstate(invalid="ignore", divide="ignore", over="ignore")


def raise_not_finite(position: Any) -> None:
    """Say that the log density is not a number (or infinite) at a position."""
    raise NotANumberError(
        "The log density must be a number, or -inf outside the support, but it is NaN or +inf at "
        f"{position}. Return -inf where the density is zero, and look for 0 * inf, inf - inf or logs of "
        "negative numbers there.",
        position,
    )


def target_pieces(target: Target, kernel: Any, layout: Layout, starts: Sequence[Any]) -> Pieces:
    """Make the pieces for a log density and a kernel."""
    base, energy, is_compiled = _densities(target, layout)
    _check_gradients(kernel, (base, energy))
    redraw, move = _redraw(target, layout, is_compiled), scalar_move(kernel)
    functions = (base, energy, 0 if redraw is None else redraw)
    n_leaves = len(leaves(kernel))

    def new_particle(index: int, rng: np.random.Generator) -> Any:
        x = starting_point(target, layout, starts, index, rng)
        here = np.empty(2)
        with quiet():
            for function in (base, energy):
                check_value(function(x), layout.unflatten(x))
            evaluate(functions, x, here)
        check_start(layout.unflatten(x), here)
        return x, x.copy(), here, here.copy()

    def stack(particles: list[Any]) -> Any:
        return tuple(np.stack(parts) for parts in zip(*particles, strict=True))

    bindings = {
        "move": move if redraw is None else bind(loops.redraw_or_move, local_move=move),
        "energy_of": loops.energy_of_particle,
        "write": loops.write_particle,
        "particle_of": loops.particle_of_arrays,
        "put_particle": loops.put_nothing,
    }
    return Pieces(
        functions, bindings, is_compiled, n_leaves, layout.size, new_particle, stack,
        lambda schedule: scalar_settings(kernel, schedule.settings), layout.named,
        redraw is not None or any(getattr(leaf, "allocates", True) for leaf in leaves(kernel)),
    )  # fmt: skip


def _redraw(target: Target, layout: Layout, is_compiled: bool) -> Any:
    """Return how to draw a flat vector from the base; None where the loop cannot do it."""
    draw = target.sample_base
    if draw is None or (is_compiled and not (is_numba(draw) and layout.is_vector)):
        return None
    return draw if is_compiled else lambda rng: layout.flatten(draw(rng))


def starting_point(target: Target, layout: Layout, starts: Sequence[Any], index: int, rng: Any) -> NDArray[np.float64]:
    """Return the flat starting point of a chain: the user's, in turn, or one drawn from the prior."""
    if starts:
        return layout.flatten(starts[index % len(starts)])
    assert target.sample_base is not None
    return layout.flatten(target.sample_base(rng))


def check_start(position: Any, log_densities: NDArray[np.float64]) -> None:
    """Refuse to start outside the support or where the density is not a number."""
    if np.any(log_densities == np.inf):
        raise_not_finite(position)
    if np.any(log_densities == -np.inf):
        raise TargetError(
            f"A chain must start inside the support, but the log density is -inf at {position}. "
            "Pass another initial position, or sample_prior=... to start from the prior."
        )


def model_pieces(model: Any, example: Any) -> Pieces:
    """Make the pieces for a user's model object."""
    is_compiled = all(is_numba(f) for f in (model.step, model.energy, model.record))
    functions = (_step_or_redraw(model, is_compiled), model.energy, model.record)

    def stack(states: list[Any]) -> Any:
        if not is_compiled:
            return states
        from numba.typed import List

        return List(states)

    bindings: dict[str, Callable[..., Any]] = {
        "move": loops.step_model,
        "energy_of": loops.energy_of_model,
        "write": loops.write_model,
        "particle_of": loops.item_of,
        "put_particle": loops.put_item,
    }
    width = np.size(model.record(example))
    return Pieces(
        functions, bindings, is_compiled, 1, width, lambda _, rng: model.initial(rng), stack,
        lambda schedule: 0, positions_of(model),
    )  # fmt: skip


def positions_of(model: Any) -> Callable[[NDArray[np.float64]], dict[str, Any]]:
    """Return how the values that a model records are named."""
    names = getattr(model, "names", None)
    return lambda values: {"x": values} if names is None else {name: values[..., i] for i, name in enumerate(names)}


def _step_or_redraw(model: Any, is_compiled: bool) -> Any:
    """Return the model's step, with exact draws of its reference at k = 0 where it offers them."""
    step, redraw = model.step, getattr(model, "sample_reference", None)
    if redraw is None or (is_compiled and not is_numba(redraw)):
        return step

    return _joined(step, redraw, is_compiled)


@cache  # compiled once for all the engines of a model
def _joined(step: Any, redraw: Any, is_compiled: bool) -> Any:
    def step_or_redraw(rng: Any, state: Any, k: float) -> Any:
        if k == 0.0:
            return redraw(rng)
        return step(rng, state, k)

    if not is_compiled:
        return step_or_redraw
    import numba

    return numba.njit(step_or_redraw)


def is_numba(function: Any) -> bool:
    """Whether a function was compiled by Numba's njit."""
    return hasattr(function, "py_func") and hasattr(function, "nopython_signatures")


def _densities(target: Target, layout: Layout) -> tuple[Any, Any, bool]:
    """Return (base, energy) of flat vectors, compiled when all the target's functions are."""
    given = [f for f in (target.base, target.energy) if f is not None]
    if all(is_numba(f) for f in given) and _is_one_array(layout):
        wrap = _compiled_on_flat(layout)
        base = compiled_zero() if target.base is None else wrap(target.base)
        return base, wrap(target.energy), True
    base_or_zero = target.base if target.base is not None else WithGradient(_zero, _flat_zero)
    return layout.on_flat(base_or_zero), layout.on_flat(target.energy), False


def _is_one_array(layout: Layout) -> bool:
    return layout.names == ("x",) and len(layout.shapes[0]) <= 1


def _compiled_on_flat(layout: Layout) -> Callable[[Any], Any]:
    if layout.is_vector:
        return lambda function: function
    return _of_number


@cache
def _of_number(function: Any) -> Any:
    import numba

    return numba.njit(lambda flat: function(flat[0]))


def _zero(x: Any) -> float:
    return 0.0


def _flat_zero(x: Any) -> tuple[float, Any]:
    import jax

    return 0.0, jax.tree.map(np.zeros_like, x)


def _check_gradients(kernel: Any, functions: Sequence[Any]) -> None:
    """Refuse a kernel that follows gradients where the target brings none."""
    hungry = [leaf for leaf in leaves(kernel) if getattr(leaf, "needs_gradient", False)]
    if hungry and any(gradient_of(function) is None for function in functions):
        raise TargetError(
            f"{hungry[0]!r} needs the gradient of the log density, but this target runs on the scalar engine and "
            "brings none. Pass an object with log_density and log_density_gradient, write the density with jax.numpy, "
            "or take tempering.kernels.RandomWalk or Slice."
        )


def compiled_zero() -> Any:
    """Return the compiled base of a powered-up density."""
    import numba

    return compiled(_zero, (numba.float64[::1],))


def _signature(arguments: tuple[Any, ...], pieces: Pieces) -> Any:
    """Return the types of a loop's arguments, functions as pointers with the types the loop calls them by."""
    import numba
    from numba.core.types import FunctionType

    rng, particle = numba.typeof(arguments[0]), numba.typeof(arguments[4])
    if pieces.bindings["move"] is loops.step_model:
        state = getattr(particle, "item_type", particle)
        kinds = [state(rng, state, numba.float64), numba.float64(state), numba.float64[::1](state)]
        functions = [FunctionType(kind) for kind in kinds]
    else:
        third = numba.int64 if arguments[3] == 0 else FunctionType(numba.float64[::1](rng))
        functions = [FunctionType(numba.float64(numba.float64[::1]))] * 2 + [third]
    return (rng, *functions, *(numba.typeof(a) for a in arguments[4:]))
