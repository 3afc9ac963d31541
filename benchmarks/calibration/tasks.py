"""Processes: a few seeds of one target each, so that compilation is paid once, and a crash costs no other target."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.calibration.runs import Record
from benchmarks.peers.environments import variables

ROOT = Path(__file__).parents[2]
TASKS_PER_WORKER = 3  # so that the last ones do not leave the others idle
PREFIX = '{"target"'


@dataclass(frozen=True)
class Plan:
    """How runs are made: arguments of the call, limits and where compiled programs are kept."""

    options: dict[str, Any]
    with_initial: bool
    limit: float  # seconds by the clock that a run may take, first ones with their compilation twice that
    programs: str | None = None
    until: float = math.inf  # by `time.monotonic`: no run is begun after that


@dataclass(frozen=True)
class Task:
    """Some seeds of one target."""

    target: str
    seeds: tuple[int, ...]


def tasks_of(todo: dict[str, list[int]], workers: int, seeds_per_process: int | None) -> list[Task]:
    """Cut the seeds of every target so that there is enough for every worker, and no cut more than that."""
    total = sum(map(len, todo.values()))
    size = seeds_per_process or max(1, -(-total // max(1, TASKS_PER_WORKER * workers)))
    return [Task(name, tuple(seeds[i : i + size])) for name, seeds in todo.items() for i in range(0, len(seeds), size)]


def run_all(tasks: Sequence[Task], plan: Plan, workers: int, keep: Callable[[Record], None]) -> Iterator[str]:
    """Run tasks side by side; every record is kept when it is there. Yields a line a task."""
    lock = threading.Lock()

    def kept(record: Record) -> None:
        with lock:
            keep(record)

    with ThreadPoolExecutor(workers) as pool:
        begun = time.monotonic()
        waiting = {pool.submit(run_task, task, plan, kept): task for task in tasks}
        for nth, done in enumerate(as_completed(waiting), 1):
            task, (n_errors, seconds) = waiting[done], done.result()
            yield (
                f"[{nth}/{len(tasks)}, {(time.monotonic() - begun) / 60:.1f} min] {task.target}: {len(task.seeds)} "
                f"runs in {seconds:.0f} s" + (f", {n_errors} ended in an error" if n_errors else "")
            )


def run_task(task: Task, plan: Plan, keep: Callable[[Record], None]) -> tuple[int, float]:
    """Run one process; a crash or a time-out is a record for the seeds that it cost. Returns errors and seconds."""
    environment = variables()
    if plan.programs:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": plan.programs,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    left, n_errors, begun = list(task.seeds), 0, time.monotonic()
    while left and time.monotonic() < plan.until:
        work = {
            "target": task.target, "seeds": left, "options": plan.options, "with_initial": plan.with_initial
        }  # fmt: skip
        records, failure = _process(json.dumps(work), environment, plan.limit, keep)
        n_errors += sum("error" in record for record in records)
        left = left[len(records) :]
        if left:  # the process ended early: name the seed that did it, and go on with the rest in a new one
            keep({"target": task.target, "seed": left.pop(0), "error": failure, "seconds": plan.limit})
            n_errors += 1
    return n_errors, time.monotonic() - begun


def _process(
    work: str, environment: dict[str, str], limit: float, keep: Callable[[Record], None]
) -> tuple[list[Record], str]:
    command = [sys.executable, "-m", "benchmarks.calibration.worker", work]
    records: list[Record] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT,
    ) as process:  # fmt: skip
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            process.kill()

        complaints: list[str] = []
        reader = threading.Thread(target=lambda: complaints.extend(process.stderr or []), daemon=True)
        reader.start()
        timer = threading.Timer(2 * limit, kill)
        timer.start()
        for line in process.stdout or []:
            timer.cancel()
            if line.startswith(PREFIX):
                records.append(json.loads(line))
                keep(records[-1])
            timer = threading.Timer(limit, kill)
            timer.start()
        process.wait()
        timer.cancel()
        reader.join(timeout=5)
    if is_late.is_set():
        return records, f"TimeOut: no end within {limit:.0f} s"
    said = "".join(complaints).strip().splitlines() or [f"exit status {process.returncode}"]
    return records, f"Crash: {said[-1]}"[:300]
