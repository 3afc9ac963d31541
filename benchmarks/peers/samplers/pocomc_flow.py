"""pocoMC: preconditioned Monte Carlo with a normalising flow, its defaults; effort is the number of draws asked for."""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted, marginals

PACKAGE, ENVIRONMENT = "pocomc", "peers"
EFFORT = 4_096
SETTINGS = {
    "effort": "n_total, and n_evidence as many (default 4096 both)",
    "all else": "defaults, vectorize=True",
    "start": "the prior",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    import pocomc

    prior = pocomc.Prior(marginals(case.prior))
    counted = Counted(case.log_likelihood)
    sampler = pocomc.Sampler(prior=prior, likelihood=counted, vectorize=True, random_state=seed)
    sampler.run(n_total=effort, n_evidence=effort, progress=False)
    draws, weights, _, _ = sampler.posterior()
    return Answer(np.asarray(draws), weights, float(sampler.evidence()[0]), counted.n_calls)
