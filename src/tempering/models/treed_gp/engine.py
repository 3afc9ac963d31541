"""Chains of one treed GP on threads: what tuning runs, and what draws are summed over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from tempering.engines.trace import Schedule
from tempering.execution.pickling import pack, unpack
from tempering.execution.recipe import follow_the_parent
from tempering.execution.workers import Workers
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.driver import Sums, Trace, empty_sums, empty_trace, run_block
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.model import TreedGPModel
from tempering.randomness import stream


@dataclass
class Chain:
    """One chain: its stream, its tree, its rung and direction, and its sums once draws are kept."""

    rng: np.random.Generator
    state: State
    walk: NDArray[np.int64]
    sums: Sums


@dataclass(frozen=True)
class TreedGPEngine:
    """Run chains on threads, or on workers; BLAS keeps to one thread each, for the matrices are small."""

    model: TreedGPModel
    n_chains: int
    seed: int
    workers: Workers | None = None

    def start(self, n_rungs: int) -> list[Chain]:
        """Return all chains on the cold rung, each with a stream of its own."""

        def one(index: int) -> Chain:
            rng = stream(self.seed, index)
            state = self.model.initial(rng, n_rungs)
            return Chain(rng, state, np.array([0, 1]), empty_sums(state, 1, 0, 0))

        return self._map(one, range(self.n_chains))

    def advance(
        self,
        states: list[Chain],
        schedule: Schedule,
        n: int,
        *,
        moving: bool = True,
        thin: int = 0,
        points: NDArray[np.float64] | None = None,
        predict_every: int = 0,
    ) -> list[Trace]:
        """Advance all chains by ``n`` rounds, adding every ``thin``-th draw to their sums."""
        log_p = [np.array(schedule.log_pseudo_prior, np.float64) for _ in states]
        return self._run(
            states, schedule, log_p, n, moving=moving, thin=thin, points=points, predict_every=predict_every
        )

    def _run(
        self,
        states: list[Chain],
        schedule: Schedule,
        log_pseudo_priors: list[NDArray[np.float64]],
        n: int,
        *,
        moving: bool = True,
        gains: NDArray[np.float64] | None = None,
        thin: int = 0,
        points: NDArray[np.float64] | None = None,
        predict_every: int = 0,
    ) -> list[Trace]:
        k = schedule.ladder.inverse_temperatures.copy()
        steps = np.zeros(0) if gains is None else gains
        where = np.zeros((0, 1)) if points is None else np.ascontiguousarray(points)
        moves = moving and len(k) > 1
        for chain in states:
            self._fit_counters(chain, len(k))
        rest: tuple[Any, ...] = (k, moves, steps, n, thin, where, predict_every)
        if self.workers is not None:
            return self._run_elsewhere(states, log_pseudo_priors, rest)

        def one(pair: tuple[Chain, NDArray[np.float64]]) -> Trace:
            return run_chain(*pair, *rest)

        return self._map(one, zip(states, log_pseudo_priors, strict=True))

    def _run_elsewhere(self, states: list[Chain], log_pseudo_priors: list[Any], rest: tuple[Any, ...]) -> list[Trace]:
        """Send the chains to the workers, and put what comes back in their place."""
        assert self.workers is not None
        blocks = [(pack(pair), rest) for pair in zip(states, log_pseudo_priors, strict=True)]
        traces = []
        for chain, log_p, result in zip(states, log_pseudo_priors, self.workers.run(run_packed, blocks), strict=True):
            after, learnt, trace = unpack(result)
            chain.rng, chain.state, chain.walk, chain.sums = after.rng, after.state, after.walk, after.sums
            log_p[:] = learnt
            traces.append(trace)
        return traces

    def learn(self, states: list[Chain], schedule: Schedule, gains: NDArray[np.float64]) -> Schedule:
        """Learn the pseudo-prior round by round in each chain, and return the schedule with their mean."""
        learnt = [np.array(schedule.log_pseudo_prior, np.float64) for _ in states]
        self._run(states, schedule, learnt, len(gains), gains=gains)
        return replace(schedule, log_pseudo_prior=np.mean([p - p[0] for p in learnt], axis=0))

    def _fit_counters(self, chain: Chain, n_rungs: int) -> None:
        """Give the counters as many rows as there are rungs; a new ladder starts them at zero."""
        if len(chain.state.counters) != n_rungs:
            counters = np.zeros((n_rungs, len(layout.MOVES), 2), np.int64)
            chain.state = chain.state._replace(counters=counters)

    def on_rung(self, states: list[Chain], rung: int) -> None:
        """Put every chain on a rung."""
        for chain in states:
            chain.walk[0] = rung

    def keep_sums(self, states: list[Chain], n_rungs: int, n_slots: int, n_points: int) -> None:
        """Start the sums and the counters afresh."""
        for chain in states:
            chain.sums = empty_sums(chain.state, n_rungs, n_slots, n_points)
            chain.state = chain.state._replace(counters=np.zeros((n_rungs, len(layout.MOVES), 2), np.int64))

    def _map(self, function: Any, items: Iterable[Any]) -> list[Any]:
        with (
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(max(1, n_workers(self.n_chains))) as threads,
        ):
            return list(threads.map(function, items))


def run_chain(
    chain: Chain,
    log_p: NDArray[np.float64],
    k: NDArray[np.float64],
    moves: bool,
    steps: NDArray[np.float64],
    n: int,
    thin: int,
    points: NDArray[np.float64],
    predict_every: int,
) -> Trace:
    """Advance one chain, in place."""
    trace = empty_trace(n)
    run_block(
        chain.rng, chain.state, chain.walk, k, log_p, moves, steps, trace, chain.sums, thin, points, predict_every
    )
    return trace


def run_packed(pair: bytes, rest: tuple[Any, ...]) -> bytes:
    """Advance one chain that has been sent here, and send it back."""
    follow_the_parent()
    chain, log_p = unpack(pair)
    with threadpool_limits(1, user_api="blas"):
        trace = run_chain(chain, log_p, *rest)
    return pack((chain, log_p, trace))


def n_workers(n_chains: int) -> int:
    """Return how many threads are worth having."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_chains, available)
