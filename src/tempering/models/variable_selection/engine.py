r"""The compiled loop: flips without rejection under simulated tempering, sums kept batch by batch.

A state (gamma, rung) counts with weight :math:`\pi / (\pi_i Z_i)`. Inclusion probabilities are summed in their
Rao-Blackwell form, P(j is in | the others) for all j at every jump.

Log odds of a column given the others have a part of the likelihood and a part of the prior. For column j and the
selected columns without j,

.. math:: e_j = -\tfrac12 \log\frac{c_j}{\omega_j} + \kappa \log\frac{2 b + R}{2 b + R - r_j^2 / c_j}

with c the Schur complement, r the cross product left over, R the residual sum of squares without j, and inverse gamma
noise (shape a, rate b, :math:`\kappa = a + n / 2`). At rung k the log odds are k e_j plus the prior's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.models.variable_selection.arrays import NO, STRONG
from tempering.models.variable_selection.compiling import compiled, inner
from tempering.models.variable_selection.factor import flip

KINDS = {"sum": 0, "weighted": 1, "square_root": 2, "min": 3, "max": 4, "barker": 5}
LARGEST_EXPONENT = 300.0
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


class Course(NamedTuple):
    """Where a chain is; changed in place."""

    rung: NDArray[np.int64]  # rung and direction
    log_terms: Floats  # energy, log prior
    log_pseudo_prior: Floats  # (m,)
    key: NDArray[np.uint64]  # one number for the set of selected columns
    energies: Floats  # (p,) and the three below: work
    odds: Floats
    rates: Floats
    inside: Floats


class Trace(NamedTuple):
    """What is kept of every jump."""

    flipped: NDArray[np.int32]
    rung: NDArray[np.int16]
    energy: Floats
    log_prior: Floats
    log_total: Floats
    key: NDArray[np.uint64]
    size: NDArray[np.int32]


class Sums(NamedTuple):
    """Weighted sums by rung and batch."""

    weight: Floats  # (m, batches)
    inside: Floats  # (m, batches, p)
    mean: Floats  # (m, batches, p), of the coefficients
    square: Floats  # (m, p), of their squares
    log_scale: Floats  # (m,), weights are over exp of this


@inner
def _evaluate(data: Any, factor: Any, noise: Any, prior: Any, course: Any) -> None:
    write_energies(data, factor, noise, course.energies)
    write_prior(factor, prior, course.odds)


@inner
def _move_rung(rng: Any, factor: Any, course: Any, k: Any, kind: int, explore: float, log_total: float) -> float:
    """Go on to the next rung, or turn round; return log Z of the rung one ends on, with its rates written.

    As `tempering.rungs.simulated.move_lifted`, log Z being a part of the pseudo-prior.
    """
    rung, direction = course.rung[0], course.rung[1]
    there = rung + direction
    if there < 0 or there >= len(k):
        course.rung[1] = -direction
        return log_total
    proposed = write_rates(factor, k[there], course.energies, course.odds, kind, explore, course.inside)
    log_ratio = (k[there] - k[rung]) * course.log_terms[0] + proposed - log_total
    log_ratio += course.log_pseudo_prior[there] - course.log_pseudo_prior[rung]
    if np.log(1.0 - rng.random()) < log_ratio:
        course.rung[0] = there
        for j in range(len(course.rates)):
            course.rates[j] = course.inside[j]
        return proposed
    course.rung[1] = -direction
    return log_total


@inner
def _pick(rng: Any, rates: Any) -> int:
    total = 0.0
    for j in range(len(rates)):
        total += rates[j]
    left = rng.random() * total
    last = 0
    for j in range(len(rates)):
        if rates[j] > 0.0:
            last = j
            left -= rates[j]
            if left < 0.0:
                return j
    return last


@inner
def _shrink(sums: Any, rung: int, factor: float) -> None:
    """Put the sums of a rung on a larger scale."""
    for b in range(sums.weight.shape[1]):
        sums.weight[rung, b] *= factor
        for j in range(sums.inside.shape[2]):
            sums.inside[rung, b, j] *= factor
            sums.mean[rung, b, j] *= factor
    for j in range(sums.square.shape[1]):
        sums.square[rung, j] *= factor


@inner
def _add(factor: Any, noise: Any, course: Any, k: float, log_weight: float, batch: int, sums: Any) -> None:
    rung = course.rung[0]
    if log_weight - sums.log_scale[rung] > LARGEST_EXPONENT:
        _shrink(sums, rung, np.exp(sums.log_scale[rung] - log_weight))
        sums.log_scale[rung] = log_weight
    w = np.exp(log_weight - sums.log_scale[rung])
    sums.weight[rung, batch] += w
    write_inclusion(course.energies, course.odds, 1.0, course.inside)
    target = sums.inside[rung, batch]
    for j in range(len(target)):
        target[j] += w * course.inside[j]
    if noise.is_known:
        variance = noise.variance
    else:
        variance = 0.5 * (noise.twice_rate + max(factor.numbers[1], 0.0)) / max(noise.kappa - 1.0, 0.5)
    for a in range(int(factor.numbers[0])):
        j, b = factor.members[a], factor.coefficients[a]
        sums.mean[rung, batch, j] += w * b
        sums.square[rung, j] += w * (b * b + variance * factor.inverse[a, a])


@compiled
def run_chain(rng: Any, problem: Any, factor: Any, course: Any, settings: Any, trace: Any, sums: Any) -> None:
    """Make as many jumps as the trace has room for.

    ``problem``: (data, noise, prior of models).
    ``settings``: (k of the rungs, kind of the rates, explore, keys of the columns, learning: 0 none, 1 pseudo-prior,
    2 rung fixed; first jump of this call).
    """
    data, noise, prior = problem
    k, kind, explore, keys, learning, first = settings
    n, n_batches = len(trace.flipped), sums.weight.shape[1]
    _evaluate(data, factor, noise, prior, course)
    for t in range(n):
        rung = course.rung[0]
        log_total = write_rates(factor, k[rung], course.energies, course.odds, kind, explore, course.rates)
        if learning != 2 and len(k) > 1:
            log_total = _move_rung(rng, factor, course, k, kind, explore, log_total)
            rung = course.rung[0]
        if learning == 1:
            course.log_pseudo_prior[rung] -= min(1.0, 10.0 * len(k) / (first + t + 1))
        energy = course.log_terms[0]
        j = _pick(rng, course.rates)
        trace.flipped[t] = j
        trace.rung[t] = rung
        trace.energy[t] = energy
        trace.log_prior[t] = course.log_terms[1]
        trace.log_total[t] = log_total
        trace.key[t] = course.key[0]
        trace.size[t] = int(factor.numbers[0])
        if n_batches > 0:
            _add(factor, noise, course, k[rung], (1.0 - k[rung]) * energy - log_total, t * n_batches // n, sums)
        sign = -1.0 if factor.is_in[j] == 1 else 1.0
        course.log_terms[0] += sign * course.energies[j]
        course.log_terms[1] += sign * course.odds[j]
        course.key[0] ^= keys[j]
        flip(data, factor, j)
        _evaluate(data, factor, noise, prior, course)
