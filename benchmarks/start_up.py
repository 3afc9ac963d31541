"""How long until the first answer: first and second process, first and second call, beside other samplers on JAX.

    python -m benchmarks.start_up [--cases quickstart labels sensors] [--samplers ...] [--json FILE]

Each sampler runs in two processes, one after the other, and makes two calls in each, with its defaults (those of
`benchmarks.peers`). The first process finds nothing compiled. In the second, tempering finds the programs it has kept
by itself; the others are given JAX's persistent compilation cache, which a user has to switch on. Seconds are those
of the processor, which other programs at work change less than the clock: to import, to the first block of draws after
that, of the whole first call, and of the second. On posteriors on data tempering makes a tenth of its default draws.
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


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as one row of a table."""
    row = {name: record[name] for name in ("case", "sampler", "process")}
    if "failure" in record:
        return row | {"failure": record["failure"]}
    first, second = record["calls"]
    of_processor = first["processor"] / first["wall"]
    return row | {
        "import": record["importing"]["processor"],
        "to_draws": record["to_draws"][1] if record["to_draws"] else None,
        "first_call": first["processor"],
        "second_call": second["processor"],
        "compiled": first["programs"] - first["from_disk"],
        "from_disk": first["from_disk"],
        "compiling": first["compiling"] * of_processor,
        "tracing": first["tracing"] * of_processor,
        "first_call_by_the_clock": first["wall"],
    }


def printed(row: dict[str, Any]) -> str:
    start = f"{row['case']:11} {row['sampler']:18} {row['process']:7}"
    if "failure" in row:
        return f"{start} {row['failure']}"
    seconds = [row[name] for name in ("import", "to_draws", "first_call", "second_call", "compiling", "tracing")]
    cells = "".join(f"{'':10}" if value is None else f"{value:10.1f}" for value in seconds)
    return f"{start}{cells}{row['compiled']:10}{row['from_disk']:10}"


HEADER = f"{'case':11} {'sampler':18} {'process':7}" + "".join(
    f"{name:>10}"
    for name in ("import", "to draws", "1st call", "2nd call", "compiling", "tracing", "compiled", "from disk")
)


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """Say what was reached of what was asked: seconds from the start of the process, imports included."""
    lines = []
    for row in rows:
        if row["sampler"] != "tempering" or "failure" in row:
            continue
        whole, to_draws = BARS[row["case"]]
        answer = f"to the answer {row['import'] + row['first_call']:.1f} s"
        if row["process"] == "first":
            lines.append(f"{row['case']}, first process: {answer} (bar {whole:.0f})")
        elif to_draws is not None and row["to_draws"] is not None:
            reached = row["import"] + row["to_draws"]
            lines.append(
                f"{row['case']}, second process: to the first draws {reached:.1f} s (bar {to_draws:.0f}), {answer}"
            )
    return lines


def machine() -> dict[str, object]:
    """Return what figures of this environment are measured on."""
    return {
        "machine": f"{platform.system()}, {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load when it began": round(os.getloadavg()[0], 1),
        "date": time.strftime("%Y-%m-%d"),
        "jax": version("jax"),
    }


def about() -> dict[str, object]:
    return machine() | {
        "versions": {
            "numpyro_nuts": version("numpyro"),
            "blackjax_tempered": version("blackjax"),
            "tfp_exchange": environments.version_of("tfp", "tensorflow-probability"),
        },
    }


def store(file: Path, setting: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write rows to a file; rows of other cases and samplers, and versions of what is not installed here, are kept."""
    known = json.loads(file.read_text()) if file.exists() else {"about": {"versions": {}}, "rows": []}
    versions = {name: there or known["about"]["versions"].get(name) for name, there in setting["versions"].items()}
    new = {(row["case"], row["sampler"]) for row in rows}
    kept = [row for row in known["rows"] if (row["case"], row["sampler"]) not in new]
    order = [(case, sampler) for case in CASES for sampler in ENVIRONMENTS]
    together = sorted(kept + rows, key=lambda row: (order.index((row["case"], row["sampler"])), row["process"]))
    content = {"about": setting | {"versions": versions}, "rows": together}
    file.write_text(json.dumps(content, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start_up", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--samplers", nargs="+", choices=list(ENVIRONMENTS), default=list(ENVIRONMENTS))
    parser.add_argument(
        "--json", type=Path, help="write the records to this file, in place of those it has of the same"
    )
    options = parser.parse_args(arguments)
    for environment in {ENVIRONMENTS[sampler] for sampler in options.samplers} - {"own"}:
        environments.make(environment)
    setting, rows = about(), []
    print(HEADER, flush=True)
    for case in options.cases:
        for sampler in options.samplers:
            for record in both(sampler, case):
                rows.append(flat(record))
                print(printed(rows[-1]), flush=True)
            if options.json is not None:
                store(options.json, setting, rows)
    print(*verdicts(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
