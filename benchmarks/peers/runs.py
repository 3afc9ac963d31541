"""Run every (case, sampler, seed), and match efforts to a time. What was run is kept, and the rest can wait."""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from statistics import median
from threading import Lock

from benchmarks.peers.processes import SAMPLERS, Record, module_of, run_seeds
from benchmarks.peers.versions import version_stamp

__all__ = ["SAMPLERS", "Record", "Runs", "free_cores", "matched_effort", "module_of", "run_seeds"]

PILOTS, NEAR_ENOUGH = 2, 0.7
GROWTH = 64.0  # of an effort from a pilot run, at the most: longer extrapolations are not trusted
START_UP = 10.0  # seconds of a run, besides its sampling, where none was made yet
Pair = tuple[str, str]  # sampler, case


def matched_effort(sampler: str, pilots: list[Record], seconds: float) -> int:
    """Return the effort that should take ``seconds`` of sampling, by a pilot's pace or the line through two.

    It is never less than the sampler's own default: a run cut short of its warm-up would say nothing of the sampler.
    """
    last, first = pilots[-1], pilots[0]
    effort = last["effort"] * seconds / max(last["sampling"], 1e-3)
    if last["effort"] != first["effort"]:
        pace = (last["sampling"] - first["sampling"]) / (last["effort"] - first["effort"])
        if pace > 0:  # what does not grow with the effort, tuning for one, is left out
            effort = last["effort"] + (seconds - last["sampling"]) / pace
    return max(module_of(sampler).EFFORT, int(min(effort, GROWTH * last["effort"])))


@dataclass
class Runs:
    """All runs so far, kept in a file so that a stopped comparison goes on.

    ``limit`` is in seconds of the processor, for the seeds of a cell; ``deadline`` is of all, by `time.monotonic`.
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

    def of_seeds(self, pair: Pair, seeds: Sequence[int], effort: int) -> list[Record]:
        """Return a record for each seed, running for those that are not kept; none of those it is too late for."""
        sampler, case = pair
        at = {"sampler": sampler, "case": case, "effort": effort, "version": version_stamp(sampler)}
        kept = [r for r in self.stored if at.items() <= r.items() and r["seed"] in seeds]
        missing = [seed for seed in seeds if seed not in {r["seed"] for r in kept}]
        return kept + (self._made(pair, missing, effort) if missing else [])

    def _made(self, pair: Pair, seeds: Sequence[int], effort: int) -> list[Record]:
        core = self._free.get()
        try:
            left = self.deadline - time.monotonic()
            made = run_seeds(*pair, seeds, effort, core, min(self.limit, left)) if left > 1 else []
        finally:
            self._free.put(core)
        if left < self.limit:  # what did not end in time is not the sampler's fault: it is no run
            made = [r for r in made if "failure" not in r]
        self.left_out += len(seeds) - len(made)
        made = [r | {"version": version_stamp(pair[0])} for r in made]
        if made:
            self._keep(made)
        return made

    def _keep(self, records: Sequence[Record]) -> None:
        with self._lock:
            self.stored.extend(records)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(".partial")
            partial.write_text(json.dumps(self.stored, indent=0) + "\n")
            partial.replace(self.path)
        for record in records:
            print(_line_of(record), flush=True)

    def pilots_of(self, pair: Pair, seconds: float) -> tuple[list[Record], int]:
        """Run pilots until the time is met; return them and the effort that meets it.

        A sampler whose default is a long run may name a ``SHORT`` one, to tell tuning from what follows it.
        """
        module, pilots = module_of(pair[0]), []
        effort = getattr(module, "SHORT", module.EFFORT)
        for _ in range(self.n_pilots):
            pilot = self.of_seeds(pair, (0,), effort)
            if not pilot or "failure" in pilot[0]:
                return [], effort
            pilots += pilot
            if effort >= module.EFFORT and NEAR_ENOUGH < pilot[0]["sampling"] / seconds < 1 / NEAR_ENOUGH:
                return pilots, effort
            effort = matched_effort(pair[0], pilots, seconds)
        return pilots, effort

    def all(self, cases: Iterable[str], samplers: Sequence[str], seeds: Sequence[int], seconds: float) -> None:
        """Run everything, a process a core at a time: all pilots first, then the seeds of the most promising."""
        pairs = [(sampler, case) for case in cases for sampler in samplers]
        with ThreadPoolExecutor(len(self.cores)) as pool:
            pilots = dict(zip(pairs, pool.map(lambda pair: self.pilots_of(pair, seconds), pairs), strict=True))
            if seeds:
                list(pool.map(lambda pair: self.of_seeds(pair, seeds, pilots[pair][1]), by_promise(pilots)))

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
            each = median(r["sampling"] for r in good) if good else seconds
            start = max((r["start_up"] or 0.0 for r in good), default=START_UP)
            to_make, cost = to_make + more, cost + more * max(each, seconds) + start * (more > 0)
        return kept, to_make, cost


def free_cores() -> list[int]:
    """Return the cores this process may use."""
    return sorted(os.sched_getaffinity(0))


def by_promise(pilots: Mapping[Pair, tuple[Sequence[Record], int]]) -> list[Pair]:
    """Return the pairs that have pilots: of every case the one of least error^2 x time first, then the second ones."""

    def cost(pair: Pair) -> float:
        last = pilots[pair][0][-1]
        return float((last["moments"] if last["masses"] is None else last["masses"]) ** 2 * last["sampling"])

    ranked: list[tuple[int, Pair]] = []
    for case in dict.fromkeys(case for _, case in pilots):
        able = [pair for pair, (runs, _) in pilots.items() if pair[1] == case and runs]
        ranked += enumerate(sorted(able, key=cost))
    return [pair for _, pair in sorted(ranked, key=lambda item: item[0])]


def _line_of(record: Record) -> str:
    where = f"{record['case']:9s} {record['sampler']:20s} seed {record['seed']} effort {record['effort']:7d}"
    if "failure" in record:
        return f"{where}: {record['failure']}"
    after = "" if record["start_up"] is None else f" after {record['start_up']:.1f} s"
    errors = f"masses {_figure(record['masses'])} moments {_figure(record['moments'])}"
    return f"{where}: {errors} evidence {_figure(record['log_evidence'])} in {record['sampling']:.1f} s{after}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
