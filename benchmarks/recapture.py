"""Tempered reversible jump on the synthetic shag-like set: iterations a second, and mixing against plain RJMCMC.

An iteration updates every free value once and tries one jump for each of the three parameters.

    python -m benchmarks.recapture [--device cpu|gpu] [--chains N] [--iterations N] [--seeds N] [--json FILE]
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from tempering import Ladder
from tempering.data import SYNTHETIC_COUNTS, path_of
from tempering.engines import vector
from tempering.engines.trace import QUANTUM, Schedule, Trace, joined
from tempering.models.recapture import Counts, ModelSpace, read
from tempering.models.recapture.estimator import learn_pseudo_prior
from tempering.models.recapture.model import RecaptureModel, recapture_model
from tempering.rungs import lockstep
from tempering.runs.draws import TemperedDraws

LADDER = Ladder.geometric(40, 0.1)
SHORT_LADDER = Ladder.geometric(10, 0.5)  # as hot as jumps need; the paper's goes on to k = 0.1
CPU_BAR = 3e4  # iterations a second in total on two cores
GPU_BAR = 1e7 / 60  # 1e7 iterations in under a minute
N_CORES = 2
PLAIN = "untempered, Gaussian flips"  # reversible jump as in the literature
MIXING_CHAINS = 64
SECONDS = 12.0  # processor time of each run that mixing is measured on
INDICATORS = (("phi", 0, 2), ("p", 1, 2), ("lambda", 2, 0))  # time dependence that is neither sure nor excluded


class Result(NamedTuple):
    """One line of the table; ``bar`` is None where a figure is only reported."""

    quantity: str
    ours: float
    bar: float | None
    detail: str

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        return self.bar is None or self.ours >= self.bar


def build_model(**shares: float) -> RecaptureModel:
    counts = read(path_of(SYNTHETIC_COUNTS), "counts")
    assert isinstance(counts, Counts)
    return recapture_model(counts, ModelSpace(4), keep_values=False, **shares)


class Chains:
    """Simulated tempering of one model, started on all rungs."""

    def __init__(self, model: RecaptureModel, schedule: Schedule, n_chains: int, seed: int) -> None:
        self.schedule, n_rungs = schedule, len(schedule.ladder)
        self.engine = vector.VectorEngine(vector.model_pieces(model), "simulated", "lifted", seed, n_chains, n_rungs)
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(seed), n_chains)
            particles = jax.jit(jax.vmap(model.initial))(keys)
            rung = jnp.arange(n_chains, dtype=jnp.int32) % n_rungs
            chain = lockstep.Chain(particles, rung, jnp.ones(n_chains, jnp.int32))
        self.states = vector.States(keys, chain, 0)

    def run(self, n_iterations: int) -> Trace:
        """Go on for about ``n_iterations`` iterations of every chain."""
        traces = []
        for _ in range(max(1, n_iterations // QUANTUM)):
            self.states, trace = self.engine.run(self.states, self.schedule, QUANTUM)
            traces.append(trace)
        return joined(traces)


def speed(model: RecaptureModel, schedule: Schedule, n_chains: int, n_iterations: int, n_threads: int) -> list[Result]:
    """Measure iterations a second over ``n_threads`` threads with ``n_chains`` chains each."""
    started = time.perf_counter()
    runs = [Chains(model, schedule, n_chains, seed) for seed in range(n_threads)]
    for run in runs:
        run.run(QUANTUM)
    compiling = time.perf_counter() - started
    wall, processor = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(n_threads) as threads:
        traces = list(threads.map(lambda run: run.run(n_iterations), runs))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    total = sum(trace.energy.size for trace in traces)
    device = jax.devices()[0]
    name = f"{device.platform}, {device.device_kind}"
    on_gpu = device.platform == "gpu"
    shape = f"{n_threads} x {n_chains} chains, {total} iterations in {wall:.1f} s, first block after {compiling:.0f} s"
    results = [Result("iterations a second, wall clock", total / wall, GPU_BAR if on_gpu else None, f"{name}; {shape}")]
    if not on_gpu:
        detail = f"{processor / total * 1e6:.1f} us of processor an iteration; other work on the machine not counted"
        results.append(Result(f"iterations a second of {N_CORES} cores", N_CORES * total / processor, CPU_BAR, detail))
    return results


def mixing(models: dict[str, RecaptureModel], log_p: Any, seeds: range) -> list[Result]:
    """Compare effective draws of the time-dependence indicators, tempered and not, at equal processor time."""
    cold = Schedule(Ladder([1.0]), np.zeros(1))
    sides = {
        PLAIN: (models["gaussian"], cold),
        "untempered, fitted flips": (models["fitted"], cold),
        "tempered, paper's ladder": (models["fitted"], Schedule(LADDER, log_p)),
        "tempered, 10 rungs to k = 0.5": (models["fitted"], Schedule(SHORT_LADDER, interpolated(log_p))),
    }
    found = {name: np.array([rates(*side, seed) for seed in seeds]) for name, side in sides.items()}
    results = []
    for name, rate in found.items():
        ratios = np.exp(np.log(rate / found[PLAIN]).mean(axis=1))  # of each seed, geometric mean over indicators
        medians = zip(INDICATORS, np.median(rate, axis=0), strict=True)
        each = ", ".join(f"{parameter} class {j + 1}: {r:.2f}" for (parameter, _, j), r in medians)
        spread = f"{ratios.min():.2g} to {ratios.max():.2g} over {len(seeds)} seeds; a second, medians: {each}"
        results.append(Result(f"effective draws, {name}: ratio", float(np.median(ratios)), None, spread))
    return results


def rates(model: RecaptureModel, schedule: Schedule, seed: int) -> Any:
    """Return effective draws a processor second of each indicator, from runs of ``SECONDS`` after a quarter of it."""
    chains = Chains(model, schedule, MIXING_CHAINS, seed)
    chains.run(QUANTUM)  # compile
    run_for(chains, SECONDS / 4)
    trace, seconds = run_for(chains, SECONDS)
    return np.array([effective_draws(trace, schedule, q, j) / seconds for _, q, j in INDICATORS])


def run_for(chains: Chains, budget: float) -> tuple[Trace, float]:
    """Go on until ``budget`` processor seconds are spent; return what came of them and what was spent."""
    traces, started = [], time.process_time()
    while time.process_time() - started < budget:
        traces.append(chains.run(QUANTUM))
    return joined(traces), time.process_time() - started


def interpolated(log_p: Any) -> Any:
    """Return the pseudo-prior of the short ladder from that of the long one: -log Z is smooth in k."""
    known = LADDER.inverse_temperatures[::-1]
    return np.interp(SHORT_LADDER.inverse_temperatures, known, log_p[::-1])


def effective_draws(trace: Trace, schedule: Schedule, q: int, j: int) -> float:
    """Return p (1 - p) / Var(estimate), the variance being that between independent chains.

    With normalised weights w the estimate's error is the sum over chains of r_c = sum w (x - p).
    """
    draws = TemperedDraws(
        trace.values, trace.rung, trace.energy, schedule.ladder, schedule.log_pseudo_prior, trace.proposed,
        trace.acceptance,
    )  # fmt: skip
    indicator = (trace.values["model"][..., q] >> j & 1).astype(float)
    weights = draws.weights("mbar") if len(schedule.ladder) > 1 else np.full(indicator.shape, 1 / indicator.size)
    p = float((weights * indicator).sum())
    residuals = (weights * (indicator - p)).sum(axis=1)
    return p * (1 - p) / max(float((residuals**2).sum()), 1e-300)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--chains", type=int, help="chains a thread; 128 on a CPU, 16384 on a GPU")
    parser.add_argument("--iterations", type=int, help="of each chain")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each sampler that mixing is measured on; 0: none")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    on_gpu = options.device == "gpu"
    if on_gpu and jax.default_backend() != "gpu":
        parser.error("no GPU was found by JAX")
    n_chains = options.chains or (16384 if on_gpu else 128)
    n_iterations = options.iterations or (608 if on_gpu else 640)
    models = {"fitted": build_model()}
    log_p = learn_pseudo_prior(models["fitted"], LADDER, draws=320, rng=1, progress=False)
    results = speed(models["fitted"], Schedule(LADDER, log_p), n_chains, n_iterations, 1 if on_gpu else N_CORES)
    if options.seeds:
        models["gaussian"] = build_model(fitted_flips=0.0, fitted_splits=0.0)
        results += mixing(models, log_p, range(5, 5 + options.seeds))
    table = Table("quantity", "ours", "bar", "", "detail")
    for r in results:
        table.add_row(
            r.quantity, f"{r.ours:.4g}", "" if r.bar is None else f"{r.bar:.4g}", "" if r.passed else "MISSED", r.detail
        )
    Console(width=200).print(table)
    if options.json:
        options.json.write_text(json.dumps([r._asdict() for r in results], indent=2) + "\n")
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
