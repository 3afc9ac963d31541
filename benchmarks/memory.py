"""Memory of runs in sums: that of a thousand million iterations must be that of a million.

Runs of the paper's mixture on the scalar engine that keep sums, each in a process of its own. Peak memory is what the
system saw resident, the libraries and their compiled code included (given beside: before the run). The longest run may
have a tenth more than the shortest at the most.

    python -m benchmarks.memory [--full] [--json FILE]
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BAR = 1.1
SIZES = {False: (10**6, 10**7), True: (10**6, 10**8, 10**9)}
CHAINS = 2
MOST_STANDARD_ERRORS = 5.0  # from the truth: a false alarm in two million runs


def peak() -> float:
    """Return the most memory this process has had resident, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_run(iterations: int) -> dict[str, Any]:
    """Sample in this process, and say what it took."""
    import numpy as np

    import tempering as tp
    from tempering.experiments.table2 import mixture

    problem = mixture()
    target = tp.Target(problem.as_vector.log_density_numba)
    before, started = peak(), time.process_time()
    sums = tp.sample(
        target,
        initial=np.zeros(1),
        ladder=tp.Ladder.geometric(12, 1e-3),
        draws=iterations // CHAINS,
        tuning=tp.Tuning(10_000),
        chains=CHAINS,
        rng=1,
        progress=False,
        keep=tp.Sums({"right": right}),
    )
    found = sums.expect("right")
    assert sums.n_summed == iterations
    error = abs(float(found.value) - (1.0 - float(problem.cdf(0.0)))) / float(found.standard_error)
    return {
        "iterations": iterations,
        "peak_memory_mb": peak(),
        "before_mb": before,
        "sums_mb": sums.nbytes / 1e6,
        "processor_seconds": time.process_time() - started,
        "error_in_standard_errors": error,
    }


def right(x: Any) -> Any:
    """Tell draws of the right-hand mode."""
    return x[..., 0] > 0.0


def main(argv: list[str] | None = None) -> int:
    """Measure, print and judge; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="up to 1e9 iterations: ten minutes")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one is not None:
        print(json.dumps(one_run(options.one)))
        return 0
    rows = []
    for size in SIZES[options.full]:
        command = [sys.executable, "-m", "benchmarks.memory", "--one", str(size)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print("  ".join(f"{name} {value:.6g}" for name, value in rows[-1].items()), flush=True)
    growth = rows[-1]["peak_memory_mb"] / rows[0]["peak_memory_mb"]
    furthest = max(row["error_in_standard_errors"] for row in rows)
    print(f"memory grew by a factor of {growth:.3f}; at most {BAR}")
    if options.json is not None:
        about = {"python": platform.python_version(), "cores": os.cpu_count(), "options": "--full" * options.full}
        result = {"about": about, "growth": growth, "bar": BAR, "rows": rows}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(growth > BAR or furthest > MOST_STANDARD_ERRORS)


if __name__ == "__main__":
    sys.exit(main())
