"""Combine the draws of all rungs into one estimate with its standard error.

For anybody's draws: nothing is asked but values, log weights and rungs, in time order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tempering.estimators import rules
from tempering.estimators.arrays import Floats
from tempering.estimators.autocorrelation import ess_of_autocorrelation_per_rung
from tempering.estimators.rules import RungStatistics
from tempering.estimators.rung_draws import RungDraws
from tempering.estimators.standard_error import Estimate, standard_error_of_sum, weighted_influences
from tempering.estimators.weights import combined_ess, combined_log_weights, ess_of_normalised


@dataclass(frozen=True, eq=False)
class Weighting:
    """The weight of every draw by a rule, whatever is to be estimated; fields as in `Combination`."""

    rule: str
    weights: Floats
    shares: Floats
    ess: float

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)
        self.shares.setflags(write=False)


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
    rule: str

    def __post_init__(self) -> None:
        for array in (self.weights, self.shares, self.ess_per_rung, self.pareto_k):
            array.setflags(write=False)


def combine(
    values: ArrayLike,
    log_weights: ArrayLike | None,
    rung: ArrayLike,
    rule: str | None = None,
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
    rule : str, optional
        One of `tempering.estimators.RULES`. By default ``mbar`` if the energies and inverse temperatures are given,
        else ``screened``.
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
    draws = RungDraws.of(
        log_weights,
        rung,
        energy=energy,
        inverse_temperatures=inverse_temperatures,
        chains_per_ensemble=chains_per_ensemble,
        batch_length=batch_length,
    )
    h = draws.check_values(values)
    knows_energies = energy is not None and inverse_temperatures is not None
    usual = rules.DEFAULT_RULE if knows_energies else rules.RULE_WITHOUT_ENERGIES
    return combine_rungs(draws, h, weigh_rungs(draws, rule if rule is not None else usual, h))


def weigh_rungs(draws: RungDraws, rule: str, values: Floats | None = None) -> Weighting:
    """Weigh all draws by a rule.

    Parameters
    ----------
    draws : RungDraws
    rule : str
        One of `tempering.estimators.RULES`.
    values : ndarray, shape (draw, ...) or (chain, draw, ...)
        Series in time order, for rules that look at them.
    """
    name = rules.check_rule(rule)
    if rules.RULES[name].shares is None:
        log_weights = draws.fit.log_weights()
        weights = np.exp(log_weights, out=log_weights)
        if draws.calibration is not None:
            weights *= draws.calibration.factor.reshape(weights.shape)
            weights /= weights.sum()
        shares = np.bincount(draws.rung.ravel(), weights.ravel(), draws.n_rungs).astype(np.float64)
        return Weighting(name, weights, shares, ess_of_normalised(weights))
    return weigh_by_shares(draws, name, rules.shares_by(name, statistics_of(draws, values)))


def weigh_by_shares(draws: RungDraws, rule: str, shares: Floats) -> Weighting:
    """Weigh all draws, those of each rung by their own weights up to its share."""
    weights = np.exp(combined_log_weights(draws.log_weights, draws.rung, shares, draws.sums))
    return Weighting(rule, weights, shares, combined_ess(draws.sums, shares))


def estimate_rungs(draws: RungDraws, values: ArrayLike, weighting: Weighting) -> Estimate:
    """Estimate the expectation of values, leading axes those of the draws, under weights of these draws."""
    h = draws.check_values(values)
    with np.errstate(invalid="ignore"):  # of values that are not finite the error is not known
        if weighting.rule == "mbar":
            found = draws.fit.expectation(h, weights=weighting.weights, calibration=draws.calibration, **draws.units)
        else:
            found = weighted_estimate(h, weighting.weights, **draws.units)
    error = np.where(np.isfinite(found.value), found.standard_error, np.nan)
    return Estimate(_plain(found.value), _plain(error))


def combine_rungs(draws: RungDraws, values: ArrayLike, weighting: Weighting) -> Combination:
    """Estimate the expectation of values under weights of these draws, and say how it came about."""
    found = estimate_rungs(draws, values, weighting).checked()
    return Combination(
        found.value,
        found.standard_error,
        weighting.weights,
        weighting.shares,
        weighting.ess,
        draws.sums.ess_of_weights,
        draws.pareto_k,
        weighting.rule,
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
    mean, influences = weighted_influences(h.reshape(*w.shape, -1), w)
    error = standard_error_of_sum(
        np.moveaxis(influences.reshape(-1, *np.atleast_2d(w).shape), 0, 2),
        chains_per_ensemble=chains_per_ensemble,
        batch_length=batch_length,
    )
    return Estimate(mean.reshape(trailing), error.reshape(trailing))


def statistics_of(draws: RungDraws, values: Floats | None = None) -> RungStatistics:
    """Return what rules look at; without values, nothing is known of autocorrelation."""

    def autocorrelation() -> Floats:
        assert values is not None
        rung = np.atleast_2d(draws.rung)
        series = values.reshape(*rung.shape, -1)
        series = np.where(np.isfinite(series), series, 0.0)  # a draw without weight may have any value
        return ess_of_autocorrelation_per_rung(series, rung, draws.n_rungs)

    return RungStatistics(draws.sums, lambda: draws.pareto_k, autocorrelation, draws.cold)


def _plain(value: float | Floats) -> float | Floats:
    """Return a scalar as a float."""
    return float(value) if np.ndim(value) == 0 else value
