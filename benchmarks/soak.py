"""A soak: runs that are killed, lose workers, are interrupted and find the disk full, over and over.

``python -m benchmarks.soak --minutes 30``: a run is begun on a small disk of its own (a tmpfs where that can be
mounted; files of limited size elsewhere) and one accident follows the other until it ends. Then its draws, or its sums,
must be those of the same run left alone, to the bit, and right against the truth; no draw that was on disk may ever be
lost.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

WEIGHT = 0.4  # of the right-hand mode, P(x > 0)
WAYS = ("python, two workers", "vector, two workers", "sums, two workers", "vector", "numba")
ACCIDENTS = ("kill", "kill", "kill a worker", "fill the disk", "interrupt")
MOST_ACCIDENTS = 8  # of one run; then it is left alone
FULL_DISK = 28  # exit status of a run that found it full: errno's ENOSPC
DISK = 256  # MB
MOST_STANDARD_ERRORS = 5.0  # from the truth: a false alarm in two million runs


def plain(x: Any) -> Any:
    return np.logaddexp(np.log(0.6) - 2.0 * (x[0] + 4.0) ** 2 + np.log(2.0), np.log(0.4) - 0.5 * (x[0] - 4.0) ** 2)


def traced(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.logaddexp(np.log(0.6) - 2.0 * (x[0] + 4.0) ** 2 + np.log(2.0), np.log(0.4) - 0.5 * (x[0] - 4.0) ** 2)


def job(way: str, checkpoint: str, output: str, largest_file: int) -> int:
    """Sample; this is what runs in a process of its own. ``largest_file`` plays a full disk."""
    import numba

    import tempering as tp
    from tempering.errors import CheckpointError
    from tempering.execution import processes

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started deaf to it
    if largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    common = {"initial": np.full(1, 4.0), "ladder": tp.Ladder.geometric(6, 0.03), "rng": 29, "progress": False}
    kept = None if checkpoint == "none" else tp.Checkpoint(checkpoint, seconds=0.5)
    settings: dict[str, Any]
    if way.startswith("sums"):
        quantities = {"right": lambda x: x[..., 0] > 0.0}
        settings = {
            "target": tp.Target(traced),
            "chains": 600,
            "draws": 30_000,
            "keep": tp.Sums(quantities),
        }
    elif way.startswith("vector"):
        settings = {"target": tp.Target(traced), "chains": 96, "draws": 50_000, "kernel": tp.kernels.Slice()}
    elif way == "numba":
        settings = {"target": tp.Target(numba.njit(plain)), "chains": 8, "draws": 600_000}
    else:
        settings = {"target": tp.Target(plain), "chains": 4, "draws": 150_000}
    with processes(2) if way.endswith("workers") else nullcontext() as executor:
        try:
            run = tp.sample(
                settings.pop("target"),
                tuning=tp.Tuning(2_000),
                execution=tp.Execution("scalar" if way.startswith("python") else "auto", executor, kept),
                **settings,
                **common,
            )
        except CheckpointError as error:
            sys.stderr.write(f"{error}\n")
            return FULL_DISK
        except KeyboardInterrupt:
            return 130
    if run.n_draws < settings["draws"]:  # interrupted
        return 130
    if isinstance(run, tp.TemperedSums):
        right, arrays = run.expect("right"), run.sums.totals._asdict() | run.sums.batches._asdict()
    else:
        right = run.expect(lambda x: x[..., 0] > 0.0)
        arrays = {"x": run.values["x"], "energy": run.energy, "rung": run.rung}
    np.savez(output, estimate=[right.value, right.standard_error], **arrays)
    return 0


class Soak:
    """Runs and accidents, counted."""

    def __init__(self, folder: Path, rng: np.random.Generator, is_small: bool) -> None:
        self.folder, self.rng, self.is_small = folder, rng, is_small
        self.seen: Counter[str] = Counter()
        self.references: dict[str, tuple[Path, float]] = {}

    def reference(self, way: str) -> tuple[Path, float]:
        """Run once without accidents; return the draws, and the seconds it took."""
        if way not in self.references:
            output = self.folder.parent / f"reference {WAYS.index(way)}.npz"
            started = time.monotonic()
            assert self._start(way, "none", output).wait() == 0
            self.references[way] = output, time.monotonic() - started
        return self.references[way]

    def cycle(self, way: str) -> str:
        """Run with accidents until it ends; return what is wrong, or nothing."""
        reference, seconds = self.reference(way)
        checkpoint, output = self.folder / "checkpoint", self.folder.parent / "result.npz"
        shutil.rmtree(checkpoint, ignore_errors=True)
        output.unlink(missing_ok=True)
        done = 0
        for accident in [*self.rng.choice(ACCIDENTS, size=MOST_ACCIDENTS), "none"]:
            status = self._life(way, str(accident), checkpoint, output, seconds)
            before, done = done, n_done(checkpoint)
            if done < before:
                return f"draws were lost: {before} before, {done} after {accident}"
            if status == 0:
                return wrong_with(output, reference)
            if accident == "none":
                return f"it ended with status {status} though nothing had happened"
        raise AssertionError("unreachable")

    def _life(self, way: str, accident: str, checkpoint: Path, output: Path, seconds: float) -> int:
        """Start the run, let one accident happen, and wait for its end."""
        plays_full = accident == "fill the disk" and not self.is_small
        process = self._start(way, checkpoint, output, int(self.rng.integers(10_000, 200_000)) if plays_full else 0)
        try:
            if accident == "none":
                return process.wait()
            try:
                status = process.wait(self.rng.uniform(0.1, 0.6) * seconds)
            except subprocess.TimeoutExpired:
                status = self._let_happen(accident, process)
        finally:
            end_group(process)
        self.seen[accident if status else "ended before"] += 1
        if accident == "fill the disk" and status not in (0, FULL_DISK):
            raise SystemExit(f"a full disk ended the run with status {status}")
        return status

    def _let_happen(self, accident: str, process: subprocess.Popen[bytes]) -> int:
        if accident == "kill":
            process.kill()
        elif accident == "interrupt":
            process.send_signal(signal.SIGINT)
        elif accident == "kill a worker":
            workers = children(process.pid)
            if workers:
                os.kill(int(self.rng.choice(workers)), signal.SIGKILL)
                self.seen["workers killed"] += 1
        elif self.is_small:
            with filled(self.folder):
                return process.wait()
        return process.wait()

    def _start(self, way: str, checkpoint: Path | str, output: Path, largest_file: int = 0) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "benchmarks.soak",
            "--job",
            way,
            str(checkpoint),
            str(output),
            str(largest_file),
        ]
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


def n_done(checkpoint: Path) -> int:
    """Return how many draws a checkpoint holds."""
    latest = checkpoint / "latest"
    if not latest.is_file():
        return 0
    with latest.open("rb") as file:
        return int(json.loads(file.readline())["n_done"])


def wrong_with(output: Path, reference: Path) -> str:
    """Compare the draws with those of the run left alone, and the estimate with the truth."""
    with np.load(output) as ours, np.load(reference) as theirs:
        for name in theirs:
            if not np.array_equal(ours[name], theirs[name]):
                return f"{name} differs from the run left alone"
        value, standard_error = ours["estimate"]
    if not abs(value - WEIGHT) < MOST_STANDARD_ERRORS * standard_error:
        return f"P(x > 0) is {value:.4f} with standard error {standard_error:.4f}, and {WEIGHT} in truth"
    return ""


def children(pid: int) -> list[int]:
    """Return the worker processes of a run; the first of its children tracks semaphores and is none."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a run: all the processes it had started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@contextmanager
def filled(folder: Path) -> Any:
    """Fill the disk, to the last byte, for a while."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            for size in (2**20, 4096, 1):
                try:
                    while file.write(b"x" * size) == size:
                        pass
                except OSError:
                    continue
        yield
    finally:
        filler.unlink(missing_ok=True)


@contextmanager
def small_disk() -> Any:
    """Yield a folder on a small disk, and whether it is one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "disk"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", str(folder)]
        is_small = os.geteuid() == 0 and subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode == 0
        try:
            yield folder, is_small
        finally:
            if is_small:
                subprocess.run(["umount", "-l", str(folder)], check=True)


def soak(minutes: float, seed: int) -> int:
    """Run cycle after cycle; return the exit status."""
    rng = np.random.default_rng(seed)
    started, n_cycles = time.monotonic(), 0
    with small_disk() as (folder, is_small):
        print(f"disk: {f'tmpfs of {DISK} MB' if is_small else 'files of limited size'}; seed {seed}", flush=True)
        state = Soak(folder, rng, is_small)
        while time.monotonic() - started < 60 * minutes:
            way = WAYS[n_cycles % len(WAYS)]
            wrong = state.cycle(way)
            n_cycles += 1
            told = ", ".join(f"{name} {count}" for name, count in sorted(state.seen.items()))
            print(f"{time.monotonic() - started:6.0f} s  {way:20s} {wrong or 'right to the bit'}  [{told}]", flush=True)
            if wrong:
                return 1
    print(f"{n_cycles} runs, every one right to the bit, no draw lost")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--job", nargs=4, metavar=("WAY", "CHECKPOINT", "OUTPUT", "LARGEST_FILE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.job:
        way, checkpoint, output, largest_file = options.job
        return job(way, checkpoint, output, int(largest_file))
    return soak(options.minutes, options.seed)


if __name__ == "__main__":
    sys.exit(main())
