"""Run every (case, sampler, seed), and match efforts to a time. What was run is kept, and the rest can wait."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from statistics import median
from threading import Lock

from benchmarks.peers.one_run import SAMPLERS, Record, module_of, run_one
from benchmarks.peers.versions import version_stamp

__all__ = ["SAMPLERS", "Record", "Runs", "free_cores", "matched_effort", "module_of", "run_one"]

PILOTS, NEAR_ENOUGH = 2, 0.7
GROWTH = (0.25, 64.0)  # of an effort from a pilot run, at the most: longer extrapolations are not trusted
START_UP = 10.0  # seconds of a run, besides its sampling, where none was made yet
Pair = tuple[str, str]  # sampler, case


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


@dataclass
class Runs:
    """All runs so far, kept in a file so that a stopped comparison goes on.

    ``limit`` is in seconds of the processor, for one run; ``deadline``, by `time.monotonic`, for all of them.
    """

    path: Path
    cores: Sequence[int]
    limit: float
    deadline: float = float("inf")
    n_pilots: int = PILOTS  # at most, of every cell
    stored: list[Record] = field(default_factory=list)
    left_out: int = 0

    def __post_init__(self) -> None:
        if self.path.is_file():
            self.stored = json.loads(self.path.read_text())
        self._lock = Lock()
        self._free: Queue[int] = Queue()
        for core in self.cores:
            self._free.put(core)

    @property
    def records(self) -> list[Record]:
        """The runs of the versions there are now."""
        return [r for r in self.stored if r.get("version") == version_stamp(r["sampler"])]

    def one(self, sampler: str, case: str, seed: int, effort: int) -> Record | None:
        """Return a record, running for it if need be; None if it is too late to begin."""
        at = {"sampler": sampler, "case": case, "seed": seed, "effort": effort, "version": version_stamp(sampler)}
        for record in self.stored:
            if at.items() <= record.items():
                return record
        core = self._free.get()
        try:
            left = self.deadline - time.monotonic()
            if left <= 0:
                self.left_out += 1
                return None
            record = at | run_one(sampler, case, seed, effort, core, min(self.limit, max(left, 1.0)))
        finally:
            self._free.put(core)
        if "failure" in record and left < self.limit:  # not the run's fault: it is none
            self.left_out += 1
            return None
        self._keep(record)
        return record

    def _keep(self, record: Record) -> None:
        with self._lock:
            self.stored.append(record)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(".partial")
            partial.write_text(json.dumps(self.stored, indent=0) + "\n")
            partial.replace(self.path)
        said = record.get("failure") or (
            f"masses {_figure(record['masses'])} moments {_figure(record['moments'])} evidence "
            f"{_figure(record['log_evidence'])} in {record['sampling']:.1f} s after {record['start_up']:.1f} s"
        )
        where = f"{record['case']:9s} {record['sampler']:20s} seed {record['seed']} effort {record['effort']:7d}"
        print(f"{where}: {said}", flush=True)

    def effort_of(self, pair: Pair, seconds: float) -> int | None:
        """Run pilots until the time is met; return the effort, None where there is none."""
        sampler, case = pair
        effort, pilots = module_of(sampler).EFFORT, []
        for _ in range(self.n_pilots):
            pilot = self.one(sampler, case, 0, effort)
            if pilot is None or "failure" in pilot:
                return None
            pilots.append(pilot)
            if NEAR_ENOUGH < pilot["sampling"] / seconds < 1 / NEAR_ENOUGH:
                return effort
            effort = matched_effort(sampler, pilots, seconds)
        return effort

    def all(self, cases: Iterable[str], samplers: Iterable[str], seeds: Iterable[int], seconds: float) -> None:
        """Run everything, one run a core at a time: all pilots first, then seed after seed over all problems."""
        pairs = [(sampler, case) for case in cases for sampler in samplers]
        with ThreadPoolExecutor(len(self.cores)) as pool:
            efforts = dict(zip(pairs, pool.map(lambda pair: self.effort_of(pair, seconds), pairs), strict=True))
            for seed in seeds:
                tasks = [(*pair, seed, effort) for pair, effort in efforts.items() if effort is not None]
                list(pool.map(lambda task: self.one(*task), tasks))

    def forecast(
        self, cases: Iterable[str], samplers: Iterable[str], n_seeds: int, seconds: float
    ) -> tuple[int, int, float]:
        """Return how many runs are kept, how many are to be made, and their processor seconds, about."""
        kept, to_make, cost = 0, 0, 0.0
        records = self.records
        for sampler, case in [(sampler, case) for case in cases for sampler in samplers]:
            own = [r for r in records if r["sampler"] == sampler and r["case"] == case]
            kept += len(own)
            if any("failure" in r and r["seed"] == 0 for r in own):
                continue
            good = [r for r in own if "failure" not in r]
            more = n_seeds - len({r["seed"] for r in good if r["seed"] > 0}) + (0 if good else self.n_pilots)
            each = median(r["start_up"] + r["sampling"] for r in good) if good else START_UP + seconds
            to_make, cost = to_make + more, cost + more * max(each, seconds)
        return kept, to_make, cost


def free_cores() -> list[int]:
    """Return the cores this process may use."""
    return sorted(os.sched_getaffinity(0))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
