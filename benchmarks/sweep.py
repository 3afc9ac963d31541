"""What each number that steers a tuned run is worth: halved and doubled, on targets of the tuning half.

The measure is the price of an answer: the square of the stated standard error times seconds of the processor, averaged
over all known quantities of all targets on a log scale, beside that of the numbers as they are. Stated errors are used
and not actual ones since a mean over few seeds is then known to some per cent; whether they hold is in the column of z,
whose root mean square should be 1.

    python -m benchmarks.sweep [--seeds 4] [--workers N] [--only NAME ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration.summary import z_of
from benchmarks.calibration.targets import half_of
from benchmarks.peers.environments import variables

TARGETS = (
    "four-modes", "challenging", "two-in-cube-2", "banana", "walled-modes", "shells-2", "unequal-modes-5", "many-well-8"
)  # fmt: skip
CHANGES: dict[str, tuple[float, float]] = {
    "DRAWS_OF_A_ROUND": (0.5, 2.0),
    "DRAWS_OF_A_FIT": (0.5, 2.0),
    "ROUNDS_REMEMBERED": (1 / 3, 2.0),
    "FIRST_ROUND": (0.5, 2.0),
    "STAYING": (0.0, 2.0),
    "DRAWS_OF_A_STAY": (0.5, 2.0),
    "SETTLING": (0.5, 2.0),
    "SAFE_REACH_OF_A_MODE": (0.5, 2.0),
    "SAFE_REACH_OF_ALL": (0.5, 2.0),
    "WARMER": (0.5, 2.0),
    "WARM_SHARE": (0.5, 2.0),
    "COLD_SHARE": (0.5, 2.0),
    "GAIN": (0.5, 2.0),
    "LEAST_SAFE": (0.5, 2.0),
    "MOST_FRESH": (0.5, 1.1),
    "CALLS_OF_A_SEARCH": (0.5, 2.0),
}
AS_IT_IS = ("", 1.0)

Variant = tuple[str, float]


def worker(name: str, factor: float, seed: int, targets: Sequence[str]) -> None:
    """Run targets with one number changed, and print a line of JSON each."""
    from tempering.learning import limits

    if name:  # before anything else of the package reads it
        value = getattr(limits, name)
        setattr(limits, name, type(value)(round(value * factor) if isinstance(value, int) else value * factor))
    from benchmarks.calibration.runs import record_of
    from benchmarks.calibration.targets import target_of

    for target in targets:
        print(json.dumps(record_of(target_of(target), seed, {}) | {"variant": [name, factor]}), flush=True)


def runs(variants: Sequence[Variant], seeds: Sequence[int], workers: int) -> Iterator[dict[str, Any]]:
    """Make all runs, a process for each variant and seed; yield their records."""

    def one(variant: Variant, seed: int, targets: Sequence[str] = TARGETS) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "benchmarks.sweep", "--worker", variant[0], str(variant[1]), str(seed)]
        command += targets
        done = subprocess.run(command, env=variables(), capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda target: one(AS_IT_IS, 0, [target]), TARGETS))  # compiles what all others find on disk
        waiting = [pool.submit(one, variant, seed) for seed in seeds for variant in variants]
        for nth, future in enumerate(as_completed(waiting), 1):
            yield from future.result()
            print(f"[{nth}/{len(waiting)}]", end=" ", file=sys.stderr, flush=True)


def log_price(record: dict[str, Any]) -> float:
    """Return the log of squared standard error times processor time, averaged over all quantities."""
    errors = np.concatenate([q["standard_error"] for q in record["quantities"] if q["can_be_found"]])
    return float(2.0 * np.mean(np.log(errors[errors > 0])) + np.log(record["processor_seconds"]))


def table(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row a change: its price beside that of the numbers as they are, and whether its errors hold."""
    by_variant: dict[Variant, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_variant[record["variant"][0], record["variant"][1]].append(record)
    usual = {(r["target"], r["seed"]): r for r in by_variant[AS_IT_IS] if "error" not in r}
    rows = []
    for (name, factor), found in sorted(by_variant.items()):
        ended = [r for r in found if "error" not in r]
        z = np.concatenate([z_of(q) for r in ended for q in r["quantities"] if q["can_be_found"]])
        pairs = [(r, usual[r["target"], r["seed"]]) for r in ended if (r["target"], r["seed"]) in usual]
        gain = np.array([log_price(mine) - log_price(other) for mine, other in pairs])
        rows.append(
            {
                "number": name or "as they are",
                "times": factor,
                "price": float(np.exp(gain.mean())),
                "known to": float(gain.std(ddof=1) / np.sqrt(len(gain))) if name else None,
                "rms z": float(np.sqrt(np.mean(z**2))),
                "covered": float(np.mean(np.abs(z) < 1.96)),
                "sound": float(np.mean([r["sound"] for r in ended])),
                "runs": len(found),
                "ended in an error": len(found) - len(ended),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="+", choices=CHANGES, metavar="NAME")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, factor, seed, *targets = options.worker
        return worker(name, float(factor), int(seed), targets)
    assert all(half_of(name) == "tuning" for name in TARGETS)
    changes = [(name, factor) for name in options.only or CHANGES for factor in CHANGES[name]]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    rows = table(list(runs([AS_IT_IS, *changes], seeds, options.workers)))
    for row in rows:
        print("  ".join(f"{key} {value:.3g}" if isinstance(value, float) else f"{value}" for key, value in row.items()))
    if options.json:
        about = {"machine": f"{platform.system()}, {platform.machine()}", "workers": options.workers}
        about |= {"seeds": options.seeds, "targets": ", ".join(TARGETS), "date": time.strftime("%Y-%m-%d")}
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
