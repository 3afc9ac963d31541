"""TensorFlow Probability's replica exchange on its JAX substrate: Hamiltonian moves, step sizes adapted per replica.

The documentation's example has inverse temperatures spaced evenly in log from 1 to 0.01 and three leapfrog steps; ten
replicas here, and the step scaled with the root of the temperature. A fifth of the draws adapts and is discarded.
"""

from typing import Any

from benchmarks.peers.cases import Case
from benchmarks.peers.samplers import Answer
from benchmarks.peers.samplers.jax_parts import start

PACKAGE, ENVIRONMENT = "tensorflow-probability", "tfp"
EFFORT = 2_000
REPLICAS, LEAPFROGS, CHAINS = 10, 3, 16
SETTINGS = {
    "effort": "draws a chain",
    "chains": CHAINS,
    "replicas": f"{REPLICAS}, 1 to 0.01 evenly in log",
    "leapfrog steps": LEAPFROGS,
    "start": "draws of the prior, or around the points given",
}


def exchange(case: Case, warm_up: int) -> Any:
    """Return the kernel of replica exchange, with step sizes adapted in so many iterations."""
    import jax
    import jax.numpy as jnp

    with_tables_of_types()
    from tensorflow_probability.substrates import jax as tfp

    k = 10.0 ** jnp.linspace(0.0, -2.0, REPLICAS)
    scale = jnp.min(case.sd) * 0.5 / jnp.sqrt(k)

    def make_kernel(log_density: Any) -> Any:
        moves = tfp.mcmc.HamiltonianMonteCarlo(log_density, scale[:, None, None], LEAPFROGS)
        return tfp.mcmc.SimpleStepSizeAdaptation(moves, warm_up)

    return tfp.mcmc.ReplicaExchangeMC(jax.vmap(case.log_density), inverse_temperatures=k, make_kernel_fn=make_kernel)


def with_tables_of_types() -> None:
    """Give JAX back the tables of types that version 0.25 enters its variables into when it is imported."""
    import jax
    from jax.interpreters import xla

    class Table(dict[Any, Any]):
        def __missing__(self, key: Any) -> Any:
            return lambda value: value

    for module in (xla, jax.core):
        for name in ("canonicalize_dtype_handlers", "pytype_aval_mappings"):
            if not hasattr(module, name):
                setattr(module, name, Table())


def run(case: Case, seed: int, effort: int) -> Answer:
    key, initial = start(case, seed, CHAINS, anywhere=True)
    import jax

    warm_up = effort // 5
    kernel = exchange(case, warm_up)
    from tensorflow_probability.substrates import jax as tfp

    @jax.jit
    def whole(key: Any, initial: Any) -> Any:
        return tfp.mcmc.sample_chain(effort, initial, kernel=kernel, num_burnin_steps=warm_up, trace_fn=None,
                                     seed=key)  # fmt: skip

    draws = jax.block_until_ready(whole(key, initial)).reshape(-1, case.dimension)
    return Answer(draws, None, None, REPLICAS * CHAINS * (effort + warm_up) * (LEAPFROGS + 1))
