"""Importance weights, their effective sample sizes, and the weights of a combination (Eqs. 3, 5, 6 and 9).

Weights come as logs, known up to one constant per rung. A sample size never depends on that constant.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, as_log, as_rung, slices
from tempering.estimators.rung_sums import RungSums


def _relative_weights(log_weights: ArrayLike) -> Floats:
    """Return the weights over their largest; all zero where no weight is positive."""
    flat = np.ravel(np.asarray(log_weights, dtype=np.float64))
    log_w = as_log("log_weights", flat, flat.shape)
    if log_w.size == 0:
        raise EstimatorError("At least one weight is needed, but none came. Leave out rungs without draws.")
    largest = log_w.max()
    return np.exp(log_w - largest) if largest > -np.inf else np.zeros(log_w.size)


def cv2(log_weights: ArrayLike) -> float:
    r"""Return the squared coefficient of variation of the weights.

    .. math:: \mathrm{cv}^2(w) = \frac{\sum_t (w_t - \bar w)^2}{(T - 1) \bar w^2}

    (below Eq. 3). It is 0 for one weight and infinite where all weights are zero.

    Examples
    --------
    >>> cv2(np.log([1.0, 1.0, 4.0]))
    0.75
    """
    w = _relative_weights(log_weights)
    mean = w.mean()
    if mean == 0.0:
        return np.inf
    return float(np.sum((w / mean - 1.0) ** 2) / max(w.size - 1, 1))


def ess_of_weights(log_weights: ArrayLike) -> float:
    r"""Return the effective sample size of the weights, :math:`T / (1 + \mathrm{cv}^2(w))` (Eq. 3).

    Examples
    --------
    >>> ess_of_weights(np.zeros(5))
    5.0
    """
    return float(np.size(log_weights) / (1.0 + cv2(log_weights)))


def ess_of_normalised(weights: Floats) -> float:
    """Return the effective sample size of weights, not logs, that sum to one.

    Examples
    --------
    >>> ess_of_normalised(np.full(4, 0.25))
    4.0
    """
    n, flat = weights.size, weights.reshape(-1)
    squares = float(np.sum(np.square(flat)))  # einsum would round by where the array lies in memory
    return n / (1.0 + max(n * squares - 1.0, 0.0) * n / max(n - 1, 1))


def kish_ess(log_weights: ArrayLike) -> float:
    r"""Return Kish's sample size, :math:`\ell = (\sum_t w_t)^2 / \sum_t w_t^2` (Proposition 2.1).

    Examples
    --------
    >>> kish_ess(np.log([1.0, 1.0, 4.0]))
    2.0
    """
    w = _relative_weights(log_weights)
    squares = float(np.sum(w * w))
    return float(np.sum(w) ** 2 / squares) if squares > 0 else 0.0


def check_shares(shares: ArrayLike, sums: RungSums) -> Floats:
    """Check lambda: not negative, summing to one, nothing on a rung without weight."""
    share = np.asarray(shares, dtype=np.float64)
    if share.shape != (sums.n_rungs,) or not np.all(share >= 0) or not np.isclose(share.sum(), 1.0, rtol=0, atol=1e-9):
        raise EstimatorError(
            f"shares must be {sums.n_rungs} numbers >= 0 that sum to one, but got {share}. "
            f"Divide them by their sum, one entry for each rung."
        )
    if np.any((share > 0) & ~sums.has_weight):
        rungs = np.flatnonzero((share > 0) & ~sums.has_weight).tolist()
        raise EstimatorError(
            f"A share needs draws of positive weight, but the rungs {rungs} have none. Set their shares to zero."
        )
    return share


def combined_log_weights(
    log_weights: ArrayLike, rung: ArrayLike, shares: ArrayLike, sums: RungSums | None = None
) -> Floats:
    r"""Return :math:`\log w^\lambda_{ij} = \log(\lambda_i w_{ij} / W_i)`, shaped like the draws (Eq. 6).

    Parameters
    ----------
    log_weights, rung : array_like, shape (draw,) or (chain, draw)
        Log weight and rung of each draw.
    shares : array_like, shape (n_rungs,)
        Lambda: not negative, summing to one.
    sums : RungSums, optional
        The sums of these draws, where they are known already.

    Examples
    --------
    >>> np.exp(combined_log_weights([0.0, 0.0, 0.0], [0, 0, 1], [0.5, 0.5]))
    array([0.25, 0.25, 0.5 ])
    """
    rung = as_rung(rung)
    log_w = as_log("log_weights", log_weights, rung.shape)
    if sums is None:
        sums = RungSums.from_log_weights(log_w, rung, np.size(shares))
    share = check_shares(shares, sums)
    with np.errstate(divide="ignore"):
        offset = np.where(share > 0, np.log(share) - np.where(sums.has_weight, sums.log_sum, 0.0), -np.inf)
    flat_rung, flat_w, out = rung.ravel(), log_w.ravel(), np.empty(rung.size)
    for part in slices(rung.size):
        np.add(flat_w[part], offset[flat_rung[part]], out=out[part])
    return out.reshape(rung.shape)


def combined_ess(sums: RungSums, shares: ArrayLike) -> float:
    r"""Return the effective sample size of a combination, from sums alone.

    .. math:: \mathrm{ESS}(w^\lambda) = \frac{T (T - 1)}{T^2 \sum_i \lambda_i^2 / \ell_i - 1}

    (below Proposition 2.1). With one draw in all it is one.

    Examples
    --------
    >>> round(combined_ess(RungSums.from_log_weights(np.zeros(4), [0, 0, 0, 1]), [0.75, 0.25]), 12)
    4.0
    """
    share = check_shares(shares, sums)
    used = share > 0
    total = float(sums.n_draws.sum())
    if total == 1.0:
        return 1.0
    inverse_ell = float(np.sum(share[used] ** 2 / sums.kish_ess[used]))
    return total * (total - 1) / (total**2 * inverse_ell - 1)


def rung_means(values: ArrayLike, log_weights: ArrayLike, rung: ArrayLike, n_rungs: int | None = None) -> Floats:
    r"""Return :math:`\hat h_i = W_i^{-1} \sum_j w_{ij} h(\theta_{ij})` of each rung (above Eq. 5).

    Parameters
    ----------
    values : array_like, shape (draw, ...) or (chain, draw, ...)
        h at each draw.
    log_weights, rung : array_like, shape (draw,) or (chain, draw)
        Log weight and rung of each draw.
    n_rungs : int, optional
        Number of rungs.

    Returns
    -------
    ndarray, shape (n_rungs, ...)
        Zero at a rung without weight, which no rule gives a share.

    Examples
    --------
    >>> rung_means([1.0, 3.0, 5.0], [0.0, 0.0, 2.0], [0, 0, 1])
    array([2., 5.])
    """
    rung = as_rung(rung)
    sums = RungSums.from_log_weights(log_weights, rung, n_rungs)
    log_w = np.asarray(log_weights, dtype=np.float64)
    shift = np.where(sums.has_weight, sums.log_sum, 0.0)
    w = np.exp(log_w - shift[rung]).ravel()
    h = np.asarray(values, dtype=np.float64)
    columns = h.reshape(rung.size, -1).T
    means = [np.bincount(rung.ravel(), w * np.where(w > 0, column, 0.0), sums.n_rungs) for column in columns]
    return np.array(means, dtype=np.float64).T.reshape(sums.n_rungs, *h.shape[rung.ndim :])


def combined_mean(values: ArrayLike, log_weights: ArrayLike, rung: ArrayLike, shares: ArrayLike) -> Floats:
    r"""Return :math:`\hat h_\lambda = \sum_i \lambda_i \hat h_i` (Eq. 5).

    Examples
    --------
    >>> float(combined_mean([1.0, 3.0, 5.0], [0.0, 0.0, 2.0], [0, 0, 1], [0.5, 0.5]))
    3.5
    """
    share = check_shares(shares, RungSums.from_log_weights(log_weights, rung, np.size(shares)))
    return np.tensordot(share, rung_means(values, log_weights, rung, share.size), axes=1)


def balance_heuristic(log_target: ArrayLike, log_proposal_kn: ArrayLike, n_draws: ArrayLike) -> Floats:
    r"""Return log weights of draws from several normalised densities.

    .. math:: w(\theta) = \frac{\pi(\theta)}{\sum_r c_r g_r(\theta)}, \qquad c_r = T_r / T

    (Eq. 8), equal to the combination of Eq. 6 with the :math:`\lambda_{ij}` of Eq. 7. The estimate is the
    plain mean of :math:`w h` where pi is normalised, and the self-normalised mean where it is not.

    Parameters
    ----------
    log_target : array_like, shape (...)
        log pi at each draw.
    log_proposal_kn : array_like, shape (n_proposals, ...)
        log g_r, normalised, at each draw: of all proposals at all draws.
    n_draws : array_like, shape (n_proposals,)
        Number of draws taken from each proposal.

    Returns
    -------
    ndarray, shape (...)
        Minus infinity where the target has no mass.

    Examples
    --------
    >>> balance_heuristic([0.0, -1.0], [[0.0, -1.0], [0.0, -1.0]], [1, 1])
    array([0., 0.])
    """
    target = np.asarray(log_target, dtype=np.float64)
    proposal = np.asarray(log_proposal_kn, dtype=np.float64)
    counts = np.asarray(n_draws, dtype=np.float64)
    if proposal.shape[1:] != target.shape or counts.shape != proposal.shape[:1] or not counts.sum() > 0:
        raise EstimatorError(
            f"log_proposal_kn must have the shape (n_proposals, *log_target.shape) and n_draws one count > 0 "
            f"in all for each proposal, but the shapes are {proposal.shape}, {target.shape} and "
            f"{counts.shape}. Evaluate every proposal at every draw."
        )
    share = (counts / counts.sum()).reshape(-1, *[1] * target.ndim)
    log_mixture = np.asarray(logsumexp(proposal, axis=0, b=share))
    if np.any((log_mixture == -np.inf) & (target > -np.inf)):
        raise EstimatorError(
            "A draw must have positive density under a proposal it may have come from, but some have none "
            "under all. Check that the log densities belong to these draws."
        )
    return np.where(target > -np.inf, target - np.where(target > -np.inf, log_mixture, 0.0), -np.inf)
