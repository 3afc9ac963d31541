"""Our own `tp.sample`, with its defaults; more effort is more draws."""

import sys
from typing import Any

from benchmarks.model_calls import most_calls
from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer

PACKAGE, ENVIRONMENT = "tempering", "own"
EFFORT = 1_000
SETTINGS = {
    "call": "tp.sample(tp.Target(log_density), initial=point, rng=seed), draws scaled with the effort",
    "effort": "draws of each of 32 chains, 1000 at the least (default 10 000); tune stays at its default",
    "start": "one point in the first mode (or those given, with reference='fit'); the prior is a part of the density",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    import tempering as tp

    points = case.points_in_basins(seed)
    where = {"initial": case.initial} if points is None else {"initial": list(points), "reference": "fit"}
    run = tp.sample(tp.Target(case.log_density), rng=seed, draws=effort, progress=False, **where)
    draws = next(iter(run.values.values())) if isinstance(run.values, dict) else run.values
    weights = run.weights()
    return Answer(draws.reshape(-1, case.dimension), weights.reshape(-1), evidence_of(run), most_calls(run))


def evidence_of(run: Any) -> float | None:
    """Return the log evidence where the path starts from a normalised density."""
    try:
        evidence = run.log_evidence()
    except ValueError as refused:
        print(f"no evidence: {refused}", file=sys.stderr)
        return None
    return float(evidence.value) if evidence.is_absolute else None
