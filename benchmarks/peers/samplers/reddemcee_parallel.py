"""reddemcee: ensembles of stretch moves at adapted temperatures, with stepping stones for the evidence.

Ten temperatures and 100 walkers, a point at a time (vectorize=True fails in version 1.0); two steps between exchanges
as in its README; the first half is burn-in.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT = "reddemcee", "nested"
EFFORT = 500
TEMPERATURES = 10
SETTINGS = {
    "effort": "exchanges, two steps each, the first half discarded",
    "walkers": "100, or four a dimension",
    "temperatures": f"{TEMPERATURES}, adapted",
    "start": "draws of the prior",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    import reddemcee

    np.random.seed(seed)  # noqa: NPY002  # emcee takes its state from here
    n_walkers, d = max(100, 4 * case.dimension), case.dimension
    counted = Counted(case.log_likelihood)
    sampler = reddemcee.PTSampler(n_walkers, d, counted, case.prior.log_density, ntemps=TEMPERATURES)
    start = case.starting_points(seed, TEMPERATURES * n_walkers).reshape(TEMPERATURES, n_walkers, d)
    sampler.run_mcmc(start, effort, 2)
    draws = np.asarray(sampler.get_chain(discard=effort, flat=True)[0])
    evidence = sampler.get_evidence_ss(discard=effort)
    return Answer(draws, None, float(np.ravel(evidence)[0]), counted.n_calls)
