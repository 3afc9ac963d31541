"""What the samplers written in JAX share."""

from typing import Any

from benchmarks.peers.cases import Case


def start(case: Case, seed: int, n: int, *, anywhere: bool = False) -> tuple[Any, Any]:
    """Switch to double precision; return a key and draws of the prior, or points given for chains that may start so."""
    import jax

    jax.config.update("jax_enable_x64", True)
    first, second = jax.random.split(jax.random.PRNGKey(seed))
    if anywhere and case.basins is not None:
        return first, jax.numpy.asarray(case.starting_points(seed, n))
    return first, jax.vmap(case.prior.draw)(jax.random.split(second, n))
