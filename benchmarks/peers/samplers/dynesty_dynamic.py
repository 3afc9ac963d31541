"""dynesty's dynamic nested sampler, which its documentation recommends when the posterior is wanted.

Bounds and sampling are chosen by themselves ("auto"), 500 live points to start with, posterior and evidence weighed
80:20, all defaults; it stops at a number of effective draws.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer

PACKAGE, ENVIRONMENT = "dynesty", "peers"
EFFORT = 4_000
SETTINGS = {"effort": "effective draws (n_effective)", "all else": "defaults", "start": "the prior"}


def run(case: Case, seed: int, effort: int) -> Answer:
    import dynesty

    sampler = dynesty.DynamicNestedSampler(
        case.log_likelihood, case.prior.from_unit_cube, case.dimension,
        rstate=np.random.default_rng(seed),
    )  # fmt: skip
    sampler.run_nested(n_effective=effort, print_progress=False)
    found = sampler.results
    return Answer(found.samples, found.importance_weights(), float(found.logz[-1]), int(np.sum(found.ncall)))
