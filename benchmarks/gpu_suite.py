"""The suite on one accelerator with many chains: errors, and the time to errors of 1 %, beside BlackJAX's SMC.

Ours is the default call in sums, with more chains and fewer draws of each; the peer is adaptive tempered SMC with as
many particles, as in `benchmarks.peers`. Both run here, in one process, double precision, from the same priors. The
first call compiles and stands by itself; the others are timed. Errors are those of the masses of modes (root mean
square over modes and runs) and of log evidence. What is wanted is an error of 1 % of the masses (of .01 in log evidence
where there are none): where a run has less, its own time stands, and where it has more, time grows with the square.

    python -m benchmarks.gpu_suite [--only NAME ...] [--chains N ...] [--seconds S] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tempering as tp
from benchmarks.calibration.runs import target_for
from benchmarks.peers.samplers import blackjax_tempered
from benchmarks.suite.cases import KnownCase, known_case

TARGETS = ("four-modes", "eggbox", "many-well-8", "shells-5", "twin-modes-32")
CHAINS = (10_000, 100_000, 1_000_000)
SEEDS = 3  # timed, after one that compiles
WANTED = 0.01
CHAIN_ITERATIONS = 20_000_000  # kept, all chains together; each makes 200 at least
LEAST_DRAWS = 200

Found = tuple[Any, float | None]  # masses, and log evidence


def ours(case: KnownCase, seed: int, n: int) -> Found:
    """Run the default call in sums."""
    known = case.known
    assert known is not None
    masses = {} if known.modes is None else {"masses": known.modes.quantity.function}
    quantities = masses or {"first coordinate": lambda x: x[..., 0]}
    draws = max(LEAST_DRAWS, CHAIN_ITERATIONS // n)
    start = {} if known.has_prior else {"initial": known.initial}
    run = tp.sample(
        target_for(known), keep=tp.Sums(quantities), chains=n, draws=draws, rng=seed,
        progress=False, **start,
    )  # fmt: skip
    evidence = run.log_evidence()
    return (run.expect("masses").value if masses else None), float(evidence.value) if evidence.is_absolute else None


def peer(case: KnownCase, seed: int, n: int) -> Found:
    """Run BlackJAX's adaptive tempered SMC with so many particles."""
    answer = blackjax_tempered.run(case, seed, n)
    modes = case.known.modes if case.known else None
    draws, weights = np.asarray(answer.draws), np.asarray(answer.weights)
    masses = None if modes is None else (weights / weights.sum()) @ np.asarray(modes.quantity.function(draws))
    return masses, answer.log_evidence


SAMPLERS: dict[str, Callable[[KnownCase, int, int], Found]] = {"tempering": ours, "blackjax_tempered": peer}


def row(name: str, sampler: str, n: int) -> dict[str, Any]:
    """Run one sampler on one target with so many chains: a call that compiles, and some that are timed."""
    case = known_case(name)
    known = case.known
    assert known is not None
    about: dict[str, Any] = {"target": name, "sampler": sampler, "chains": n}
    seconds, masses, evidences = [], [], []
    try:
        for seed in range(SEEDS + 1):
            begun = time.perf_counter()
            found, log_z = SAMPLERS[sampler](case, 1_000 + seed, n)
            seconds.append(time.perf_counter() - begun)
            if found is not None and known.modes is not None:
                masses.append(np.asarray(found) - known.modes.masses)
            if log_z is not None and known.evidence is not None:
                evidences.append(log_z - known.evidence.log_value)
    except Exception as failure:  # out of memory, say: an outcome like any other
        return about | {"what": f"{type(failure).__name__}: {failure}"[:200]}
    rms = [float(np.sqrt(np.mean(np.square(errors)))) if errors else None for errors in (masses, evidences)]
    error = rms[0] if rms[0] is not None else rms[1]
    usual = float(np.median(seconds[1:]))
    return about | {
        "first call s": seconds[0],
        "later s": usual,
        "error of masses": rms[0],
        "of log evidence": rms[1],
        "s to an error of 1 %": None if error is None else usual * max(1.0, (error / WANTED) ** 2),
        "error^2 x s": None if error is None else usual * error**2,
    }


def rows(names: list[str], chains: list[int], limit: float) -> Iterator[dict[str, Any]]:
    """Yield rows until the time is up: of every target with few chains first."""
    begun = time.perf_counter()
    for n in chains:
        for name in names:
            for sampler in SAMPLERS:
                if time.perf_counter() - begun < limit:
                    yield row(name, sampler, n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(TARGETS), metavar="NAME")
    parser.add_argument("--chains", nargs="+", type=int, default=list(CHAINS))
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing after so long")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = jax.devices()[0]
    about = {"device": str(getattr(device, "device_kind", device)), "jax": jax.__version__, "runs of a row": SEEDS}
    found = []
    for one in rows(options.only, options.chains, options.seconds):
        found.append(one)
        print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in one.items()), flush=True)
        if options.json:
            options.json.write_text(json.dumps({"about": about, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
