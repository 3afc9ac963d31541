"""Eryn: parallel-tempered ensembles of stretch moves, ten adapted temperatures and 100 walkers as in its tutorial.

`vectorize=True`; the evidence is its own thermodynamic estimate; the first half is burn-in, while the ladder adapts.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted, marginals

PACKAGE, ENVIRONMENT = "eryn", "peers"
EFFORT = 1_000
TEMPERATURES = 10
SETTINGS = {
    "effort": "steps, after as many of burn-in",
    "walkers": "100, or four a dimension",
    "temperatures": f"{TEMPERATURES}, adapted, Tmax = inf",
    "start": "draws of the prior, or around the points given",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    from eryn.ensemble import EnsembleSampler
    from eryn.prior import ProbDistContainer

    np.random.seed(seed)  # noqa: NPY002  # Eryn takes its state from here
    n_walkers, d = max(100, 4 * case.dimension), case.dimension
    each = dict(enumerate(marginals(case.prior)))
    counted = Counted(case.log_likelihood)
    sampler = EnsembleSampler(
        n_walkers, d, counted, ProbDistContainer(each), vectorize=True,
        tempering_kwargs={"ntemps": TEMPERATURES, "Tmax": np.inf, "stop_adaptation": effort},
    )  # fmt: skip
    start = case.starting_points(seed, TEMPERATURES * n_walkers)
    sampler.run_mcmc(start.reshape(TEMPERATURES, n_walkers, 1, d), effort, burn=effort)
    draws = sampler.get_chain()["model_0"][:, 0].reshape(-1, d)
    evidence = sampler.backend.get_evidence_estimate(return_error=False)
    return Answer(draws, None, float(np.squeeze(evidence)), counted.n_calls)
