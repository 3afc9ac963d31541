"""Runs made of exact draws, without a sampler, for everything that reads or writes runs."""

import numpy as np

from statistical import seeded_rng
from tempering import Ladder, TemperedDraws, problems
from tempering.target.layout import Layout

PROBLEM = problems.skewed(2)
LADDER = Ladder([1.0, 0.6, 0.3])


def exact_run(name, n_chains=4, n_draws=600, position=None, **fields):
    """Return independent draws, each on a rung chosen afresh, of a skewed density in two dimensions."""
    rng = seeded_rng(name)
    rung = rng.integers(len(LADDER), size=(n_chains, n_draws)).astype(np.int32)
    x = np.empty((n_chains, n_draws, 2))
    for i, k in enumerate(LADDER):
        x[rung == i] = PROBLEM.sample(rng, int(np.sum(rung == i)), k)
    layout = Layout.of(np.zeros(2) if position is None else position)
    return TemperedDraws.of_energies(
        layout.named(x),
        rung,
        PROBLEM.log_density(x),
        LADDER,
        log_pseudo_prior=np.array([0.0, -0.2, 0.1]),
        proposed=np.roll(rung, 1, axis=1),
        acceptance=rng.random((n_chains, n_draws, 1)).astype(np.float32),
        layout=layout,
        **fields,
    )
