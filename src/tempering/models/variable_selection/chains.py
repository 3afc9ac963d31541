"""Run chains of the compiled loop: start, tune the rungs' weights, keep traces and sums."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.models.variable_selection.engine import KINDS, Course, Sums, Trace, run_chain
from tempering.models.variable_selection.factor import Factor, new_factor, refresh
from tempering.models.variable_selection.factor import insert as insert_column
from tempering.models.variable_selection.problem import LinearProblem
from tempering.randomness import stream

CACHE_BYTES = 400_000_000  # for the rows of the Gram matrix, in each chain
MOST_RUNGS, PILOT_JUMPS = 40, 400
BATCHES = 32  # in each chain: enough for a standard error, whose own error is 13 % with two chains


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """How long, how many, how hot."""

    inverse_temperatures: Floats
    draws: int = 10_000
    tune: int = 2_000
    chains: int = 4
    kind: str = "weighted"
    explore: float = 5.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"moves must be one of {', '.join(KINDS)}, but got {self.kind!r}.")


@dataclass(frozen=True, eq=False)
class ChainResult:
    """Trace and sums of one chain, and the model it started its kept jumps from."""

    start: tuple[int, ...]
    trace: Trace
    sums: Sums
    log_pseudo_prior: Floats


def run_chains(
    problem: LinearProblem, plan: ChainPlan, seed: int, *, executor: Executor | None = None, threads: int = 1
) -> list[ChainResult]:
    """Run all chains; equal seeds give equal results whatever runs them."""
    work = partial(run_one, problem, plan, seed)
    problem.data, problem.noise_model, problem.model_prior  # noqa: B018  built once, not in every thread
    if executor is not None:
        return list(executor.map(work, range(plan.chains)))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, range(plan.chains)))
    return [work(chain) for chain in range(plan.chains)]


def tuned_ladder(problem: LinearProblem, plan: ChainPlan, seed: int, hottest: float = 0.1) -> Floats:
    """Choose inverse temperatures from cold to ``hottest``, each one deviation of the energy from the next.

    Steps of 1 / sd(energy) are accepted about half of the time where energies are normal.
    """
    walker = Walker(problem, plan, stream(seed, 1_000_000))
    walker.run(max(plan.tune, 200), 0, learning=2)
    k = [1.0]
    while k[-1] > hottest and len(k) < MOST_RUNGS:
        walker.plan = replace(plan, inverse_temperatures=np.array([k[-1]]))
        trace, _ = walker.run(PILOT_JUMPS, 0, learning=2)
        weight = np.exp(trace.log_total.min() - trace.log_total)
        weight /= weight.sum()
        deviation = np.sqrt(weight @ (trace.energy - weight @ trace.energy) ** 2)
        k.append(max(k[-1] - 1.0 / max(float(deviation), 1.0 / (0.5 * k[-1])), hottest))
    return np.array(k)


def run_one(problem: LinearProblem, plan: ChainPlan, seed: int, chain: int) -> ChainResult:
    """Run one chain: tune, then keep."""
    rng = stream(seed, chain)
    walker = Walker(problem, plan, rng)
    walker.tune()
    start = walker.model
    trace, sums = walker.run(plan.draws, BATCHES)
    return ChainResult(start, trace, sums, walker.course.log_pseudo_prior.copy())


class Walker:
    """One chain between calls of the compiled loop."""

    def __init__(self, problem: LinearProblem, plan: ChainPlan, rng: np.random.Generator) -> None:
        p, m = problem.n_columns, len(plan.inverse_temperatures)
        self.problem, self.plan, self.rng = problem, plan, rng
        capacity = problem.largest
        n_rows = min(p, max(capacity + 1, CACHE_BYTES // (8 * p)))
        self.factor: Factor = new_factor(problem.data, capacity, n_rows)
        # Columns have random 64-bit numbers, a model the exclusive or of its columns' (Zobrist 1970)
        self.keys = np.random.default_rng(p).integers(2**63, size=p, dtype=np.uint64)
        self.course = Course(
            np.array([0, 1], dtype=np.int64), np.zeros(2), np.zeros(m), np.zeros(1, np.uint64), *np.zeros((4, p))
        )
        for j in problem.forced:
            insert_column(problem.data, self.factor, j)
            self.course.key[0] ^= self.keys[j]
        self.settle()

    @property
    def model(self) -> tuple[int, ...]:
        """The columns that are in."""
        return tuple(sorted(int(j) for j in self.factor.members[: int(self.factor.numbers[0])]))

    def settle(self) -> None:
        """Compute the log terms afresh."""
        refresh(self.problem.data, self.factor)
        self.course.log_terms[:] = self.problem.log_marginal(self.model), self.problem.log_prior(self.model)

    def tune(self) -> None:
        """Reach the posterior, then learn the pseudo-prior: rung by rung first, then by visits."""
        k, n = self.plan.inverse_temperatures, self.plan.tune
        if n == 0:
            return
        if len(k) == 1:
            self.run(n, 0, learning=2)
            return
        self.run(max(n // 4, 1), 0, learning=2)
        self.course.log_pseudo_prior[:] = self._first_pseudo_prior(max(n // (4 * len(k)), 20))
        self.run(max(n // 2, 1), 0, learning=1)

    def _first_pseudo_prior(self, n: int) -> Floats:
        """Integrate the mean energies of short runs at each rung, and add the mean of the sums of rates."""
        k, m = self.plan.inverse_temperatures, len(self.plan.inverse_temperatures)
        means, log_c = np.zeros(m), np.zeros(m)
        for rung in range(m):
            self.course.rung[0] = rung
            trace, _ = self.run(n, 0, learning=2)
            weight = np.exp(trace.log_total.min() - trace.log_total)
            means[rung] = np.sum(weight * trace.energy) / weight.sum()
            log_c[rung] = trace.log_total.min() - np.log(np.mean(weight))
        self.course.rung[:] = m - 1, -1
        steps = -0.5 * (means[1:] + means[:-1]) * (k[:-1] - k[1:])
        return -(np.concatenate([[0.0], np.cumsum(steps)]) + log_c)

    def run(self, n: int, n_batches: int, learning: int = 0) -> tuple[Trace, Sums]:
        """Make n jumps."""
        p, m = self.problem.n_columns, len(self.plan.inverse_temperatures)
        trace = Trace(
            np.zeros(n, np.int32),
            np.zeros(n, np.int16),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n, np.uint64),
            np.zeros(n, np.int32),
        )
        shape = (m, n_batches, p)
        sums = Sums(np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape), np.zeros((m, p)), np.full(m, -np.inf))
        problem, plan = self.problem, self.plan
        settings: Any = (
            np.asarray(plan.inverse_temperatures, dtype=np.float64),
            KINDS[plan.kind],
            plan.explore / p,
            self.keys,
            learning,
            0,
        )
        run_chain(
            self.rng, (problem.data, problem.noise_model, problem.model_prior), self.factor, self.course, settings,
            trace, sums,
        )  # fmt: skip
        self.settle()
        return trace, sums
