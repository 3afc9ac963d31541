"""Time and memory as the work grows: in draws, chains, rungs and dimensions, nothing may grow faster than linearly.

A run is a sample with its ladder given and everything compiled, and an expectation by MBAR from it. Time is that of
the processor, memory the peak that Python's allocator saw (arrays of NumPy included). The slope of the logarithms,
fitted over sizes that grow fourfold, must not be above 1.1; sums must not grow in memory at all.

    python -m benchmarks.scaling [--full] [--json FILE]
"""

import argparse
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import tempering as tp

BAR = 1.1
FLAT = 0.1  # the slope of what must not grow
KERNEL = tp.kernels.RandomWalk(covariance="diagonal")
QUANTITIES = {"first": lambda x: x[..., 0]}


@dataclass(frozen=True)
class Slope:
    """How one quantity grows with one size."""

    what: str
    grows_with: str
    sizes: list[int]
    figures: list[float]
    unit: str
    slope: float
    bar: float

    @property
    def passed(self) -> bool:
        """Whether it grows no faster than it may."""
        return self.slope <= self.bar


@cache
def target_of(engine: str) -> tp.Target:
    """Return one target an engine, so that code compiled for it is found again."""
    if engine == "vector":
        return tp.Target(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2))
    from numba import njit

    return tp.Target(njit(lambda x: -0.5 * np.sum((x - 1.0) ** 2)))


def one_run(engine: str, keep: str, draws: int, chains: int, rungs: int, dimension: int) -> float:
    """Sample and ask."""
    ladder = tp.Ladder.geometric(rungs, 0.2)
    log_p = 0.5 * dimension * np.log(ladder.inverse_temperatures)
    kept: dict[str, Any] = {"keep": tp.Sums(QUANTITIES)} if keep == "sums" else {}
    run: Any = tp.sample(
        target_of(engine),
        initial=np.ones(dimension),
        ladder=ladder,
        tuning=tp.Tuning(0, pseudo_prior=log_p),
        kernel=KERNEL,
        execution=tp.Execution(engine=engine),
        draws=draws,
        chains=chains,
        rng=1,
        progress=False,
        **kept,
    )
    answer = run.expect("first") if keep == "sums" else run.expect(QUANTITIES["first"])
    return float(np.ravel(answer.value)[0])


def measured(runs: list[Callable[[], Any]], rounds: int = 3) -> list[tuple[float, float]]:
    """Return processor time and peak memory of each run.

    The runs take turns, after a first one each that compiles, and the least of their times counts: other work on the
    machine only ever adds.
    """
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, taken in zip(runs, times, strict=True):
            gc.collect()
            started = time.process_time()
            run()
            taken.append(time.process_time() - started)
    return [(min(taken), peak_of(run)) for run, taken in zip(runs, times, strict=True)]


def peak_of(run: Callable[[], Any]) -> float:
    """Return the most memory held at a time."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak)


def slope_of(sizes: list[int], figures: list[float]) -> float:
    """Fit a line to the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(figures), 1)[0])


def growth(engine: str, keep: str, grows_with: str, sizes: list[int], fixed: dict[str, int]) -> list[Slope]:
    """Measure one engine against one size."""
    pairs = measured([partial(one_run, engine, keep, **(fixed | {grows_with: size})) for size in sizes])
    times, peaks = ([pair[i] for pair in pairs] for i in (0, 1))
    what = f"{engine} engine, {keep}"
    limit = FLAT if keep == "sums" and grows_with == "draws" else BAR
    return [
        Slope(f"{what}: time", grows_with, sizes, times, "s", slope_of(sizes, times), BAR),
        Slope(f"{what}: memory", grows_with, sizes, peaks, "bytes", slope_of(sizes, peaks), limit),
    ]


SIZES = {"draws": 4_096, "chains": 16, "rungs": 8, "dimension": 8}
FEW = 1_024  # draws, where something else grows


def measure(*, full: bool) -> list[Slope]:
    """Measure everything."""
    steps = 4 if full else 3
    slopes = []
    for engine, keep in (("vector", "draws"), ("scalar", "draws"), ("vector", "sums")):
        for grows_with, size in SIZES.items():
            if keep == "sums" and grows_with == "rungs" and not full:
                continue  # compiled anew for every number of them
            fixed = SIZES | ({"draws": FEW} if grows_with != "draws" else {})
            slopes += growth(engine, keep, grows_with, [size * 4**i for i in range(steps)], fixed)
            show(slopes[-2:])
    return slopes


def show(slopes: list[Slope]) -> None:
    """Print lines of the table."""
    for s in slopes:
        ends = f"{s.figures[0]:.3g} {s.unit} at {s.sizes[0]}, {s.figures[-1]:.3g} at {s.sizes[-1]}"
        print(f"{s.what:30s} with {s.grows_with:10s} slope {s.slope:5.2f}  bar {s.bar:g}  "
              f"{'PASS' if s.passed else 'miss'}  {ends}", flush=True)  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--full", action="store_true", help="one size more, and sums against rungs")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    slopes = measure(full=options.full)
    if options.json:
        options.json.write_text(json.dumps([asdict(s) | {"passed": s.passed} for s in slopes], indent=2) + "\n")
    return 0 if all(s.passed for s in slopes) else 1


if __name__ == "__main__":
    sys.exit(main())
