r"""Log odds of every column given the others: a part of the likelihood and a part of the prior.

For column j and the selected columns without j,

.. math:: e_j = -\tfrac12 \log\frac{c_j}{\omega_j} + \kappa \log\frac{2 b + R}{2 b + R - r_j^2 / c_j}

with c the Schur complement, r the cross product left over, R the residual sum of squares without j, and inverse gamma
noise (shape a, rate b, :math:`\kappa = a + n / 2`). At rung k the log odds are k e_j plus the prior's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempering.models.variable_selection.arrays import NO, STRONG
from tempering.models.variable_selection.compiling import compiled, inner

COLLINEAR = 1e-9  # of a column's square that is left: beyond, a g-prior model has no inverse


@compiled
def write_energies(data: Any, factor: Any, noise: Any, out: Any) -> None:
    """Write e_j for every column."""
    rss = max(factor.numbers[1], 0.0)
    is_g, is_dense = noise.log_one_plus_g > 0.0, data.dense.shape[0] > 0
    floor = noise.twice_rate + rss
    for j in range(len(out)):
        schur = factor.schur[j]
        drop = factor.cross[j] * factor.cross[j] / schur
        without = floor + drop if factor.is_in[j] == 1 else floor
        if noise.is_known:
            gain = 0.5 * drop / noise.variance
        else:
            gain = -noise.kappa * np.log(max(1.0 - drop / without, 1e-300))
        if is_g:
            gain -= 0.5 * noise.log_one_plus_g
            if factor.is_in[j] == 0 and schur < COLLINEAR * data.scale * data.squares[j]:
                gain = -np.inf
        elif is_dense:
            gain -= 0.5 * np.log(schur / factor.slab_schur[j])
        else:
            gain -= 0.5 * (np.log(schur) - noise.log_slab[j])
        out[j] = gain


@compiled
def write_prior(factor: Any, prior: Any, out: Any) -> None:
    """Write the prior's log odds of every column; infinite where a flip is not allowed."""
    size = int(factor.numbers[0])
    without = prior.log_odds[size]
    within = prior.log_odds[max(size - 1, 0)]
    if size >= prior.max_size:
        without = -np.inf
    for j in range(len(out)):
        out[j] = prior.offset[j] + (within if factor.is_in[j] == 1 else without)
        if prior.locked[j] == 1:
            out[j] = np.inf
    if prior.heredity != NO:
        _apply_heredity(factor, prior, out)


@inner
def _apply_heredity(factor: Any, prior: Any, out: Any) -> None:
    """A child needs both parents (strong) or one of them (weak); a needed parent stays."""
    for j in range(len(out)):
        first, second = prior.parents[j, 0], prior.parents[j, 1]
        if first < 0:
            continue
        n_in = factor.is_in[first] + (factor.is_in[second] if second != first else factor.is_in[first])
        if factor.is_in[j] == 0:
            if n_in < (2 if prior.heredity == STRONG else 1):
                out[j] = -np.inf
        elif prior.heredity == STRONG or second == first:
            out[first] = np.inf
            out[second] = np.inf
        elif n_in == 1:
            if factor.is_in[first] == 1:
                out[first] = np.inf
            else:
                out[second] = np.inf


@inner
def _rate(towards: float, is_in: int, shift: float, small: float, balancing: int, explore: float) -> float:
    """Return the rate of a flip with these log odds, over exp(shift); ``small`` is exp(-shift)."""
    if balancing <= 1:  # 1 + r, tempered Gibbs
        ratio = np.exp(towards - shift)
        rate = small + ratio
        if balancing == 1:  # times P(j is in | the others) + explore / p: weighted tempered Gibbs
            r = np.exp(min(towards, 700.0)) if shift > 0.0 else ratio
            rate *= (1.0 if is_in == 1 else r) / (1.0 + r) + explore
    elif balancing == 2:
        rate = np.exp(0.5 * towards - shift)
    elif balancing == 3:
        rate = np.exp(min(towards, 0.0) - shift)
    elif balancing == 4:
        rate = np.exp(max(towards, 0.0) - shift)
    else:
        rate = 1.0 / (1.0 + np.exp(-towards))
    return float(rate)


@inner
def write_rates(factor: Any, k: float, energies: Any, odds: Any, balancing: int, explore: float, out: Any) -> float:
    """Write the rates of all flips at rung k, over exp(shift); return log Z."""
    p = len(out)
    largest = 0.0
    for j in range(p):
        lo = odds[j] if k == 0.0 else odds[j] + k * energies[j]
        towards = -lo if factor.is_in[j] == 1 else lo
        out[j] = towards
        if towards > largest and towards < np.inf:
            largest = towards
    if balancing == 2:
        largest *= 0.5
    elif balancing == 3 or balancing == 5:  # these stay below 1
        largest = 0.0
    shift = largest if largest > 300.0 else 0.0
    small, total = np.exp(-shift), 0.0
    for j in range(p):
        towards = out[j]
        out[j] = _rate(towards, factor.is_in[j], shift, small, balancing, explore) if towards > -np.inf else 0.0
        total += out[j]
    log_total: float = np.log(total) + shift
    return log_total


@inner
def write_inclusion(energies: Any, odds: Any, k: float, out: Any) -> None:
    """Write P(j is in | the others) at rung k, for all columns."""
    for j in range(len(out)):
        lo = odds[j] + k * energies[j]
        out[j] = 1.0 / (1.0 + np.exp(-lo)) if lo > -700.0 else 0.0
