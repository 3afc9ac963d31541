"""Run other samplers on one small problem and keep their arrays: how the files in ``data/`` were made.

Each sampler wants an environment of its own (ptemcee and Eryn need NumPy 1, TensorFlow Probability an older JAX), which
has nothing of this package: ``python make_foreign_draws.py ptemcee``.
"""

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

DESIGN = np.array([[1.0, 0.4], [0.3, -1.2], [0.8, 0.1]])
DATA = np.array([2.0, -1.0, 3.0])
PRIOR_MEAN, PRIOR_SD, NOISE_SD = np.array([-1.0, 0.5]), np.array([1.5, 0.8]), 0.9
K = np.array([1.0, 0.55, 0.2, 0.05])


def log_likelihood(x):
    return -0.5 * np.sum(((DATA - x @ DESIGN.T) / NOISE_SD) ** 2, axis=-1)


def log_prior(x):
    return -0.5 * np.sum(((x - PRIOR_MEAN) / PRIOR_SD) ** 2, axis=-1)


def prior_draws(*lead):
    return PRIOR_MEAN + PRIOR_SD * np.random.default_rng(1).standard_normal((*lead, 2))


def ptemcee():
    vars(np)["float"] = float  # an alias that ptemcee uses and NumPy has dropped
    import ptemcee

    k = np.append(K[:3], 0.0)
    sampler = ptemcee.Sampler(8, 2, log_likelihood, log_prior, betas=k, random=np.random.RandomState(1))
    sampler.run_mcmc(prior_draws(4, 8), 3000, thin=20, adapt=False)
    kept = {"chain": sampler.chain[:, :, 25:], "loglikelihood": sampler.loglikelihood[:, :, 25:]}
    return kept | {"logprobability": sampler.logprobability[:, :, 25:], "betas": sampler.betas}


def eryn():
    from eryn.ensemble import EnsembleSampler
    from eryn.prior import ProbDistContainer
    from eryn.state import State
    from scipy.stats import norm

    np.random.seed(1)  # noqa: NPY002
    prior = ProbDistContainer({i: norm(PRIOR_MEAN[i], PRIOR_SD[i]) for i in range(2)})
    sampler = EnsembleSampler(
        8, 2, log_likelihood, prior, tempering_kwargs={"betas": K, "adaptive": False, "stop_adaptation": 0}
    )
    sampler.run_mcmc(State(prior_draws(4, 8)[:, :, None]), 2500, burn=500, thin_by=1)
    chain = sampler.get_chain(thin=20)["model_0"]
    return {"chain": chain, "log_like": sampler.get_log_like(thin=20), "betas": sampler.get_betas(thin=20)}


def emcee():
    import emcee

    kept = {"chain": [], "log_prob": []}
    for k in K:
        sampler = emcee.EnsembleSampler(8, 2, lambda x, k=k: k * (log_likelihood(x) + log_prior(x)))
        state = emcee.State(prior_draws(8), random_state=np.random.RandomState(int(100 * k)).get_state())
        sampler.run_mcmc(state, 3000, progress=False)
        kept["chain"].append(sampler.get_chain(discard=500, thin=20))
        kept["log_prob"].append(sampler.get_log_prob(discard=500, thin=20))
    return {name: np.stack(arrays) for name, arrays in kept.items()} | {"inverse_temperatures": K}


def tfp():
    import jax
    import jax.numpy as jnp
    from tensorflow_probability.substrates.jax import mcmc

    jax.config.update("jax_enable_x64", True)

    def energy(x):
        return -0.5 * jnp.sum(((DATA - x @ DESIGN.T) / NOISE_SD) ** 2, axis=-1)

    def base(x):
        return -0.5 * jnp.sum(((x - PRIOR_MEAN) / PRIOR_SD) ** 2, axis=-1)

    kernel = mcmc.ReplicaExchangeMC(
        target_log_prob_fn=None,
        tempered_log_prob_fn=energy,
        untempered_log_prob_fn=base,
        inverse_temperatures=jnp.append(K[:3], 0.0),
        make_kernel_fn=lambda f: mcmc.HamiltonianMonteCarlo(f, step_size=0.5, num_leapfrog_steps=3),
    )

    def kept(_, results):
        return results.post_swap_replica_states, results.potential_energy, results.inverse_temperatures

    _, (states, before_swap, k) = mcmc.sample_chain(
        250, jnp.asarray(prior_draws(3)), kernel=kernel, num_burnin_steps=500, num_steps_between_results=3,
        trace_fn=kept, seed=jax.random.PRNGKey(1),
    )  # fmt: skip
    states = states[0] if isinstance(states, list | tuple) else states
    return {
        "states": states, "target_log_prob": energy(states), "potential_energy": before_swap, "inverse_temperatures": k,
    }  # fmt: skip


def blackjax():
    import blackjax as package
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def energy(x):
        return -0.5 * jnp.sum(((DATA - DESIGN @ x) / NOISE_SD) ** 2)

    def base(x):
        return -0.5 * jnp.sum(((x - PRIOR_MEAN) / PRIOR_SD) ** 2)

    normal = package.additive_step_random_walk.normal_random_walk
    sampler = package.adaptive_tempered_smc(
        base, energy, lambda key, state, f, **_: normal(f, jnp.ones(2) * 0.8).step(key, state),
        lambda x, f: normal(f, jnp.ones(2)).init(x), {}, package.smc.resampling.systematic, 0.7, num_mcmc_steps=8,
    )  # fmt: skip
    state, step, states = sampler.init(jnp.asarray(prior_draws(1500))), jax.jit(sampler.step), []
    while not states or states[-1].tempering_param < 1:
        state, _ = step(jax.random.key(len(states)), state)
        states.append(state)
    states.append(step(jax.random.key(99), state)[0])  # one more, moved at k = 1
    particles = np.stack([s.particles for s in states])
    return {"particles": particles, "tempering_param": np.array([s.tempering_param for s in states])}


PACKAGES = {"ptemcee": ptemcee, "eryn": eryn, "emcee": emcee, "tensorflow_probability": tfp, "blackjax": blackjax}

if __name__ == "__main__":
    name = sys.argv[1]
    arrays = {key: np.asarray(value) for key, value in PACKAGES[name]().items()}
    place = Path(__file__).parent / "data" / f"{name}.npz"
    np.savez_compressed(place, version=version(name), **arrays)
    sys.stdout.write(f"{place}: { ({key: a.shape for key, a in arrays.items()}) }\n")
