"""nautilus: importance nested sampling with neural networks that find the bounds, its defaults.

Exploration is discarded, as its documentation recommends for publication; effort is the effective sample size.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT, MODULE = "nautilus-sampler", "nested", "nautilus"
EFFORT = 10_000
SETTINGS = {
    "effort": "n_eff (default 10 000)",
    "all else": "defaults, vectorized=True, discard_exploration=True",
    "start": "the prior",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    from nautilus import Sampler

    counted = Counted(case.log_likelihood)
    sampler = Sampler(
        case.prior.from_unit_cube, counted, n_dim=case.dimension, vectorized=True, pass_dict=False, seed=seed
    )
    sampler.run(n_eff=effort, discard_exploration=True, verbose=False)
    points, log_w, _ = sampler.posterior()
    return Answer(points, np.exp(log_w - np.max(log_w)), float(sampler.log_z), counted.n_calls)
