"""jaxns: nested sampling in JAX with its defaults; it has no effort to set, so every run is the default run.

The model has a uniform prior on the unit cube, and the likelihood of the transformed point.
"""

import numpy as np

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer

PACKAGE, ENVIRONMENT = "jaxns", "nested"
EFFORT = 1
SETTINGS = {"effort": "none: the default run", "all else": "defaults", "start": "the prior"}


def run(case: Case, seed: int, effort: int) -> Answer:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jaxns.core import NestedSampler
    from jaxns.model import Model
    from jaxns.priors import Prior
    from tensorflow_probability.substrates import jax as tfp

    d = case.dimension

    def prior_model():  # type: ignore[no-untyped-def]
        u = Prior(tfp.distributions.Uniform(jnp.zeros(d), jnp.ones(d)), name="u").realise()
        return case.log_likelihood(case.prior.from_unit_cube(u))

    state = NestedSampler(model=Model(prior_model=prior_model)).run(key=jax.random.PRNGKey(seed))
    found = state.to_result().trim()
    posterior = found.resample(10_000, key=jax.random.PRNGKey(seed + 1))
    u = np.asarray(posterior.X_samples["u"])
    return Answer(case.prior.from_unit_cube(u), None, float(found.log_Z_mean), None)
