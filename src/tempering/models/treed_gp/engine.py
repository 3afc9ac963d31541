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
    """Run chains on threads; BLAS keeps to one thread each, for the matrices are small."""

    model: TreedGPModel
    n_chains: int
    seed: int

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

        def one(pair: tuple[Chain, NDArray[np.float64]]) -> Trace:
            chain, log_p = pair
            trace = empty_trace(n)
            self._fit_counters(chain, len(k))
            run_block(
                chain.rng,
                chain.state,
                chain.walk,
                k,
                log_p,
                moves,
                steps,
                trace,
                chain.sums,
                thin,
                where,
                predict_every,
            )
            return trace

        return self._map(one, zip(states, log_pseudo_priors, strict=True))

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


def n_workers(n_chains: int) -> int:
    """Return how many threads are worth having."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_chains, available)
