"""Functions whose mean under a mixture is known to be zero: how its log density changes with its own parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tempering.path.factored import AnyReference, Factored, straightened
from tempering.path.reference import Reference

Floats = NDArray[np.float64]

ENTRIES_AT_ONCE = 1 << 16  # of whitened vectors


def scores(reference: AnyReference, x: Floats, most: int) -> NDArray[np.float32]:
    r"""Return the slope of log q by the weights and the means of its components, at most so many columns.

    A density integrates to one whatever its parameters are, so that the mean of each slope is zero:

    .. math:: E_q[r_c] = w_c, \qquad
       E_q\left[r_c \frac{\nu_c + d}{\nu_c + |z_c|^2} z_c\right] = 0,
       \qquad r_c(x) = \frac{w_c t_c(x)}{q(x)}, \quad z_c = L_c^{-1} (x - \mu_c).

    Slopes by the weights come first, then by the mean of each component; where these would be too many, by one shift
    of all. In a subspace there are those by the weights alone.

    Parameters
    ----------
    reference : Reference
    x : ndarray, shape (draw, d)
    most : int
        Columns at the most.

    Examples
    --------
    >>> q = Reference([0.7, 0.3], [[0.0], [5.0]], [[[1.0]], [[0.5]]], [5, 8])
    >>> found = scores(q, q.sample_many(np.random.default_rng(1), 100_000), 8)
    >>> found.shape, bool(np.all(np.abs(found.mean(axis=0)) < 0.01))
    ((100000, 3), True)
    """
    if isinstance(reference, Factored):
        return _of_product(reference, x, most)
    n, d = reference.n_components, reference.dimension
    has_means = reference.subspace is None and n - 1 + d <= most
    is_shifted_whole = has_means and n - 1 + n * d > most
    n_columns = min(n - 1, most) + (0 if not has_means else d if is_shifted_whole else n * d)
    out = np.empty((len(x), n_columns), np.float32)
    for part in _parts(len(x), n * (d if has_means else 1)):
        log_parts = reference.log_parts(x[part])
        share = np.exp(log_parts - log_parts.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        first = min(n - 1, most)
        out[part, :first] = (share - reference.weights)[:, :first]
        if has_means:
            slopes = _slopes(reference, x[part], share, is_in_x=is_shifted_whole)
            out[part, first:] = slopes.sum(axis=1) if is_shifted_whole else slopes.reshape(len(share), -1)
    return out


def _of_product(reference: Factored, x: Floats, most: int) -> NDArray[np.float32]:
    """Return slopes by the share of each coordinate's upper components, and by where its mixture is."""
    means, weights = reference.means, reference.weights
    is_upper = (weights > 0) & (means > np.sum(weights * means, axis=1, keepdims=True))
    halved = np.flatnonzero(is_upper.any(axis=1))[:most]
    moved = np.arange(reference.dimension)[: most - halved.size]
    out = np.empty((len(x), halved.size + moved.size), np.float32)
    for part in _parts(len(x), means.size):
        z = straightened(reference.bends, reference.follow, x[part])[0]
        log_parts = reference.log_parts(z)
        share = np.exp(log_parts - log_parts.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        upper = np.sum((share - weights) * is_upper, axis=-1)
        pull = np.sum(share * (z[..., np.newaxis] - means) / reference.deviations**2, axis=-1)
        out[part] = np.hstack([upper[:, halved], pull[:, moved]])
    return out


def _slopes(reference: Reference, x: Floats, share: Floats, *, is_in_x: bool) -> Floats:
    """Return the slope by each component's mean, (draw, component, d), in its own whitened coordinates or in those of
    x.
    """
    inverse, nu = reference.inverse_factors, reference.degrees_of_freedom
    z = np.stack([(x - mean) @ factor.T for mean, factor in zip(reference.means, inverse, strict=True)], axis=1)
    z *= (share * (nu + reference.dimension) / (nu + np.einsum("tci,tci->tc", z, z)))[..., np.newaxis]
    return np.stack([z[:, c] @ factor for c, factor in enumerate(inverse)], axis=1) if is_in_x else z


def _parts(n: int, width: int) -> Iterator[slice]:
    rows = max(1, ENTRIES_AT_ONCE // width)
    return (slice(first, first + rows) for first in range(0, n, rows))
