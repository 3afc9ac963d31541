"""Modes that a prior hardly leads to: in many dimensions its draws lie far out, but not far in one direction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering import problems
from tempering.learning import loop

D = 400
TWINS = problems.twin_modes(D)


def log_prior(x):
    return -0.5 * jnp.sum(x**2) - 0.5 * D * jnp.log(2 * jnp.pi)


def run():
    target = tp.Target.from_likelihood(
        lambda x: TWINS.log_density(x) - log_prior(x), log_prior, lambda key: jax.random.normal(key, (D,))
    )
    return tp.sample(target, rng=1, tuning=tp.Tuning(960), draws=400, chains=16, progress=False)


@pytest.mark.slow
def test_a_mode_in_one_direction_is_found_under_a_prior_too(monkeypatch):
    """Draws of the prior are a sixth of the way to the valley, in its direction; those looked at reach further."""
    found = run()
    masses = found.expect(TWINS.modes.quantity.function)
    assert np.all(np.abs(masses.value - TWINS.modes.masses) < 5 * masses.standard_error)
    assert masses.standard_error.max() < 0.05
    monkeypatch.setattr(loop, "FAR_DRAWS", 0)
    assert np.min(run().expect(TWINS.modes.quantity.function).value) < 0.01  # control
