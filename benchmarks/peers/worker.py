"""Runs of one sampler on one case, seed after seed in one process.

``python -m benchmarks.peers.worker SAMPLER CASE SEEDS EFFORT CORE LIMIT``, the seeds with commas between, the limit in
seconds of the processor for all of them. Every run prints its record, a line of JSON.

What is compiled for the first run is there for the others: the first alone says how long starting up takes, and how
much memory.
"""

import importlib
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any


class Compilation:
    """How long JAX was tracing, lowering and compiling: its own events, overlaps counted once."""

    def __init__(self) -> None:
        self.intervals: list[tuple[float, float]] = []
        try:
            import jax
        except ImportError:
            return
        jax.monitoring.register_event_duration_secs_listener(self.heard)

    def heard(self, event: str, seconds: float, **_: Any) -> None:
        """Take note of an event that has just ended."""
        if event.startswith("/jax/core/compile"):
            now = time.perf_counter()
            self.intervals.append((now - seconds, now))

    def seconds(self, since: float) -> float:
        """Return the length of the union of the intervals that ended after ``since``, by the clock."""
        total, reached = 0.0, since
        for begun, ended in sorted(self.intervals):
            total += max(0.0, ended - max(begun, reached))
            reached = max(reached, ended)
        return total


def measured(sampler: str, case_name: str, seeds: Iterable[int], effort: int) -> Iterator[dict[str, Any]]:
    """Run with one seed after the other; yield errors, times and memory."""
    from benchmarks.peers.cases import case_of

    module = importlib.import_module(f"benchmarks.peers.samplers.{sampler}")
    case = case_of(case_name)
    importlib.import_module(getattr(module, "MODULE", module.PACKAGE.replace("-", "_")))
    compilation = Compilation()
    begun = time.process_time()
    for nth, seed in enumerate(seeds):
        clock, processor = time.perf_counter(), time.process_time()
        answer = module.run(case, seed, effort)
        wall, spent = time.perf_counter() - clock, time.process_time() - processor
        compiling = compilation.seconds(clock) * spent / wall
        yield {
            "sampler": sampler,
            "case": case_name,
            "seed": seed,
            "effort": effort,
            "start_up": begun + compiling if nth == 0 else None,
            "compiling": compiling,
            "sampling": spent - compiling,
            "wall": wall,
            "n_calls": answer.n_calls,
            "n_draws": len(answer.draws),
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if nth == 0 else None,
            **case.errors(answer.draws, answer.weights, answer.log_evidence),
        }


def remember_programs(folder: str) -> None:
    """Let JAX look for programs where this process left them: samplers that compile anew for every seed need not."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def main() -> None:
    sampler, case_name, seeds, effort, core, limit = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 30))
    warnings.simplefilter("ignore")
    left = [int(seed) for seed in seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        if len(left) > 1:
            remember_programs(folder)
        try:
            for record in measured(sampler, case_name, tuple(left), int(effort)):
                print(json.dumps(record), flush=True)
                left.pop(0)
        except Exception as failure:
            at = {"sampler": sampler, "case": case_name, "seed": left[0], "effort": int(effort)}
            print(json.dumps(at | {"failure": f"{type(failure).__name__}: {failure}"[:300]}), flush=True)


if __name__ == "__main__":
    main()
