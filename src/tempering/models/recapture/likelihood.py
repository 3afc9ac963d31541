"""The integrated likelihood from sufficient statistics, in JAX.

Arrays here are time-major, ``(K, A)``: interval first, then age class; values are ``(3, K, A)`` in the
order survival phi, recapture p, recovery lambda. A parameter which the study has not is held at 0.

    log L = sum { (W + Z) log phi + W log p + Z log(1 - p) + D [log(1 - phi) + log lambda] + V log chi }

with chi[j, t] = (1 - phi)(1 - lambda) + phi (1 - p) chi[min(j + 1, A), t + 1], the probability that a bird
alive at the start of interval t is never met again, and chi = 1 after the last interval.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from tempering.models.recapture.counts import Counts

Array = Any

PHI, P, LAMBDA = range(3)
PARAMETERS = ("phi", "p", "lambda")


class Statistics(NamedTuple):
    """Counts as a likelihood uses them, all ``(K, A)``.

    ``ones[q]`` counts the events of probability theta_q and ``zeros[q]`` those of probability 1 - theta_q,
    outside chi; ``vanished`` is V.
    """

    ones: Array
    zeros: Array
    vanished: Array


def statistics(counts: Counts) -> Statistics:
    """Arrange counts for the likelihood."""
    seen, missed, recovered, vanished = (
        np.asarray(x, float).T for x in (counts.seen, counts.missed, counts.recovered, counts.vanished)
    )
    ones = np.stack([seen + missed, seen, recovered])
    zeros = np.stack([recovered, missed, np.zeros_like(seen)])
    return Statistics(ones, zeros, vanished)


def free_cells(counts: Counts) -> Array:
    """Return which values ``(3, K, A)`` exist: a bird can be there, and the study can see the event."""
    active = np.broadcast_to(counts.active.T, (3, counts.n_intervals, counts.n_age_classes)).copy()
    active[P] &= counts.live
    active[LAMBDA] &= counts.dead
    if counts.tail:
        active[P, -1] = False
    return active


def never_met(values: Array) -> Array:
    """Return chi ``(K, A)``.

    The oldest class follows itself, an affine recursion in time that is done as an associative scan; every
    younger class follows the next one, an interval later.
    """
    a, b = affine_parts(values)

    def compose(later: Any, earlier: Any) -> Any:
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    shift, slope = jax.lax.associative_scan(compose, (a[:, -1], b[:, -1]), reverse=True)
    columns = [shift + slope]
    for j in range(a.shape[1] - 2, -1, -1):
        later = jnp.concatenate([columns[0][1:], jnp.ones_like(columns[0][:1])])
        columns.insert(0, a[:, j] + b[:, j] * later)
    return jnp.stack(columns, axis=1)


def affine_parts(values: Array) -> tuple[Array, Array]:
    """Return a and b in chi_t = a + b chi_{t+1}: dead and not reported; alive and not seen."""
    phi, p, lam = values[PHI], values[P], values[LAMBDA]
    return (1 - phi) * (1 - lam), phi * (1 - p)


def direct_part(data: Statistics, values: Array) -> Array:
    """Return, for each parameter, its part of log L outside chi; 0 log 0 is 0. Shape ``(3,)``."""
    return jnp.sum(xlogy(data.ones, values) + xlogy(data.zeros, 1 - values), axis=(-2, -1))


def chi_part(data: Statistics, values: Array) -> Array:
    """Return sum V log chi."""
    return jnp.sum(xlogy(data.vanished, never_met(values)))


def log_likelihood(data: Statistics, values: Array) -> Array:
    """Return log L without the multinomial coefficients, which no parameter changes.

    Examples
    --------
    >>> c = Counts(seen=[[3]], missed=[[0]], recovered=[[1]], vanished=[[6]], years=[1990])
    >>> values = np.array([0.5, 0.6, 0.2]).reshape(3, 1, 1)
    >>> expected = 3 * np.log(0.3) + np.log(0.1) + 6 * np.log(0.6)
    >>> bool(abs(log_likelihood(statistics(c), values) - expected) < 1e-4)
    True
    """
    return jnp.sum(direct_part(data, values)) + chi_part(data, values)
