"""What the engines cost beyond the arithmetic: against bare loops written by hand, on the paper's mixture.

Both sides of a ratio draw the same random numbers and keep the same output; they run in turn, and the best of
several repeats counts. Times are those of the processor, so that other work on the machine does not count.

    python -m benchmarks.engines [--full] [--json FILE]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from tempering import Ladder, Target, problems
from tempering.engines import scalar, scalar_pieces, vector
from tempering.engines.trace import Schedule
from tempering.kernels import RandomWalk
from tempering.kernels.settings import starting_settings
from tempering.path import Path as TemperingPath
from tempering.target.layout import Layout

MIXTURE = problems.mixture()
LADDER = Ladder.geometric(40, 3e-3)
N_CHAINS = 1000  # in lockstep


class Result(NamedTuple):
    """One line of the table."""

    quantity: str
    ours: float
    bar: float
    unit: str
    detail: str

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        return self.ours <= self.bar


def best_of(repeats: int, *sides: Callable[[], Any]) -> list[float]:
    """Run all sides in turn, several times; return the least processor time of each, in seconds."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, taken in zip(sides, times, strict=True):
            started = time.process_time()
            side()
            taken.append(time.process_time() - started)
    return [min(taken) for taken in times]


def mixture_schedule() -> Schedule:
    """Return the ladder with the exact pseudo-prior 1 / Z and random-walk steps that fit every rung."""
    log_p = -np.array([MIXTURE.log_normaliser(k) for k in LADDER])
    return Schedule(TemperingPath.powers(LADDER), log_p, (starting_settings(LADDER, np.zeros(1), 1.0, dense=False),))


# --- the scalar engine ----------------------------------------------------------------------------


@njit
def log_mixture(x: float) -> float:
    """Return the log density, written out as a user would."""
    left = -0.5 * ((x + 8.0) / 0.5) ** 2 + np.log(0.6 / 0.5)
    right = -0.5 * ((x - 8.0) / 0.9) ** 2 + np.log(0.4 / 0.9)
    largest = max(left, right)
    return largest + np.log(np.exp(left - largest) + np.exp(right - largest))


@njit(nogil=True, error_model="numpy")
def bare_loop(rng, x, rung, k, log_p, scale, values, energies, rungs, proposals, acceptances):  # type: ignore[no-untyped-def]
    direction, energy = 1, log_mixture(x)
    for t in range(values.size):
        there = x + scale[rung] * rng.standard_normal()
        energy_there = log_mixture(there)
        acceptances[t] = 0.0
        if np.log(1.0 - rng.random()) < k[rung] * (energy_there - energy):
            x, energy = there, energy_there
            acceptances[t] = 1.0
        proposed = rung + direction
        if 0 <= proposed < k.size:
            log_ratio = (k[proposed] - k[rung]) * energy + log_p[proposed] - log_p[rung]
            if np.log(1.0 - rng.random()) < log_ratio:
                rung = proposed
            else:
                direction = -direction
        else:
            proposed, direction = rung, -direction
        values[t], energies[t], rungs[t], proposals[t] = x, energy, rung, proposed
    return x, rung


def scalar_engine(n: int, repeats: int) -> Result:
    schedule = mixture_schedule()
    layout = Layout.of(-8.0)
    pieces = scalar_pieces.target_pieces(Target(log_mixture), RandomWalk(), layout, [-8.0])
    engine = scalar.ScalarEngine(pieces, "simulated", "lifted", 1, 1, len(LADDER))
    states = engine.start(schedule.path)
    rng = np.random.Generator(np.random.SFC64(1))
    scale = schedule.settings[0].scale
    k, log_p = LADDER.inverse_temperatures, schedule.log_pseudo_prior

    def bare() -> None:
        out = (
            np.empty(n),
            np.empty(n),
            np.empty(n, np.int32),
            np.empty(n, np.int32),
            np.empty(n, np.float32),
        )
        bare_loop(rng, -8.0, 0, k, log_p, scale, *out)

    def ours() -> None:
        engine.run(states, schedule, n)

    ours(), bare()  # compile
    time_ours, time_bare = best_of(repeats, ours, bare)
    detail = f"{time_ours / n * 1e9:.0f} ns an iteration, bare {time_bare / n * 1e9:.0f}"
    return Result("scalar engine / bare Numba loop", time_ours / time_bare, 1.5, "x", detail)


# --- the vector engine ----------------------------------------------------------------------------


def bare_scan(keys: Any, x: Any, rung: Any, k: Any, log_p: Any, scale: Any, n: int) -> Any:
    """Return n iterations of all chains in one scan: the same keys, numbers and output as the engine's."""

    def step(key: Any, x: Any, energy: Any, rung: Any, direction: Any) -> Any:
        key_move, key_rung = jax.random.split(key)
        key_step, key_accept = jax.random.split(key_move)
        there = x + scale[rung] * jax.random.normal(key_step, (1,))
        energy_there = MIXTURE.log_density(there[0])
        probability = jnp.exp(jnp.minimum(k[rung] * (energy_there - energy), 0.0))
        accepted = jax.random.uniform(key_accept) < probability
        x, energy = jnp.where(accepted, there, x), jnp.where(accepted, energy_there, energy)
        wanted = rung + direction
        proposed = jnp.clip(wanted, 0, k.shape[0] - 1)
        log_ratio = (k[proposed] - k[rung]) * energy + log_p[proposed] - log_p[rung]
        moved = (proposed == wanted) & (jnp.log1p(-jax.random.uniform(key_rung, (2,))[1]) < log_ratio)
        rung = jnp.where(moved, proposed, rung)
        outputs = (x, energy, rung, proposed, probability.astype(jnp.float32))
        return (x, energy, rung, jnp.where(moved, direction, -direction)), outputs

    def body(state: Any, t: Any) -> Any:
        now = jax.vmap(lambda key: jax.random.fold_in(key, t))(keys)
        return jax.vmap(step)(now, *state)

    start = (x, jax.vmap(lambda x: MIXTURE.log_density(x[0]))(x), rung, jnp.ones_like(rung))
    return jax.lax.scan(body, start, jnp.arange(n))


def vector_engine(repeats: int) -> Result:
    schedule, n = mixture_schedule(), 4096
    layout = Layout.of(-8.0)
    pieces = vector.target_pieces(Target(MIXTURE.log_density), RandomWalk(), layout, [-8.0])
    engine = vector.VectorEngine(pieces, "simulated", "lifted", 1, N_CHAINS, len(LADDER))
    states = engine.start(schedule.path)
    with jax.enable_x64(True):
        compiled = jax.jit(partial(bare_scan, n=n))
        arguments = (
            jax.random.split(jax.random.key(1), N_CHAINS),
            jnp.full((N_CHAINS, 1), -8.0),
            jnp.zeros(N_CHAINS, jnp.int32),
            *map(
                jnp.asarray,
                (LADDER.inverse_temperatures, schedule.log_pseudo_prior, schedule.settings[0].scale),
            ),
        )

    def bare() -> None:
        with jax.enable_x64(True):
            jax.tree.map(np.asarray, compiled(*arguments)[1])

    def ours() -> None:
        engine.run(states, schedule, n)

    ours(), bare()  # compile
    time_ours, time_bare = best_of(repeats, ours, bare)
    rate = N_CHAINS * n / 1e6
    detail = f"{rate / time_ours:.2f} million a second, bare {rate / time_bare:.2f}, {N_CHAINS} chains"
    return Result("vector engine / bare lax.scan", time_ours / time_bare, 1.5, "x", detail)


# --- plain Python ---------------------------------------------------------------------------------


def plain_density(x: Any) -> float:
    return float(np.logaddexp(-2.0 * (x[0] + 8.0) ** 2 + 0.18, -0.62 * (x[0] - 8.0) ** 2 - 0.81))


def python_callable(n: int, repeats: int) -> Result:
    schedule = mixture_schedule()
    x = np.array([-8.0])
    pieces = scalar_pieces.target_pieces(Target(plain_density), RandomWalk(), Layout.of(x), [x])
    engine = scalar.ScalarEngine(pieces, "simulated", "lifted", 1, 1, len(LADDER))
    states = engine.start(schedule.path)

    def calls() -> None:
        for _ in range(n):
            plain_density(x)

    def ours() -> None:
        engine.run(states, schedule, n)

    time_ours, time_calls = best_of(repeats, ours, calls)
    beyond = (time_ours - time_calls) / n * 1e6
    detail = f"{time_ours / n * 1e6:.1f} us an iteration, {time_calls / n * 1e6:.1f} of them the callable"
    return Result("Python callable, cost beyond it", beyond, 20.0, "us", detail)


# --- the second start -----------------------------------------------------------------------------

PROGRAM = """
import time
started = time.perf_counter()
import numpy as np
import tempering as tp
from numba import njit

@njit(cache=True)
def log_density(x):
    return np.logaddexp(-2.0 * (x[0] + 8.0) ** 2 + 0.18, -0.62 * (x[0] - 8.0) ** 2 - 0.81)

target, ladder = tp.Target(log_density), tp.Ladder.geometric(40, 3e-3)
run = tp.sample(target, initial=np.array([-8.0]), ladder=ladder, draws=1, tuning=tp.Tuning(0), rng=1, progress=False)
assert run.info.engine == "scalar (Numba)"
print(time.process_time(), time.perf_counter() - started)
"""


def second_start(repeats: int) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)

        def start() -> tuple[float, float]:
            done = subprocess.run([sys.executable, str(program)], check=True, capture_output=True, text=True)
            processor, wall = done.stdout.split()
            return float(processor), float(wall)

        first, _ = start()
        again, wall = min(start() for _ in range(repeats))
    detail = f"to the first draw, in a fresh process; {wall:.1f} s by the clock, first start {first:.1f} s"
    return Result("second start of a program", again, 2.0, "s", detail)


def measure(*, full: bool) -> list[Result]:
    """Measure everything."""
    repeats = 15 if full else 7
    return [
        scalar_engine(100_000, 3 * repeats),
        vector_engine(max(3, repeats // 2)),
        python_callable(5_000, repeats),
        second_start(3),
    ]


def show(results: list[Result]) -> None:
    table = Table(title="engines: what they cost beyond the arithmetic")
    for heading in ("quantity", "ours", "bar", "", "how"):
        table.add_column(heading, overflow="fold")
    for r in results:
        verdict = "PASS" if r.passed else "miss"
        table.add_row(r.quantity, f"{r.ours:.2f} {r.unit}", f"{r.bar:g} {r.unit}", verdict, r.detail)
    Console().print(table)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more repeats")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    results = measure(full=options.full)
    show(results)
    if options.json:
        rows = [r._asdict() | {"passed": r.passed} for r in results]
        options.json.write_text(json.dumps(rows, indent=2))
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
