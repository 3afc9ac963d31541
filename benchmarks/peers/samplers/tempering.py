"""Our own `tp.sample`, with its defaults; more effort is more draws."""

import sys
from functools import cache
from typing import Any

from benchmarks._model_calls import most_calls
from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer

PACKAGE, ENVIRONMENT = "tempering", "own"
EFFORT, SHORT = 10_000, 1_000
SETTINGS = {
    "call": "tp.sample(tp.Target.from_likelihood(log_likelihood, log_prior, sample_prior), rng=seed), draws scaled "
    "with the effort",
    "effort": "draws of each of 32 chains, 10 000 (the default) at the least but for a pilot of 1000; the default tune",
    "start": "the prior; or tp.Target(log_density) from the points given, with reference='fit'",
}


@cache
def target_of(case: Case) -> Any:
    """Return the posterior as a user would write it; the same one for every seed."""
    import tempering as tp

    if case.basins is not None:
        return tp.Target(case.log_density)
    return tp.Target.from_likelihood(case.log_likelihood, case.prior.log_density, case.prior.draw)


def run(case: Case, seed: int, effort: int) -> Answer:
    import tempering as tp

    points = case.points_in_basins(seed)
    where = {} if points is None else {"initial": list(points), "reference": "fit"}
    run = tp.sample(target_of(case), rng=seed, draws=effort, progress=False, **where)
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
