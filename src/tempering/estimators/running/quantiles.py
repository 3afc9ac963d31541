r"""Quantile sketches: counts by energy and value, from which every rule's quantiles follow.

Given its energy, the position of a tempered draw has one and the same law on all rungs, since
:math:`\pi_k \propto \mathrm{base} \cdot e^{kE}`. So counts of (energy, value), all rungs together, serve every rule:
a draw of an energy gets the mean weight that the rule gives to draws of that energy.

Values lie in bins of equal steps of arsinh((h - centre) / scale): a quantile is right to a bin's width, which is
max(scale, abs(h - centre)) / 96, and to the square of it where the density is smooth, since bins are interpolated.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.estimators.arrays import Floats
from tempering.estimators.running.bins import N_BINS

PER_UNIT = 96
LIMIT = 6  # units of arsinh: 200 scales either way; the outermost bins hold what lies beyond
N_VALUES = 2 * LIMIT * PER_UNIT
COARSENING = 8  # fine energy bins a coarse one
N_COARSE = N_BINS // COARSENING


def value_bin(xp: ModuleType, standardised: Any) -> Any:
    """Return the bin of (h - centre) / scale; NaN counts as beyond the upper end."""
    u = xp.arcsinh(standardised.astype(np.float32))
    place = xp.clip((xp.where(xp.isnan(u), LIMIT, u) + LIMIT) * PER_UNIT, 0, N_VALUES - 1)
    return place.astype(np.int32)


def value_edges() -> Floats:
    """Return the edges of the bins, in standard units."""
    return np.asarray(np.sinh(np.arange(N_VALUES + 1) / PER_UNIT - LIMIT))


def sketch_quantile(counts: Floats, weight_of_bins: Floats, draws_of_bins: Floats, probability: Any) -> Floats:
    """Return quantiles in standard units, shape (probability..., component).

    Parameters
    ----------
    counts : ndarray, shape (component, coarse bin, value)
    weight_of_bins, draws_of_bins : ndarray, shape (bin,)
        Mean weight of a draw, and number of draws, in each fine energy bin.
    probability : float or ndarray
    """
    draws = draws_of_bins.reshape(N_COARSE, COARSENING).sum(axis=1)
    amount = (weight_of_bins * draws_of_bins).reshape(N_COARSE, COARSENING).sum(axis=1)
    return quantile_of_counts(np.einsum("e,cev->cv", amount / np.where(draws > 0, draws, 1.0), counts), probability)


def are_indicators(sketch: Floats, centre: Floats, scale: Floats) -> NDArray[np.bool_]:
    """Return which components were 0 or 1 at every draw, by a sketch of shape (component, ..., value).

    Examples
    --------
    >>> sketch, units = np.zeros((2, 1, N_VALUES)), (np.zeros(2), np.ones(2))
    >>> for value in (0.0, 1.0, 0.5):
    ...     sketch[int(value == 0.5), 0, value_bin(np, np.array(value))] = 3.0
    >>> are_indicators(sketch, *units).tolist()
    [True, False]
    """
    others = sketch.sum(axis=1)
    for value in (0.0, 1.0):
        others[np.arange(len(others)), value_bin(np, (value - centre) / scale)] = 0.0
    return np.asarray(np.all(others == 0.0, axis=1))


def quantile_of_counts(mass: Floats, probability: Any) -> Floats:
    """Return quantiles in standard units, shape (probability..., component), of weights of shape (component, value)."""
    edges, p = value_edges(), np.asarray(probability, dtype=np.float64)
    columns = []
    for row in mass:
        cdf = np.concatenate([[0.0], np.cumsum(row)])
        if cdf[-1] == 0.0:
            columns.append(np.full(p.shape, np.nan))
            continue
        wanted = p * cdf[-1]
        at = np.clip(np.searchsorted(cdf, wanted, side="left") - 1, 0, row.size - 1)
        inside = np.where(row[at] > 0, (wanted - cdf[at]) / np.where(row[at] > 0, row[at], 1.0), 0.0)
        columns.append(edges[at] + np.clip(inside, 0.0, 1.0) * (edges[at + 1] - edges[at]))
    return np.stack(columns, axis=-1)
