"""BlackJAX's adaptive tempered SMC, its inner kernel tuned from the particles.

Random-walk moves below 5 dimensions, Hamiltonian ones from there on, ten moves a temperature (the default), a target
ESS of 0.5 as in the Sampling Book's examples, all in one compiled loop as there. Scale or step size follow the
acceptance and shapes follow the particles, as "Tuning inner kernel parameters of SMC" in the Sampling Book does.
"""

from typing import Any

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer
from benchmarks.peers.samplers.jax_parts import start

PACKAGE, ENVIRONMENT = "blackjax", "peers"
EFFORT = 2_000
MOVES, LEAPFROGS, TARGET_ESS = 10, 10, 0.5
SETTINGS = {
    "effort": "particles",
    "inner kernel": f"random walk (d < 5) or HMC with {LEAPFROGS} leapfrog steps; covariance of the particles, scale "
    "by acceptance (0.234 and 0.65)",
    "moves a temperature": MOVES,
    "target ESS": TARGET_ESS,
    "start": "particles from the prior",
}


def inner_kernel(case: Case) -> tuple[Any, Any, Any, float, int]:
    """Return step, init, parameters from (particles, scale), the acceptance aimed at, and calls a move."""
    import blackjax
    import jax.numpy as jnp

    if case.dimension < 5:
        kernel = blackjax.additive_step_random_walk.build_kernel()

        def step(key: Any, state: Any, log_density: Any, sigma: Any) -> Any:
            return kernel(key, state, log_density, blackjax.mcmc.random_walk.normal(sigma))

        def walk(particles: Any, scale: Any) -> dict[str, Any]:
            covariance = jnp.atleast_2d(jnp.cov(particles, rowvar=False))
            return {"sigma": scale * jnp.linalg.cholesky(covariance + 1e-12 * jnp.eye(case.dimension))[None]}

        return step, blackjax.additive_step_random_walk.init, walk, 0.234, 1

    def hamiltonian(particles: Any, scale: Any) -> dict[str, Any]:
        return {
            "step_size": jnp.reshape(scale, (1,)),
            "inverse_mass_matrix": jnp.var(particles, axis=0)[None],
            "num_integration_steps": jnp.full(1, LEAPFROGS),
        }

    return blackjax.hmc.build_kernel(), blackjax.hmc.init, hamiltonian, 0.65, LEAPFROGS + 1


def run(case: Case, seed: int, effort: int) -> Answer:
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.smc import resampling

    key, particles = start(case, seed, effort)
    step, init, parameters, aim, calls = inner_kernel(case)

    def one(state: Any, scale: Any, key: Any) -> Any:
        algorithm = blackjax.adaptive_tempered_smc(
            case.prior.log_density, case.log_likelihood, step, init, parameters(state.particles, scale),
            resampling.systematic, TARGET_ESS, num_mcmc_steps=MOVES,
        )  # fmt: skip
        return algorithm.step(key, state)

    def body(carry: Any) -> Any:
        i, key, scale, log_z, state = carry
        key, now = jax.random.split(key)
        state, info = one(state, scale, now)
        rate = jnp.mean(info.update_info.acceptance_rate)
        return i + 1, key, scale * jnp.exp(rate - aim), log_z + info.log_likelihood_increment, state

    @jax.jit
    def whole(key: Any, particles: Any) -> Any:
        state = blackjax.smc.tempered.init(particles)
        scale = jnp.asarray(2.38 / jnp.sqrt(case.dimension) if aim < 0.5 else 0.5)
        return jax.lax.while_loop(lambda c: c[-1].tempering_param < 1, body, (0, key, scale, 0.0, state))

    n, _, _, log_z, state = jax.block_until_ready(whole(key, particles))
    return Answer(state.particles, state.weights, float(log_z), int(n) * effort * (MOVES * calls + 1))
