"""Chains of one treed GP on threads: what tuning runs, and what draws are summed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.blas_threads import one_blas_thread
from tempering.engines.trace import Schedule
from tempering.execution.pickling import pack, unpack
from tempering.execution.recipe import follow_the_parent
from tempering.execution.workers import Workers
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.driver import FRESH, Trace, empty_trace, predict_draw, run_block
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.sums import Sums, empty_sums
from tempering.randomness import stream

Floats = NDArray[np.float64]

_NOTHING = np.zeros(0)


@dataclass
class Chain:
    """One chain: its stream, its tree, its rung and direction, and its sums once draws are kept."""

    rng: np.random.Generator
    state: State
    walk: NDArray[np.int64]
    sums: Sums

    def run(self, schedule: Schedule, n: int, *, moving: bool, edges: Floats = _NOTHING, thin: int = 0) -> Trace:
        """Run ``n`` rounds, adding every ``thin``-th draw to the sums."""
        k = schedule.ladder.inverse_temperatures.copy()
        if len(self.state.counters) != len(k):  # a new ladder starts them at zero
            self.state = self.state._replace(counters=_no_counts(len(k)))
        log_p, trace = schedule.log_pseudo_prior.copy(), empty_trace(n)
        moves = moving and len(k) > 1
        run_block(self.rng, self.state, self.walk, k, log_p, moves, edges, trace, self.sums, thin)
        return trace

    def take(self, after: Chain) -> None:
        """Go on from where another chain is."""
        self.rng, self.state, self.walk, self.sums = after.rng, after.state, after.walk, after.sums

    def predict(self, schedule: Schedule, trace: Trace, edges: Floats, points: Floats) -> None:
        """Add the predictions of the last draw of a trace to the sums."""
        k, log_p = schedule.ladder.inverse_temperatures.copy(), schedule.log_pseudo_prior.copy()
        predict_draw(self.state, self.sums, trace, k, log_p, edges, points)


def _no_counts(n_rungs: int) -> NDArray[np.int64]:
    return np.zeros((n_rungs, len(layout.MOVES), 2), np.int64)


@dataclass(frozen=True)
class Keep:
    """What a run keeps: every ``thin``-th draw; by stretches of energy between ``edges`` where there are any."""

    thin: int
    edges: Floats
    points: Floats | None
    predict_every: int


@dataclass(frozen=True)
class Stretch:
    """One stretch of a chain: how it runs, for how long, and what is kept."""

    schedule: Schedule
    n: int
    moving: bool = True
    keep: Keep | None = None


def run_stretch(chain: Chain, stretch: Stretch) -> Trace:
    """Run one stretch of one chain, in place: a function of the chain alone, wherever it runs."""
    schedule, n, keep = stretch.schedule, stretch.n, stretch.keep
    if keep is None:
        return chain.run(schedule, n, moving=stretch.moving)
    if keep.points is None:
        return chain.run(schedule, n, moving=True, edges=keep.edges, thin=keep.thin)
    step = keep.thin * -(-keep.predict_every // keep.thin)
    parts = []
    for first in range(0, n, step):
        parts.append(chain.run(schedule, min(step, n - first), moving=True, edges=keep.edges, thin=keep.thin))
        chain.predict(schedule, parts[-1], keep.edges, keep.points)
    return Trace(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def run_packed(chain: bytes, stretch: Stretch) -> bytes:
    """Run one stretch of a chain that has been sent here, and send it back."""
    follow_the_parent()
    here: Chain = unpack(chain)
    with one_blas_thread():
        trace = run_stretch(here, stretch)
    return pack((here, trace))


@dataclass(frozen=True)
class TreedGPEngine:
    """Run chains on threads, or on workers; BLAS keeps to one thread each, for the matrices are small."""

    model: TreedGPModel
    n_chains: int
    seed: int
    workers: Workers | None = None

    def start(self, n_rungs: int) -> list[Chain]:
        """Return all chains on the cold rung, each with a stream of its own: a function of seed and index alone."""

        def one(index: int) -> Chain:
            rng = stream(self.seed, index)
            state = self.model.allocate(n_rungs)
            chain = Chain(rng, state, np.array([0, 1]), empty_sums(state, 1, 1, 0, 0))
            if self.model.is_large:
                self.model.start_balanced(rng, state)
            else:
                fresh = np.full(1, FRESH)
                run_block(rng, state, chain.walk, fresh, np.zeros(1), False, _NOTHING, empty_trace(1), chain.sums, 0)
            return chain

        return self._map(one, range(self.n_chains))

    def advance(self, chains: list[Chain], schedule: Schedule, n: int, *, moving: bool = True) -> list[Trace]:
        """Advance all chains by ``n`` rounds."""
        return self._run(chains, Stretch(schedule, n, moving=moving))

    def draw(self, chains: list[Chain], schedule: Schedule, n: int, keep: Keep) -> list[Trace]:
        """Advance all chains by ``n`` rounds, adding draws to their sums."""
        return self._run(chains, Stretch(schedule, n, keep=keep))

    def _run(self, chains: list[Chain], stretch: Stretch) -> list[Trace]:
        """Run a stretch of every chain: on threads, or sent to the workers and put back in its place."""
        if self.workers is None:
            return self._map(lambda chain: run_stretch(chain, stretch), chains)
        blocks = [(pack(chain), stretch) for chain in chains]
        traces = []
        for chain, result in zip(chains, self.workers.run(run_packed, blocks), strict=True):
            after, trace = unpack(result)
            chain.take(after)
            traces.append(trace)
        return traces

    def on_rungs(self, chains: list[Chain], rungs: Sequence[int]) -> None:
        """Put every chain on a rung of its own."""
        for chain, rung in zip(chains, rungs, strict=True):
            chain.walk[0] = rung

    def keep_sums(self, chains: list[Chain], n_rungs: int, n_strata: int, n_slots: int, n_points: int) -> None:
        """Start the sums and the counters afresh."""
        for chain in chains:
            chain.sums = empty_sums(chain.state, n_rungs, n_strata, n_slots, n_points)
            chain.state = chain.state._replace(counters=_no_counts(n_rungs))

    def _map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        with one_blas_thread(), ThreadPoolExecutor(max(1, n_workers(self.n_chains))) as threads:
            return list(threads.map(function, items))


def n_workers(n_chains: int) -> int:
    """Return how many threads are worth having."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_chains, available)
