"""Combine the draws of all rungs into one estimate with its standard error.

For anybody's draws: nothing is asked but values, log weights and rungs, in time order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import EstimatorError
from tempering.estimators import rules
from tempering.estimators.arrays import (
    Floats,
    Ints,
    as_inverse_temperatures,
    as_log,
    as_rung,
    count_rungs,
    temper,
)
from tempering.estimators.autocorrelation import ess_of_autocorrelation_per_rung
from tempering.estimators.mbar import mbar
from tempering.estimators.pareto import pareto_k_per_rung
from tempering.estimators.rung_sums import RungSums
from tempering.estimators.standard_error import Estimate, standard_error_of_sum
from tempering.estimators.weights import combined_ess, combined_log_weights, ess_of_weights


@dataclass(frozen=True, eq=False)
class Combination:
    r"""An estimate from the draws of all rungs, and how it came about.

    Attributes
    ----------
    estimate : float or ndarray, shape of one value
        :math:`\hat h_\lambda` (Eq. 5).
    standard_error : float or ndarray, shape of one value
        Right for correlated chains, see `tempering.estimators.standard_error`.
    weights : ndarray, shape (draw,) or (chain, draw)
        :math:`w^\lambda` (Eq. 6), summing to one.
    shares : ndarray, shape (n_rungs,)
        :math:`\lambda_i`, the sum of the weights of each rung.
    ess : float
        :math:`\mathrm{ESS}(w^\lambda)` (Eq. 3).
    ess_per_rung : ndarray, shape (n_rungs,)
        :math:`\mathrm{ESS}(w_i)` (Eq. 9).
    pareto_k : ndarray, shape (n_rungs,)
        Pareto k-hat of each rung's weights.
    rule : str
        Name of the combination rule.
    """

    estimate: float | Floats
    standard_error: float | Floats
    weights: Floats
    shares: Floats
    ess: float
    ess_per_rung: Floats
    pareto_k: Floats
    rule: rules.Rule

    def __post_init__(self) -> None:
        for array in (self.weights, self.shares, self.ess_per_rung, self.pareto_k):
            array.setflags(write=False)


def combine(
    values: ArrayLike,
    log_weights: ArrayLike | None,
    rung: ArrayLike,
    rule: str = rules.DEFAULT_RULE,
    *,
    energy: ArrayLike | None = None,
    inverse_temperatures: ArrayLike | None = None,
    chains_per_ensemble: int = 1,
    batch_length: int | None = None,
) -> Combination:
    r"""Estimate an expectation under the cold distribution from the draws of all rungs.

    .. math:: \hat h_\lambda = \sum_i \sum_j w^\lambda_{ij} h(\theta_{ij})

    (Eqs. 5 and 6). For every rule but ``mbar`` the influence of a draw is
    :math:`w^\lambda_{ij} (h(\theta_{ij}) - \hat h_\lambda)`, with lambda held fixed.

    Parameters
    ----------
    values : array_like, shape (draw, ...) or (chain, draw, ...)
        h at each draw, in time order.
    log_weights : array_like or None, shape (draw,) or (chain, draw)
        Log importance weight of each draw, up to a constant per rung. None: (1 - k) * energy.
    rung : array_like of int, shape (draw,) or (chain, draw)
        Rung of each draw; 0 is cold.
    rule : str
        One of `tempering.estimators.RULES`.
    energy : array_like, shape (draw,) or (chain, draw)
        Energy of each draw; needed by ``mbar``.
    inverse_temperatures : array_like, shape (n_rungs,)
        k of each rung; needed by ``mbar``. Gives the number of rungs.
    chains_per_ensemble : int
        Consecutive chains that depend on each other, as the replicas of MC3 do.
    batch_length : int, optional
        Length of the batches of the standard error; chosen from the data where it is not given.

    Returns
    -------
    Combination

    Examples
    --------
    >>> result = combine([1.0, 3.0, 5.0, 5.0], np.zeros(4), [0, 0, 1, 1], rule="ess_optimal")
    >>> result.estimate, result.ess
    (3.5, 4.0)
    >>> result.shares
    array([0.5, 0.5])
    """
    name = rules.check_rule(rule)
    rung = as_rung(rung)
    h = _check_values(values, rung)
    k = None if inverse_temperatures is None else as_inverse_temperatures(inverse_temperatures)
    m = count_rungs(rung, None if k is None else k.size)
    e = None if energy is None else as_log("energy", energy, rung.shape)
    log_w = _log_weights(log_weights, rung, e, k)
    sums = RungSums.from_log_weights(log_w, rung, m)
    tail = pareto_k_per_rung(log_w, rung, m)
    if name == "mbar":
        if e is None or k is None:
            raise _missing("rule='mbar'")
        fit = mbar(e, k, rung)
        log_mixture_weights = fit.log_weights()
        weights = np.exp(log_mixture_weights)
        shares = np.bincount(rung.ravel(), weights.ravel(), m).astype(np.float64)
        ess = ess_of_weights(log_mixture_weights)
        found = fit.expectation(h, chains_per_ensemble=chains_per_ensemble, batch_length=batch_length)
    else:
        shares = _shares(name, sums, tail, h, rung)
        weights = np.exp(combined_log_weights(log_w, rung, shares, sums))
        ess = combined_ess(sums, shares)
        found = weighted_estimate(h, weights, chains_per_ensemble=chains_per_ensemble, batch_length=batch_length)
    return Combination(
        _plain(found.value),
        _plain(found.standard_error),
        weights,
        shares,
        ess,
        sums.ess_of_weights,
        tail,
        name,
    )


def weighted_estimate(
    values: ArrayLike, weights: ArrayLike, *, chains_per_ensemble: int = 1, batch_length: int | None = None
) -> Estimate:
    """Return the weighted mean of draws and its standard error by batch means, the weights' scale being
    random.

    Parameters
    ----------
    values : array_like, shape (draw, ...) or (chain, draw, ...)
        h at each draw, in time order.
    weights : array_like, shape (draw,) or (chain, draw)
        Not negative, summing to one.
    chains_per_ensemble, batch_length : int
        As in `combine`.

    Examples
    --------
    >>> weighted_estimate([1.0, 3.0], [0.25, 0.75]).value
    array(2.5)
    """
    w = np.asarray(weights, dtype=np.float64)
    h = np.asarray(values, dtype=np.float64)
    trailing = h.shape[w.ndim :]
    shape = np.atleast_2d(w).shape
    h, w = h.reshape(*shape, -1), w.reshape(*shape, 1)
    h = np.where(w > 0, h, 0.0)
    mean = np.einsum("ctq,ctz->q", h, w)
    error = standard_error_of_sum(w * (h - mean), chains_per_ensemble=chains_per_ensemble, batch_length=batch_length)
    return Estimate(mean.reshape(trailing), error.reshape(trailing))


def _check_values(values: ArrayLike, rung: Ints) -> Floats:
    h = np.asarray(values, dtype=np.float64)
    if h.shape[: rung.ndim] != rung.shape:
        raise EstimatorError(
            f"values must have the draws' leading axes, {rung.shape}, but their shape is {h.shape}. "
            f"Put chain and draw first, the axes of one value behind them."
        )
    return h


def _missing(who: str) -> EstimatorError:
    return EstimatorError(
        f"{who} needs energy and inverse_temperatures, but at least one of them is None. Pass the energy of "
        f"each draw and k of each rung, as in combine(values, None, rung, energy=..., "
        f"inverse_temperatures=...)."
    )


def _log_weights(log_weights: ArrayLike | None, rung: Ints, energy: Floats | None, k: Floats | None) -> Floats:
    """Return the log weights as given, or (1 - k) * energy."""
    if log_weights is not None:
        return as_log("log_weights", log_weights, rung.shape)
    if energy is None or k is None:
        raise _missing("log_weights=None")
    return temper(1.0 - k[rung], energy)


def _shares(name: rules.Rule, sums: RungSums, tail: Floats, values: Floats, rung: Ints) -> Floats:
    if name == "screened":
        return rules.screened(sums, tail)
    if name == "autocorrelation_adjusted":
        series = values.reshape(*np.atleast_2d(rung).shape, -1)
        series = np.where(np.isfinite(series), series, 0.0)  # a draw without weight may have any value
        return rules.autocorrelation_adjusted(
            sums, ess_of_autocorrelation_per_rung(series, np.atleast_2d(rung), sums.n_rungs)
        )
    simple = {
        "cold_only": rules.cold_only,
        "pooled": rules.pooled,
        "equal": rules.equal,
        "ess_optimal": rules.ess_optimal,
    }
    return simple[name](sums)


def _plain(value: float | Floats) -> float | Floats:
    """Return a scalar as a float."""
    return float(value) if np.ndim(value) == 0 else value
