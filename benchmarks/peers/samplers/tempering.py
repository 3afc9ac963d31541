"""Our own `tp.sample`, with its defaults; more effort is more draws."""

import sys
from typing import Any

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer
from tempering.planning import LEAPFROG_STEPS

PACKAGE, ENVIRONMENT = "tempering", "own"
EFFORT = 10_000
SETTINGS = {
    "call": "tp.sample(tp.Target(log_density), initial=point, rng=seed), draws scaled with the effort",
    "effort": "draws a chain (default 10 000); tune stays at its default",
    "start": "one point in the first mode (or those given, with reference='fit'); the prior is a part of the density",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    import tempering as tp

    points = case.points_in_basins(seed)
    where = {"initial": case.initial} if points is None else {"initial": list(points), "reference": "fit"}
    run = tp.sample(tp.Target(case.log_density), rng=seed, draws=effort, progress=False, **where)
    draws = next(iter(run.values.values())) if isinstance(run.values, dict) else run.values
    weights = run.weights()
    n_calls = run.info.n_iterations * len(weights) * calls_of_a_move(run.info.kernel)
    return Answer(draws.reshape(-1, case.dimension), weights.reshape(-1), evidence_of(run), n_calls)


def calls_of_a_move(kernel: str) -> int:
    """Return how often a move calls the density: once, or once more than a Hamiltonian move has leapfrog steps."""
    return 1 if kernel.startswith("RandomWalk") else LEAPFROG_STEPS + 1


def evidence_of(run: Any) -> float | None:
    """Return the log evidence where the path starts from a normalised density."""
    try:
        evidence = run.log_evidence()
    except ValueError as refused:
        print(f"no evidence: {refused}", file=sys.stderr)
        return None
    return float(evidence.value) if evidence.is_absolute else None
