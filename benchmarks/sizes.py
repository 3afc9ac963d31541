"""Large runs, each in a process of its own: does it end, how long does it take, and how much memory at its peak.

    python -m benchmarks.sizes [--full] [--sizes NAME ...] [--json FILE]

200 rungs; 10,000 chains; 1,000 dimensions; 1e8 draws in sums; 5 GB of draws on disk asked for an expectation; with
--full 1e9 draws and 50 GB. Each is measured at a fraction of its size, too: processor time may grow no faster than the
size, and the memory of sums and of draws on disk hardly at all. (The slope of the logarithms; a constant part of the
time, imports and compilation, makes it smaller.) Draws on disk are written first, by the package's own writer: they
take as much room in the system's folder for temporary files.
"""

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

LARGEST = 4e9  # bytes of memory, whatever the size
STEEPEST = 1.1  # slope of processor time
FLAT = 0.3  # slope of memory where it must not grow with the size; energies and rungs on disk are held, 12 bytes a draw


@dataclass(frozen=True)
class Figure:
    """What one run took."""

    what: str
    of: str  # what grows
    size: float
    seconds: float  # by the clock
    processor: float  # seconds
    memory: float  # bytes at the peak
    answer: float
    asked: float = 0.0  # seconds from the question to the answer, where the draws were there before

    @property
    def passed(self) -> bool:
        """Whether its memory was bounded."""
        return self.memory <= LARGEST


def sampled(**options: Any) -> Any:
    import jax.numpy as jnp
    import numpy as np

    import tempering as tp

    dimension = options.pop("dimension", 2)
    ladder = tp.Ladder.geometric(options.pop("rungs", 8), options.pop("hottest", 0.2))
    common = {"initial": np.ones(dimension), "ladder": ladder, "rng": 1, "progress": False}
    common |= {"tuning": tp.Tuning(0, pseudo_prior=0.5 * dimension * np.log(ladder.inverse_temperatures))}
    common |= {"kernel": tp.kernels.RandomWalk(covariance="diagonal")}
    target = options.pop("target", None) or tp.Target(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2))
    return tp.sample(target, **(common | options))


def rungs(n: float) -> float:
    return float(sampled(rungs=int(n), hottest=0.01, draws=4_096, chains=32).expect(lambda x: x[..., 0]).value)


def chains(n: float) -> float:
    return float(sampled(chains=int(n), draws=512).expect(lambda x: x[..., 0]).value)


def dimensions(n: float) -> float:
    return float(sampled(dimension=int(n), chains=16, draws=2_048, rungs=40).expect(lambda x: x[..., 0]).value)


def sums(n: float) -> float:
    """Sum on the scalar engine, by eight compiled chains."""
    from numba import njit

    import tempering as tp

    @njit
    def density(x: Any) -> Any:
        return -0.5 * ((x[0] - 1.0) ** 2 + (x[1] - 1.0) ** 2)

    keep = tp.Sums({"first": lambda x: x[..., 0]})
    return float(sampled(target=tp.Target(density), chains=8, draws=int(n / 8), keep=keep).expect("first").value)


def on_disk(gigabytes: float) -> float:
    """Write so many gigabytes of draws, by 8 MB, and ask for an expectation of them."""
    import tempering as tp
    from tempering.runs.store import RunStore

    folder = Path(tempfile.mkdtemp(prefix="tempering-sizes-"))
    try:
        small = sampled(dimension=1_000, chains=16, draws=64, rungs=8)
        n_chunks = int(gigabytes * 1e9 / small.values["x"].nbytes)
        store = RunStore.create(folder / "run.zarr", small, 64 * n_chunks, chunk=64)
        for number, draws in enumerate(_fresh(small, n_chunks)):
            store.write(64 * number, draws)
        store.finish()
        _began.append(time.monotonic())
        return float(tp.load(folder / "run.zarr").expect(lambda x: x[..., 0]).value)
    finally:
        shutil.rmtree(folder)


def _fresh(like: Any, n: int) -> Iterator[Any]:
    """Return exact draws of all rungs, ``n`` times as many as there are."""
    import numpy as np

    k, rng = like.ladder.inverse_temperatures, np.random.default_rng(1)
    for _ in range(n):
        rung = rng.integers(k.size, size=like.rung.shape).astype(np.int32)
        steps = rng.standard_normal(like.values["x"].shape) / np.sqrt(k[rung])[..., None]
        terms = -0.5 * np.sum(steps**2, axis=-1, keepdims=True)
        yield replace(like, values={"x": 1.0 + steps}, terms=terms, rung=rung)


SIZES = {
    "50 rungs": (rungs, 50),
    "200 rungs": (rungs, 200),
    "2,500 chains": (chains, 2_500),
    "10,000 chains": (chains, 10_000),
    "250 dimensions": (dimensions, 250),
    "1,000 dimensions": (dimensions, 1_000),
    "1e7 draws in sums": (sums, 1e7),
    "1e8 draws in sums": (sums, 1e8),
    "1e9 draws in sums": (sums, 1e9),
    "2.5 GB of draws on disk": (on_disk, 2.5),
    "5 GB of draws on disk": (on_disk, 5.0),
    "50 GB of draws on disk": (on_disk, 50.0),
}
_began: list[float] = []  # when a question was asked
FULL = ("1e9 draws in sums", "50 GB of draws on disk")
BOUNDED = ("sums", "on_disk")  # whose memory must not grow


def measured(what: str) -> Figure:
    """Run one size in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sizes", "--one", what], check=True, capture_output=True, text=True
    )
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


def one(what: str) -> Figure:
    """Run one size here."""
    function, size = SIZES[what]
    started = time.monotonic()
    answer = function(size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    ended = time.monotonic()
    asked = ended - _began[0] if _began else 0.0
    return Figure(what, function.__name__, size, ended - started, time.process_time(), peak, answer, asked)


@dataclass(frozen=True)
class Slope:
    """How time and memory grow between the smallest and the largest of one kind."""

    of: str
    sizes: tuple[float, float]
    processor: float
    memory: float

    @property
    def passed(self) -> bool:
        """Whether neither grows faster than it may."""
        return self.processor <= STEEPEST and self.memory <= (FLAT if self.of in BOUNDED else STEEPEST)


def slopes(figures: list[Figure]) -> list[Slope]:
    """Return the slope of each kind that was measured at two sizes."""
    found = []
    for of in dict.fromkeys(f.of for f in figures):
        first, *_, last = sorted((f for f in figures if f.of == of), key=lambda f: f.size) * 2
        if last.size > first.size:
            grown = math.log(last.size / first.size)
            rise = [math.log(getattr(last, name) / getattr(first, name)) / grown for name in ("processor", "memory")]
            found.append(Slope(of, (first.size, last.size), *rise))
    return found


def _stored(file: Path) -> list[Figure]:
    return [Figure(**f) for f in json.loads(file.read_text())["figures"]] if file.exists() else []


def _store(file: Path, figure: Figure) -> None:
    known = {f.what: f for f in _stored(file)} | {figure.what: figure}
    figures = [known[what] for what in SIZES if what in known]
    rows = {"figures": [asdict(f) for f in figures], "slopes": [asdict(s) for s in slopes(figures)]}
    file.write_text(json.dumps(rows, indent=2) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--full", action="store_true", help="1e9 draws in sums and 50 GB on disk too")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), help="these alone")
    parser.add_argument("--json", type=Path, help="write the figures to this file, beside those of other sizes there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.one:
        print(json.dumps(asdict(one(options.one))))
        return 0
    figures = []
    for what in options.sizes or (what for what in SIZES if options.full or what not in FULL):
        figures.append(measured(what))
        f = figures[-1]
        print(f"{what:25s} {f.seconds:8.1f} s ({f.processor:.1f} s of processor)  {f.memory / 1e6:7.0f} MB  "
              f"answer {f.answer:.3f}  {'PASS' if f.passed else 'miss'}", flush=True)  # fmt: skip
        if options.json:
            _store(options.json, f)
    found = slopes(_stored(options.json) if options.json else figures)
    for s in found:
        print(f"{s.of:12s} {s.sizes[0]:g} to {s.sizes[1]:g}: processor time to the power {s.processor:.2f}, memory "
              f"{s.memory:.2f}  {'PASS' if s.passed else 'miss'}")  # fmt: skip
    return 0 if all(f.passed for f in [*figures, *found]) else 1


if __name__ == "__main__":
    sys.exit(main())
