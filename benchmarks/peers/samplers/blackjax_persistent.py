"""BlackJAX's adaptive persistent SMC: all particles of all temperatures are kept and weighted.

The inner kernels are those of `blackjax_tempered`; a target ESS of 3 and ten moves a temperature are the defaults.
"""

from typing import Any

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer
from benchmarks.peers.samplers.blackjax_tempered import MOVES, inner_kernel
from benchmarks.peers.samplers.blackjax_tempered import SETTINGS as TEMPERED
from benchmarks.peers.samplers.jax_parts import start

PACKAGE, ENVIRONMENT = "blackjax", "peers"
EFFORT = 500
TARGET_ESS, MOST_TEMPERATURES = 3.0, 150
SETTINGS = TEMPERED | {"target ESS": TARGET_ESS, "most temperatures": MOST_TEMPERATURES}


def run(case: Case, seed: int, effort: int) -> Answer:
    import jax
    import jax.numpy as jnp
    from blackjax.smc import adaptive_persistent_sampling, persistent_sampling, resampling

    key, particles = start(case, seed, effort)
    step, init, parameters, aim, calls = inner_kernel(case)
    kernel = adaptive_persistent_sampling.build_kernel(
        case.prior.log_density, case.log_likelihood, step, init, resampling.systematic, TARGET_ESS
    )

    def body(carry: Any) -> Any:
        i, key, scale, state = carry
        key, now = jax.random.split(key)
        state, info = kernel(now, state, MOVES, parameters(state.particles, scale))
        return i + 1, key, scale * jnp.exp(jnp.mean(info.update_info.acceptance_rate) - aim), state

    @jax.jit
    def whole(key: Any, particles: Any) -> Any:
        state = persistent_sampling.init(particles, case.log_likelihood, MOST_TEMPERATURES)
        scale = jnp.asarray(2.38 / jnp.sqrt(case.dimension) if aim < 0.5 else 0.5)
        go_on = lambda c: (c[-1].tempering_param < 1) & (c[0] < MOST_TEMPERATURES)  # noqa: E731
        return jax.lax.while_loop(go_on, body, (0, key, scale, state))

    n, _, _, state = jax.block_until_ready(whole(key, particles))
    kept = persistent_sampling.remove_padding(state)
    draws = kept.persistent_particles.reshape(-1, case.dimension)
    weights = kept.persistent_weights.reshape(-1)
    return Answer(draws, weights, float(state.log_Z), int(n) * effort * (MOVES * calls + 1))
