"""The suite on one accelerator with many chains: time to errors of 1 %, beside BlackJAX's SMC and TFP's exchange.

Ours is the default call in sums, with more chains and fewer draws of each. The peers, as in `benchmarks.peers`, are
BlackJAX's adaptive tempered SMC with as many particles, and TensorFlow Probability's replica exchange with as many
chains of ten replicas, whose draws are averaged as they are made. All run in one process, double precision, from the
same priors. The first call compiles and stands by itself; the others are timed. Errors are those of the masses of modes
(root mean square over modes and runs) and of log evidence. What is wanted is an error of 1 % of the masses (of .01 in
log evidence where there are none): where a run has less, its own time stands, and where it has more, time grows with
the square. Not that of the exchange, whose error then is of chains that have not crossed, and no average mends it.

What bounds ours: one more call with three times the draws says how many chain-iterations a second are drawn, and what
share of the time of the others that is. The rest is tuning, a few chains on the processor, and starting programs.

    python -m benchmarks.gpu_suite [--only NAME ...] [--chains N ...] [--samplers NAME ...] [--seconds S] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from benchmarks.calibration.runs import target_for
from benchmarks.peers.samplers import blackjax_tempered, tfp_exchange
from benchmarks.peers.samplers.jax_parts import start
from benchmarks.suite.cases import KnownCase, known_case

TARGETS = ("four-modes", "eggbox", "many-well-8", "shells-5", "twin-modes-32")
CHAINS = (10_000, 100_000, 1_000_000)
SEEDS = 3  # timed, after one that compiles
WANTED = 0.01
CHAIN_ITERATIONS = 20_000_000  # kept, all chains together; each makes 200 at least
LEAST_DRAWS = 200
LONGER = 3  # times the draws, of the call that tells how fast they are made
WARM_UP, SWEEPS = 300, 700  # iterations of replica exchange, whatever the number of its chains

Found = tuple[Any, float | None]  # masses, and log evidence


def ours(case: KnownCase, seed: int, n: int, times: int = 1) -> Found:
    """Run the default call in sums, with so many times the usual draws."""
    known = case.known
    assert known is not None
    masses = {} if known.modes is None else {"masses": known.modes.quantity.function}
    quantities = masses or {"first coordinate": lambda x: x[..., 0]}
    draws = times * draws_of(n)
    begin = {} if known.has_prior else {"initial": known.initial}
    run = tp.sample(
        target_for(known), keep=tp.Sums(quantities), chains=n, draws=draws, rng=seed,
        progress=False, **begin,
    )  # fmt: skip
    evidence = run.log_evidence()
    return (run.expect("masses").value if masses else None), float(evidence.value) if evidence.is_absolute else None


def draws_of(n: int) -> int:
    """Return the usual number of draws of each of so many chains."""
    return max(LEAST_DRAWS, CHAIN_ITERATIONS // n)


def smc(case: KnownCase, seed: int, n: int) -> Found:
    """Run BlackJAX's adaptive tempered SMC with so many particles."""
    answer = blackjax_tempered.run(case, seed, n)
    modes = case.known.modes if case.known else None
    draws, weights = np.asarray(answer.draws), np.asarray(answer.weights)
    masses = None if modes is None else (weights / weights.sum()) @ np.asarray(modes.quantity.function(draws))
    return masses, answer.log_evidence


def exchange(case: KnownCase, seed: int, n: int) -> Found:
    """Run replica exchange, and average over the cold replicas of all chains."""
    modes = case.known.modes if case.known else None
    if modes is None:
        raise NotImplementedError("has no evidence")
    key, places = start(case, seed, n, anywhere=True)
    return np.asarray(_exchanged(case.name, n)(key, places)), None


@cache
def _exchanged(name: str, n: int) -> Callable[[Any, Any], Any]:
    """Compile replica exchange for a target: one program for all seeds."""
    case = known_case(name)
    assert case.known is not None
    assert case.known.modes is not None
    kernel, masses = tfp_exchange.exchange(case, WARM_UP), case.known.modes.quantity.function

    def sweep(carry: Any, i: Any) -> Any:
        key, places, results, total = carry
        key, now = jax.random.split(key)
        places, results = kernel.one_step(places, results, seed=now)
        return (key, places, results, total + (i >= WARM_UP) * jnp.mean(masses(places), axis=0)), None

    @jax.jit
    def whole(key: Any, places: Any) -> Any:
        begun = (key, places, kernel.bootstrap_results(places), jnp.zeros(len(case.mode_masses)))
        return jax.lax.scan(sweep, begun, jnp.arange(WARM_UP + SWEEPS))[0][-1] / SWEEPS

    return whole


SAMPLERS: dict[str, Callable[[KnownCase, int, int], Found]] = {
    "tempering": ours,
    "blackjax_tempered": smc,
    "tfp_exchange": exchange,
}


def row(name: str, sampler: str, n: int, seeds: int) -> dict[str, Any]:
    """Run one sampler on one target with so many chains: a call that compiles, and some that are timed."""
    case = known_case(name)
    known = case.known
    assert known is not None
    about: dict[str, Any] = {"target": name, "sampler": sampler, "chains": n, "runs": seeds}
    seconds, masses, evidences = [], [], []
    try:
        for seed in range(seeds + 1):
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
    is_far = sampler == "tfp_exchange" and error is not None and error > WANTED
    if sampler == "tempering":
        begun = time.perf_counter()
        ours(case, 1_000 + seeds, n, LONGER)
        longer = (LONGER - 1) * n * draws_of(n)
        rate = longer / max(time.perf_counter() - begun - seconds[-1], 1e-3)
        about |= {"drawn a second": rate, "share of drawing": n * draws_of(n) / rate / seconds[-1]}
    return about | {
        "first call s": seconds[0],
        "later s": usual,
        "error of masses": rms[0],
        "of log evidence": rms[1],
        "s to an error of 1 %": None if error is None or is_far else usual * max(1.0, (error / WANTED) ** 2),
        "error^2 x s": None if error is None else usual * error**2,
    }


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield rows until the time is up: of every target with few chains first."""
    begun = time.perf_counter()
    for n in options.chains:
        for name in options.only:
            for sampler in options.samplers:
                if time.perf_counter() - begun < options.seconds:
                    yield row(name, sampler, n, options.seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(TARGETS), metavar="NAME")
    parser.add_argument("--chains", nargs="+", type=int, default=list(CHAINS))
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs that are timed, after one that compiles")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing after so long")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = jax.devices()[0]
    about = {"device": str(getattr(device, "device_kind", device)), "jax": jax.__version__}
    found = []
    for one in rows(options):
        found.append(one)
        print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in one.items()), flush=True)
        if options.json:
            options.json.write_text(json.dumps({"about": about, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
