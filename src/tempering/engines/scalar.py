"""The scalar engine: one chain at a time, compiled by Numba or as plain Python, for any state at all.

Compiled chains release the interpreter's lock and run on threads; every chain owns its stream, so that the
number of threads changes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.blas_threads import one_blas_thread
from tempering.compiling.functions import bind, compiled
from tempering.engines import loops
from tempering.engines.answers import answers_of
from tempering.engines.scalar_pieces import NAMES, Pieces, quiet, raise_not_finite
from tempering.engines.stopping import AbandonedBlock, IsStopped, is_of_user, never, watched
from tempering.engines.told import function_error
from tempering.engines.trace import Places, Rungs, Schedule, Trace
from tempering.errors import TemperingError
from tempering.path import Path
from tempering.path.stacked import References, stacked_references
from tempering.randomness import stream
from tempering.rungs import parallel, simulated

RUNG_MOVES = {"lifted": simulated.move_lifted, "neighbour": simulated.move_to_neighbour}
SWAPS = {
    "non_reversible": parallel.swap_non_reversible,
    "even_odd": parallel.swap_even_odd,
    "random": parallel.swap_random,
}
STARTING_STREAM, RUNNING_STREAM = 0, 1
COMPILED = "scalar (Numba)"
Arrays = tuple[NDArray[Any], ...]
SLOW = 0.02  # seconds of a compiled draw, from which each call of a function is looked at


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
        self.is_stopped: IsStopped = never
        functions = pieces.functions if pieces.is_compiled else tuple(map(self._watched, pieces.functions))
        self._functions: tuple[Any, ...] = functions

    def _watched(self, function: Callable[..., Any]) -> Any:
        return watched(function, lambda: self.is_stopped())

    def start(self, path: Path) -> list[Any]:
        """Draw the starting particles; every chain starts on the target's rung, every ensemble on its own."""
        return [self._start(i, path) for i in range(self._n_units)]

    def _start(self, index: int, path: Path) -> Any:
        starting = stream(self._seed, STARTING_STREAM, index)
        running = stream(self._seed, RUNNING_STREAM, index)
        if not self._is_parallel:
            return Chain(running, self._pieces.new_particle(index, starting, path), path.target)
        n_rungs = len(path)
        particles = [self._pieces.new_particle(index * n_rungs + r, starting, path) for r in range(n_rungs)]
        order = np.arange(n_rungs)
        return Ensemble(running, self._pieces.stack(particles), order, order.copy())

    def run(self, states: list[Any], schedule: Schedule, n: int, *, moving: bool = True) -> tuple[list[Any], Trace]:
        """Advance every chain by ``n`` iterations, on threads when compiled."""
        settings = self._pieces.settings(schedule)
        answers = answers_of(self._pieces.run)
        if answers is not None and answers.long.intersection(NAMES):
            self._look_at_calls()
        one: Callable[..., Any] = self._run_ensemble if self._is_parallel else self._run_chain

        m = self.chains_per_ensemble
        outputs = self._outputs((m * len(states), n), schedule.path.target_coefficients.size)

        def advance(i: int, state: Chain | Ensemble) -> Any:
            rows = slice(i * m, (i + 1) * m) if self._is_parallel else i
            if self.is_stopped():
                raise AbandonedBlock
            try:
                return one(state, tuple(part[rows] for part in outputs), schedule, settings, moving)
            except TemperingError:
                raise
            except (Exception, SystemExit) as error:
                if not is_of_user(error):
                    raise
                asked = self._pieces.functions[:2] if self._pieces.looked_at is not None else ()
                raise function_error(error, i * m, state, self._pieces.positions, asked) from error

        run_all = map if self._threads is None else self._threads.map
        with one_blas_thread() if self._pieces.is_compiled else nullcontext():
            return list(run_all(advance, range(len(states)), states)), Trace(*outputs)

    def on_rung(self, states: list[Chain], rung: Rungs, places: Places | None = None) -> list[Chain]:
        """Put every chain on a rung: one for all, or one each; at other ``places``, perhaps."""
        rungs = np.broadcast_to(rung, len(states))
        return [
            replace(state, rung=int(r), particle=_put_at(state.particle, places, i))
            for i, (state, r) in enumerate(zip(states, rungs, strict=True))
        ]

    def n_invalid(self, states: list[Any]) -> int:
        """Return how often a log density was NaN or +inf so far."""
        if self._pieces.bindings["write_terms"] is not loops.write_terms_of_particle:
            return 0
        particles = [state.particles if self._is_parallel else state.particle for state in states]
        return int(sum(np.sum(particle[3][..., -1]) for particle in particles))

    def positions(self, trace: Trace) -> Any:
        """Return the recorded values by name."""
        return self._pieces.positions(trace.values)

    def _outputs(self, lead: tuple[int, ...], n_terms: int) -> Arrays:
        return (
            np.empty((*lead, self._pieces.width)),
            np.empty((*lead, n_terms)),
            np.empty(lead, dtype=np.int32),
            np.empty(lead, dtype=np.int32),
            np.empty((*lead, self._pieces.n_leaves), dtype=np.float32),
        )

    def _run_chain(self, chain: Chain, out: Arrays, schedule: Schedule, settings: Any, moving: bool) -> Chain:
        path, log_p = schedule.path, np.array(schedule.log_pseudo_prior)
        chain_now = (chain.particle, chain.rung, chain.direction)
        frozen = (settings, np.array(path.coefficients), log_p, moving)
        arguments = (chain.rng, *self._functions, self._references(path), chain_now, frozen, out)
        particle, rung, direction, done = self._call(arguments)
        if done < out[2].size:
            raise_not_finite(self._pieces.positions(out[0][done]))
        return Chain(chain.rng, particle, int(rung), int(direction))

    def _run_ensemble(
        self, ensemble: Ensemble, out: Arrays, schedule: Schedule, settings: Any, moving: bool
    ) -> Ensemble:
        m, n = out[2].shape
        path = schedule.path
        rung, replica = ensemble.rung.copy(), ensemble.replica.copy()
        scratch = (np.empty((m, out[1].shape[2])), np.empty(m, dtype=np.int64))
        particles = ensemble.particles if self._pieces.pack is None else self._pieces.pack(ensemble.particles)
        ensemble_now = (particles, rung, replica, ensemble.iteration)
        frozen = (settings, np.array(path.coefficients), moving)
        arguments = (ensemble.rng, *self._functions, self._references(path), ensemble_now, frozen, (*out, *scratch))
        done, culprit = self._call(arguments)
        if done < n:
            raise_not_finite(self._pieces.positions(out[0][culprit, done]))
        return Ensemble(ensemble.rng, ensemble.particles, rung, replica, ensemble.iteration + n)

    def _references(self, path: Path) -> References:
        return stacked_references(path.references, self._pieces.width)

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        if not self._pieces.is_compiled:
            with quiet():
                return self._loop(*arguments)
        if self._fast is None:  # the types of the arguments never change
            with self._compiling:
                self._fast = self._fast or compiled(
                    self._loop, _signature(arguments, self._pieces), allocates=self._pieces.allocates
                )
        started = time.monotonic()
        found = self._fast(*arguments)
        if time.monotonic() - started > SLOW * arguments[-1][2].size:
            self._look_at_calls()
        return found

    def _look_at_calls(self) -> None:
        """From now on, look at each call of a function that takes long: whether to stop, and whether to keep it."""
        with self._compiling:
            if self._functions is self._pieces.functions and self._pieces.looked_at is not None:
                self._functions = self._pieces.looked_at(lambda: self.is_stopped())


def _put_at(particle: Any, places: Places | None, row: int) -> Any:
    """Return a particle at one of some places."""
    if places is None:
        return particle
    _, proposal, here, there = particle
    return np.array(places.values[row]), proposal, np.append(places.terms[row], here[-1]), there


def _signature(arguments: tuple[Any, ...], pieces: Pieces) -> Any:
    """Return the types of a loop's arguments, functions as pointers with the types the loop calls them by."""
    import numba
    from numba.core.types import FunctionType

    rng = numba.typeof(arguments[0])
    if pieces.bindings["move"] is loops.step_model:
        state = numba.typeof(pieces.example)
        kinds = [state(rng, state, numba.float64), numba.float64(state), numba.float64[::1](state)]
        functions = [FunctionType(kind) for kind in kinds]
    else:
        third = numba.int64 if arguments[3] == 0 else FunctionType(numba.float64[::1](rng))
        functions = [FunctionType(numba.float64(numba.float64[::1]))] * 2 + [third]
    return (rng, *functions, *(numba.typeof(a) for a in arguments[4:]))
