"""emcee's ensemble, with the moves its documentation names for several modes: DE (0.8) and DE snooker (0.2).

`vectorize=True`; as many walkers as are cheap, from the prior; the first quarter is discarded as burn-in.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT = "emcee", "peers"
EFFORT = 2_000
SETTINGS = {
    "effort": "steps",
    "walkers": "100, or four a dimension",
    "moves": "DEMove 0.8, DESnookerMove 0.2",
    "burn-in": "a quarter",
    "start": "draws of the prior, or around the points given",
}


def run(case: Case, seed: int, effort: int) -> Answer:
    import emcee

    n_walkers = max(100, 4 * case.dimension)
    np.random.seed(seed)  # noqa: NPY002  # emcee takes its state from here
    start = case.starting_points(seed, n_walkers)
    counted = Counted(case.log_density)
    moves = [(emcee.moves.DEMove(), 0.8), (emcee.moves.DESnookerMove(), 0.2)]
    sampler = emcee.EnsembleSampler(n_walkers, case.dimension, counted, moves=moves, vectorize=True)
    sampler.run_mcmc(start, effort)
    return Answer(sampler.get_chain(discard=effort // 4, flat=True), None, None, counted.n_calls)
