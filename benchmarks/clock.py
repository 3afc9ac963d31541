"""By the clock: how soon a run answers Ctrl-C and SIGTERM, and how punctually its checkpoint is written.

    python -m benchmarks.clock [--full] [--seconds S ...] [--engines NAME ...] [--at-once] [--json FILE]

Log densities that take a microsecond, a millisecond, a second (and with --full a minute), on every engine, with every
method and executor. Each run is told to stop by Ctrl-C, gone on with, told to stop by SIGTERM, gone on with to its end,
and compared with the same run left alone, to the bit. The time of a call is slept, not computed, and read from the
environment, so that the end and the comparison need not wait for it.

An answer must come, and a checkpoint be written after its interval, within two seconds, or one call if that takes
longer. A checkpoint is late if a call has come to its end, and nothing was written since, for longer than the interval:
what a kill would cost. Where calls take next to no time, one is always coming to its end.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAUSE = "TEMPERING_BENCHMARK_PAUSE"  # seconds that a call of the log density takes
CALLED = "TEMPERING_BENCHMARK_CALLED"  # a file with the times at which long calls have come to their end
LONG = 1e-4  # seconds of a call that is noted there
INTERVAL = 0.5  # seconds between two checkpoints
ANSWER = 2.0  # seconds to an answer, and from an interval to its checkpoint, or one call
WATCHED, CALLS_WATCHED, MINUTES_WATCHED = 1.5, 6, 2  # seconds before a signal, or calls
CHAINS, RUNGS = 4, (1.0, 0.5)
CALLS = (1e-6, 1e-3, 1.0)
MINUTE = 60.0
ENGINES = ("python", "numba", "callback", "batched")
METHODS = ("simulated", "parallel", "sequential", "sums")
EXECUTORS = ("none", "threads", "processes")
DRAWS = {  # of each chain: some ten seconds, however short a call
    1e-6: {"python": 40_000, "numba": 300_000, "callback": 15_000, "batched": 40_000},
    1e-3: dict.fromkeys(ENGINES, 3_000) | {"batched": 12_000},  # of which a call takes all chains
}
POPULATION = {(1e-6, "batched"): 1_000_000}  # draws of populations, which are quicker where a call takes them all
FEW = 24  # draws of each chain where a call takes a second


@dataclass(frozen=True)
class Row:
    """One run."""

    engine: str
    method: str
    executor: str
    call: float  # seconds
    interrupt: float  # seconds from Ctrl-C to an answer
    terminate: float  # seconds from SIGTERM to an answer
    late: float  # seconds that a checkpoint was late, at the worst; 0: never
    is_same: bool  # as the run left alone, to the bit
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether answers and checkpoints came in time, and nothing changed a bit."""
        in_time = max(self.interrupt, self.terminate, self.late) <= max(ANSWER, self.call)
        return in_time and self.is_same and not self.problem

    def __str__(self) -> str:
        """Return the row of a table."""
        what = f"{self.engine:9s} {self.method:10s} {self.executor:9s} {self.call:8.0e}"
        figures = f"{self.interrupt:8.2f} {self.terminate:8.2f} {self.late:8.2f}  {'same' if self.is_same else 'OTHER'}"
        return f"{what} {figures}  {'PASS' if self.passed else 'miss'} {self.problem}"


def pause() -> None:
    """Take as long as a call takes."""
    seconds = float(os.environ[PAUSE])
    if seconds > LONG:
        time.sleep(seconds)
        with open(os.environ[CALLED], "ab", buffering=0) as file:
            file.write(np.float64(time.time()).tobytes())


def plain(x: Any) -> Any:
    pause()
    return 1.5 * x[0] - np.exp(x[0])


def many(x: Any) -> Any:
    pause()
    return 1.5 * x[:, 0] - np.exp(x[:, 0])


def called_back(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def wait(x: Any) -> Any:
        pause()
        return np.zeros(1, np.float32)

    waited = jax.pure_callback(wait, jax.ShapeDtypeStruct((1,), np.float32), x, vmap_method="sequential")
    return 1.5 * x[0] - jnp.exp(x[0]) + waited[0]


def compiled() -> Any:
    from numba import njit, objmode

    @njit
    def density(x: Any) -> Any:
        with objmode():
            pause()
        return 1.5 * x[0] - np.exp(x[0])

    return density


def target(engine: str, method: str) -> Any:
    """Return what is sampled; populations need a prior that they can start from."""
    import jax

    import tempering as tp

    if method == "sequential":
        prior = {"sample_prior": lambda key: jax.random.normal(key, (1,))}
        prior |= {"log_prior": lambda x: -0.5 * (x**2).sum()}
        if engine == "batched":
            prior = {"log_prior": tp.prior.Normal(0.0, 1.0)}
            return tp.Target.from_likelihood(lambda x: many(np.reshape(x, (-1, 1))), **prior, batched=True)
        return tp.Target.from_likelihood(called_back, **prior)
    if engine == "batched":
        return tp.Target(many, batched=True)
    return tp.Target({"python": plain, "callback": called_back}.get(engine) or compiled())


def sampled(engine: str, method: str, executor: Any, checkpoint: Any, draws: int) -> dict[str, Any]:
    """Run, and return all that must be the same to the bit."""
    import tempering as tp

    options: dict[str, Any] = {"chains": CHAINS, "rng": 3, "progress": False, "draws": draws}
    if method == "sequential":
        options |= {"method": "sequential", "kernel": tp.kernels.RandomWalk(), "chains": 2, "initial": np.zeros(1)}
    else:
        starts = [np.full(1, 0.1 * i) for i in range(CHAINS * len(RUNGS))]
        options |= {"initial": starts, "ladder": RUNGS, "tuning": tp.Tuning(0), "kernel": tp.kernels.RandomWalk()}
        options |= {"method": "parallel"} if method == "parallel" else {}
        options |= {"keep": tp.Sums({"x": lambda x: x[..., 0]})} if method == "sums" else {}
    where = "vector" if engine in ("callback", "batched") else "scalar"
    execution = tp.Execution(where, executor=executor, checkpoint=checkpoint)
    run: Any = tp.sample(target(engine, method), execution=execution, **options)
    if method == "sums":
        return run.sums.totals._asdict() | run.sums.batches._asdict() | {"n": np.array(run.index.n_iterations)}
    return {"rung": run.rung, "energy": run.energy, "values": next(iter(run.values.values()))}


def job(engine: str, method: str, executor: str, call: float, folder: Path, say: Any) -> None:
    """Run and be told to stop, twice; then come to the end; this is what the child does."""
    import tempering as tp
    from tempering.execution import processes

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[CALLED] = str(folder / "called")
    draws = DRAWS.get(call, {}).get(engine, FEW)
    draws = POPULATION.get((call, engine), draws) if method == "sequential" else draws
    kept = tp.Checkpoint(folder / "run", seconds=INTERVAL)
    pools: dict[str, Any] = {"none": nullcontext, "threads": lambda: ThreadPoolExecutor(2)}
    pools["processes"] = lambda: processes(1)

    def attempt(seconds: float, checkpoint: Any, pool: str = executor) -> dict[str, Any] | None:
        os.environ[PAUSE] = str(seconds)
        with pools[pool]() as workers:
            say("begun")
            try:
                return sampled(engine, method, workers, checkpoint, draws)
            except (KeyboardInterrupt, SystemExit):
                return None
            finally:
                say("ended")
                if isinstance(workers, ThreadPoolExecutor):
                    os.environ[PAUSE] = "0"  # those that are still at work need not be waited for

    for _ in ("Ctrl-C", "SIGTERM"):
        attempt(call, kept)
    whole = attempt(0.0, kept, "none")
    alone = attempt(0.0, None, "none")
    assert whole is not None
    assert alone is not None
    same = all(np.array_equal(whole[name], alone[name], equal_nan=True) for name in alone)
    say("same" if same else "other")


def forked(action: Any) -> tuple[int, Any]:
    """Run an action in a child that has imported everything; return its number, and what it says line by line."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading, "rb")
    os.close(reading)
    status = 1
    try:
        import warnings

        warnings.simplefilter("ignore")
        action(lambda text: os.write(writing, f"{text}\n".encode()))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def written(folder: Path) -> float:
    """Return when the checkpoint was written last, 0 if it was not."""
    found = [0.0]
    names = ("latest", "latest.before", "answers")
    for file in [*(folder / "run" / name for name in names), *(folder / "run/tuning").glob("*.record")]:
        try:
            found.append(file.stat().st_mtime)
        except FileNotFoundError:  # renamed meanwhile
            continue
    return max(found)


def waiting(folder: Path, call: float) -> float:
    """Return for how long a call has been at its end that is not yet written."""
    now, last = time.time(), written(folder)
    if call <= LONG:
        return now - last if last else 0.0
    ended = np.fromfile(folder / "called") if (folder / "called").exists() else np.zeros(0)
    return float(np.max(now - ended[ended > last], initial=0.0))


def watched(folder: Path, call: float) -> float:
    """Look at the checkpoint for some time, once it is there; return how late it was written at the worst."""
    started, worst = time.time(), 0.0
    while written(folder) < started and time.time() - started < 120.0 + 4 * CHAINS * call:
        time.sleep(0.02)
    until = time.time() + max(WATCHED, (CALLS_WATCHED if call < MINUTE else MINUTES_WATCHED) * call)
    while time.time() < until:
        worst = max(worst, waiting(folder, call) - INTERVAL)
        time.sleep(0.02)
    return worst


def measured(engine: str, method: str, executor: str, call: float) -> Row:
    """Make one run in a child, send it signals, and measure."""
    answers, late, problem = [0.0, 0.0], 0.0, ""
    with tempfile.TemporaryDirectory(prefix="tempering-clock-") as name:
        folder = Path(name)
        child, lines = forked(lambda say: job(engine, method, executor, call, folder, say))

        def heard(what: str) -> bool:
            return bool(lines.readline().decode().strip() == what)

        for i, number in enumerate((signal.SIGINT, signal.SIGTERM)):
            if not heard("begun"):
                problem = "it failed"
                break
            late = max(late, watched(folder, call))
            sent = time.monotonic()
            os.kill(child, number)
            heard("ended")
            answers[i] = time.monotonic() - sent
        said = lines.read().decode().split()
        os.waitpid(child, 0)
    is_same = said[-1:] == ["same"]
    if not problem and said[-1:] not in (["same"], ["other"]):
        problem = "it failed"
    return Row(engine, method, executor, call, *answers, late, is_same, problem)


def cells(options: argparse.Namespace) -> list[tuple[str, str, str, float]]:
    """Return all runs: populations are carried by the vector engine alone."""
    calls = options.seconds or [*CALLS, *([MINUTE] if options.full else [])]
    return [
        (engine, method, executor, call)
        for call in calls
        for engine in options.engines
        for method in options.methods
        for executor in options.executors
        if method != "sequential" or engine in ("callback", "batched")
    ]


def at_once(cells: list[tuple[str, str, str, float]]) -> Iterator[Row]:
    """Make all runs at the same time, each watched by a process of its own: they sleep most of it."""
    watchers = [forked(lambda say, cell=cell: say(json.dumps(asdict(measured(*cell))))) for cell in cells]
    for (watcher, lines), cell in zip(watchers, cells, strict=True):
        said = lines.read().decode()
        os.waitpid(watcher, 0)
        yield Row(**json.loads(said)) if said else Row(*cell, 0.0, 0.0, 0.0, False, "it failed")


def main(argv: list[str] | None = None) -> int:
    """Measure, print and judge; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clock", description=__doc__)
    parser.add_argument("--full", action="store_true", help="calls of a minute too")
    parser.add_argument("--seconds", nargs="+", type=float, help="calls that take these alone")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--executors", nargs="+", choices=EXECUTORS, default=EXECUTORS)
    parser.add_argument("--at-once", action="store_true", help="all runs at the same time")
    parser.add_argument("--json", type=Path, help="write the figures to this file, beside those of other rows there")
    options = parser.parse_args(argv)
    import jax  # noqa: F401 - before the children are forked, each of which would import it again
    import numba  # noqa: F401

    import tempering.sampling.sample
    import tempering.sampling.sum_sampling  # noqa: F401

    print(f"{'engine':9s} {'method':10s} {'executor':9s} {'call':>8s} {'Ctrl-C':>8s} {'SIGTERM':>8s} {'late':>8s}")
    rows = []
    for row in at_once(cells(options)) if options.at_once else (measured(*cell) for cell in cells(options)):
        rows.append(row)
        print(rows[-1], flush=True)
        if options.json:
            _store(options.json, rows[-1])
    return 0 if all(row.passed for row in rows) else 1


def _store(file: Path, row: Row) -> None:
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["call"], *(row[name] for name in ("engine", "method", "executor"))

    known = {key(r): r for r in json.loads(file.read_text())["rows"]} if file.exists() else {}
    known[key(asdict(row))] = asdict(row) | {"passed": row.passed}
    about = {"interval": INTERVAL, "chains": CHAINS, "rungs": len(RUNGS)}
    file.write_text(json.dumps({"about": about, "rows": [known[k] for k in sorted(known)]}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
