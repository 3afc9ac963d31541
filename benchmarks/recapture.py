"""Mark-recapture on the synthetic shag-like set: how long a fit takes, and how well it mixes.

An iteration updates every free value once and tries several jumps for each parameter. Times are of the processor, all
threads together, so that other work on the machine does not count.

    python -m benchmarks.recapture [--seeds N] [--iterations N] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from tempering import Ladder
from tempering.data import DIPPER_ARRAY, SYNTHETIC_COUNTS, SYNTHETIC_HISTORIES, path_of
from tempering.models.recapture import Counts, MarkRecapture, ModelSpace, RecaptureResult, read
from tempering.models.recapture.design import Proposals
from tempering.models.recapture.estimator import anneal
from tempering.models.recapture.kernel import step
from tempering.models.recapture.model import RecaptureModel, recapture_model

PAPER_LADDER = Ladder.geometric(40, 0.1)
ITERATION_BAR = 5e4  # iterations per second of one core, asked for when an iteration had one jump of each parameter
FIT_BAR, DIPPER_BAR = 15.0, 5.0  # seconds of processor, in a new process with warm caches
INDICATORS = (("phi", 2), ("p", 2), ("lambda", 0))  # time dependence that is neither sure nor excluded
SCRIPT = """
import time
from tempering.data import path_of
from tempering.models.recapture import MarkRecapture, read
MarkRecapture({classes}).fit(read(path_of({name!r})), rng=1, progress=False).averages()
print(time.process_time())
"""


class Result(NamedTuple):
    """One line of the table; ``bar`` is None where a figure is only reported."""

    quantity: str
    ours: float
    bar: float | None
    detail: str
    smaller_is_better: bool = False

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        if self.bar is None:
            return True
        return self.ours <= self.bar if self.smaller_is_better else self.ours >= self.bar


def build_model(jumps: int) -> RecaptureModel:
    counts = read(path_of(SYNTHETIC_COUNTS))
    assert isinstance(counts, Counts)
    return recapture_model(counts, ModelSpace(4), keep_values=False, proposals=Proposals(jumps=jumps))


@njit(error_model="numpy", nogil=True)
def advance(rng: Any, state: Any, k: float, n: int) -> None:
    """Move as the engine does, without a call from Python for every move."""
    for _ in range(n):
        step(rng, state, k)


def speed(n_iterations: int, jumps: int, bar: float | None) -> Result:
    """Measure iterations per second of one core at k = 1, from where a population cooled to it has come."""
    model, rng = build_model(jumps), np.random.default_rng(1)
    state = anneal(model, rng).states[0]
    advance(rng, state, 1.0, 1)  # compiled
    started = time.process_time()
    advance(rng, state, 1.0, n_iterations)
    seconds = time.process_time() - started
    name = f"iterations per second of one core, jumps of each parameter: {jumps}"
    return Result(name, n_iterations / seconds, bar, f"{seconds / n_iterations * 1e6:.1f} us")


def fit_time(name: str, classes: int, bar: float) -> Result:
    """Measure a default fit in a process of its own, imports and all; the second of two, with warm caches."""
    script = SCRIPT.format(name=name, classes=classes)
    seconds = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(2)
    ]
    detail = f"first {seconds[0]:.1f} s"
    return Result(f"seconds of a default fit, {name}", seconds[1], bar, detail, smaller_is_better=True)


def mixing(seeds: range) -> list[Result]:
    """Compare effective draws of the time-dependence indicators per second: untempered, two ladders."""
    histories = read(path_of(SYNTHETIC_HISTORIES))
    study = MarkRecapture(keep_values=False)
    sides = {
        "untempered": replace(study, ladder=[1.0], chains=64, draws=4000),
        "the paper's 40 rungs to k = 0.1": replace(study, ladder=PAPER_LADDER),
        "tuned, from fitted laws (the default)": study,
    }
    found = {name: np.array([rates(side, histories, seed) for seed in seeds]) for name, side in sides.items()}
    results = []
    for name, rate in found.items():
        overall = np.exp(np.log(rate).mean(axis=1))  # of each seed, geometric mean over indicators
        medians = zip(INDICATORS, np.median(rate, axis=0), strict=True)
        each = ", ".join(f"{parameter} class {j + 1}: {r:.1f}" for (parameter, j), r in medians)
        spread = f"{overall.min():.3g} to {overall.max():.3g} over {len(seeds)} seeds; medians: {each}"
        results.append(Result(f"effective draws per second, {name}", float(np.median(overall)), None, spread))
    return results


def rates(study: MarkRecapture, data: Any, seed: int) -> Any:
    """Return effective draws of each indicator per second of processor of the whole fit."""
    started = time.process_time()
    result = study.fit(data, rng=seed, progress=False)
    seconds = time.process_time() - started
    return np.array([effective_draws(result, *which) / seconds for which in INDICATORS])


def effective_draws(result: RecaptureResult, parameter: str, age_class: int) -> float:
    """Return p (1 - p) / Var(estimate)."""
    flag = next(f for name, c, f in result.time_flags() if (name, c) == (parameter, age_class))
    found = result.draws.estimate(flag.astype(float))
    p = float(found.value)
    return max(p * (1 - p) / max(float(found.standard_error) ** 2, 1e-300), 1e-3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3, help="fits of each sampler that mixing is measured on; 0: none")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = [
        speed(options.iterations, 1, ITERATION_BAR),
        speed(options.iterations, Proposals().jumps, None),
        fit_time(SYNTHETIC_HISTORIES, 4, FIT_BAR),
        fit_time(DIPPER_ARRAY, 1, DIPPER_BAR),
    ]
    if options.seeds:
        results += mixing(range(5, 5 + options.seeds))
    table = Table("quantity", "ours", "bar", "", "detail")
    for r in results:
        table.add_row(
            r.quantity, f"{r.ours:.4g}", "" if r.bar is None else f"{r.bar:.4g}", "" if r.passed else "MISSED", r.detail
        )
    Console(width=200).print(table)
    if options.json:
        options.json.write_text(json.dumps([r._asdict() for r in results], indent=2) + "\n")
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
