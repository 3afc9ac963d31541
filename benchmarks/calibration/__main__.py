"""Run it: ``python -m benchmarks.calibration [--tenth] [--half tuning] [--workers N] [--json FILE]``."""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import benchmarks.calibration
from benchmarks.calibration.summary import printed, quantity_table, rows_of, totals
from benchmarks.calibration.targets import HALVES, NAMES, half_of, names_of
from benchmarks.calibration.tasks import Plan, run_all, tasks_of

SEEDS, TENTH = 20, 2
FOLDER = Path(__file__).parents[2] / "build" / "benchmarks"  # not tracked


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.calibration", description=benchmarks.calibration.__doc__
    )
    parser.add_argument("--half", choices=(*HALVES, "both"), default="both")
    parser.add_argument("--targets", nargs="+", choices=NAMES, metavar="NAME", help="only these")
    parser.add_argument("--seeds", type=int, help=f"runs of every target, {SEEDS} by default")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--tenth", action="store_true", help=f"{TENTH} seeds: some ten minutes on two cores")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at a time, one thread each")
    parser.add_argument("--seeds-per-process", type=int, help="by default as many as keep all workers busy")
    parser.add_argument("--options", type=json.loads, default={}, help="arguments of tp.sample: '{\"draws\": 2000}'")
    parser.add_argument("--with-initial", action="store_true", help="give a starting point where there is a prior too")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that a run may take by the clock")
    parser.add_argument("--records", type=Path, help="file of all runs, a line each; made afresh unless --resume")
    parser.add_argument("--resume", action="store_true", help="keep the runs of --records, and make the others")
    parser.add_argument("--tables-only", action="store_true", help="run nothing: tables of the runs kept")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--list", action="store_true", help="print the targets and their halves")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    names = options.targets or names_of(options.half)
    if options.list:
        print("\n".join(f"{half_of(name):8} {name}" for name in names))
        return 0
    path = options.records or FOLDER / "calibration.jsonl"
    kept = read(path) if options.resume or options.tables_only else []
    if not options.tables_only:
        kept = make(path, kept, names, options)
    rows = rows_of([record for record in kept if record["target"] in names])
    print(printed(rows))
    if options.json:
        options.json.write_text(json.dumps(tables(rows, options), indent=1) + "\n")
    return 0


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; a line that a kill cut off is left out."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def make(path: Path, kept: list[dict[str, Any]], names: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Make the runs that are not kept, and write each down when it ends."""
    n_seeds = options.seeds or (TENTH if options.tenth else SEEDS)
    done = {(record["target"], record["seed"]) for record in kept}
    seeds = range(options.first_seed, options.first_seed + n_seeds)
    todo = {name: [seed for seed in seeds if (name, seed) not in done] for name in names}
    tasks = tasks_of(todo, options.workers, options.seeds_per_process)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if options.resume else "w") as file, tempfile.TemporaryDirectory() as programs:

        def keep(record: dict[str, Any]) -> None:
            kept.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()

        plan = Plan(options.options, options.with_initial, options.limit, programs)
        print(f"{sum(map(len, todo.values()))} runs, {len(tasks)} tasks, {options.workers} at a time", flush=True)
        for line in run_all(tasks, plan, options.workers, keep):
            print(line, flush=True)
    return kept


def tables(rows: list[Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return what is stored: the judging half first, as the page shows it."""
    halves = {half: [row for row in rows if half_of(row.name) == half] for half in ("judging", "tuning")}
    about: dict[str, Any] = {
        "machine": f"{platform.system()}, {platform.machine()}",
        "python": platform.python_version(),
        "workers": options.workers,
        "date": time.strftime("%Y-%m-%d"),
        "arguments of the call": options.options or "defaults",
    }
    out: dict[str, Any] = {"about": about}
    for half, members in halves.items():
        if members:
            about[f"{half} half"] = totals(members)
            out[f"{half}_half"] = [row.figures() for row in members]
    return out | {"quantities_of_the_judging_half": quantity_table(halves["judging"])}


if __name__ == "__main__":
    sys.exit(main())
