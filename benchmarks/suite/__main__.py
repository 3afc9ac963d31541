"""Run it: ``python -m benchmarks.suite [--full] [--targets NAME ...] [--samplers NAME ...] [--json FILE]``."""

import argparse
import json
import os
import sys
from pathlib import Path

import benchmarks.suite
from benchmarks.peers.__main__ import about, run_all
from benchmarks.peers.runs import SAMPLERS, Runs, free_cores
from benchmarks.peers.summary import Summary, printed
from tempering import problems

OURS, LEFT_OUT = "tempering", ("tfp_exchange", "pymc_smc")  # those take priors of their own making only
ABLE = tuple(sampler for sampler in SAMPLERS if sampler not in LEFT_OUT)
QUICK_TARGETS = (
    "four-modes", "gmm-40", "eggbox", "shells-5", "log-gamma-4", "rosenbrock-2", "many-well-8", "funnel-10",
    "student-modes-4", "twin-modes-32",
)  # fmt: skip
QUICK_SAMPLERS = (
    OURS, "dynesty_dynamic", "nautilus_importance", "ultranest_reactive", "jaxns_nested", "reddemcee_parallel",
    "tempest_persistent",
)  # fmt: skip
QUICK = {"seeds": 1, "seconds": 3.0, "limit": 120.0, "pilots": 1}
FULL = {"seeds": 10, "seconds": 5.0, "limit": 900.0, "pilots": 2}
OF_THIS_MACHINE = ("machine", "python", "cores", "load when it began")
FOLDER = Path(__file__).parents[2] / "build" / "benchmarks"  # not tracked


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=benchmarks.suite.__doc__)
    parser.add_argument("--full", action="store_true", help="all targets, all samplers, ten seeds: a night and more")
    parser.add_argument("--targets", nargs="+", choices=list(problems.suite()), metavar="NAME")
    parser.add_argument("--samplers", nargs="+", choices=ABLE, metavar="NAME", help=", ".join(ABLE))
    parser.add_argument("--seeds", type=int, help="runs of every cell besides its pilots; 0: only those")
    parser.add_argument("--seconds", type=float, help="of sampling that a run should last, by the processor")
    parser.add_argument("--limit", type=float, help="seconds of the processor after which a cell's seeds are given up")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="by the clock, then no run is begun")
    parser.add_argument("--jobs", type=int, help="runs at a time, each pinned to a core; all cores by default")
    parser.add_argument("--runs", type=Path, default=FOLDER / "suite.json", help="file of all runs, which are kept")
    parser.add_argument("--tables-only", action="store_true", help="run nothing: tables of the runs kept")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    parser.add_argument("--machine", help="what the runs kept were made on, where it was another machine than this")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    kind = FULL if options.full else QUICK
    targets = options.targets or (list(problems.suite()) if options.full else QUICK_TARGETS)
    samplers = options.samplers or (ABLE if options.full else QUICK_SAMPLERS)
    seeds = options.seeds if options.seeds is not None else int(kind["seeds"])
    seconds, load = options.seconds or kind["seconds"], os.getloadavg()[0]
    runs = Runs(
        options.runs, free_cores()[: options.jobs], options.limit or kind["limit"], n_pilots=int(kind["pilots"])
    )
    if not options.tables_only:
        run_all(runs, targets, samplers, seeds, seconds, options.minutes)
    summary = Summary([record for record in runs.records if record["case"] in targets])
    print(printed(summary))
    if options.json:
        facts = about(seeds, seconds, load)
        if options.machine:
            facts = {"machine": options.machine} | {key: facts[key] for key in facts if key not in OF_THIS_MACHINE}
        limit = {"limit of a cell in seconds of the processor": runs.limit}
        tables = {"about": facts | limit, **summary.tables()}
        options.json.write_text(json.dumps(tables, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
