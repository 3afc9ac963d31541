"""UltraNest: its reactive nested sampler, with a slice step sampler from 10 dimensions on as its documentation says.

400 live points and 2 d steps; effort is the effective sample size asked for.
"""

import logging

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT = "ultranest", "nested"
EFFORT = 1_000
SETTINGS = {
    "effort": "min_ess (default 400)",
    "all else": "defaults, vectorized; SliceSampler(nsteps=2 d, generate_mixture_random_direction) from d = 10 on",
    "start": "the prior",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    import ultranest
    from ultranest import stepsampler

    logging.getLogger("ultranest").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002  # UltraNest takes its state from here
    counted = Counted(case.log_likelihood)
    sampler = ultranest.ReactiveNestedSampler(
        [f"x{i}" for i in range(case.dimension)], counted, case.prior.from_unit_cube, vectorized=True
    )
    if case.dimension >= 10:
        sampler.stepsampler = stepsampler.SliceSampler(
            nsteps=2 * case.dimension, generate_direction=stepsampler.generate_mixture_random_direction
        )
    found = sampler.run(min_ess=effort, show_status=False, viz_callback=False)
    weighted = found["weighted_samples"]
    return Answer(
        np.asarray(weighted["points"]), np.asarray(weighted["weights"]), float(found["logz"]), counted.n_calls
    )
