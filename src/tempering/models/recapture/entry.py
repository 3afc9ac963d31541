"""First captures: growth and abundance of an open population.

Seniority gamma[t] is the probability that a bird alive at the end of interval t was there at its start already (Pradel
1996). With survival it says how the population grows, N[t] = N[t - 1] phi[t] / gamma[t], and a bird there at occasion t
has not been caught before with probability

    xi[t] = 1 - gamma[t] + gamma[t] (1 - p[t - 1]) xi[t - 1],    xi[0] = 1

so that one first caught at all is first caught at t with probability proportional to N[t] xi[t] p[t]. That is the
likelihood of POPAN (Schwarz & Arnason 1996) with the number of birds N integrated out under the prior 1 / N: given all
else, the n birds caught are a share of N, and N - n is negative binomial. An interval before the first occasion, in
which nothing lives, holds p of the first occasion.
"""

from typing import Any

import numpy as np

from tempering.arrays import Floats
from tempering.models.recapture import layout as at
from tempering.models.recapture.compiled import inner
from tempering.models.recapture.layout import PHI, SENIORITY, State
from tempering.models.recapture.layout import P as P_
from tempering.models.recapture.tables import entered, length


@inner
def entry_part(state: State) -> Any:
    """Return the log probability of the occasions of all first captures; 0 where they are not asked for."""
    i, f, total = state.ints, state.floats, 0.0
    if not i[at.HAS_ENTRY]:
        return total
    for c in range(i[at.N_COLUMNS]):
        caught, log_size, unseen, scale, shares = 0.0, 0.0, 1.0, -np.inf, 0.0
        for t in range(i[at.N_INTERVALS]):
            if t > 0:
                gamma = state.values[SENIORITY, t, c]
                if gamma == 0.0:  # after the last occasion nobody looks
                    break
                log_size += length(i, f, t) * np.log(state.values[PHI, t, c]) - np.log(gamma)
                unseen = 1 - gamma + gamma * (1 - state.values[P_, t - 1, c]) * unseen
            p = state.values[P_, t, c]
            if p > 0.0:
                here = log_size + np.log(unseen * p)
                shares = shares * np.exp(scale - max(scale, here)) + np.exp(here - max(scale, here))
                scale = max(scale, here)
                n = entered(i, f, t, c)
                total, caught = total + n * here, caught + n
        total -= caught * (scale + np.log(shares))
    return total


def population(phi: Floats, p: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """Return expected numbers at each occasion (..., T, C) for each bird that ever was there, and P(ever caught).

    Parameters are tables (..., T, C) with an interval before the first occasion, survival over whole intervals.

    Examples
    --------
    >>> everybody = np.array([[0.0], [0.5]]), np.array([[0.5], [0.5]]), np.array([[0.0], [1.0]])
    >>> size, caught = population(*everybody)
    >>> size[:, 0], caught
    (array([1. , 0.5]), array([0.625]))
    """
    growth = phi[..., 1:, :] / gamma[..., 1:, :]
    size = np.concatenate([np.ones_like(p[..., :1, :]), np.cumprod(growth, axis=-2)], axis=-2)
    new = size * np.concatenate([np.ones_like(p[..., :1, :]), 1 - gamma[..., 1:, :]], axis=-2)
    unseen = np.ones_like(p)
    for t in range(1, p.shape[-2]):
        g = gamma[..., t, :]
        unseen[..., t, :] = 1 - g + g * (1 - p[..., t - 1, :]) * unseen[..., t - 1, :]
    ever = new.sum(axis=-2)
    return size / ever[..., None, :], (size * unseen * p).sum(axis=-2) / ever
