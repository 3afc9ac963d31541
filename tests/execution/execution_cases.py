"""Small runs of every kind."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from numba import njit

import tempering as tp
from grouped import grouped
from tempering import problems

ROWS = np.random.default_rng(7).normal(size=(200, 3))
HITS = np.random.default_rng(8).random(200) < 0.3
LADDER = [1.0, 0.6, 0.25]
SELECTION = problems.variable_selection()


def logistic(beta):
    """Matrix products: compiled code rounds them differently for another number of chains."""
    logits = ROWS @ beta
    return jnp.sum(HITS * logits - jnp.logaddexp(0.0, logits)) - 0.5 * jnp.sum(beta**2)


def skewed(x):
    """A density in plain Python; compiled, it is Numba's."""
    return 1.5 * x[0] - np.exp(x[0]) + 2.5 * x[1] - np.exp(x[1])


class Walker:
    """A model object for JAX."""

    engine = "vector"

    def initial(self, key):
        return jax.random.normal(key, (2,))

    def energy(self, state):
        return jnp.sum(jnp.array([1.0, 2.5]) * state - jnp.exp(state))

    def step(self, key, state, k):
        key_step, key_accept = jax.random.split(key)
        there = state + jax.random.normal(key_step, (2,))
        accepted = jnp.log(jax.random.uniform(key_accept)) < k * (self.energy(there) - self.energy(state))
        return jnp.where(accepted, there, state)

    def record(self, state):
        return {"at": state, "far": jnp.abs(state[0]) > 1.0}


def _run(target, **fixed):
    def run(**options):
        settings = {"ladder": LADDER, "draws": 160, "tune": 128, "rng": 5, "progress": False}
        if fixed.get("method") == "sequential":
            del settings["tune"]
        return tp.sample(target, **grouped(**settings | fixed | options))

    return run


WALK = tp.kernels.RandomWalk()
HMC = tp.kernels.BlackJAX(blackjax.hmc, num_integration_steps=3)
LOGISTIC = tp.Target(lambda beta: logistic(beta))  # a lambda: processes get it by its bytes
WITH_PRIOR = tp.Target.from_likelihood(
    lambda beta: logistic(beta) + 0.5 * jnp.sum(beta**2),
    lambda beta: -0.5 * jnp.sum(beta**2),
    lambda key: jax.random.normal(key, (3,)),
)
RUNS = {
    "vector, simulated": _run(LOGISTIC, initial=np.zeros(3), chains=70, kernel=WALK),
    "vector, ladder tuned": _run(LOGISTIC, initial=np.zeros(3), chains=70, kernel=HMC, ladder=None, tune=320),
    "vector, parallel": _run(LOGISTIC, initial=np.zeros(3), chains=23, method="parallel", kernel=WALK),
    "vector, model": _run(Walker(), chains=600),
    "vector, sequential": _run(WITH_PRIOR, chains=4, method="sequential", ladder=None, kernel=WALK, draws=2_000),
    "numba, simulated": _run(tp.Target(njit(skewed)), initial=np.zeros(2), chains=5),
    "numba, parallel, model": _run(SELECTION.compiled, method="parallel", chains=3),
    "python, simulated, model": _run(SELECTION, chains=3, draws=64, tune=64),
    "python, parallel": _run(tp.Target(skewed), initial=np.zeros(2), chains=3, engine="scalar", method="parallel"),
}
