"""One run of one sampler in a process of its own.

``python -m benchmarks.peers.worker SAMPLER CASE SEED EFFORT CORE LIMIT``, the limit in seconds of the processor. The
last line of its output is the record, as JSON.
"""

import importlib
import json
import os
import resource
import sys
import time
import warnings
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


def measured(sampler: str, case_name: str, seed: int, effort: int) -> dict[str, Any]:
    """Run, and return errors, times and memory."""
    from benchmarks.peers.cases import case_of

    module = importlib.import_module(f"benchmarks.peers.samplers.{sampler}")
    case = case_of(case_name)
    importlib.import_module(module.PACKAGE.replace("-", "_"))
    compilation = Compilation()
    clock, processor = time.perf_counter(), time.process_time()
    answer = module.run(case, seed, effort)
    wall, spent = time.perf_counter() - clock, time.process_time() - processor
    compiling = compilation.seconds(clock) * spent / wall
    return {
        "sampler": sampler,
        "case": case_name,
        "seed": seed,
        "effort": effort,
        "start_up": processor + compiling,
        "compiling": compiling,
        "sampling": spent - compiling,
        "wall": wall,
        "n_calls": answer.n_calls,
        "n_draws": len(answer.draws),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        **case.errors(answer.draws, answer.weights, answer.log_evidence),
    }


def main() -> None:
    sampler, case_name, seed, effort, core, limit = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 30))
    warnings.simplefilter("ignore")
    try:
        record = measured(sampler, case_name, int(seed), int(effort))
    except Exception as failure:
        at = {"sampler": sampler, "case": case_name, "seed": int(seed), "effort": int(effort)}
        record = at | {"failure": f"{type(failure).__name__}: {failure}"[:300]}
    print(json.dumps(record))


if __name__ == "__main__":
    main()
