"""Run the comparison: ``python -m benchmarks.peers [--full] [--json FILE]``."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import benchmarks.peers
from benchmarks.peers import environments, models
from benchmarks.peers.cases import MAKERS
from benchmarks.peers.picture import draw
from benchmarks.peers.runs import SAMPLERS, Runs, free_cores, module_of
from benchmarks.peers.summary import Summary, printed

QUICK_CASES = ("mixture", "ring", "modes_5", "sensors")
QUICK_SAMPLERS = (
    "tempering",
    "blackjax_tempered",
    "numpyro_nuts",
    "emcee_ensemble",
    "dynesty_dynamic",
    "eryn_parallel",
)
# limits in seconds of the processor for the seeds of a cell together, minutes by the clock for all
QUICK = {"seeds": 1, "seconds": 3.0, "limit": 60.0, "minutes": 8.5, "pilots": 1}
FULL = {"seeds": 10, "seconds": 3.0, "limit": 900.0, "minutes": float("inf"), "pilots": 2}
FOLDER = Path(__file__).parents[2] / "build" / "benchmarks"  # not tracked


def about(seeds: int, seconds: float, load: float) -> dict[str, object]:
    """Return on what the figures were measured."""
    return {
        "machine": f"{platform.system()}, {platform.machine()}",
        "python": platform.python_version(),
        "cores": f"{os.cpu_count()}, one a run",
        "load when it began": round(load, 1),
        "date": time.strftime("%Y-%m-%d"),
        "seeds": seeds,
        "sampling seconds aimed at": seconds,
    }


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=benchmarks.peers.__doc__)
    parser.add_argument("--full", action="store_true", help="all problems, all peers, ten seeds, the models too")
    parser.add_argument("--cases", nargs="+", choices=list(MAKERS))
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS)
    parser.add_argument("--seeds", type=int, help="runs of every cell besides its pilots; 0: only those")
    parser.add_argument("--seconds", type=float, help="of sampling that a run should last, by the processor")
    parser.add_argument("--limit", type=float, help="seconds of the processor after which a cell's seeds are given up")
    parser.add_argument("--minutes", type=float, help="by the clock, after which no run is begun: the rest can wait")
    parser.add_argument("--jobs", type=int, help="runs at a time, each pinned to a core; all cores by default")
    parser.add_argument("--runs", type=Path, help="file of all runs; those of the same versions are not run again")
    parser.add_argument("--tables-only", action="store_true", help="run nothing: tables of the runs kept")
    parser.add_argument("--models", action="store_true", help="the treed GP beside tgp, and mark-recapture")
    parser.add_argument(
        "--json", type=Path, help="write the tables to this file, and the picture beside the docs' images"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    kind = FULL if options.full else QUICK
    cases = options.cases or (list(MAKERS) if options.full else QUICK_CASES)
    samplers = options.samplers or (SAMPLERS if options.full else QUICK_SAMPLERS)
    seeds = options.seeds if options.seeds is not None else int(kind["seeds"])
    seconds = options.seconds or kind["seconds"]
    load = os.getloadavg()[0]
    path = options.runs or FOLDER / ("peers-full.json" if options.full else "peers-quick.json")
    if not (options.runs or options.full or options.tables_only):
        path.unlink(missing_ok=True)  # a quick comparison is made afresh, a full one goes on where it was stopped
    minutes = options.minutes if options.minutes is not None else kind["minutes"]
    runs = Runs(path, free_cores()[: options.jobs], options.limit or kind["limit"], n_pilots=int(kind["pilots"]))
    if not options.tables_only:
        run_all(runs, cases, samplers, seeds, seconds, minutes)
    summary = Summary(runs.records)
    print(printed(summary))
    if options.json:
        tables = {"about": about(seeds, seconds, load), **summary.tables()}
        if options.full or options.models:
            tables["models"] = models.rows()
        options.json.write_text(json.dumps(tables, indent=1) + "\n")
        draw(summary, Path(__file__).parents[2] / "docs" / "images" / "peers.png")
    return 0


def run_all(
    runs: Runs, cases: Sequence[str], samplers: Sequence[str], seeds: int, seconds: float, minutes: float
) -> None:
    """Make the environments, say how long it will take, and run what is not kept from earlier."""
    for environment in sorted({module_of(sampler).ENVIRONMENT for sampler in samplers} - {"own"}):
        environments.make(environment)
    kept, to_make, cost = runs.forecast(cases, samplers, seeds, seconds)
    by_clock = cost / len(runs.cores) / 60
    print(
        f"{kept} runs kept in {runs.path}, {to_make} to make: about {cost / 60:.0f} minutes of the processor, "
        f"{by_clock:.0f} by the clock with {len(runs.cores)} at a time on idle cores. Stop it when you like: the same "
        "command goes on.",
        flush=True,
    )
    runs.deadline = time.monotonic() + 60 * minutes
    runs.all(cases, samplers, range(1, seeds + 1), seconds)
    if runs.left_out:
        print(f"{runs.left_out} runs were left out: {minutes:g} minutes were over.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
