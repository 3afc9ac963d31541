"""Answers from running sums: every rule's estimate, standard error, sample sizes, quantiles and evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tempering.errors import EstimatorError
from tempering.estimators import rules
from tempering.estimators.arrays import Floats
from tempering.estimators.evidence import trapezium
from tempering.estimators.rules import RungStatistics
from tempering.estimators.rung_sums import RungSums
from tempering.estimators.running.batches import relative, standard_error_of_batches, total
from tempering.estimators.running.bins import (
    COLD,
    COLDER,
    HOTTER,
    SQUARED,
    binned_pareto_k,
    middles,
    nodes_of,
    tilts_of,
)
from tempering.estimators.running.mbar import RunningMbar, fit_mbar
from tempering.estimators.running.quantiles import sketch_quantile
from tempering.estimators.running.rungs import RunningRungs
from tempering.estimators.standard_error import Estimate
from tempering.estimators.weights import combined_ess


@dataclass(frozen=True, eq=False)
class SummedCombination:
    """An estimate from running sums, and how it came about; fields as in `Combination`, which has weights too."""

    estimate: float | Floats
    standard_error: float | Floats
    shares: Floats
    ess: float
    ess_per_rung: Floats
    pareto_k: Floats
    rule: str


def rung_sums(sums: RunningRungs) -> RungSums:
    """Return T_i, log W_i and log sum w^2 of each rung."""
    whole = total(sums.batches)
    with np.errstate(divide="ignore"):
        log_sum = np.where(whole.weight > 0, np.log(whole.weight) + whole.log_reference, -np.inf)
    return RungSums(sums.n_draws, log_sum[COLD], log_sum[SQUARED])


def pareto_k(sums: RunningRungs, tilt: int = COLD) -> Floats:
    """Return Pareto k-hat of each rung's weights."""
    return binned_pareto_k(sums.totals.joint, sums.bins, tilts_of(sums.inverse_temperatures)[tilt])


def mbar_of(sums: RunningRungs) -> RunningMbar:
    """Fit the mixture of all rungs."""
    return fit_mbar(sums.inverse_temperatures, sums.totals.joint, sums.bins)


def shares_of(sums: RunningRungs, rule: str, name: str | None = None, mbar: RunningMbar | None = None) -> Floats:
    """Return lambda of a rule; where autocorrelation counts, that of one quantity, or of the energy."""
    known = rules.check_rule(rule)
    if known == "mbar":
        fit = mbar if mbar is not None else mbar_of(sums)
        share = np.asarray(sums.totals.joint[..., 0] @ fit.weight_of_bins)
        return np.asarray(share / share.sum())
    return rules.shares_by(known, statistics_of(sums, name))


def statistics_of(sums: RunningRungs, name: str | None = None) -> RungStatistics:
    """Return what rules look at; autocorrelation is that of one quantity, or of the energy."""
    return RungStatistics(rung_sums(sums), lambda: pareto_k(sums), lambda: ess_of_batches_per_rung(sums, name))


def ess_of_batches_per_rung(sums: RunningRungs, name: str | None = None) -> Floats:
    """Return ESS_rho of each rung's own draws by batch means: the variance of h over that of its mean.

    The component that mixes worst decides; without a name, the energy.
    """
    n = np.maximum(sums.n_draws, 1).astype(np.float64)
    counts = sums.batches.count
    if name is None:
        series, square = sums.batches.energy[..., :1], (sums.batches.energy[..., 1].sum((0, 1)) / n)[:, np.newaxis]
    else:
        columns, squares = sums.quantities.columns(name), sums.totals.squares
        series = sums.batches.plain[..., columns]
        square = squares[:, 1:][:, columns] / np.maximum(squares[:, :1], 1.0)
    mean = series.sum((0, 1)) / n[:, np.newaxis]
    spread = np.maximum(square - mean**2, 0.0)
    error = standard_error_of_batches(series - counts[..., np.newaxis] * mean, _used(sums))
    constant = spread <= 1e-14 * mean**2
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = np.where(constant, n[:, np.newaxis], spread * n[:, np.newaxis] ** 2 / error**2)
    ess = np.where(np.isfinite(ess), ess, n[:, np.newaxis])
    return np.where(sums.n_draws > 0, ess.min(axis=1), 0.0)


def ess_of(sums: RunningRungs, rule: str, mbar: RunningMbar | None = None) -> float:
    """Return the effective sample size of a rule's weights."""
    if rules.check_rule(rule) == "mbar":
        return (mbar if mbar is not None else mbar_of(sums)).ess
    return combined_ess(rung_sums(sums), shares_of(sums, rule))


def combine_sums(
    sums: RunningRungs, name: str, rule: str = rules.DEFAULT_RULE, mbar: RunningMbar | None = None
) -> SummedCombination:
    """Estimate the cold expectation of a quantity, as `combine` does from the draws.

    Parameters
    ----------
    sums : RunningRungs
    name : str
        The quantity.
    rule : str
        One of `tempering.estimators.RULES`.
    mbar : RunningMbar, optional
        From `mbar_of`, where it is known already.
    """
    known = rules.check_rule(rule)
    columns, shape = sums.quantities.columns(name), sums.quantities.shapes[name]
    fit = mbar if mbar is not None else (mbar_of(sums) if known == "mbar" else None)
    shares = shares_of(sums, known, name, fit)
    of_rungs = rung_sums(sums)
    if known == "mbar":
        assert fit is not None
        mean, error, ess = *_by_mbar(sums, fit), fit.ess
    else:
        mean, error, ess = *_by_shares(sums, shares), combined_ess(of_rungs, shares)
    unit = sums.quantities
    value = (unit.centre + unit.scale * mean)[columns].reshape(shape)
    if not np.all(np.isfinite(value)):
        raise EstimatorError(
            f"A quantity must be finite at every draw, but {name!r} was NaN or infinite at some. Return a finite "
            "number there: draws are not kept, and cannot be left out afterwards."
        )
    return SummedCombination(
        _plain(value),
        _plain((unit.scale * error)[columns].reshape(shape)),
        shares,
        ess,
        of_rungs.ess_of_weights,
        pareto_k(sums),
        known,
    )


def _used(sums: RunningRungs) -> Any:
    return sums.batches.count.sum(axis=-1) > 0


def _by_shares(sums: RunningRungs, shares: Floats) -> tuple[Floats, Floats]:
    """Return means of all components, and their errors with the shares held fixed."""
    whole = total(sums.batches)
    weight, weighted = relative(sums.batches, whole.log_reference)
    has_weight = whole.weight[COLD] > 0
    factor = np.where(has_weight, shares / np.where(has_weight, whole.weight[COLD], 1.0), 0.0)
    mean = factor @ whole.weighted
    influence = np.einsum("r,gtrq->gtq", factor, weighted) - (weight[:, :, COLD] @ factor)[..., np.newaxis] * mean
    return mean, standard_error_of_batches(influence, _used(sums))


def _by_mbar(sums: RunningRungs, fit: RunningMbar) -> tuple[Floats, Floats]:
    q = sums.quantities.size
    table = np.concatenate([sums.totals.joint.sum(axis=0), sums.totals.pooled], axis=-1)
    nodes = nodes_of(np, table, sums.bins, q)
    values = nodes.values[nodes.count > 0]
    mean = fit.weights @ values
    influence = fit.influence_on_means(mean, values, sums.batches)
    return mean, standard_error_of_batches(influence, _used(sums))


def quantile_of(
    sums: RunningRungs,
    name: str,
    probability: Any,
    rule: str = rules.DEFAULT_RULE,
    mbar: RunningMbar | None = None,
) -> Any:
    """Return quantiles of a quantity, one column per component; see `running_quantiles` for their error."""
    columns, shape = sums.quantities.columns(name), sums.quantities.shapes[name]
    counts = sums.totals.joint[..., 0]
    if rules.check_rule(rule) == "mbar":
        per_draw = (mbar if mbar is not None else mbar_of(sums)).weight_of_bins
    else:
        of_rungs = rung_sums(sums)
        shares = shares_of(sums, rule, name)
        with np.errstate(divide="ignore"):
            offset = np.where(shares > 0, np.log(shares) - np.where(of_rungs.has_weight, of_rungs.log_sum, 0), -np.inf)
        tilt = (1.0 - sums.inverse_temperatures)[:, np.newaxis]
        log_w = np.where(tilt == 0.0, 0.0, tilt * middles(np, sums.bins)) + offset[:, np.newaxis]
        amount = np.sum(np.where(counts > 0, counts * np.exp(np.minimum(log_w, 700.0)), 0.0), axis=0)
        per_draw = amount / np.maximum(counts.sum(axis=0), 1.0)
    found = sketch_quantile(sums.totals.sketch[columns], per_draw, counts.sum(axis=0), probability)
    unit = sums.quantities
    return (unit.centre[columns] + unit.scale[columns] * found).reshape((*np.shape(probability), *shape))


def log_evidence_by_mbar(sums: RunningRungs, mbar: RunningMbar | None = None) -> Estimate:
    """Return log Z(k_1) - log Z(k_m) by MBAR."""
    fit = mbar if mbar is not None else mbar_of(sums)
    influence = fit.influence_on_ratio(0, -1, sums.batches)
    value = fit.log_normalisers[0] - fit.log_normalisers[-1]
    return Estimate(float(value), float(standard_error_of_batches(influence, _used(sums))))


def log_evidence_by_stepping_stones(sums: RunningRungs, *, reverse: bool = False) -> Estimate:
    """Return log Z(k_1) - log Z(k_m) by ratios between neighbours, as `log_evidence_stepping_stone`."""
    _check_all_visited(sums, "Stepping stones")
    whole = total(sums.batches)
    tilt, rungs = (HOTTER, slice(None, -1)) if reverse else (COLDER, slice(1, None))
    weight, _ = relative(sums.batches, whole.log_reference)
    w, n = whole.weight[tilt, rungs], sums.n_draws[rungs]
    influence = (weight[:, :, tilt, rungs] / w - sums.batches.count[..., rungs] / n).sum(axis=-1)
    sign = -1.0 if reverse else 1.0
    value = sign * np.sum(np.log(w) + whole.log_reference[tilt, rungs] - np.log(n))
    return Estimate(float(value), float(standard_error_of_batches(influence, _used(sums))))


def log_evidence_by_integration(sums: RunningRungs, *, corrected: bool = True) -> Estimate:
    """Return log Z(k_1) - log Z(k_m) as the integral of the mean energy, as `thermodynamic_integration`."""
    _check_all_visited(sums, "Thermodynamic integration")
    if sums.totals.joint[:, 0, 0].any():
        raise EstimatorError(
            "Thermodynamic integration needs finite energies, but some are minus infinity, or as good as that. Use "
            "MBAR or stepping stones."
        )
    n, unit = sums.n_draws, sums.bins.scale
    first, second = (sums.batches.energy[..., i] for i in (0, 1))
    mean = first.sum((0, 1)) / n
    variance = second.sum((0, 1)) / n - mean**2
    on_mean, on_variance = trapezium(sums.inverse_temperatures, np.arange(n.size), corrected=corrected)
    counts = sums.batches.count
    centred = first - counts * mean
    spread = second - 2 * mean * first + counts * mean**2 - counts * variance
    influence = unit * (centred @ (on_mean / n)) + unit**2 * (spread @ (on_variance / n))
    value = on_mean @ (sums.bins.centre + unit * mean) + unit**2 * (on_variance @ variance)
    return Estimate(float(value), float(standard_error_of_batches(influence, _used(sums))))


def _check_all_visited(sums: RunningRungs, who: str) -> None:
    if not np.all(sums.n_draws > 0):
        raise EstimatorError(
            f"{who} needs draws at every rung, but there are none at {np.flatnonzero(sums.n_draws == 0).tolist()}. "
            "Run for longer, or use MBAR."
        )


def _plain(value: Floats) -> float | Floats:
    return float(value) if value.ndim == 0 else value
