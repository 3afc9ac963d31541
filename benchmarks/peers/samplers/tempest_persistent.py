"""Tempest: persistent sampling, an SMC that keeps all populations, its defaults; effort is the number of draws."""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer, Counted

PACKAGE, ENVIRONMENT, MODULE = "tempest-sampler", "nested", "tempest"
EFFORT = 4_096
SETTINGS = {"effort": "n_total (default 4096)", "all else": "defaults, vectorize=True", "start": "the prior"}


def run(case: Case, seed: int, effort: int) -> Answer:
    import tempest

    counted = Counted(case.log_likelihood)
    sampler = tempest.Sampler(
        case.prior.from_unit_cube, counted, case.dimension, vectorize=True, random_state=seed
    )  # fmt: skip
    sampler.run(n_total=effort, progress=False)
    draws, weights, *_ = sampler.posterior()
    return Answer(np.asarray(draws), np.asarray(weights), float(sampler.evidence()[0]), counted.n_calls)
