"""The treed GP beside tgp: rounds a second, effective draws a second, first fit, accuracy.

tgp runs in the same sitting where R and its package tgp are installed (Debian: r-cran-tgp); otherwise its
measured baselines stand in, and the table says so. Times are those of the processor, on one core. tgp's depend on the
BLAS that R uses: it runs with every one that is installed (libblas3, libopenblas0-pthread), and the ratio stated is to
the fastest.

    python -m benchmarks.treed_gp [--full] [--json FILE]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._tgp import blas_found, has_tgp, run_tgp
from tempering.estimators import ess_of_autocorrelation
from tempering.experiments import exponential, motorcycle
from tempering.models.treed_gp import Proposals, Tempering, TreedGP
from tempering.path.ladder import Ladder

LADDER = Ladder.geometric(40, 0.1)
# Measured with tgp 2.4-21 on one core, seconds of the processor a round, for machines without R.
STORED = {"motorcycle": 2.35e-3, "exponential 80": 0.348e-3, "exponential 400": 7.5e-3}
# Effective draws of the number of leaves a second of its tempered run of 1.5e5 draws: 162 in 484 s. A chain whose
# number of leaves has not moved yet has no effective draws to count: then this stands in too.
STORED_LEAVES = 162 / 484
N_SETS = 5  # of data, for the accuracy
SPEED_SEEDS = (1, 2, 3)
LEAF_ROUNDS = 20_000  # of tgp, for its effective draws of the leaves; ours runs ten times as many


class Result(NamedTuple):
    """One line of the table."""

    quantity: str
    ours: float
    peer: float | None
    bar: float
    higher_is_better: bool
    detail: str

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        return bool(self.ours >= self.bar if self.higher_is_better else self.ours <= self.bar)


def run_ours(x: Any, y: Any, total: int, tune: int, *, ladder: Ladder, moves: float, seed: int = 1) -> TreedGP:
    model = TreedGP(
        leaf="gp",  # as btgp
        tempering=Tempering(ladder=ladder, rule="ess_optimal"),
        draws=total,
        tune=tune,
        chains=1,
        random_state=seed,
        proposals=Proposals(tree_moves=moves),
    )
    return model.fit(x, y)


def timed(function: Any) -> tuple[Any, float]:
    """Run a function; return its result and the seconds of the processor."""
    before = time.process_time()
    result = function()
    return result, time.process_time() - before


def space_filling(n: int = 400) -> tuple[Any, Any]:
    """Return the larger exponential set: a maximin Latin hypercube on [-6, 6]^2."""
    from scipy.stats import qmc

    x = qmc.scale(qmc.LatinHypercube(2, optimization="random-cd", rng=1).random(n), -6, 6)
    return x, exponential.true_function(x) + exponential.NOISE * np.random.default_rng(2).standard_normal(n)


def speed(scale: float, with_tgp: bool) -> list[Result]:
    """Compare rounds a second, tempered, with the specification's rounds; and effective draws of the leaves."""
    small = exponential.load()[:2]
    cases = [
        ("motorcycle", motorcycle.load(), 20_000, 20),
        ("exponential 80", small, 20_000, 10),
        ("exponential 400", space_filling(), 2_000, 10),
    ]
    out = []
    for name, (x, y), rounds, bar in cases:
        n = max(400, int(scale * rounds))
        run_ours(x, y, 50, 50, ladder=LADDER, moves=0.25)  # compiled, or read from the cache
        pairs = [rates(name, x, y, n, seed, with_tgp) for seed in SPEED_SEEDS]
        ratios = [ours / theirs for ours, theirs, _ in pairs]
        ours, theirs, libraries = pairs[int(np.argmin(ratios))]
        detail = f"{ours:.0f} rounds/s, tgp {theirs:.0f} ({libraries})"
        detail += f"; seeds {', '.join(f'{ratio:.1f}' for ratio in ratios)}"
        label = f"{name}: rounds a second, times tgp's, the worst of {len(pairs)} seeds"
        out.append(Result(label, min(ratios), theirs, bar, True, detail))
        if name == "motorcycle":
            out.append(leaves_a_second(x, y, max(LEAF_ROUNDS, n), with_tgp))
    return out


def rates(name: str, x: Any, y: Any, n: int, seed: int, with_tgp: bool) -> tuple[float, float, str]:
    """Return rounds a second of the processor, ours and tgp's with the fastest BLAS there is, and which that was."""
    _, seconds = timed(lambda: run_ours(x, y, n, n, ladder=LADDER, moves=0.25, seed=seed))
    if not with_tgp:
        return 2 * n / seconds, 1 / STORED[name], "reference BLAS, stored"
    found = {}
    for label, place in (blas_found() or {"the system's BLAS": None}).items():
        peer = run_tgp(x, y, n // 2, n // 2, tempered=True, seed=seed, blas=place)
        found[label] = float(peer["rounds"][0] / peer["seconds"][0])
    best = max(found, key=lambda label: found[label])
    return 2 * n / seconds, found[best], ", ".join(f"{label} {rate:.0f}" for label, rate in found.items())


def leaves_a_second(x: Any, y: Any, n: int, with_tgp: bool) -> Result:
    """Compare effective draws of the number of leaves a second, tuning paid for; both with the paper's ladder."""
    model, seconds = timed(lambda: run_ours(x, y, 10 * n, 2 * n, ladder=LADDER, moves=1.0))
    ours = float(ess_of_autocorrelation(model.posterior_.draws.values["leaves"][0])) / seconds
    theirs, source = STORED_LEAVES, "stored"
    if with_tgp:
        peer = run_tgp(x, y, n, n // 4, tempered=True)
        if np.ptp(peer["leaves"]) > 0:
            theirs = float(ess_of_autocorrelation(peer["leaves"])) / float(peer["seconds"][0])
            source = f"{n} draws"
    detail = f"{ours:.2f}/s, tgp {theirs:.3f}/s ({source}); {model.posterior_.n_round_trips} round trips"
    return Result(
        "motorcycle: effective draws of leaves a second, times tgp's", ours / theirs, theirs, 20, True, detail
    )


def first_fit() -> list[Result]:
    """Time the first draw in a fresh process, with the cache and without."""
    code = (
        "import time; t = time.perf_counter()\n"
        "from tempering.experiments import motorcycle\n"
        "from tempering.models.treed_gp import TreedGP\n"
        "x, y = motorcycle.load()\n"
        "TreedGP(draws=1, tune=0, chains=1, tempering={'ladder': [1]}, keep={'trees': 1}, random_state=1).fit(x, y)\n"
        "print(time.process_time(), time.perf_counter() - t)\n"
    )
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for label, bar in (("no cache", 60.0), ("cached", 3.0)):
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
            )
            seconds, clock = map(float, done.stdout.split())
            detail = f"{clock:.1f} s by the clock, which counts what else runs"
            out.append(Result(f"first draw in a fresh process, {label} (s)", seconds, None, bar, False, detail))
    return out


def friedman(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return Friedman's first function: five inputs that matter, noise of deviation 1."""
    x = rng.random((n, 5))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, y


def accuracy(scale: float) -> list[Result]:
    """Compare predictive errors and coverage of 90 % intervals over several data sets; ours with its defaults."""
    seeds = range(1, N_SETS + 1)
    sets = [("exponential 80", [exponential_data(seed) for seed in seeds], max(500, int(scale * 10_000)))]
    sets.append(("Friedman", [friedman_data(seed) for seed in seeds], max(500, int(scale * 5000))))
    out = []
    for name, data, n in sets:
        found = np.array([errors(*one, n, seed) for seed, one in zip(seeds, data, strict=True)])
        ours, theirs, covered, their_cover, seconds, their_seconds = found.mean(axis=0)
        ratio, low, high = paired_ratio(found[:, 0], found[:, 1])
        detail = (
            f"{verdict(low, high)}: 95 % interval {low:.3f} to {high:.3f}; mean RMSE {ours:.4g}, tgp {theirs:.4g}; "
            f"{len(found)} sets, {seconds:.0f} s each, tgp {their_seconds:.0f} s"
        )
        out.append(Result(f"{name}: RMSE, times tgp's", ratio, theirs, 1.0, False, detail))
        gap = abs(covered - 0.9) - abs(their_cover - 0.9)
        detail = f"coverage {covered:.3f}, tgp {their_cover:.3f}"
        out.append(Result(f"{name}: coverage further from 90 % than tgp's by", gap, their_cover, 0.01, False, detail))
    return out


def paired_ratio(ours: Any, theirs: Any) -> tuple[float, float, float]:
    """Return the geometric mean of the ratios, and the ends of its 95 % interval by Student's t."""
    from scipy.stats import t

    log_ratio = np.log(ours / theirs)
    reach = t.ppf(0.975, len(log_ratio) - 1) * log_ratio.std(ddof=1) / np.sqrt(len(log_ratio))
    return tuple(float(np.exp(log_ratio.mean() + shift)) for shift in (0.0, -reach, reach))  # type: ignore[return-value]


def verdict(low: float, high: float) -> str:
    """Say which side is better, if that can be said."""
    if high < 1.0:
        return "ours is better"
    return "tgp is better" if low > 1.0 else "no difference that the sets could show"


def exponential_data(seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return 80 training rows, 361 test inputs, the truth and new responses there."""
    x, y, x_test, truth = exponential.load(seed)
    noise = exponential.NOISE * np.random.default_rng([seed, 1]).standard_normal(len(truth))
    return x, y, x_test, truth, truth + noise


def friedman_data(seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return 200 training rows, 1000 test inputs, the truth and new responses there."""
    rng = np.random.default_rng(seed)
    x, truth = friedman(1200, rng)
    y = truth + rng.standard_normal(1200)
    return x[:200], y[:200], x[200:], truth[200:], y[200:]


def errors(
    x: Any, y: Any, x_test: Any, truth: Any, y_test: Any, n: int, seed: int
) -> tuple[float, float, float, float, float, float]:
    """Return root mean square errors of the surface, coverages of new responses, and seconds, ours and tgp's."""
    model = TreedGP(random_state=seed)
    (mean, band), seconds = timed(lambda: model.fit(x, y).predict(x_test, quantiles=[0.05, 0.95]))
    peer = run_tgp(x, y, n, n // 2, tempered=False, new=x_test, seed=seed)
    return (
        float(np.sqrt(np.mean((mean - truth) ** 2))),
        float(np.sqrt(np.mean((peer["mean"] - truth) ** 2))),
        float(np.mean((band[:, 0] <= y_test) & (y_test <= band[:, 1]))),
        float(np.mean((peer["low"] <= y_test) & (y_test <= peer["high"]))),
        seconds,
        float(peer["seconds"][0]),
    )


def stored(results: list[Result], scale: float) -> dict[str, Any]:
    """Return what the page of benchmarks shows."""
    about = {"python": platform.python_version(), "processor": platform.machine(), "length_of_the_runs": scale}
    rows = [
        {"quantity": r.quantity, "ours": r.ours, "tgp": r.peer, "bar": r.bar, "met": r.passed, "detail": r.detail}
        for r in results
    ]
    return {"about": about | {"load_at_the_end": os.getloadavg()[0]}, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="run ten times as long")
    parser.add_argument("--scale", type=float, default=1.0, help="length of the runs, relative")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", choices=("speed", "first", "accuracy"))
    options = parser.parse_args()
    scale = options.scale * (10 if options.full else 1)
    with_tgp = has_tgp()
    results: list[Result] = []
    if options.only in (None, "speed"):
        results += speed(scale, with_tgp)
    if options.only in (None, "first"):
        results += first_fit()
    if options.only in (None, "accuracy") and with_tgp:
        results += accuracy(scale)
    table = Table("quantity", "ours", "bar", "", "detail", title="Treed GP beside tgp", title_justify="left")
    for result in results:
        sign = ">=" if result.higher_is_better else "<="
        met = "met" if result.passed else "MISSED"
        table.add_row(result.quantity, f"{result.ours:.3g}", f"{sign} {result.bar:.3g}", met, result.detail)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if not with_tgp:
        print("R with tgp is not installed: stored baselines, and no comparison of accuracy.")
    if options.json:
        Path(options.json).write_text(json.dumps(stored(results, scale), indent=2) + "\n")
    return 0 if all(r.passed for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
