"""Run it: ``python -m benchmarks.one_hump [--half tuning] [--posteriors ...] [--seeds 1 2] [--json FILE]``."""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks.one_hump
from benchmarks.one_hump.models import HALVES, MAKERS, half_of, posterior
from benchmarks.one_hump.worker import NUTS, WANTED
from benchmarks.peers import environments
from benchmarks.start_up import machine

SAMPLERS = ("tempering", *NUTS)
LIMIT = 900  # seconds by the clock for a process


def ran(sampler: str, name: str, seed: int) -> dict[str, Any]:
    """Run one process, which finds nothing compiled."""
    command = [sys.executable, "-m", "benchmarks.one_hump.worker", sampler, name, str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        env = environments.variables() | {"TEMPERING_CACHE": folder}
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"failure": f"more than {LIMIT} s"}
    if done.returncode:
        return {"failure": done.stderr.strip().splitlines()[-1][:300]}
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def row_of(name: str, seed: int, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return one posterior and seed as a row of a table."""
    own = found["tempering"]
    row: dict[str, Any] = {"half": half_of(name), "posterior": posterior(name).what, "seed": seed}
    others = {s: r for s, r in found.items() if s in NUTS and "failure" not in r and np.isfinite(r["seconds"])}
    if "failure" in own:
        return row | {"failure": own["failure"]}
    row |= {"seconds": own["seconds"], "effective draws": own["effective_draws"], "sound": own["sound"]}
    if others:
        best = min(others, key=lambda s: others[s]["seconds"])
        gap = np.array(own["mean"]) - others[best]["mean"]
        z = gap / np.hypot(own["error"], others[best]["error"])
        row |= {"NUTS": others[best]["seconds"], "its chains": int(best.removeprefix("nuts_"))}
        is_reached = own["effective_draws"] >= WANTED
        row |= {"ratio": own["seconds"] / others[best]["seconds"] if is_reached else None}
        row |= {"largest z": float(np.max(np.abs(z)))}
        row |= {"its effective draws": others[best]["effective_draws"]}
    row |= {f"default call: {key}": own[f"default_{key}"] for key in ("seconds", "effective_draws", "sound")}
    return row


def printed(row: dict[str, Any]) -> str:
    cells = (f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    return "; ".join(cells)


def store(file: Path, setting: dict[str, object], rows: list[dict[str, Any]]) -> None:
    """Write rows to a file; those of other posteriors and seeds are kept."""
    known = json.loads(file.read_text())["rows"] if file.exists() else []
    new = {(row["posterior"], row["seed"]) for row in rows}
    together = [row for row in known if (row["posterior"], row["seed"]) not in new] + rows
    together.sort(key=lambda row: (row["half"], row["posterior"], row["seed"]))
    file.write_text(json.dumps({"about": setting, "rows": together}, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_hump", description=benchmarks.one_hump.__doc__)
    parser.add_argument("--half", choices=HALVES, help="by default both")
    parser.add_argument("--posteriors", nargs="+", choices=list(MAKERS))
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--json", type=Path, help="write the rows to this file, in place of those it has of the same")
    options = parser.parse_args(arguments)
    names = options.posteriors or [name for name in MAKERS if options.half in (None, half_of(name))]
    setting, rows = machine() | {"numpyro": version("numpyro")}, []
    for name in names:
        for seed in options.seeds:
            found = {sampler: ran(sampler, name, seed) for sampler in options.samplers}
            for sampler, record in found.items():
                print(sampler, json.dumps({k: v for k, v in record.items() if k not in ("mean", "error")}), flush=True)
            if "tempering" in found:
                rows.append(row_of(name, seed, found))
                print(printed(rows[-1]), flush=True)
            if options.json is not None:
                store(options.json, setting, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
