r"""The compiled loop: flips without rejection under simulated tempering, sums kept batch by batch.

A state (gamma, rung) counts with weight :math:`\pi / (\pi_i Z_i)`. Inclusion probabilities are summed in their
Rao-Blackwell form, P(j is in | the others) for all j at every jump.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.models.variable_selection.compiling import compiled, inner
from tempering.models.variable_selection.factor import flip
from tempering.models.variable_selection.odds import write_energies, write_inclusion, write_prior, write_rates

KINDS = {"sum": 0, "weighted": 1, "square_root": 2, "min": 3, "max": 4, "barker": 5}
LARGEST_EXPONENT = 300.0


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
