"""Effective sample size of a correlated series (Eq. 11).

Autocovariances by FFT, pooled over chains and around the common mean, so that chains which disagree count as
correlated. Chains may differ in length: shorter ones are padded.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints

Cutoff = Literal["initial_sequence", "none"]


def ess_of_autocorrelation(values: ArrayLike, *, cutoff: Cutoff = "initial_sequence") -> float:
    r"""Return the effective sample size due to autocorrelation.

    .. math:: \mathrm{ESS}_\rho(\theta) = \frac{T}{1 + 2 \sum_{\ell=1}^{T-1} \hat\rho(\ell, \theta)}

    (Eq. 11). The sum over all lags is mostly noise; by default it stops where Geyer's (1992) initial monotone
    sequence does: sums of adjacent pairs of autocorrelations must be positive and must not increase.

    Parameters
    ----------
    values : array_like, shape (draw,) or (chain, draw)
        A scalar series in time order.
    cutoff : {"initial_sequence", "none"}
        "none" is the plain form of Eq. 11, all lags; it can be negative.

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(2, 1000))
    >>> 1500 < ess_of_autocorrelation(x) < 2500
    True
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim not in (1, 2) or x.size == 0 or not np.all(np.isfinite(x)):
        raise EstimatorError(
            f"values must be finite, with axes (draw,) or (chain, draw), but the shape is {x.shape} and "
            f"{int(np.sum(~np.isfinite(x)))} entries are not finite. Pass one scalar per draw."
        )
    x = np.atleast_2d(x)
    lengths = np.full(len(x), x.shape[1])
    return float(_padded_ess(x[..., np.newaxis], lengths, cutoff)[0])


def ess_of_autocorrelation_per_rung(values: Floats, rung: Ints, n_rungs: int) -> Floats:
    """Return ESS_rho(theta_i) of each rung's own draws, in time order within each chain.

    Parameters
    ----------
    values : ndarray, shape (chain, draw, n_quantities)
        The series; the quantity that mixes worst decides.
    rung : ndarray, shape (chain, draw)
        Rung of each draw.
    n_rungs : int
        Number of rungs.

    Returns
    -------
    ndarray, shape (n_rungs,)
        Zero at a rung without draws.
    """
    ess = np.zeros(n_rungs)
    for i in range(n_rungs):
        at_rung = rung == i
        lengths = at_rung.sum(axis=1)
        if lengths.any():
            ess[i] = _padded_ess(_pack(values, at_rung, lengths), lengths, "initial_sequence").min()
    return ess


def _pack(values: Floats, chosen: NDArray[np.bool_], lengths: Ints) -> Floats:
    """Move the chosen draws of each chain to its front; the rest is padding."""
    packed = np.zeros((len(values), int(lengths.max()), values.shape[2]))
    packed[np.arange(packed.shape[1]) < lengths[:, np.newaxis]] = values[chosen]
    return packed


def _padded_ess(x: Floats, lengths: Ints, cutoff: Cutoff) -> Floats:
    """Return ESS_rho of each quantity of x, shape (chain, longest, n_quantities)."""
    total = int(lengths.sum())
    gamma = _autocovariance(x, lengths)
    constant = gamma[0] <= 0.0
    rho = gamma / np.where(constant, 1.0, gamma[0])
    if cutoff == "none":
        tau = 1.0 + 2.0 * rho[1:].sum(axis=0)
    elif cutoff == "initial_sequence":
        tau = _initial_sequence_time(rho)
    else:
        raise EstimatorError(f"cutoff must be 'initial_sequence' or 'none', but got {cutoff!r}. Choose one of them.")
    tau = np.where(tau == 0.0, np.finfo(float).tiny, tau)
    return np.where(constant, float(total), total / tau)


def _autocovariance(x: Floats, lengths: Ints) -> Floats:
    """Return gamma-hat at every lag, shape (longest, n_quantities), each lag over its own number of pairs."""
    longest = x.shape[1]
    inside = (np.arange(longest) < lengths[:, np.newaxis])[..., np.newaxis]
    mean = np.sum(x, axis=(0, 1), where=inside) / lengths.sum()
    centred = np.where(inside, x - mean, 0.0)
    largest = np.abs(centred).max(axis=(0, 1))
    rounding = 1e-14 * np.abs(mean)  # what a constant leaves when its mean is taken off
    scale = np.where(largest > rounding, largest, np.inf)
    spectrum = fft.rfft(centred / scale, n=fft.next_fast_len(2 * longest, real=True), axis=1)
    power = np.sum(np.abs(spectrum) ** 2, axis=0)
    products = fft.irfft(power, n=fft.next_fast_len(2 * longest, real=True), axis=0)[:longest]
    n_pairs = np.maximum(lengths[:, np.newaxis] - np.arange(longest), 0).sum(axis=0)
    return np.asarray(products / n_pairs[:, np.newaxis])


def _initial_sequence_time(rho: Floats) -> Floats:
    """Return 1 + 2 sum rho, cut where Geyer's pairs rho(2j) + rho(2j+1) stop being positive."""
    n_lags = len(rho) - len(rho) % 2
    if n_lags == 0:
        return np.ones(rho.shape[1])
    pairs = rho[:n_lags].reshape(-1, 2, rho.shape[1]).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0).astype(bool)
    positive[0] = True  # the first pair holds rho(0) = 1 and stays
    monotone = np.minimum.accumulate(pairs, axis=0)
    tau = 2.0 * np.sum(monotone, axis=0, where=positive) - 1.0
    # pairs around zero can leave no time at all; no chain is better than antithetic by more than its length
    return np.asarray(np.maximum(tau, 1.0 / len(rho)))
