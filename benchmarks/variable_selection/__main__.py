"""Run it: ``python -m benchmarks.variable_selection``, with an option for each table but that of speed."""

import argparse
import json
import os
import sys
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import benchmarks.variable_selection  # noqa: E402  after the number of threads is set
from benchmarks.variable_selection.cases import CASES  # noqa: E402
from benchmarks.variable_selection.large import large  # noqa: E402

ABOUT = {"machine": "two shared cores of an AMD EPYC", "threads": 1, "time": "of the processor, without start-up"}


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.variable_selection", description=benchmarks.variable_selection.__doc__
    )
    parser.add_argument("--peer", help="Python of an environment with millipede-regression")
    parser.add_argument("--case", choices=[*CASES], action="append")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--agreement", action="store_true", help="whether both programs have the same posterior")
    parser.add_argument("--rounding", action="store_true", help="what rounding does to the other program's chain")
    parser.add_argument("--prediction", action="store_true", help="held-out rows, beside scikit-learn")
    parser.add_argument("--gpu", action="store_true", help="the large case, on JAX's default device")
    parser.add_argument("--rows", type=int, default=1_000, help="of the large case")
    parser.add_argument("--columns", type=int, default=100_000, help="of the large case")
    parser.add_argument("--chains", type=int, default=64, help="of the large case")
    parser.add_argument("--draws", type=int, default=40_000, help="jumps kept of each chain of the large case")
    parser.add_argument("--json", type=Path, help="a file of results to add to")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and add it to the file."""
    options = options_of(arguments)
    is_there = options.json is not None and options.json.exists()
    report = json.loads(options.json.read_text()) if is_there else {"about": ABOUT}
    report |= measured(options, report)
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def measured(options: argparse.Namespace, report: dict[str, object]) -> dict[str, object]:
    """Return the tables asked for; those of other cases stay."""
    cases = options.case or list(CASES)
    if options.gpu:
        tune = max(options.draws // 10, 100)
        rows = large(options.rows, options.columns, chains=options.chains, draws=options.draws, tune=tune)
        print(json.dumps(rows, indent=1))
        return {"large": rows}
    if options.prediction:
        from benchmarks.variable_selection.prediction import prediction

        return {"prediction": prediction()}
    found: dict[str, list[dict[str, object]]] = {}
    for case in cases:
        for name, rows in of_case(case, options).items():
            found.setdefault(name, []).extend(rows)
    print(json.dumps(found, indent=1))
    order = list(CASES)
    for name, rows in found.items():
        kept = [row for row in report.get(name, []) if row.get("case") not in cases]  # type: ignore[attr-defined]
        found[name] = sorted(kept + rows, key=lambda row: order.index(row["case"]))
    return dict(found)


def of_case(case: str, options: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    """Return the tables of one design."""
    if options.agreement:
        from benchmarks.variable_selection.agreement import agreement

        if options.peer is None:
            raise SystemExit("--agreement needs --peer, the Python of an environment with millipede-regression.")
        return {"agreement": agreement(case, options.peer, options.runs)}
    if options.rounding:
        from benchmarks.variable_selection.rounding import rounding

        return {"rounding": [rounding(case)]}
    from benchmarks.variable_selection.speed import compare

    return compare(case, options.peer, options.runs)


if __name__ == "__main__":
    sys.exit(main())
