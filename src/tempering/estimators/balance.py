"""The balance heuristic, for proposals whose normalising constants are known (Eqs. 7 and 8).

Where they are not known, `mbar` estimates them and does the same.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats


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
