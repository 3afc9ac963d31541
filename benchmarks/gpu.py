"""Chain-iterations a second of the vector engine in running sums, against the number of chains, and what bounds them.

In sums means that one iteration of each chain in so many is summed (as `tempering.sample` does by its default on such
a device), and every round trip counted. Beside each figure: the same steps in a bare `lax.scan` that keeps nothing,
the bytes of its state and the operations (in double precision, and of the random numbers) that one chain-iteration
takes, which of the two takes longer at the rates this device was measured to have, and how near the bare scan comes to
that ceiling (above 1 where an exponential costs less than the 30 operations it is counted for). With few chains
starting kernels takes longer than either. Runs in sums are of whole blocks, which is seen where they are short: the
256 iterations of a million chains of the Gaussians are run as 300, the 64 of the regression as 100.

    python -m benchmarks.gpu [--most 1000000] [--only mixture] [--json FILE]

On a processor the table is made all the same, with fewer chains and no bar.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering import Ladder, Target
from tempering.engines import vector
from tempering.engines.trace import Schedule
from tempering.estimators.running.batches import batches_in_time
from tempering.kernels import RandomWalk
from tempering.kernels.settings import starting_settings
from tempering.recorders.sum_runs import PILOT, SumPlan, Task, advance, first_part, units_seen
from tempering.recorders.summing import default_sum_every, groups_on_device, length_on_device
from tempering.target.layout import Layout

BAR = 1e10  # chain-iterations a second, a million chains of the mixture
ROWS = 100_000  # of the logistic regression


@dataclass(frozen=True)
class Case:
    """A problem, ready to run without tuning: only its cost matters here."""

    name: str
    target: Target
    initial: Any
    ladder: Ladder
    log_pseudo_prior: Any
    quantity: Callable[[Any], Any]
    chains: tuple[int, ...]
    updates: float  # chain-iterations to time, about, on a large device


@dataclass(frozen=True)
class Rate:
    """One line of the table: rates in chain-iterations a second, times in seconds a chain-iteration."""

    case: str
    n_chains: int
    n_iterations: int
    sum_every: int
    rate: float
    bare_rate: float
    bytes_moved: float
    operations: float
    seconds_of_bytes: float
    seconds_of_arithmetic: float

    @property
    def bound_by(self) -> str:
        """Which of bytes and arithmetic takes longer, unless starting kernels takes longer than both."""
        seconds = 1 / self.bare_rate
        if max(self.seconds_of_bytes, self.seconds_of_arithmetic) < 0.25 * seconds:
            return "launches"
        return "bytes" if self.seconds_of_bytes > self.seconds_of_arithmetic else "arithmetic"

    @property
    def share_of_ceiling(self) -> float:
        """How near the bare scan is to what bytes and arithmetic allow: 1 is at the ceiling."""
        return max(self.seconds_of_bytes, self.seconds_of_arithmetic) * self.bare_rate

    @property
    def row(self) -> dict[str, Any]:
        """The line as it is stored."""
        return {
            "problem": self.case,
            "chains": self.n_chains,
            "summed_every": self.sum_every,
            "a_second_in_sums": self.rate,
            "a_second_bare": self.bare_rate,
            "bytes": self.bytes_moved,
            "operations": self.operations,
            "bound_by": self.bound_by,
            "share_of_ceiling": self.share_of_ceiling,
        }


def mixture() -> Case:
    """Return the paper's mixture in one dimension."""

    def log_density(x: Any) -> Any:
        left = -0.5 * ((x + 8.0) / 0.5) ** 2 + jnp.log(0.6 / 0.5)
        right = -0.5 * ((x - 8.0) / 0.9) ** 2 + jnp.log(0.4 / 0.9)
        return jnp.logaddexp(left, right)

    ladder = Ladder.geometric(40, 3e-3)
    x = np.linspace(-150, 150, 60_001)
    energy = np.asarray(log_density(x), float)
    log_z = [np.log(np.sum(np.exp(k * (energy - energy.max())))) + k * energy.max() for k in ladder]
    chains = (100, 1_000, 10_000, 100_000, 1_000_000)
    return Case(
        "mixture, 1 dimension", Target(log_density), -8.0, ladder, -np.array(log_z), lambda x: x > 0, chains, 8e9
    )


def gaussian_mixture() -> Case:
    """Return two Gaussians in 50 dimensions, with the pseudo-prior of one of them."""

    def log_density(x: Any) -> Any:
        near, far = -0.5 * jnp.sum((x + 1.0) ** 2), -0.5 * jnp.sum((x - 1.0) ** 2)
        return jnp.logaddexp(near, far + jnp.log(0.5))

    ladder = Ladder.geometric(20, 0.1)
    log_p = 25 * np.log(ladder.inverse_temperatures)
    chains = (100, 1_000, 10_000, 100_000, 1_000_000)
    start = -np.ones(50)
    return Case(
        "Gaussian mixture, 50 dimensions", Target(log_density), start, ladder, log_p, lambda x: x[..., 0], chains, 2e8
    )


def logistic_regression() -> Case:
    """Return a regression with ten coefficients and 100 000 rows, the likelihood tempered."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(ROWS, 10))
    truth = rng.normal(size=10) / 3
    success = rng.random(ROWS) < 1 / (1 + np.exp(-design @ truth))
    signed = design * np.where(success, 1.0, -1.0)[:, np.newaxis]

    def log_likelihood(b: Any) -> Any:
        return -jnp.sum(jax.nn.softplus(-(jnp.asarray(signed) @ b)))

    def log_prior(b: Any) -> Any:
        return -0.5 * jnp.sum(b**2)

    ladder = Ladder([1.0, 0.6, 0.3, 0.1, 0.03, 0.01])
    k = ladder.inverse_temperatures
    highest = -float(np.sum(np.logaddexp(0.0, -signed @ truth)))
    log_p = -(k * highest - 5 * np.log(k))
    target = Target.from_likelihood(log_likelihood, log_prior)
    return Case(
        "logistic regression, 100 000 rows",
        target,
        truth,
        ladder,
        log_p,
        lambda b: b[..., 0],
        (100, 1_000, 10_000),
        2e5,
    )


CASES = {"mixture": mixture, "gaussian": gaussian_mixture, "logistic": logistic_regression}


def prepared(case: Case, n_chains: int) -> tuple[Any, Schedule]:
    """Return the engine and its schedule."""
    layout = Layout.of(case.initial)
    pieces = vector.target_pieces(case.target, RandomWalk(covariance="diagonal"), layout, [case.initial])
    engine = vector.VectorEngine(pieces, "simulated", "lifted", 1, n_chains, len(case.ladder))
    start = layout.flatten(case.initial)
    scale = 2.4 / np.sqrt(start.size) / (np.sqrt(ROWS) / 2 if "logistic" in case.name else 1.0)
    settings = starting_settings(case.ladder, start, scale, dense=False)
    return engine, Schedule(case.ladder, case.log_pseudo_prior, (settings,))


def rate_of_sums(case: Case, n_chains: int, n: int, sum_every: int) -> float:
    """Return chain-iterations a second of a whole run in sums: the second of two, by the clock."""
    few, schedule = prepared(case, min(n_chains, 256))
    layout = Layout.of(case.initial)

    def values(trace: Any) -> Any:
        with jax.enable_x64(True):
            return {"h": np.asarray(case.quantity(layout.named(trace.values)["x"]), float)}

    def on_device(recorded: Any) -> Any:
        return jnp.asarray(case.quantity(layout.named(recorded)["x"]), float).reshape(recorded.shape[0], -1)

    states = few.start(len(case.ladder))
    _, trace = few.run(states, schedule, PILOT)
    k = schedule.ladder.inverse_temperatures
    bins, quantities = units_seen(trace, values(trace), k[trace.rung])
    engine, states = few.widened(states, n_chains)
    n_times = batches_in_time(groups_on_device(n_chains, k.size))
    length = length_on_device(n_chains, k.size, n_chains, n, sum_every)
    plan = SumPlan(n, length, n_times, (n_chains,), quantities, sum_every)
    task = Task(engine, schedule, values, on_device, lambda trace: None, plan)
    first = first_part(states, bins)
    advance(task, first, n)
    started = time.perf_counter()
    done = advance(task, first, n)
    seconds = time.perf_counter() - started
    assert done.rungs is not None
    assert int(done.rungs.n_draws.sum()) == n // sum_every * n_chains
    return n * n_chains / seconds


def bare_rate(case: Case, n_chains: int, n: int, unroll: int = 1) -> tuple[float, float, float]:
    """Return the rate of the same steps in a bare scan, and bytes and operations of one chain-iteration."""
    engine, schedule = prepared(case, n_chains)
    states = engine.start(len(case.ladder))
    with jax.enable_x64(True):
        path = engine.path(schedule)

        def once(keys: Any, units: Any, iteration: Any) -> Any:
            now = jax.vmap(lambda key: jax.random.fold_in(key, iteration))(keys)
            return jax.vmap(engine.step, in_axes=(0, 0, None, None, None))(now, units, iteration, path, True)[0]

        @partial(jax.jit, static_argnums=3)
        def scan(keys: Any, units: Any, start: Any, n: int) -> Any:
            return jax.lax.scan(lambda u, i: (once(keys, u, i), None), units, start + jnp.arange(n), unroll=unroll)[0]

        jax.block_until_ready(scan(states.keys, states.unit, 0, n))
        started = time.perf_counter()
        jax.block_until_ready(scan(states.keys, states.unit, n, n))
        seconds = time.perf_counter() - started
        cost = jax.jit(once).lower(states.keys, states.unit, 0).compile().cost_analysis()
        moved = 2 * sum(part.nbytes for part in jax.tree.leaves(states.unit)) + 8 * n_chains  # read, written; the key
    operations = (cost.get("flops", 0.0) + OPERATIONS_OF_ONE * cost.get("transcendentals", 0.0)) / n_chains
    moved = max(moved / n_chains, cost.get("bytes accessed", 0.0) / n_chains if "logistic" in case.name else 0.0)
    return n * n_chains / seconds, moved, operations


OPERATIONS_OF_ONE = 30  # multiply-adds in a double-precision exponential, logarithm or error function, about


def best(function: Callable[[], Any], repeats: int = 5) -> float:
    """Return the least of several times, by the clock."""
    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - started)
    return min(times)


def ceilings(is_large: bool) -> dict[str, float]:
    """Measure bytes a second (read and written) and double-precision operations a second of this device."""
    with jax.enable_x64(True):
        n = 1 << (27 if is_large else 22)
        x = jnp.ones(n)
        copies = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, x: x + 1.0, x))
        of_bytes = 20 * 16 * n / best(lambda: copies(x))
        y = jnp.ones(1 << (25 if is_large else 14))

        @jax.jit
        def multiply_add(y: Any) -> Any:
            for _ in range(512):
                y = y * 0.999 + 0.5
            return y

        of_operations = 2 * 512 * y.size / best(lambda: multiply_add(y))
    return {"bytes a second": of_bytes, "operations a second": of_operations}


def measure(case: Case, n_chains: int, limits: dict[str, float], shrink: float) -> list[Rate]:
    """Measure one line, or two: the most chains also with every iteration summed."""
    wanted = case.updates * shrink / n_chains
    n = int(2 ** np.clip(np.round(np.log2(wanted)), 6, 13))
    bare, moved, operations = bare_rate(case, n_chains, n)
    seconds = (moved / limits["bytes a second"], operations / limits["operations a second"])
    summed = {default_sum_every(n), 1} if n_chains == case.chains[-1] else {default_sum_every(n)}
    return [
        Rate(case.name, n_chains, n, every, rate_of_sums(case, n_chains, n, every), bare, moved, operations, *seconds)
        for every in sorted(summed)
    ]


def show(rates: list[Rate], about: dict[str, Any]) -> None:
    """Print the table."""
    limits = f"{about['bytes a second']:.2e} bytes and {about['operations a second']:.2e} operations a second"
    print(f"{about['device']}, JAX {about['jax']}: {limits}")
    rates_head = f"{'every':>6s}{'in sums':>11s}{'bare scan':>11s}"
    print(f"{'problem':36s}{'chains':>9s}{rates_head}{'bytes':>8s}{'ops':>9s}  bound by")
    for r in rates:
        print(
            f"{r.case:36s}{r.n_chains:9d}{r.sum_every:6d}{r.rate:11.2e}{r.bare_rate:11.2e}"
            f"{r.bytes_moved:8.0f}{r.operations:9.0f}  {r.bound_by}"
        )


def is_top(rate: Rate) -> bool:
    """Whether the bar is for this line."""
    return rate.case.startswith("mixture") and rate.n_chains >= 1_000_000


def store(path: Path, about: dict[str, Any], rates: list[Rate]) -> None:
    """Write the figures there are."""
    stored = {"about": about, "bar_of_a_million_chains_of_the_mixture": BAR, "rates": [r.row for r in rates]}
    path.write_text(json.dumps(stored, indent=2) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", choices=sorted(CASES), action="append", help="these problems alone")
    parser.add_argument("--most", type=int, help="chains at most")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    is_large = jax.default_backend() != "cpu"
    most = options.most or (1_000_000 if is_large else 1_000)
    device = jax.devices()[0]
    about = {
        "device": getattr(device, "device_kind", str(device)) if is_large else platform.processor() or "processor",
        "jax": jax.__version__,
        "python": platform.python_version(),
        **ceilings(is_large),
    }
    rates = []
    for name in options.only or CASES:
        case = CASES[name]()
        for n_chains in case.chains:
            if n_chains <= most:
                measured = measure(case, n_chains, about, 1.0 if is_large else 1e-3)
                rates += measured
                show(measured, about)
                if options.json:
                    store(options.json, about, rates)
    show(rates, about)
    top = [r for r in rates if is_top(r)]
    return 0 if not is_large or not top or max(r.rate for r in top) >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
