r"""Standard errors that hold for correlated chains.

Every estimate here is, to first order, a sum over draws of influences with mean zero. The variance of that
sum is estimated by overlapping batch means over time within chains, batches of all chains together and not
centred chain by chain, so that disagreement between chains counts. Two batch lengths, b and b/2, are combined
into the flat-top form 2 v_b - v_{b/2} (Politis & Romano 1995; lugsail with r = 2, c = 1/2 in Vats & Flegal
2022), which has no bias of order 1/b. b is as long as leaves enough batches, at least sqrt(T), and grows until it holds
several autocorrelation times (as in Sokal 1997). Many chains afford long batches, and need them: where most draws are
independent of the last, the autocorrelation time says nothing of a rare place that a chain stays in for long. Few
batches know the variance badly: errors from them are wider by as much as Student's law is wider than the normal one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, stdtrit

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, slices

# b >= 4 times the integrated autocorrelation time it implies; see tests/estimators/test_coverage.py
TIMES_PER_BATCH = 4.0
ENOUGH_CHAINS = 16  # whose spread is worth looking at
BEYOND_NOISE = 0.99  # quantile of the variance between chains that mix
# a variance from fewer than ten batches is too noisy to divide by
MINIMUM_BATCHES = 10
# the standard error is then known to some 7 %, and an interval of 95 % covers 94.8 %
ENOUGH_BATCHES = 200
# of the flat-top form, for each batch: 2 / (relative variance), 8/3 b/T (the integral of the squared kernel is 4/3)
FREEDOM_OF_BATCH = 0.75
TWO_SIDED = 0.975  # the quantile that intervals of 95 % take, at which Student's law and the normal one are compared
QUANTITIES_AT_ONCE = 1 << 20  # doubles of one block of quantities
DIFFERENCES_AT_ONCE = 1 << 15  # doubles: they stay in the second-level cache


@dataclass(frozen=True)
class Estimate:
    """An estimate and its standard error: a float each, or an array each.

    A standard error is infinite where nothing is known of it, and is then printed as unknown.

    Examples
    --------
    >>> print(Estimate(0.66512, 0.00213), Estimate(0.5, np.inf))
    0.6651 ± 0.0021 0.5 ± unknown
    """

    value: float | Floats
    standard_error: float | Floats

    def __str__(self) -> str:
        if np.ndim(self.value) > 0:
            return f"{self.value} ± {self.standard_error}"
        value, error = float(self.value), float(self.standard_error)
        if not np.isfinite(error):
            return f"{value:.6g} ± unknown"
        digits = 1 - int(np.floor(np.log10(error))) if error > 0 else 6
        return f"{value:.{max(digits, 0)}f} ± {error:.{max(digits, 0)}f}" if digits < 12 else f"{value:g} ± {error:.2g}"

    def checked(self) -> "Estimate":
        """Return itself; refuse the mean of values that are not finite."""
        if not np.all(np.isfinite(self.value)):
            raise EstimatorError(
                f"Values must be finite wherever the target has mass, but their mean is {self.value}: at least one "
                "draw that counts gave NaN or infinity. Look for logs of negative numbers and divisions by zero."
            )
        return self


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


def weighted_influences(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return weighted means and the influence w (h - mean) of every draw on each of them.

    Parameters
    ----------
    values : ndarray, shape (draw, quantity) or (chain, draw, quantity)
        Those of weight zero are not looked at.
    weights : ndarray, shape (draw,) or (chain, draw)
        Not negative, summing to one.

    Returns
    -------
    means : ndarray, shape (quantity,)
    influences : ndarray, shape (quantity, *weights.shape)
    """
    influences = np.empty((values.shape[-1], *weights.shape))
    means = np.empty(len(influences))
    ignored = None if weights.all() else weights == 0.0
    for i, row in enumerate(influences):
        row[...] = values[..., i]
        if ignored is not None:
            row[ignored] = 0.0
        means[i] = np.sum(row.reshape(-1) * weights.reshape(-1))  # whatever its place in memory, rounded alike
        row -= means[i]
        row *= weights
    return means, influences


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
    flat = series.reshape(*series.shape[:2], -1)
    lengths, variance = _lengths_and_variances(flat, batch_length)
    if batch_length is None:
        variance = widened_by_chains(variance * student_factor(flat[..., 0].size / lengths) ** 2, flat.sum(axis=1))
    return np.sqrt(variance).reshape(series.shape[2:])


def student_factor(n_batches: Floats) -> Floats:
    """Return how much wider an error from so many batches must be for intervals of 95 % to cover as often.

    Examples
    --------
    >>> student_factor(np.array([10.0, 20.0, 200.0])).round(3)
    array([1.19 , 1.087, 1.   ])
    """
    wider = stdtrit(FREEDOM_OF_BATCH * n_batches, TWO_SIDED) / stdtrit(np.inf, TWO_SIDED)
    found: Floats = np.where(n_batches < ENOUGH_BATCHES, wider, 1.0)
    return found


def widened_by_chains(variance: Floats, totals: Floats, least: int = ENOUGH_CHAINS) -> Floats:
    """Take the variance between chains where it is larger than batches explain: then chains are slower than they look.

    Independent chains, or groups of them, are replicates: the variance of their sums, ``totals`` with the leading axis
    chain, holds whatever their autocorrelation, but is noisy: it is looked at if there are at least so many.
    """
    n = len(totals)
    if n < least:
        return variance
    between = n * np.var(totals, axis=0, ddof=1)
    chi_square = 2.0 * float(gammaincinv(0.5 * (n - 1), BEYOND_NOISE))  # as scipy.stats has it, which is slow to import
    return np.where(between > variance * chi_square / (n - 1), between, variance)


def covariance_of_sum(influences: Floats, *, chains_per_ensemble: int = 1, batch_length: int | None = None) -> Floats:
    """Return the covariance matrix of sums of influences: one batch length for all, so that it is a
    covariance.

    Parameters are those of `standard_error_of_sum`, with ``influences`` of shape (chain, draw, n_quantities).
    """
    series = sum_over_ensembles(influences, chains_per_ensemble)
    if batch_length is None:
        batch_length = int(_lengths_and_variances(series, None)[0].max())
    length = min(batch_length, series.shape[1])
    sums = _cumulative(np.moveaxis(series, 2, 0))
    long = _batch_covariance(sums, length)
    if length == 1:
        return long
    short = _batch_covariance(sums, length // 2)
    value, vector = np.linalg.eigh(2 * long - short)
    corrected: Floats = (vector * np.maximum(value, 0.0)) @ vector.T
    return corrected


def _lengths_and_variances(series: Floats, batch_length: int | None) -> tuple[Ints, Floats]:
    """Return the batch length of each quantity and the variance of its sum, for series (chain, draw, quantity)."""
    n_chains, n_draws, n_quantities = series.shape
    lengths, variances = np.empty(n_quantities, np.intp), np.empty(n_quantities)
    for part in slices(n_quantities, max(1, QUANTITIES_AT_ONCE // (n_chains * n_draws))):
        rows = np.ascontiguousarray(np.moveaxis(series[:, :, part], 2, 0))
        if batch_length is None:
            lengths[part], variances[part] = _at_chosen_lengths(rows)
        else:
            lengths[part] = min(batch_length, n_draws)
            variances[part] = _at_length(_cumulative(rows), min(batch_length, n_draws))
    return lengths, variances


def _at_chosen_lengths(series: Floats) -> tuple[Ints, Floats]:
    """Return, for each quantity, the smallest of doubling batch lengths that holds enough autocorrelation times,
    and the variance at that length; for series (quantity, chain, draw).
    """
    n_chains, n_draws = series.shape[1:]
    longest = max(1, min(n_draws, n_chains * n_draws // MINIMUM_BATCHES))
    single = np.einsum("qct,qct->q", series, series) * _scale(n_chains, n_draws, 1)
    lengths, variances = np.ones(len(series), np.intp), np.zeros(len(series))
    undecided = np.flatnonzero(single > 0)
    length, half = max(1, int(np.sqrt(n_draws)), min(n_draws, n_chains * n_draws // ENOUGH_BATCHES)), np.empty(0)
    sums = _cumulative(series[undecided] if undecided.size < len(series) else series)
    while length < longest and undecided.size:
        half = half if half.size else _batch_variance(sums, max(1, length // 2))
        long = _batch_variance(sums, length)
        enough = length >= TIMES_PER_BATCH * long / single[undecided]
        lengths[undecided[enough]] = length
        variances[undecided[enough]] = _flat_top(long, half, length)[enough]
        if enough.any():
            undecided, sums, long = undecided[~enough], sums[~enough], long[~enough]
        length, half = 2 * length, long
    if undecided.size:
        lengths[undecided] = longest
        variances[undecided] = _at_length(sums, longest)
    return lengths, variances


def _at_length(sums: Floats, length: int) -> Floats:
    """Return the variance of the sum of each quantity, from cumulative sums (quantity, chain, draw + 1)."""
    return _flat_top(_batch_variance(sums, length), _batch_variance(sums, max(1, length // 2)), length)


def _flat_top(long: Floats, half: Floats, length: int) -> Floats:
    """Return 2 v_b - v_{b/2}, or half of v_b should the difference fall below it."""
    return long if length == 1 else np.maximum(2 * long - half, long / 2)


def _scale(n_chains: int, n_draws: int, length: int) -> float:
    """Return the factor from a sum of squared batch sums to the variance of the whole sum.

    The influences sum to zero, which takes away length / T of a batch's variance.
    """
    total = n_chains * n_draws
    n_batches = n_chains * (n_draws - length + 1)
    lost = 1.0 - length / total if length < total else 1.0
    return float(total / (n_batches * length * lost))


def _cumulative(series: Floats) -> Floats:
    """Return sums along the last axis, with a leading zero: a batch is a difference of two."""
    sums = np.empty((*series.shape[:-1], series.shape[-1] + 1))
    sums[..., 0] = 0.0
    np.cumsum(series, axis=-1, out=sums[..., 1:])
    return sums


def _batch_variance(sums: Floats, length: int) -> Floats:
    """Return the variance by batches of each quantity, from cumulative sums (quantity, chain, draw + 1)."""
    n_quantities, n_chains, n_sums = sums.shape
    squares = np.zeros(n_quantities)
    for part in slices(n_chains, max(1, DIFFERENCES_AT_ONCE // (n_quantities * n_sums))):
        batches = sums[:, part, length:] - sums[:, part, :-length]
        squares += np.einsum("qct,qct->q", batches, batches)
    return squares * _scale(n_chains, n_sums - 1, length)


def _batch_covariance(sums: Floats, length: int) -> Floats:
    """Return the covariance by batches, from cumulative sums (quantity, chain, draw + 1)."""
    batches = (sums[..., length:] - sums[..., :-length]).reshape(len(sums), -1)
    product: Floats = (batches @ batches.T) * _scale(sums.shape[1], sums.shape[2] - 1, length)
    return product
