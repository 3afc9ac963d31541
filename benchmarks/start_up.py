"""How long until the first answer: first and second process, first and second call, beside other samplers on JAX.

    python -m benchmarks.start_up [--cases quickstart labels sensors] [--samplers ...] [--json FILE]

Each sampler runs in two processes, one after the other, and makes two calls in each, with its defaults (those of
`benchmarks.peers`). The first process finds nothing compiled. In the second, tempering finds the programs it has kept
by itself; the others are given JAX's persistent compilation cache, which a user has to switch on. Figures are seconds
of the processor, which other programs at work change less than the clock; both are in the JSON.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers import environments

CASES = ("quickstart", "labels", "sensors")
ENVIRONMENTS = {"tempering": "own", "numpyro_nuts": "own", "blackjax_tempered": "own", "tfp_exchange": "tfp"}
BARS = {"quickstart": (4.0, 2.0), "labels": (12.0, 4.0), "sensors": (8.0, None)}  # first process, second to first draws
LIMIT = 900  # seconds by the clock for a process


def ran(sampler: str, case: str, folder: str) -> dict[str, Any]:
    """Run one process; programs are looked for, and left, in a folder."""
    kept = {
        "TEMPERING_CACHE": str(Path(folder) / "tempering"),
        "JAX_COMPILATION_CACHE_DIR": str(Path(folder) / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if sampler == "tempering":
        kept = {"TEMPERING_CACHE": kept["TEMPERING_CACHE"]}
    python = environments.python_of(ENVIRONMENTS[sampler])
    command = [python, "-m", "benchmarks._start_up", sampler, case, repr(time.time())]
    try:
        done = subprocess.run(
            command, env=environments.variables() | kept, capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"sampler": sampler, "case": case, "failure": f"more than {LIMIT} s"}
    if done.returncode:
        return {"sampler": sampler, "case": case, "failure": done.stderr.strip().splitlines()[-1][:300]}
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def both(sampler: str, case: str) -> list[dict[str, Any]]:
    """Run the first and the second process."""
    with tempfile.TemporaryDirectory() as folder:
        return [{"process": which} | ran(sampler, case, folder) for which in ("first", "second")]


def row(record: dict[str, Any]) -> str:
    start = f"{record['case']:11} {record['sampler']:18} {record['process']:7}"
    if "failure" in record:
        return f"{start} {record['failure']}"
    first, second = record["calls"]
    to_draws = f"{record['to_draws'][1]:8.1f}" if record["to_draws"] else f"{'':8}"
    return (
        f"{start} {record['importing']['processor']:8.1f} {to_draws} {first['processor']:8.1f} "
        f"{second['processor']:8.1f} {first['programs'] - first['from_disk']:9} {first['from_disk']:5} "
        f"{first['compiling']:9.1f} {first['tracing']:8.1f}"
    )


HEADER = (
    f"{'case':11} {'sampler':18} {'process':7} {'import':>8} {'to draws':>8} {'1st call':>8} {'2nd call':>8} "
    f"{'compiled':>9} {'disk':>5} {'compiling':>9} {'tracing':>8}"
)


def verdicts(records: list[dict[str, Any]]) -> list[str]:
    """Say what was reached of what was asked: seconds from the start of the process, imports included."""
    lines = []
    for record in records:
        if record["sampler"] != "tempering" or "failure" in record:
            continue
        whole, to_draws = BARS[record["case"]]
        call = record["importing"]["processor"] + record["calls"][0]["processor"]
        if record["process"] == "first":
            lines.append(f"{record['case']}, first process, to the answer: {call:.1f} s, bar {whole:.0f}")
        elif to_draws is not None and record["to_draws"]:
            reached = record["importing"]["processor"] + record["to_draws"][1]
            lines.append(
                f"{record['case']}, second process, to the first draws: {reached:.1f} s, bar "
                f"{to_draws:.0f}; to the answer: {call:.1f} s"
            )
    return lines


def about() -> dict[str, object]:
    return {
        "machine": f"{platform.system()}, {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load when it began": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%d"),
        "jax": version("jax"),
        "versions": {
            "numpyro_nuts": version("numpyro"),
            "blackjax_tempered": version("blackjax"),
            "tfp_exchange": environments.version_of("tfp", "tensorflow-probability"),
        },
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_up", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--samplers", nargs="+", choices=list(ENVIRONMENTS), default=list(ENVIRONMENTS))
    parser.add_argument("--json", type=Path, help="write the records to this file")
    options = parser.parse_args(arguments)
    for environment in {ENVIRONMENTS[sampler] for sampler in options.samplers} - {"own"}:
        environments.make(environment)
    setting, records = about(), []
    print(HEADER, flush=True)
    for case in options.cases:
        for sampler in options.samplers:
            for record in both(sampler, case):
                records.append(record)
                print(row(record), flush=True)
                if options.json is not None:
                    options.json.write_text(json.dumps({"about": setting, "records": records}, indent=1) + "\n")
    print(*verdicts(records), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
