"""Whether a prior is normalised: a constant that a user has left out is part of no posterior, but of the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tempering.arrays import Floats
from tempering.learning.reference.modes import climb
from tempering.learning.reference.surface import Surface
from tempering.path.reference import Reference
from tempering.sampling.whitening import MOST_DIMENSIONS
from tempering.target import Target
from tempering.target.checks import N_DRAWS, function_of_many, prior_draws
from tempering.target.layout import Layout

N_WEIGHTS = 16 * N_DRAWS  # of draws of a Student distribution around those of the prior
FREEDOM = 5
PRECISE = 0.1  # the standard error of the integral, relative to it, beyond which nothing is known of it
CUT, ROUNDING = 4.0, 1e-9  # standard errors that it may be from 1


@lru_cache(maxsize=64)
def is_normalised(target: Target, layout: Layout) -> bool:
    """Whether the prior's density integrates to one, as far as importance weights can tell; False if they cannot.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> def target(constant):
    ...     return Target.from_likelihood(jnp.sum, lambda x: constant - 0.5 * jnp.sum(x**2), sample)
    >>> sample = lambda key: jax.random.normal(key, (2,))
    >>> [is_normalised(target(constant), Layout.of(np.zeros(2))) for constant in (0.0, -np.log(2 * np.pi))]
    [False, True]
    """
    draws = None if target.sample_base is None else prior_draws(target.sample_base, layout)
    if draws is None:
        return False
    log_prior = function_of_many(target, "base", layout)
    for centre, factor in _surroundings(draws, target, layout):
        around = Reference([1.0], centre[None], factor[None], [FREEDOM])
        places = around.sample_many(np.random.default_rng(0), N_WEIGHTS).reshape(-1, N_DRAWS, layout.size)
        weights = np.exp(np.concatenate([log_prior(some) - around.log_density(some) for some in places]))
        mean, error = float(weights.mean()), float(weights.std(ddof=1) / np.sqrt(N_WEIGHTS))
        if error < PRECISE * mean:
            return abs(mean - 1.0) < CUT * error + ROUNDING
    return False


def _surroundings(draws: Floats, target: Target, layout: Layout) -> Iterator[tuple[Floats, Floats]]:
    """Yield centres and factors of what may describe the prior: by its draws, without and with correlations, and by
    its curvature at its summit, for the covariance of so few draws says little where coordinates are many.
    """
    assert target.base is not None
    centre = np.asarray(draws.mean(axis=0))
    for scale in (np.diag(np.var(draws, axis=0)), np.atleast_2d(np.cov(draws.T))):
        try:
            yield centre, np.asarray(np.linalg.cholesky(scale))
        except np.linalg.LinAlgError:  # a coordinate that does not vary, or more of them than draws
            continue
    surface = Surface(layout.on_flat(target.base), layout.size)
    if not surface.is_differentiable or layout.size > MOST_DIMENSIONS:
        return
    summit, _ = climb(surface, centre, None)
    precision = -surface.hessian(summit, np.ones(layout.size))
    try:
        yield summit, np.linalg.cholesky(np.linalg.inv(0.5 * (precision + precision.T)))
    except np.linalg.LinAlgError:  # a ridge, or no number
        return
