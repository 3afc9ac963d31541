"""Sample with two programs, and print how many were compiled and what came out."""

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compiling import keeping
from tempering.compiling.programs import jitted
from tempering.engines.streams import keys_of

with jax.enable_x64(True):
    start = jitted(jax.vmap(lambda key: jax.random.normal(key, (3,))))
    move = jitted(jax.vmap(lambda x, key: x + jnp.tanh(x) * jax.random.normal(key, x.shape)))
    keys = keys_of(1, 2, 5)
    draws = np.asarray(move(start(keys), keys))
print("compiled", keeping.counts.compiled, "loaded", keeping.counts.loaded)  # noqa: T201
print(draws.tobytes().hex())  # noqa: T201
