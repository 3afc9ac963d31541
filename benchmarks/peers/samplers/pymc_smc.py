"""PyMC's sample_smc with its defaults (independent Metropolis-Hastings moves, threshold 0.5), two chains on one core.

The likelihood is the black-box operation of its documentation: no gradient is needed.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT = "pymc", "peers"
EFFORT = 2_000
CHAINS = 2
SETTINGS = {"effort": "draws a chain (default 2000)", "chains": CHAINS, "all else": "defaults", "start": "the prior"}


def run(case: Case, seed: int, effort: int) -> Answer:
    import pymc as pm
    import pytensor.tensor as pt
    from pytensor.compile.ops import as_op

    counted = Counted(case.log_likelihood)

    @as_op(itypes=[pt.dvector], otypes=[pt.dscalar])
    def log_likelihood(x):  # type: ignore[no-untyped-def]
        return np.asarray(counted(x))

    with pm.Model():
        x = pm.Normal("x", case.prior.mean, case.prior.sd)
        pm.Potential("likelihood", log_likelihood(x))
        found = pm.sample_smc(effort, chains=CHAINS, cores=1, random_seed=seed, progressbar=False,
                              compute_convergence_checks=False)  # fmt: skip
    draws = found.posterior["x"].values.reshape(-1, case.dimension)
    ends = [float(np.hstack(list(chain))[-1]) for chain in found.sample_stats["log_marginal_likelihood"].values]
    largest = max(ends)
    return Answer(draws, None, largest + float(np.log(np.mean(np.exp(np.array(ends) - largest)))), counted.n_calls)
