"""Sums per rung, which is all that the combination rules need.

Sums of sums are sums: one chain or ten thousand, in one piece or merged from running parts, give the same
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, as_log, as_rung, count_rungs, frozen, slices


@dataclass(frozen=True, eq=False)
class RungSums:
    r"""Hold :math:`T_i`, :math:`\log W_i` and :math:`\log \sum_j w_{ij}^2` of each rung.

    Parameters
    ----------
    n_draws : ndarray, shape (n_rungs,)
        Number of draws at each rung, those of weight zero included.
    log_sum : ndarray, shape (n_rungs,)
        Log of the sum of the weights; minus infinity at a rung without draws.
    log_sum_of_squares : ndarray, shape (n_rungs,)
        Log of the sum of the squared weights.

    Examples
    --------
    >>> sums = RungSums.from_log_weights(np.log([1.0, 1.0, 2.0, 1.0]), [0, 0, 1, 1])
    >>> sums.kish_ess
    array([2. , 1.8])
    >>> sums.merge(sums).n_draws
    array([4, 4])
    """

    n_draws: NDArray[np.int64]
    log_sum: Floats
    log_sum_of_squares: Floats

    def __post_init__(self) -> None:
        counts = np.array(self.n_draws, dtype=np.int64)
        counts.setflags(write=False)
        object.__setattr__(self, "n_draws", counts)
        object.__setattr__(self, "log_sum", frozen(self.log_sum))
        object.__setattr__(self, "log_sum_of_squares", frozen(self.log_sum_of_squares))
        if not counts.shape == self.log_sum.shape == self.log_sum_of_squares.shape or counts.ndim != 1:
            raise EstimatorError(
                f"Each sum must have one entry per rung, but the shapes are {counts.shape}, "
                f"{self.log_sum.shape} and {self.log_sum_of_squares.shape}. Build the sums with "
                f"RungSums.from_log_weights."
            )

    @classmethod
    def empty(cls, n_rungs: int) -> RungSums:
        """Return the sums of no draws: where running sums start."""
        return cls(np.zeros(n_rungs, np.int64), np.full(n_rungs, -np.inf), np.full(n_rungs, -np.inf))

    @classmethod
    def from_log_weights(cls, log_weights: ArrayLike, rung: ArrayLike, n_rungs: int | None = None) -> RungSums:
        """Sum the weights of each rung, in one pass over memory.

        Parameters
        ----------
        log_weights, rung : array_like, shape (draw,) or (chain, draw)
            Log weight, known up to a constant per rung, and rung of each draw.
        n_rungs : int, optional
            Number of rungs; the largest rung seen plus one where it is not given.
        """
        rung = as_rung(rung)
        m = count_rungs(rung, n_rungs)
        log_w = as_log("log_weights", log_weights, rung.shape).ravel()
        flat = rung.ravel()
        sums = cls.empty(m)
        for part in slices(flat.size):
            sums = sums.merge(_sums_of_chunk(log_w[part], flat[part], m))
        return sums

    def merge(self, other: RungSums) -> RungSums:
        """Return the sums of both sets of draws, whose weights share their constants."""
        if self.n_rungs != other.n_rungs:
            raise EstimatorError(
                f"Sums to be merged must have the same rungs, but there are {self.n_rungs} and "
                f"{other.n_rungs}. Build both with the same n_rungs."
            )
        return RungSums(
            self.n_draws + other.n_draws,
            np.logaddexp(self.log_sum, other.log_sum),
            np.logaddexp(self.log_sum_of_squares, other.log_sum_of_squares),
        )

    @property
    def n_rungs(self) -> int:
        """Number of rungs, visited or not."""
        return int(self.n_draws.size)

    @property
    def has_weight(self) -> NDArray[np.bool_]:
        """Whether a rung has a draw of positive weight."""
        return self.log_sum > -np.inf

    @property
    def kish_ess(self) -> Floats:
        r"""Return :math:`\ell_i = W_i^2 / \sum_j w_{ij}^2` of each rung; 0 without weight (Proposition
        2.1).
        """
        return np.exp(2 * np.where(self.has_weight, self.log_sum, -np.inf) - self._safe_squares)

    @property
    def ess_of_weights(self) -> Floats:
        r"""Return :math:`T_i (T_i - 1) \ell_i / (T_i^2 - \ell_i)` of each rung (Eq. 9)."""
        t = self.n_draws.astype(np.float64)
        ell = np.minimum(self.kish_ess, t)  # the rounding of logs must not lift l_i above T_i
        return np.where(t > 1, t * (t - 1) * ell / np.where(t > 1, t * t - ell, 1.0), ell)

    @property
    def _safe_squares(self) -> Floats:
        return np.where(self.has_weight, self.log_sum_of_squares, 0.0)


def _sums_of_chunk(log_w: Floats, rung: Ints, n_rungs: int) -> RungSums:
    """Sum one chunk with the largest weight of each rung taken out, so that nothing over- or underflows."""
    largest = np.full(n_rungs, -np.inf)
    np.maximum.at(largest, rung, log_w)
    shift = np.where(largest > -np.inf, largest, 0.0)
    w = np.exp(log_w - shift[rung])
    with np.errstate(divide="ignore", under="ignore"):
        log_sum = np.log(np.bincount(rung, w, n_rungs)) + shift
        log_squares = np.log(np.bincount(rung, w * w, n_rungs)) + 2 * shift
    return RungSums(np.bincount(rung, minlength=n_rungs), log_sum, log_squares)
