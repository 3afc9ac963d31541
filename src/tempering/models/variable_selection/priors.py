"""Priors: how many columns are in, and how large their coefficients are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln

from tempering.arrays import Floats
from tempering.errors import InputError


@dataclass(frozen=True)
class SizePrior:
    """Every column is in with one probability, known or with a beta distribution.

    Parameters
    ----------
    expected : float, optional
        Expected number of columns; each is in with probability expected / p, independently.
    a, b : float, optional
        Beta distribution of that probability: the beta-binomial prior on the number of columns. Its odds learn from
        how many columns are in, which corrects for the number of columns tried (Scott & Berger 2010).

    Examples
    --------
    >>> SizePrior(expected=2.0).log_odds(4).round(3)
    array([0., 0., 0., 0., 0.])
    >>> np.exp(SizePrior(a=1.0, b=1.0).log_odds(3)).round(3)
    array([0.333, 1.   , 3.   , 3.   ])
    """

    expected: float | None = None
    a: float | None = None
    b: float | None = None

    def __post_init__(self) -> None:
        by_value = self.expected is not None
        if by_value == (self.a is not None and self.b is not None):
            raise InputError(
                f"A prior of the size needs either expected, or both a and b, but got {self.expected}, {self.a} and "
                f"{self.b}. Pass for example SizePrior(expected=5)."
            )
        if any(value is not None and not value > 0 for value in (self.expected, self.a, self.b)):
            raise InputError(
                f"expected, a and b must be positive, but got {self.expected}, {self.a} and {self.b}. Pass 5, say."
            )

    def log_odds(self, p: int) -> Floats:
        """Return the log prior odds of a column if 0, 1, ... others are in, shape (p + 1,); the last repeats."""
        others = np.minimum(np.arange(p + 1), p - 1)
        if self.expected is not None:
            q = min(self.expected / p, 1.0 - 1e-9)
            return np.full(p + 1, np.log(q) - np.log1p(-q))
        assert self.a is not None
        assert self.b is not None
        return np.asarray(np.log(self.a + others) - np.log(self.b + p - 1 - others))

    def log_prior(self, size: int, p: int) -> float:
        """Return the log prior probability of one model of that size."""
        if self.expected is not None:
            q = min(self.expected / p, 1.0 - 1e-9)
            return float(size * np.log(q) + (p - size) * np.log1p(-q))
        assert self.a is not None
        assert self.b is not None
        return float(betaln(self.a + size, self.b + p - size) - betaln(self.a, self.b))


@dataclass(frozen=True, eq=False)
class Slab:
    """The prior of the coefficients that are in: normal with mean zero, its scale times the noise variance.

    Parameters
    ----------
    kind : {"independent", "g", "dense"}
    precision : float or ndarray
        "independent": the prior precision of a coefficient of a column with standard deviation 1, or one for each
        column. "dense": a matrix, of which the rows and columns that are in are the precision.
    g : float
        Of the g-prior: variance g (X'X)^-1.
    """

    kind: str = "independent"
    precision: float | Floats = 1.0
    g: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("independent", "g", "dense"):
            raise InputError(f"The kind of a slab must be independent, g or dense, but got {self.kind!r}.")
        if self.g is not None and not self.g > 0:
            raise InputError(f"g of a g-prior must be positive, but got {self.g}. The number of rows is the default.")

    @classmethod
    def of(cls, slab: object, n_rows: int) -> Slab:
        """Read what a user passes: "independent", "g", a Slab, a positive number, or a matrix."""
        if isinstance(slab, Slab):
            return slab
        if isinstance(slab, str):
            if slab == "independent":
                return cls()
            if slab == "g":
                return cls("g", g=float(n_rows))  # unit information
            raise InputError(
                f"slab must be 'independent', 'g', a number, a matrix or a Slab, but got {slab!r}. 1.0 is the default."
            )
        precision = np.asarray(slab, dtype=np.float64)
        if precision.ndim == 2:
            return cls("dense", precision)
        return cls("independent", precision if precision.ndim else float(precision))

    def diagonal(self, p: int) -> Floats:
        """Return the precisions of independent coefficients, shape (p,)."""
        given = np.asarray(self.precision, dtype=np.float64)
        if given.shape not in ((), (p,)):
            raise InputError(
                f"The slab needs one precision, or one for each of the {p} columns (products too), but got an array of "
                f"shape {given.shape}."
            )
        omega = np.broadcast_to(given, (p,)).copy()
        if not np.all((omega > 0) & np.isfinite(omega)):
            raise InputError(
                f"The slab's precisions must be positive and finite, but one is {omega.min()}. Pass 1, say."
            )
        return omega


def dense_precision(slab: Slab, p: int) -> Floats:
    """Check a dense slab's precision: symmetric and positive definite."""
    matrix = np.asarray(slab.precision, dtype=np.float64)
    if matrix.shape != (p, p) or not np.allclose(matrix, matrix.T):
        raise InputError(
            f"A dense slab needs a symmetric matrix of shape ({p}, {p}), but it is not: its shape is {matrix.shape}."
        )
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise InputError(
            "A dense slab needs a positive definite precision matrix, but this one is not. Add to its diagonal."
        ) from None
    return np.ascontiguousarray(matrix)


def inverse_gamma_constant(shape: float, rate: float, n: float) -> float:
    """Return what the integral over the noise variance adds to every model's log marginal likelihood."""
    if shape <= 0 or rate <= 0:
        return 0.0  # improper: the evidence has no scale
    return float(shape * np.log(rate) - gammaln(shape) + gammaln(shape + n / 2) - n / 2 * np.log(2 * np.pi))


def as_pairs(parents: ArrayLike | None, p: int) -> NDArray[np.int64]:
    """Return the two parents of every column, -1 where it has none."""
    if parents is None:
        return np.full((p, 2), -1, dtype=np.int64)
    pairs = np.asarray(parents, dtype=np.int64)
    if pairs.shape != (p, 2) or pairs.max(initial=-1) >= p:
        raise InputError(
            f"parents must have shape ({p}, 2) with columns below {p}, but its shape is {pairs.shape}. Write "
            "-1 for none."
        )
    return np.ascontiguousarray(pairs)
