"""A reference as arrays of one shape, for code that is compiled once and run with any.

Components are padded with ones that weigh nothing, up to a number at which a refit finds the same shapes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.kernels.vector import Draw, normal_of
from tempering.path.reference import Reference

FEWEST, FEWEST_ENTRIES = 16, 512  # components, as long as their factors have no more entries than that together
PAIRS = 8  # of degrees of freedom: a fit has up to 16


class ReferenceArrays(NamedTuple):
    """What `Reference` computes with, the component in the leading axis."""

    origin: Any  # (d,)
    whitening: Any  # (d, component x d): all inverse factors side by side
    shift: Any
    log_heights: Any  # -inf for the padding
    freedom: Any
    cumulative: Any  # weights summed; the last, and those of the padding, infinite
    means: Any
    factors: Any
    pairs: Any  # (pair,): counts pairs of degrees of freedom


def n_padded(n_components: int, dimension: int) -> int:
    """Return how many components there are with the padding.

    Examples
    --------
    >>> [n_padded(n, d) for n, d in ((3, 1), (9, 2), (5, 10), (9, 10), (20, 5))]
    [16, 16, 8, 16, 32]
    """
    least = max(1, min(FEWEST, FEWEST_ENTRIES // dimension**2))
    return 1 << (max(n_components, least) - 1).bit_length()


@lru_cache(maxsize=16)
def arrays_of(reference: Reference, *, is_fitted: bool = False) -> ReferenceArrays:
    """Return the arrays of a reference; one component alone is padded only if fits of more are to come."""
    n, d = reference.means.shape
    more = 0 if n == 1 and not is_fitted else n_padded(n, d) - n

    def filled(rows: Any, value: float) -> Any:
        return np.concatenate([rows, np.full((more, *rows.shape[1:]), value)])

    inverse = filled(np.linalg.inv(reference.factors), 0.0)
    means = filled(reference.means, 0.0)
    cumulative = np.append(np.cumsum(reference.weights)[:-1], np.inf)
    return ReferenceArrays(
        origin=reference.means[0],
        whitening=inverse.reshape(-1, d).T,
        shift=np.einsum("cij,cj->ci", inverse, means - reference.means[0]).ravel(),
        log_heights=filled(reference.log_heights, -np.inf),
        freedom=filled(reference.degrees_of_freedom.astype(float), 1.0),
        cumulative=filled(cumulative, np.inf),
        means=means,
        factors=filled(reference.factors, 0.0),
        pairs=np.arange(max(PAIRS, int(reference.degrees_of_freedom.max()) // 2), dtype=float),
    )


def log_density(arrays: ReferenceArrays, x: Any) -> Any:
    """Return log q of one flat vector."""
    z = (x - arrays.origin) @ arrays.whitening - arrays.shift
    distance = jnp.sum(jnp.reshape(z, (-1, x.size)) ** 2, axis=-1)
    log_parts = arrays.log_heights - 0.5 * (arrays.freedom + x.size) * jnp.log1p(distance / arrays.freedom)
    largest = jax.lax.stop_gradient(jnp.max(log_parts))
    return jnp.log(jnp.sum(jnp.exp(log_parts - largest))) + largest


def draw_of(arrays: ReferenceArrays, term: int) -> Draw:
    """Return the exact draw of a reference: one uniform number for the component, the rest for where in it."""
    d, n_pairs = arrays.origin.shape[0], arrays.pairs.shape[0]

    def position(_: Any, uniforms: Any) -> Any:
        component = jnp.sum(uniforms[0] >= arrays.cumulative)
        normals = normal_of(uniforms[1 : d + 2])
        freedom = arrays.freedom[component]
        # a chi-square number: minus twice the log of a uniform one for each pair of degrees of freedom; one log for all
        pairs = jnp.where(arrays.pairs < jnp.floor(freedom / 2), 1.0 - uniforms[d + 2 :], 1.0)
        chi_square = -2.0 * jnp.log(jnp.prod(pairs)) + jnp.where(freedom % 2 == 1, normals[d] ** 2, 0.0)
        stretch = jnp.sqrt(freedom / chi_square)
        return arrays.means[component] + stretch * (arrays.factors[component] @ normals[:d])

    return Draw(position, term, 1 + d + 1 + n_pairs)
