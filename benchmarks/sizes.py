"""Large runs, each in a process of its own: does it end, how long does it take, and how much memory at its peak.

    python -m benchmarks.sizes [--full] [--sizes NAME ...] [--json FILE]

200 rungs; 10,000 chains; 1,000 dimensions; 1e9 draws in sums (1e8 without --full); 50 GB of draws on disk asked for an
expectation. The last are chunks of draws of which many are one file under many names (hard links): they are read,
checked and summed one by one like others, but need no 50 GB of disk, and come from the system's cache.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LARGEST = 4e9  # bytes of memory, whatever the size


@dataclass(frozen=True)
class Figure:
    """What one run took."""

    what: str
    seconds: float  # by the clock
    processor: float  # seconds
    memory: float  # bytes at the peak
    answer: float

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
    target = tp.Target(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2))
    return tp.sample(target, **(common | options))


def rungs() -> float:
    return float(sampled(rungs=200, hottest=0.01, draws=4_096, chains=32).expect(lambda x: x[..., 0]).value)


def chains() -> float:
    return float(sampled(chains=10_000, draws=512).expect(lambda x: x[..., 0]).value)


def dimensions() -> float:
    return float(sampled(dimension=1_000, chains=16, draws=2_048, rungs=40).expect(lambda x: x[..., 0]).value)


def sums(n: float) -> float:
    import tempering as tp

    run = sampled(chains=1_000, draws=int(n / 1_000), keep=tp.Sums({"first": lambda x: x[..., 0]}))
    return float(run.expect("first").value)


def on_disk(gigabytes: float) -> float:
    """Ask for an expectation of so many gigabytes of draws: chunks of 1 MB a chain, of 16 chains."""
    import tempering as tp
    from tempering.runs import store as run_store

    folder = Path(tempfile.mkdtemp(prefix="tempering-sizes-"))
    try:
        small = sampled(dimension=1_000, chains=16, draws=64, rungs=8)
        run_store.CHUNK = 64 * 16 * 1_000
        small.save(folder / "run.zarr")
        store = run_store.RunStore(folder / "run.zarr")
        n_chunks = int(gigabytes * 1e9 / (64 * 16 * 1_000 * 8))
        store.reopen(64 * n_chunks)
        for array in store.arrays:
            first = store.chunk_file(array, 0)
            for number in range(1, n_chunks):
                other = store.chunk_file(array, number)
                other.parent.mkdir(parents=True, exist_ok=True)
                os.link(first, other)
        store.finish()
        return float(tp.load(folder / "run.zarr").expect(lambda x: x[..., 0]).value)
    finally:
        shutil.rmtree(folder)


SIZES = {
    "200 rungs": (rungs, ()),
    "10,000 chains": (chains, ()),
    "1,000 dimensions": (dimensions, ()),
    "1e8 draws in sums": (sums, (1e8,)),
    "1e9 draws in sums": (sums, (1e9,)),
    "5 GB of draws on disk": (on_disk, (5.0,)),
    "50 GB of draws on disk": (on_disk, (50.0,)),
}
FULL = ("1e9 draws in sums",)


def measured(what: str) -> Figure:
    """Run one size in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sizes", "--one", what], check=True, capture_output=True, text=True
    )
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


def one(what: str) -> Figure:
    """Run one size here."""
    function, arguments = SIZES[what]
    started = time.monotonic()
    answer = function(*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return Figure(what, time.monotonic() - started, time.process_time(), peak, answer)


def _store(file: Path, figure: Figure) -> None:
    known = {f["what"]: f for f in json.loads(file.read_text())} if file.exists() else {}
    known[figure.what] = asdict(figure)
    file.write_text(json.dumps([known[what] for what in SIZES if what in known], indent=2) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--full", action="store_true", help="1e9 draws in sums too")
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
    return 0 if all(f.passed for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
