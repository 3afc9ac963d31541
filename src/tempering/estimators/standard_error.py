r"""Standard errors that hold for correlated chains.

Every estimate here is, to first order, a sum over draws of influences with mean zero. The variance of that
sum is estimated by overlapping batch means over time within chains, batches of all chains together and not
centred chain by chain, so that disagreement between chains counts. Two batch lengths, b and b/2, are combined
into the flat-top form 2 v_b - v_{b/2} (Politis & Romano 1995; lugsail with r = 2, c = 1/2 in Vats & Flegal
2022), which has no bias of order 1/b; b is at least sqrt(T) and grows until it holds several autocorrelation
times (as in Sokal 1997).
"""

from dataclasses import dataclass

import numpy as np

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, slices

# b >= 4 times the integrated autocorrelation time it implies; see tests/estimators/test_coverage.py
TIMES_PER_BATCH = 4.0
# a variance from fewer than ten batches is too noisy to divide by
MINIMUM_BATCHES = 10
QUANTITIES_AT_ONCE = 1 << 22  # doubles held by the cumulative sums of one block of quantities


@dataclass(frozen=True)
class Estimate:
    """An estimate and its standard error: a float each, or an array each."""

    value: float | Floats
    standard_error: float | Floats


def sum_over_ensembles(influences: Floats, chains_per_ensemble: int) -> Floats:
    """Add up the influences of consecutive chains that depend on each other, as replicas of one ensemble do.

    Parameters
    ----------
    influences : ndarray, shape (chain, draw, ...)
        Influence of each draw.
    chains_per_ensemble : int
        How many consecutive chains make one ensemble.
    """
    n_chains = len(influences)
    if chains_per_ensemble < 1 or n_chains % chains_per_ensemble:
        raise EstimatorError(
            f"chains_per_ensemble must divide the number of chains, {n_chains}, but it is "
            f"{chains_per_ensemble}. Pass the number of replicas that exchange states with one another; 1 "
            f"for independent chains."
        )
    if chains_per_ensemble == 1:
        return influences
    return np.asarray(influences.reshape(-1, chains_per_ensemble, *influences.shape[1:]).sum(axis=1))


def standard_error_of_sum(
    influences: Floats, *, chains_per_ensemble: int = 1, batch_length: int | None = None
) -> Floats:
    """Return the standard error of the sum of all influences.

    Parameters
    ----------
    influences : ndarray, shape (chain, draw, ...)
        Influence of each draw, in time order, summing to about zero.
    chains_per_ensemble : int
        Consecutive chains that depend on each other, as replicas of one ensemble do.
    batch_length : int, optional
        Length of a batch; chosen from the data where it is not given.

    Returns
    -------
    ndarray, shape (...)

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(4, 10_000)) / 40_000
    >>> 0.8 < standard_error_of_sum(x) * 200 < 1.2
    np.True_
    """
    series = sum_over_ensembles(influences, chains_per_ensemble)
    n_chains, n_draws = series.shape[:2]
    flat = series.reshape(n_chains, n_draws, -1)
    variance = np.empty(flat.shape[2])
    for part in slices(variance.size, max(1, QUANTITIES_AT_ONCE // (n_chains * n_draws))):
        variance[part] = _variance_of_sum(flat[:, :, part], batch_length)
    return np.sqrt(variance).reshape(series.shape[2:])


def covariance_of_sum(influences: Floats, *, chains_per_ensemble: int = 1, batch_length: int | None = None) -> Floats:
    """Return the covariance matrix of sums of influences: one batch length for all, so that it is a
    covariance.

    Parameters are those of `standard_error_of_sum`, with ``influences`` of shape (chain, draw, n_quantities).
    """
    series = sum_over_ensembles(influences, chains_per_ensemble)
    sums = _cumulative(series)
    if batch_length is None:
        batch_length = int(_choose_lengths(sums).max())
    length = min(batch_length, series.shape[1])
    long = _batch_covariance(sums, length)
    if length == 1:
        return long
    short = _batch_covariance(sums, length // 2)
    value, vector = np.linalg.eigh(2 * long - short)
    corrected: Floats = (vector * np.maximum(value, 0.0)) @ vector.T
    return corrected


def _cumulative(series: Floats) -> Floats:
    """Return sums from the start of each chain, with a leading zero: a batch is a difference of two."""
    sums = np.zeros((series.shape[0], series.shape[1] + 1, series.shape[2]))
    np.cumsum(series, axis=1, out=sums[:, 1:])
    return sums


def _variance_of_sum(series: Floats, batch_length: int | None) -> Floats:
    sums = _cumulative(series)
    n_draws = series.shape[1]
    if batch_length is None:
        lengths = _choose_lengths(sums)
    else:
        lengths = np.full(series.shape[2], min(batch_length, n_draws))
    variance = np.empty(series.shape[2])
    for length in np.unique(lengths):
        chosen = lengths == length
        variance[chosen] = _flat_top(sums[:, :, chosen], int(length))
    return variance


def _choose_lengths(sums: Floats) -> Floats:
    """Return, for each quantity, the smallest of doubling batch lengths that holds enough autocorrelation
    times.
    """
    n_chains, n_draws = len(sums), sums.shape[1] - 1
    longest = max(1, min(n_draws, n_chains * n_draws // MINIMUM_BATCHES))
    single = _batch_variance(sums, 1)
    lengths = np.full(sums.shape[2], longest)
    undecided = single > 0
    lengths[~undecided] = 1
    length = max(1, int(np.sqrt(n_draws)))
    while length < longest and undecided.any():
        time = _batch_variance(sums[:, :, undecided], length) / single[undecided]
        enough = np.flatnonzero(undecided)[length >= TIMES_PER_BATCH * time]
        lengths[enough] = length
        undecided[enough] = False
        length *= 2
    return lengths


def _flat_top(sums: Floats, length: int) -> Floats:
    """Return 2 v_b - v_{b/2}, or half of v_b should the difference fall below it."""
    long = _batch_variance(sums, length)
    if length == 1:
        return long
    return np.maximum(2 * long - _batch_variance(sums, length // 2), long / 2)


def _scale(sums: Floats, length: int) -> float:
    """Return the factor from a sum of squared batch sums to the variance of the whole sum.

    The influences sum to zero, which takes away length / T of a batch's variance.
    """
    n_chains, n_draws = len(sums), sums.shape[1] - 1
    total = n_chains * n_draws
    n_batches = n_chains * (n_draws - length + 1)
    lost = 1.0 - length / total if length < total else 1.0
    return float(total / (n_batches * length * lost))


def _batch_variance(sums: Floats, length: int) -> Floats:
    batches = sums[:, length:] - sums[:, :-length]
    return np.asarray(np.einsum("ctq,ctq->q", batches, batches) * _scale(sums, length))


def _batch_covariance(sums: Floats, length: int) -> Floats:
    batches = (sums[:, length:] - sums[:, :-length]).reshape(-1, sums.shape[2])
    product: Floats = (batches.T @ batches) * _scale(sums, length)
    return product
