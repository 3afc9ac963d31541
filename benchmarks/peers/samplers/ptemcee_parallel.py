"""ptemcee: parallel-tempered ensembles with an adapted ladder that goes up to the prior (Tmax = inf).

Ten temperatures; likelihoods are called point by point, for the package knows no other way. The first half is
discarded, for the ladder still adapts in it. It asks for np.float, which NumPy removed in 1.24: put back here.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT = "ptemcee", "peers"
EFFORT = 300
TEMPERATURES = 10
SETTINGS = {
    "effort": "steps",
    "walkers": "50, or two a dimension",
    "temperatures": f"{TEMPERATURES}, adapted, the hottest the prior",
    "burn-in": "a half",
    "start": "draws of the prior, or around the points given",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    setattr(np, "float", float)  # noqa: B010
    import ptemcee

    n_walkers = 2 * (max(50, 2 * case.dimension) // 2)
    counted = Counted(case.log_likelihood)
    sampler = ptemcee.Sampler(
        n_walkers, case.dimension, counted, lambda x: float(case.prior.log_density(x)), ntemps=TEMPERATURES,
        Tmax=np.inf, random=np.random.RandomState(seed),
    )  # fmt: skip
    start = case.starting_points(seed, TEMPERATURES * n_walkers)
    sampler.run_mcmc(start.reshape(TEMPERATURES, n_walkers, -1), iterations=effort, adapt=True)
    draws = sampler.chain[0, :, effort // 2 :, :].reshape(-1, case.dimension)
    return Answer(draws, None, float(sampler.log_evidence_estimate(fburnin=0.5)[0]), counted.n_calls)
