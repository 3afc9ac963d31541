"""The verdict on a run that kept sums: sentences as in `tempering.runs.diagnosis`, figures from batches.

What needs single draws (what two legs say each by itself, components of a mixture) is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.arrays import Floats
from tempering.estimators.running.batches import relative, standard_error_of_batches, total
from tempering.estimators.running.bins import COLD
from tempering.learning.density_of_states import DensityOfStates
from tempering.runs.diagnosis import Diagnosis, has_one_mode, sentences_about, spread_between
from tempering.runs.evidence import disagreement_of

if TYPE_CHECKING:
    from tempering.runs.sums import TemperedSums


def diagnosis_of_sums(run: TemperedSums) -> Diagnosis:
    """Look at a run in sums from every side that sums have."""
    barrier = _barrier(run)
    spread = {name: run.variance(name) for name in run.names}
    ess = {name: _effective_draws(run, name, spread[name]) for name in run.names}
    r_hat = {name: _r_hat(run, name, spread[name]) for name in run.names}
    disagreement = disagreement_of(run)
    sentences = sentences_about(run, barrier, ess, r_hat, disagreement)
    return Diagnosis(
        not sentences, tuple(sentences), run.n_round_trips, barrier, _index_ess(run), ess, r_hat,
        run.mbar.overlap, run.mbar.second_eigenvalue, not disagreement, has_one_mode(run),
    )  # fmt: skip


def _barrier(run: TemperedSums) -> float:
    """Return the communication barrier; along two legs the sum of all rejections between neighbours, which is it."""
    if run.path.has_two_legs:
        return float(np.nansum(1.0 - run.index.exchange_acceptance))
    if len(run.ladder) == 1:
        return 0.0
    method = "parallel" if run.chains_per_ensemble > 1 else "simulated"
    return density_of_states(run).barrier(run.ladder, method)


def density_of_states(run: TemperedSums) -> DensityOfStates:
    """Return the law of the energy at k = 0, up to its reach, as the nodes of all rungs know it."""
    fit = run.mbar
    kept = fit.energy > -np.inf
    return DensityOfStates.weighted(fit.energy[kept], (np.log(fit.count) - fit.log_mixture)[kept])


def _effective_draws(run: TemperedSums, name: str, spread: Floats) -> float:
    """Return variance over squared standard error, the worst component."""
    error = np.ravel(run.expect(name).standard_error)
    moving = (error > 0) & (spread > 0)
    return float(np.min(spread[moving] / error[moving] ** 2)) if moving.any() else float(run.n_summed)


def _r_hat(run: TemperedSums, name: str, spread: Floats) -> float:
    """Return the split R-hat of a quantity, its worst component, from halves in time of groups of chains.

    The mean of a group of n chains varies n times less than that of one; what is returned is that of one. Chains of
    one group are not told apart: those that disagree within each group alike are not seen.
    """
    sums, columns = run.sums, run.sums.quantities.columns(name)
    weight, weighted, factor = _weights_of_batches(run)
    half = max(1, weight.shape[1] // 2)
    w, h = weight @ factor, np.einsum("r,gtrq->gtq", factor, weighted[..., columns])
    amounts = np.concatenate([w[:, :half].sum(axis=1), w[:, half : 2 * half].sum(axis=1)])
    totals = np.concatenate([h[:, :half].sum(axis=1), h[:, half : 2 * half].sum(axis=1)])
    kept = amounts > 0
    if kept.sum() < 2:
        return float("nan")
    means = totals[kept] / amounts[kept, np.newaxis]
    per_group = run.n_chains / run.chains_per_ensemble / len(weight)
    whole_variance = spread / sums.quantities.scale[columns] ** 2
    moving = whole_variance > 0
    if not moving.any():
        return 1.0
    share = amounts[kept] / amounts[kept].sum()
    between = spread_between(means, share) * max(per_group, 1.0)
    within = np.maximum(whole_variance - between, 1e-6 * whole_variance)  # what is not between chains is within them
    return float(np.max(np.sqrt(1.0 + between[moving] / within[moving])))


def _weights_of_batches(run: TemperedSums) -> tuple[Floats, Floats, Floats]:
    """Return weights and weighted quantities of every batch by rung, and what a draw of each rung counts."""
    batches: Any = run.sums.batches
    if run.path.has_two_legs:
        return batches.chance[..., run.path.target], batches.weighted, run.sums.per_draw  # type: ignore[attr-defined]
    whole = total(batches)
    weight, weighted = relative(batches, whole.log_reference)
    shares, has_weight = run.shares("screened"), whole.weight[COLD] > 0
    factor = np.where(has_weight, shares / np.where(has_weight, whole.weight[COLD], 1.0), 0.0)
    return weight[:, :, COLD], weighted, factor


def _index_ess(run: TemperedSums) -> float:
    """Return the effective sample size of the rung a chain is on, by batch means."""
    count = run.sums.batches.count
    n, rung = count.sum(), np.arange(count.shape[-1])
    share = count.sum(axis=(0, 1)) / n
    mean = share @ rung
    error = float(standard_error_of_batches(count @ (rung - mean) / n, count.sum(axis=-1) > 0))
    variance = float(share @ (rung - mean) ** 2)
    return variance / error**2 if error > 0 and variance > 0 else float(n)
