"""Run every (case, sampler, seed) in a process of its own, and match efforts to a time."""

import importlib
import json
import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import ModuleType
from typing import Any

from benchmarks.peers.environments import FOLDER, python_of, variables

SAMPLERS = (
    "tempering", "blackjax_tempered", "blackjax_persistent", "numpyro_nuts", "emcee_ensemble", "dynesty_dynamic",
    "ptemcee_parallel", "eryn_parallel", "pymc_smc", "tfp_exchange", "pocomc_flow",
)  # fmt: skip
PILOTS, NEAR_ENOUGH = 2, 0.7
GROWTH = (0.25, 64.0)  # of an effort from a pilot run, at the most: longer extrapolations are not trusted
Record = dict[str, Any]


def module_of(sampler: str) -> ModuleType:
    """Return a sampler's file."""
    return importlib.import_module(f"benchmarks.peers.samplers.{sampler}")


def run_one(sampler: str, case: str, seed: int, effort: int, core: int, limit: float) -> Record:
    """Run one process pinned to a core; a crash, or more than ``limit`` seconds by the clock, is a record too."""
    task = [python_of(module_of(sampler).ENVIRONMENT), "-m", "benchmarks.peers.worker", sampler, case]
    at: Record = {"sampler": sampler, "case": case, "seed": seed, "effort": effort}
    try:
        done = subprocess.run(
            [*task, str(seed), str(effort), str(core)], capture_output=True, text=True, check=False, timeout=limit,
            env=variables(), cwd=FOLDER.parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return at | {"failure": f"did not end within {limit:.0f} s by the clock"}
    except OSError as failure:
        return at | {"failure": f"not installed: {failure}"[:300]}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return at | {"failure": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:300]}
    record: Record = json.loads(lines[-1])
    return record


def matched_effort(sampler: str, pilots: list[Record], seconds: float) -> int:
    """Return the effort that should take ``seconds`` of sampling, by a pilot's pace or the line through two."""
    last, first = pilots[-1], pilots[0]
    effort = last["effort"] * seconds / max(last["sampling"], 1e-3)
    if last["effort"] != first["effort"]:
        pace = (last["sampling"] - first["sampling"]) / (last["effort"] - first["effort"])
        if pace > 0:  # what does not grow with the effort, tuning for one, is left out
            effort = last["effort"] + (seconds - last["sampling"]) / pace
    effort = min(max(effort, GROWTH[0] * last["effort"]), GROWTH[1] * last["effort"])
    return max(module_of(sampler).LEAST, int(effort))


class Runs:
    """All runs so far, kept in a file so that a stopped comparison goes on."""

    def __init__(self, path: Path, cores: Iterable[int], limit: float) -> None:
        self.path, self.limit = path, limit
        self.records: list[Record] = json.loads(path.read_text()) if path.is_file() else []
        self.cores: Queue[int] = Queue()
        self.n_cores = 0
        for core in cores:
            self.cores.put(core)
            self.n_cores += 1

    def one(self, sampler: str, case: str, seed: int, effort: int) -> Record:
        """Return a record, running for it if need be."""
        at = {"sampler": sampler, "case": case, "seed": seed, "effort": effort}
        for record in self.records:
            if at.items() <= record.items():
                return record
        core = self.cores.get()
        try:
            record = run_one(sampler, case, seed, effort, core, self.limit)
        finally:
            self.cores.put(core)
        self.records.append(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.records, indent=0) + "\n")
        said = record.get("failure") or (
            f"masses {_figure(record['masses'])} moments {_figure(record['moments'])} evidence "
            f"{_figure(record['log_evidence'])} in {record['sampling']:.1f} s after {record['start_up']:.1f} s"
        )
        print(f"{case:9s} {sampler:20s} seed {seed} effort {effort:7d}: {said}", flush=True)
        return record

    def pilot_and_seeds(self, sampler: str, case: str, seeds: Iterable[int], seconds: float) -> None:
        """Run a pilot, a second one if the time was not met, then every seed at the effort that takes it."""
        effort, pilots = module_of(sampler).EFFORT, []
        for _ in range(PILOTS):
            pilots.append(self.one(sampler, case, 0, effort))
            if "failure" in pilots[-1]:
                return
            if NEAR_ENOUGH < pilots[-1]["sampling"] / seconds < 1 / NEAR_ENOUGH:
                break
            effort = matched_effort(sampler, pilots, seconds)
        for seed in seeds:
            if "failure" in self.one(sampler, case, seed, effort):
                return

    def all(self, cases: Iterable[str], samplers: Iterable[str], seeds: Iterable[int], seconds: float) -> None:
        """Run everything, as many at a time as there are cores."""
        pairs = [(sampler, case) for case in cases for sampler in samplers]
        with ThreadPoolExecutor(self.n_cores) as pool:
            list(pool.map(lambda pair: self.pilot_and_seeds(*pair, list(seeds), seconds), pairs))


def free_cores() -> list[int]:
    """Return the cores this process may use."""
    return sorted(os.sched_getaffinity(0))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
