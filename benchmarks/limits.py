"""Where the default call does not work, on every target of the suite.

`tp.sample` runs with its defaults and is compared with the truth. A target is listed where
a run ended in an error or out of time, where errors are above .02 of a mass, .1 in log Z or .1 deviations of a mean
(root mean square over runs of the largest of each kind), or where a run was off by more than four of its own standard
errors; beside it stands what the runs said of themselves. The records are those of the calibration: with
``--tables-only --records FILE`` its runs serve as well. ``--many-dimensions`` takes the targets of 10 to 1,024
dimensions that the suite was begun for, those that take longest first; records are written as runs end, so that a
machine that is given back early has those that were made.
"""

import argparse
import json
import math
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration.__main__ import read
from benchmarks.calibration.summary import EVIDENCE, MASSES, errors_of, z_of
from benchmarks.calibration.tasks import Plan, run_all, tasks_of
from benchmarks.peers.__main__ import about
from benchmarks.suite.cases import scales
from tempering import problems

MANY_DIMENSIONS = (
    "phi4-chain-400",
    "twin-modes-1000",
    "cox-32x32",
    "many-well-64",
    "phi4-chain-100",
    "many-well-32",
    "shells-30",
    "rosenbrock-pairs-30",
    "rosenbrock-pairs-10",
    "funnel-30",
    "funnel-10",
    "spike-and-slab-20",
)
BARS = {"masses": 0.02, "log Z": 0.1, "means": 0.1}
PRINTED = (*BARS, "largest z", "processor s")
FAR = 4.0  # standard errors
FIGURES = re.compile(r"[0-9][0-9.]*")
FOLDER = Path(__file__).parents[1] / "build" / "benchmarks"  # not tracked
Record = dict[str, Any]


def errors(name: str, record: Record) -> dict[str, float]:
    """Return the largest errors of one run: of masses, of log Z, and of other means in deviations."""
    known = problems.suite()[name]
    deviations = {q.name: scale for q, scale in zip(known.quantities, scales(known), strict=True)}
    found: dict[str, float] = {}
    for quantity in record["quantities"]:
        kind = {MASSES: "masses", EVIDENCE: "log Z"}.get(quantity["name"], "means")
        size = np.abs(errors_of(quantity)) / (deviations.get(quantity["name"], 1.0) if kind == "means" else 1.0)
        found[kind] = max(found.get(kind, 0.0), float(np.max(size)))
    return found


def row_of(name: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return what happened on one target, over its runs."""
    ended = [record for record in records if "error" not in record]
    each = [errors(name, record) for record in ended]
    rms = {
        kind: float(np.sqrt(np.mean([e[kind] ** 2 for e in each]))) if each and kind in each[0] else None
        for kind in BARS
    }
    z = [max((float(np.max(np.abs(z_of(q)))) for q in record["quantities"]), default=0.0) for record in ended]
    times = [record["processor_seconds"] for record in ended if "processor_seconds" in record]
    row = {
        "target": name,
        "what": problems.suite()[name].title,
        "runs": len(records),
        "not ended": len(records) - len(ended),
        **rms,
        "largest z": max(z, default=None),
        "calls itself sound": sum(bool(record["sound"]) for record in ended),
        "processor s": float(np.median(times)) if times else None,
    }
    return row | {"why": why(row), "says": says(records), "sound, but far off": sum(
        record["sound"] and value > FAR for record, value in zip(ended, z, strict=True)
    )}  # fmt: skip


def why(row: dict[str, Any]) -> str:
    """Name what is wrong with a target, nothing if it works."""
    said = []
    if row["not ended"]:
        said.append("does not end")
    said += [f"error of {kind}" for kind, bar in BARS.items() if (row[kind] or 0.0) > bar]
    if (row["largest z"] or 0.0) > FAR:
        said.append("error bars too small")
    return ", ".join(said)


def says(records: Sequence[Record]) -> str:
    """Return the complaint that is made most often, figures apart, or that runs look sound."""
    complaints = [record.get("error") or next(iter(record["sentences"]), "") for record in records]
    kinds = Counter(FIGURES.sub("#", text) for text in complaints if text)
    if not kinds:
        return "looks sound"
    most = kinds.most_common(1)[0][0]
    return next(text for text in complaints if FIGURES.sub("#", text) == most)


def rows_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return a row for each target, those that do not work first."""
    names = [name for name in problems.suite() if any(record["target"] == name for record in records)]
    rows = [row_of(name, [record for record in records if record["target"] == name]) for name in names]
    return in_order(rows)


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of the table, those of targets that do not work first, and of these the silent ones."""
    return sorted(rows, key=lambda row: (not row["why"], -row["sound, but far off"]))


def store(path: Path, rows: list[dict[str, Any]], arguments: dict[str, Any]) -> None:
    """Write the table; rows stay that are there of targets which were not measured again, each with its date."""
    today = about(0, 0.0, 0.0)["date"]
    stored = json.loads(path.read_text()) if path.is_file() else {"about": {}, "limits": []}
    measured = {row["target"] for row in rows}
    before = [{"date": stored["about"]["date"]} | row for row in stored["limits"] if row["target"] not in measured]
    rows = in_order([row | {"date": today} for row in rows] + before)
    facts = {
        "date": today,
        "seeds": max((row["runs"] for row in rows), default=0),
        "arguments of the call": arguments or "defaults",
        "targets": len(rows),
        "that work": sum(not row["why"] for row in rows),
        "runs called sound though off by more than four standard errors": sum(r["sound, but far off"] for r in rows),
    }
    path.write_text(json.dumps({"about": facts, "limits": rows}, indent=1) + "\n")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--targets", nargs="+", choices=list(problems.suite()), metavar="NAME")
    parser.add_argument("--many-dimensions", action="store_true", help="only the targets of many dimensions")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds-per-process", type=int, help="by default all of a target")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a run may take by the clock")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no process after so long")
    parser.add_argument("--options", type=json.loads, default={}, help="arguments of tp.sample")
    parser.add_argument(
        "--records", type=Path, nargs="+", default=[FOLDER / "limits.jsonl"], metavar="FILE",
        help="files of runs, of several machines say; those that are made are added to the first",
    )  # fmt: skip
    parser.add_argument("--tables-only", action="store_true", help="run nothing: the table of the runs kept")
    parser.add_argument("--json", type=Path, help="write the table to this file; rows of other targets stay")
    return parser.parse_args(arguments)


def make(options: argparse.Namespace, kept: list[Record]) -> list[Record]:
    """Make the runs that are not kept."""
    done = {(record["target"], record["seed"]) for record in kept}
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    names = MANY_DIMENSIONS if options.many_dimensions else options.targets or problems.suite()
    todo = {name: [s for s in seeds if (name, s) not in done] for name in names}
    options.records[0].parent.mkdir(parents=True, exist_ok=True)
    with options.records[0].open("a") as file, tempfile.TemporaryDirectory() as programs:

        def keep(record: Record) -> None:
            kept.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()

        plan = Plan(options.options, False, options.limit, programs, time.monotonic() + options.seconds)
        tasks = tasks_of(todo, options.workers, options.seeds_per_process or options.seeds)
        for line in run_all(tasks, plan, options.workers, keep):
            print(line, flush=True)
    return kept


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    each = {(record["target"], record["seed"]): record for path in options.records for record in read(path)}
    kept = list(each.values())
    rows = rows_of(kept if options.tables_only else make(options, kept))
    print(f"{'target':22} {'what is wrong':40} {' '.join(f'{key[:9]:>9}' for key in PRINTED)}  what runs say")
    for row in rows:
        figures = " ".join(f"{'-' if row.get(key) is None else format(row[key], '.2g'):>9}" for key in PRINTED)
        print(f"{row['target']:22} {row['why'] or 'works':40} {figures}  {row['says'][:60]}")
    if options.json:
        store(options.json, rows, options.options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
