r"""Evidence: :math:`\log Z(k_1) - \log Z(k_m)`, from the energies of all rungs, in four ways.

With likelihood tempering and :math:`k_m = 0` this is the log marginal likelihood. Standard errors come by
batch means of influences. Rungs without draws are passed over, except where the end of the ladder is needed.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import EstimatorError
from tempering.estimators.arrays import (
    Floats,
    Ints,
    as_inverse_temperatures,
    as_log,
    as_rung,
    count_rungs,
    slices,
    temper_by_rung,
)
from tempering.estimators.mbar import mbar
from tempering.estimators.standard_error import Estimate, standard_error_of_sum


def log_evidence_stepping_stone(
    energy: ArrayLike,
    inverse_temperatures: ArrayLike,
    rung: ArrayLike,
    *,
    reverse: bool = False,
    chains_per_ensemble: int = 1,
    batch_length: int | None = None,
) -> Estimate:
    r"""Return log Z(k_1) - log Z(k_m) as a product of ratios between neighbouring rungs.

    .. math:: \frac{Z_i}{Z_{i+1}} = E_{i+1}\bigl[e^{(k_i - k_{i+1}) E}\bigr], \qquad
              \frac{Z_{i+1}}{Z_i} = E_i\bigl[e^{-(k_i - k_{i+1}) E}\bigr]

    The first, forward form averages over the hotter rung (Xie et al. 2011) and is the better one: hot draws
    cover the cold rung and not the other way round. Far apart, the two betray too few rungs.

    Parameters
    ----------
    energy : array_like, shape (draw,) or (chain, draw)
        Energy of each draw, in time order.
    inverse_temperatures : array_like, shape (n_rungs,)
        k of each rung, from cold to hot.
    rung : array_like of int, shape (draw,) or (chain, draw)
        Rung of each draw.
    reverse : bool
        Average over the colder rung instead.
    chains_per_ensemble, batch_length : int
        As in `combine`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> round(log_evidence_stepping_stone([1.0, 1.0, 1.0, 1.0], [1.0, 0.5], [0, 1, 0, 1]).value, 12)
    0.5
    """
    e, k, index = _check(energy, inverse_temperatures, rung)
    visited = np.flatnonzero(np.bincount(index.ravel(), minlength=k.size))
    _check_end(visited, 0 if reverse else k.size - 1, "The reverse form" if reverse else "The forward form")
    partner = _next_knots(visited, k.size, reverse=reverse)
    steps = partner != np.arange(k.size)
    weights = temper_by_rung(k[partner] - k, index, e)  # as logs; 0 where there is no step
    log_sum, total = _exponentiate(weights.reshape(-1), index.ravel(), k.size)
    if np.any(log_sum[steps] == -np.inf):
        raise EstimatorError(
            f"Each rung must have a draw of positive density under its neighbour, but the rungs "
            f"{np.flatnonzero(steps & (log_sum == -np.inf)).tolist()} have none. Put rungs between."
        )
    n = np.maximum(np.bincount(index.ravel(), minlength=k.size), 1)
    _turn_into_shares(weights.reshape(-1), index.ravel(), np.where(steps, total, 1.0), np.where(steps, n, 1))
    error = standard_error_of_sum(
        np.atleast_2d(weights), chains_per_ensemble=chains_per_ensemble, batch_length=batch_length
    )
    log_mean = np.where(steps, log_sum - np.log(n), 0.0).sum()
    return Estimate(float(-log_mean if reverse else log_mean), float(error))


def _exponentiate(log_weights: Floats, rung: Ints, n_rungs: int) -> tuple[Floats, Floats]:
    """Replace log weights by weights over the largest of their rung; return the log of each rung's sum, and the sum
    of what is there now.
    """
    largest = np.full(n_rungs, -np.inf)
    np.maximum.at(largest, rung, log_weights)
    shift = np.where(largest > -np.inf, largest, 0.0)
    total = np.zeros(n_rungs)
    for part in slices(rung.size):
        w = log_weights[part]
        w -= shift.take(rung[part])
        np.exp(w, out=w)
        total += np.bincount(rung[part], w, n_rungs)
    with np.errstate(divide="ignore"):
        return np.log(total) + shift, total


def _turn_into_shares(weights: Floats, rung: Ints, total: Floats, n: Ints) -> None:
    """Replace weights by their shares in the total of their rung, less the mean share; a weight of 1 alone by 0."""
    for part in slices(rung.size):
        w, at = weights[part], rung[part]
        w *= (1.0 / total).take(at)
        w -= (1.0 / n).take(at)


def thermodynamic_integration(
    energy: ArrayLike,
    inverse_temperatures: ArrayLike,
    rung: ArrayLike,
    *,
    corrected: bool = True,
    chains_per_ensemble: int = 1,
    batch_length: int | None = None,
) -> Estimate:
    r"""Return log Z(k_1) - log Z(k_m) as the integral of the mean energy over k.

    .. math:: \log Z(b) - \log Z(a) = \int_a^b E_k[E] \, dk \approx \frac{b - a}{2} (\mu_a + \mu_b)
              - \frac{(b - a)^2}{12} (V_b - V_a)

    by the trapezium rule; the last term, with the variances of the energy, corrects its error (Friel, Hurn &
    Wyse 2014). The standard error knows nothing of what the rule still leaves out.

    Parameters
    ----------
    energy, inverse_temperatures, rung, chains_per_ensemble, batch_length
        As in `log_evidence_stepping_stone`. Energies must be finite.
    corrected : bool
        Whether to use the correction.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> thermodynamic_integration([3.0, 1.0, 3.0, 1.0], [1.0, 0.0], [0, 1, 0, 1]).value
    2.0
    """
    return integration_and_correction(
        energy,
        inverse_temperatures,
        rung,
        corrected=corrected,
        chains_per_ensemble=chains_per_ensemble,
        batch_length=batch_length,
    )[0]


def integration_and_correction(
    energy: ArrayLike,
    inverse_temperatures: ArrayLike,
    rung: ArrayLike,
    *,
    corrected: bool = True,
    chains_per_ensemble: int = 1,
    batch_length: int | None = None,
) -> tuple[Estimate, float]:
    """Return `thermodynamic_integration` and the correction of the trapezium rule, used or not."""
    e, k, index = _check(energy, inverse_temperatures, rung)
    counts = np.bincount(index.ravel(), minlength=k.size)
    visited = np.flatnonzero(counts)
    for end in (0, k.size - 1):
        _check_end(visited, end, "Thermodynamic integration")
    if e.min() == -np.inf:
        raise EstimatorError(
            f"Thermodynamic integration needs finite energies, but {int(np.sum(e == -np.inf))} are minus "
            f"infinity. Use log_evidence_stepping_stone or mbar."
        )
    on_mean, on_variance = trapezium(k, visited, corrected=True)
    n = np.maximum(counts, 1)
    mean, variance, centred = _moments(e, index, n)
    correction = float(on_variance @ variance)
    if not corrected:
        on_variance = np.zeros(k.size)
    _turn_into_influences(centred, index, on_mean / n, on_variance / n, variance)
    error = standard_error_of_sum(
        np.atleast_2d(centred), chains_per_ensemble=chains_per_ensemble, batch_length=batch_length
    )
    return Estimate(float(on_mean @ mean + on_variance @ variance), float(error)), correction


def _moments(energy: Floats, rung: Ints, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """Return mean and variance of the energy on each rung, and all energies less the mean of their rung."""
    flat, e, m = rung.ravel(), energy.ravel(), counts.size
    mean = np.bincount(flat, e, m) / counts
    centred, squares = np.empty(e.size), np.zeros(m)
    for part in slices(e.size):
        np.subtract(e[part], mean.take(flat[part]), out=centred[part])
        squares += np.bincount(flat[part], np.square(centred[part]), m)
    return mean, squares / counts, centred.reshape(energy.shape)


def _turn_into_influences(centred: Floats, rung: Ints, on_mean: Floats, on_variance: Floats, variance: Floats) -> None:
    """Replace c by a c + b (c^2 - V), a and b being what one draw of its rung counts by mean and variance."""
    flat, influences = rung.ravel(), centred.reshape(-1)
    for part in slices(flat.size):
        c, at = influences[part], flat[part]
        slope = on_variance.take(at)
        slope *= c
        slope += on_mean.take(at)
        c *= slope
        c -= (on_variance * variance).take(at)


def log_evidence_mbar(
    energy: ArrayLike,
    inverse_temperatures: ArrayLike,
    rung: ArrayLike,
    *,
    chains_per_ensemble: int = 1,
    batch_length: int | None = None,
) -> Estimate:
    """Return log Z(k_1) - log Z(k_m) by `mbar`, which uses every draw for every ratio.

    Parameters are those of `log_evidence_stepping_stone`; either end of the ladder may be without draws.

    Examples
    --------
    >>> round(log_evidence_mbar([1.0, 1.0, 1.0, 1.0], [1.0, 0.5], [0, 1, 0, 1]).value, 12)
    0.5
    """
    return mbar(energy, inverse_temperatures, rung).log_normaliser_ratio(
        0, -1, chains_per_ensemble=chains_per_ensemble, batch_length=batch_length
    )


def _check(energy: ArrayLike, inverse_temperatures: ArrayLike, rung: ArrayLike) -> tuple[Floats, Floats, Ints]:
    index = as_rung(rung)
    k = as_inverse_temperatures(inverse_temperatures)
    count_rungs(index, k.size)
    if np.any(np.diff(k) >= 0):
        raise EstimatorError(
            f"inverse_temperatures must fall from cold to hot, but they are {k}. Sort the rungs; for "
            f"repeated ones use mbar, which takes states in any order."
        )
    return as_log("energy", energy, index.shape), k, index


def _check_end(visited: Ints, end: int, who: str) -> None:
    if end not in visited:
        raise EstimatorError(
            f"{who} needs draws at rung {end}, but there are none. Sample for longer, or use log_evidence_mbar."
        )


def _next_knots(visited: Ints, n_rungs: int, *, reverse: bool) -> Ints:
    """Return for each sampled rung the neighbour it steps to, itself for those which step nowhere."""
    knots = np.union1d(visited, [n_rungs - 1 if reverse else 0])
    partner = np.arange(n_rungs)
    if reverse:
        partner[knots[:-1]] = knots[1:]
    else:
        partner[knots[1:]] = knots[:-1]
    return partner


def trapezium(k: Floats, visited: Ints, *, corrected: bool) -> tuple[Floats, Floats]:
    """Return what each rung's mean and variance of the energy count in the integral."""
    on_mean, on_variance = np.zeros(k.size), np.zeros(k.size)
    for cold, hot in pairwise(visited):
        width = k[cold] - k[hot]
        on_mean[[cold, hot]] += width / 2
        if corrected:
            on_variance[cold] -= width**2 / 12
            on_variance[hot] += width**2 / 12
    return on_mean, on_variance
