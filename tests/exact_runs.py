"""Runs made of exact draws, without a sampler, for everything that reads or writes runs."""

import numpy as np

from statistical import seeded_rng
from tempering import Ladder, TemperedDraws, problems
from tempering.path import Leg, Path
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


NORMALS = ((0.0, 1.0), (0.5, 3.0), (-0.2, 1.2))  # mean and deviation: the target, a wide density, a fitted one


def exact_run_on_two_legs(name, n_chains=4, n_draws=1500, **fields):
    """Return independent draws along both legs of a path between normal laws; all its normalisers are one."""
    rng = seeded_rng(name)
    safe = Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder([1.0, 0.5, 0.2, 0.05, 0.0]), source=1)
    quick = Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder([1.0, 0.4, 0.0]), source=2)
    path = Path([1.0, 0.0, 0.0], [safe, quick], ("log density", "log wide", "log fitted"))
    mean, sd = np.array(NORMALS).T
    rung = rng.integers(len(path), size=(n_chains, n_draws)).astype(np.int32)
    precision = path.coefficients @ sd**-2
    centre = path.coefficients @ (mean * sd**-2) / precision
    x = centre[rung] + rng.normal(size=rung.shape) / np.sqrt(precision[rung])
    terms = -0.5 * ((x[..., None] - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return TemperedDraws(
        values={"x": x},
        rung=rung,
        terms=terms,
        path=path,
        log_pseudo_prior=np.zeros(len(path)),
        proposed=np.clip(rung + rng.choice([-1, 1], size=rung.shape), 0, len(path) - 1).astype(np.int32),
        acceptance=rng.random((*rung.shape, 1)).astype(np.float32),
        layout=Layout.of(0.0),
        **fields,
    )
