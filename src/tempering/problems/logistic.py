"""Logistic regression with many rows: one narrow mode, where tempering should cost little."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tempering.problems.posterior import Posterior, Truth
from tempering.problems.priors import NormalPrior
from tempering.problems.problem import Array, FloatArray, frozen_array, namespace_of


@dataclass(frozen=True, eq=False)
class LogisticRegression(Posterior):
    r"""Coefficients of a logistic regression under independent standard normal priors.

    .. math:: \log L(\beta) = \sum_i y_i x_i^\top \beta - \log(1 + e^{x_i^\top \beta})

    Parameters
    ----------
    design : array_like, shape (n_rows, dimension)
    outcomes : array_like, shape (n_rows,)
        Zeros and ones.

    Examples
    --------
    >>> LogisticRegression(np.ones((3, 1)), np.array([0, 1, 1])).log_likelihood(np.zeros(1)).round(4)
    np.float64(-2.0794)
    """

    design: FloatArray
    outcomes: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "design", frozen_array(self.design, "design", 2))
        object.__setattr__(self, "outcomes", frozen_array(self.outcomes, "outcomes", 1))

    @cached_property
    def prior(self) -> NormalPrior:
        """Standard normals."""
        return NormalPrior(np.zeros(self.design.shape[1]), np.ones(self.design.shape[1]))

    @property
    def n_modes(self) -> int:
        """The posterior is log-concave."""
        return 1

    @property
    def initial(self) -> FloatArray:
        """The prior mean."""
        return np.array(self.prior.mean)

    @cached_property
    def truth(self) -> Truth:
        """Evidence and moments, computed once."""
        return Truth.stored("logistic")

    @cached_property
    def _total(self) -> FloatArray:
        return np.asarray(self.outcomes @ self.design)

    def log_likelihood(self, x: Array) -> Any:
        """Return the log likelihood, shape (..., dimension)."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        return x @ self._total - xp.sum(xp.logaddexp(0.0, x @ self.design.T), axis=-1)

    def mode_of(self, x: Array) -> Any:
        """Return 0: there is one mode."""
        return np.zeros(np.shape(x)[:-1], dtype=int)

    def summaries(self, x: Array) -> FloatArray:
        """Return the coefficients."""
        return np.asarray(x)


def logistic(n_rows: int = 10_000, dimension: int = 10) -> LogisticRegression:
    """Return a regression on correlated covariates and an intercept, 10 000 rows."""
    rng = np.random.default_rng(10_000)  # the data, part of the problem
    shared = rng.standard_normal((n_rows, 1))
    design = np.hstack([np.ones((n_rows, 1)), 0.8 * rng.standard_normal((n_rows, dimension - 1)) + 0.6 * shared])
    slopes = 1.0 - 0.25 * np.arange(dimension)
    outcomes = rng.random(n_rows) < 1 / (1 + np.exp(-design @ slopes))
    return LogisticRegression(design, outcomes.astype(float))
