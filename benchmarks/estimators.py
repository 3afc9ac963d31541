"""The estimators on ten million draws, beside plain NumPy and pymbar, as ratios measured in one run.

Draws are iid from the powers of a normal density in 10 dimensions, 40 rungs down to k = 0.1. Times are
processor seconds, which other work on the machine does not lengthen much.
"""

import argparse
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tempering.estimators import RungSums, combine, ess_optimal, mbar

N_RUNGS, DIMENSION = 40, 10
K = np.geomspace(1.0, 0.1, N_RUNGS)
MOST_PASSES = 4.0
LEAST_RATIO = 20.0


def tempered_draws(n_draws: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return energies and rungs."""
    rng = np.random.default_rng(seed)
    rung = rng.integers(0, N_RUNGS, n_draws)
    return -0.5 * rng.chisquare(DIMENSION, n_draws) / K[rung], rung


def best_of(function: Callable[[], object], repeats: int) -> float:
    """Return the shortest of some run times, in processor seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def report(name: str, ratio: float, bar: str, passed: bool, detail: str) -> dict[str, Any]:
    print(f"{name}: {ratio:.1f} (bar: {bar}) {'met' if passed else 'MISSED'}", flush=True)
    return {"quantity": name, "ratio": ratio, "bar": bar, "passed": passed, "detail": detail}


def measure_ess_optimal(energy: np.ndarray, rung: np.ndarray) -> dict[str, Any]:
    """Compare with one pass that sums the weights of each rung and protects nothing from overflow."""
    log_weights = (1 - K[rung]) * energy
    one_pass = best_of(lambda: np.bincount(rung, np.exp(log_weights), N_RUNGS), 5)
    ours = best_of(lambda: ess_optimal(RungSums.from_log_weights(log_weights, rung)), 5)
    detail = f"ess_optimal, {rung.size:.0e} draws: {ours:.3f} s; np.bincount(rung, np.exp(w)): {one_pass:.3f} s"
    print(detail)
    passes = ours / one_pass
    return report("passes over memory", passes, f"at most {MOST_PASSES:.0f}", passes <= MOST_PASSES, detail)


def measure_combine(energy: np.ndarray, rung: np.ndarray) -> list[dict[str, Any]]:
    """Time whole estimates with standard errors and Pareto k-hat."""
    rows = []
    for rule in ("ess_optimal", "screened", "mbar"):
        start = time.process_time()
        combine(energy, None, rung, rule, energy=energy, inverse_temperatures=K)
        seconds = time.process_time() - start
        print(f"combine(rule={rule!r}), {rung.size:.0e} draws: {seconds:.2f} s", flush=True)
        rows.append({"estimate": f"combine(rule={rule!r})", "draws": rung.size, "processor_seconds": seconds})
    return rows


def time_peer(energy: np.ndarray, rung: np.ndarray) -> float:
    """Return the seconds pymbar needs for the normalisers."""
    import jax
    import pymbar

    order = np.argsort(rung, kind="stable")
    u_kn = -K[:, None] * energy[order]
    counts = np.bincount(rung, minlength=N_RUNGS)
    with jax.enable_x64(True):  # else pymbar switches JAX for the whole process
        start = time.process_time()
        pymbar.MBAR(u_kn, counts)
        return time.process_time() - start


def measure_peer(energy: np.ndarray, rung: np.ndarray, seconds: float) -> tuple[int, float]:
    """Return the largest subset that pymbar finishes in so many seconds, by its time on a small one."""
    small = min(20_000, rung.size)
    time_peer(energy[:2000], rung[:2000])  # its set-up is not counted
    large = int(min(rung.size, small * seconds / time_peer(energy[:small], rung[:small])))
    return large, time_peer(energy[:large], rung[:large])


def measure_mbar(energy: np.ndarray, rung: np.ndarray, peer_seconds: float) -> dict[str, Any]:
    """Compare with pymbar by the time each draw takes."""
    ours = best_of(lambda: mbar(energy, K, rung), 2)
    error = np.abs(mbar(energy, K, rung).log_normalisers + DIMENSION / 2 * np.log(K)).max()
    n_peer, peer = measure_peer(energy, rung, peer_seconds)
    detail = (
        f"mbar, {rung.size:.0e} draws: {ours:.2f} s, {1e9 * ours / rung.size:.0f} ns a draw, log normalisers off the "
        f"truth by at most {error:.1e}; pymbar, {n_peer:.0e} draws: {peer:.1f} s, {1e9 * peer / n_peer:.0f} ns a draw"
    )
    print(detail)
    ratio = (peer / n_peer) / (ours / rung.size)
    return report("speed per draw over pymbar", ratio, f"at least {LEAST_RATIO:.0f}", ratio >= LEAST_RATIO, detail)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description=__doc__)
    parser.add_argument("--full", action="store_true", help="give pymbar a minute in place of ten seconds")
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(argv)
    energy, rung = tempered_draws(options.draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pymbar's, about its own options
        ratios = [
            measure_ess_optimal(energy, rung),
            measure_mbar(energy, rung, 55.0 if options.full else 10.0),
        ]
    whole = measure_combine(energy, rung)
    if options.json:
        about = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
        stored = {"about": about, "ratios": ratios, "whole_estimates": whole}
        options.json.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["passed"] for row in ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
