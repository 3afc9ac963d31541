"""Exact draws from the prior: the reference distribution at k = 0."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.models.recapture.kernel import Kernel, State
from tempering.models.recapture.likelihood import PARAMETERS, Statistics, log_likelihood

Array = Any

CLOSEST = 1e-15  # to 0 and 1: the open interval, also after rounding


def sample_prior(kernel: Kernel, key: Array, data: Statistics) -> State:
    """Draw a model and its values from the prior."""
    keys = jax.random.split(key, 9).reshape(3, 3)
    drawn = [_draw(kernel, q, *keys[q]) for q in range(3)]
    partition, timed, values = (jnp.stack(x) for x in zip(*drawn, strict=True))
    return State(partition, timed, values, log_likelihood(data, values))


def _draw(kernel: Kernel, q: int, partition_key: Array, timed_key: Array, value_key: Array) -> tuple[Array, ...]:
    space = kernel.space.space(PARAMETERS[q])
    table = kernel.space.table(PARAMETERS[q])
    n_intervals, n_classes = kernel.cells.shape[1:]
    is_allowed = np.isin(np.arange(len(table.labels)), [kernel.space.partitions.index(x) for x in space.partitions])
    log_share = table.n_groups * (np.log(2.0) + kernel.space.log_prior_per_group)
    partition = jax.random.categorical(partition_key, jnp.where(is_allowed, log_share, -jnp.inf))
    flags = jax.random.bernoulli(timed_key, 0.5, (n_classes,))
    youngest = jnp.asarray(table.youngest)[partition]
    timed = flags[youngest] if space.fixed is None else jnp.asarray(space.fixed.timed)
    a, b = kernel.shapes[q]
    cells = jax.random.beta(value_key, a, b, shape=(n_intervals, n_classes))
    cells = jnp.clip(cells, CLOSEST, 1 - CLOSEST)
    values = kernel.groups(q, partition, timed).shared(cells)
    return partition.astype(jnp.int32), timed, jnp.where(kernel.held[q], 0.0, values)
