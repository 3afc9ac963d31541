"""What the samplers written in JAX share."""

from typing import Any

from benchmarks.peers.cases import Case


def start(case: Case, seed: int, n: int) -> tuple[Any, Any]:
    """Switch to double precision; return a key and draws of the prior."""
    import jax

    jax.config.update("jax_enable_x64", True)
    first, second = jax.random.split(jax.random.PRNGKey(seed))
    return first, case.prior.mean + case.prior.sd * jax.random.normal(second, (n, case.dimension))
