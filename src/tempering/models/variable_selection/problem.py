"""The linear model: data and priors as the compiled loop takes them, and the same in a slow and obvious form."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.models.variable_selection.arrays import HEREDITY, Columns, ModelPrior, Noise
from tempering.models.variable_selection.priors import (
    SizePrior,
    Slab,
    as_pairs,
    dense_precision,
    inverse_gamma_constant,
)


@dataclass(frozen=True, eq=False)
class LinearProblem:
    r"""Which of p columns belong in a linear model: a spike at zero, or a normal slab.

    .. math:: y \sim N(X_\gamma \beta_\gamma, \sigma^2), \quad
              \beta_\gamma \mid \sigma^2 \sim N(0, \sigma^2 \Omega_\gamma^{-1}), \quad \sigma^2 \sim IG(a, b)

    Columns and response are taken as they are: centre them for an intercept (``lost`` = 1 row of information).

    Parameters
    ----------
    columns : array_like, shape (n, p)
    response : array_like, shape (n,)
    size_prior : SizePrior
    slab : Slab
    noise : float, optional
        Known standard deviation; None: unknown, inverse gamma with ``shape`` and ``rate``.
    forced : sequence of int
        Columns that are always in.
    parents, heredity :
        Columns that need others; see `VariableSelection`.
    max_size : int, optional
        Largest number of columns.
    offset : array_like, shape (p,), optional
        Added to each column's log prior odds.
    """

    columns: Floats
    response: Floats
    size_prior: SizePrior = field(default_factory=lambda: SizePrior(a=1.0, b=1.0))
    slab: Slab = field(default_factory=Slab)
    noise: float | None = None
    shape: float = 0.5
    rate: float = 0.5
    lost: int = 0
    forced: tuple[int, ...] = ()
    parents: ArrayLike | None = None
    heredity: str = "none"
    max_size: int | None = None
    offset: Floats | None = None

    def __post_init__(self) -> None:
        x = np.array(self.columns, dtype=np.float64, order="F")
        y = np.array(self.response, dtype=np.float64)
        if x.ndim != 2 or y.shape != x.shape[:1]:
            raise InputError(
                f"There must be one response per row, but the shapes are {y.shape} and {x.shape}. Drop rows "
                "without one."
            )
        if self.heredity not in HEREDITY:
            raise InputError(f"heredity must be one of {', '.join(HEREDITY)}, but got {self.heredity!r}.")
        object.__setattr__(self, "columns", x)
        object.__setattr__(self, "response", y)
        if len(self.forced) > self.largest:
            raise InputError(
                f"{len(self.forced)} columns are forced in, but at most {self.largest} may be in. Raise max_size."
            )

    @property
    def n_columns(self) -> int:
        """Number of columns, p."""
        return int(self.columns.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows of information: rows less those an intercept takes."""
        return len(self.response) - self.lost

    @property
    def largest(self) -> int:
        """Largest number of columns that may be in."""
        limit = self.n_columns if self.max_size is None else min(self.max_size, self.n_columns)
        return max(1, min(limit, self.n_rows - 1)) if self.slab.kind == "g" else max(1, limit)

    @cached_property
    def data(self) -> Columns:
        """The data for the compiled loop."""
        p, kind = self.n_columns, self.slab.kind
        ridge = self.slab.diagonal(p) if kind == "independent" else np.zeros(p)
        dense = dense_precision(self.slab, p) if kind == "dense" else np.zeros((0, 0))
        scale = 1.0 + 1.0 / self.g if kind == "g" else 1.0
        rows = np.ascontiguousarray(self.columns.T)
        squares = np.einsum("jn,jn->j", rows, rows)
        if kind == "g" and np.any(squares == 0.0):
            raise InputError("A g-prior needs columns that vary, but some are constant. Drop them.")
        total = float(self.response @ self.response)
        return Columns(rows, squares, rows @ self.response, total, scale, ridge, dense)

    @property
    def g(self) -> float:
        """Of the g-prior; by default the number of rows."""
        return float(self.slab.g if self.slab.g is not None else self.n_rows)

    @cached_property
    def noise_model(self) -> Noise:
        """The noise for the compiled loop."""
        is_independent = self.slab.kind == "independent"
        return Noise(
            self.noise is not None,
            1.0 if self.noise is None else float(self.noise) ** 2,
            self.shape + self.n_rows / 2,
            2 * self.rate,
            np.log(self.slab.diagonal(self.n_columns)) if is_independent else np.zeros(0),
            float(np.log1p(self.g)) if self.slab.kind == "g" else 0.0,
        )

    @cached_property
    def model_prior(self) -> ModelPrior:
        """The prior of models for the compiled loop."""
        p = self.n_columns
        locked = np.zeros(p, np.int8)
        locked[list(self.forced)] = 1
        offset = np.zeros(p) if self.offset is None else np.asarray(self.offset, dtype=np.float64)
        pairs = as_pairs(self.parents, p)
        return ModelPrior(self.size_prior.log_odds(p), offset, locked, pairs, HEREDITY[self.heredity], self.largest)

    def is_allowed(self, model: tuple[int, ...]) -> bool:
        """Say whether a model is in the support of the prior."""
        inside = set(model)
        if not inside.issuperset(self.forced) or len(inside) > self.largest:
            return False
        if self.heredity == "none":
            return True
        enough = 2 if self.heredity == "strong" else 1
        pairs = self.model_prior.parents
        return all(pairs[j, 0] < 0 or sum(int(a) in inside for a in pairs[j]) >= enough for j in model)

    def log_prior(self, model: tuple[int, ...]) -> float:
        """Return the log prior probability of a model, up to the share of models that are not allowed."""
        if not self.is_allowed(model):
            return -np.inf
        offset = float(self.model_prior.offset[list(model)].sum())
        return self.size_prior.log_prior(len(model), self.n_columns) + offset

    def posterior(self, model: tuple[int, ...]) -> tuple[Floats, Floats, float]:
        """Return mean of the coefficients, inverse precision (times the noise variance) and residual sum of squares."""
        data, index = self.data, list(model)
        x = data.columns[index]
        precision = data.scale * (x @ x.T) + np.diag(data.ridge[index])
        if self.slab.kind == "dense":
            precision = precision + data.dense[np.ix_(index, index)]
        inverse: Floats = np.asarray(np.linalg.inv(precision) if index else np.zeros((0, 0)), dtype=np.float64)
        mean = inverse @ data.cross[index]
        return mean, inverse, data.total - float(data.cross[index] @ mean)

    def log_marginal(self, model: tuple[int, ...]) -> float:
        """Return the log marginal likelihood of a model, by one fresh factorisation."""
        data, index = self.data, list(model)
        _, inverse, rss = self.posterior(model)
        log_det = -float(np.linalg.slogdet(inverse)[1]) if index else 0.0
        if self.slab.kind == "g":
            # |Omega| / |A| with A = (1 + g) Omega
            volume = -0.5 * len(index) * float(np.log1p(self.g))
        elif self.slab.kind == "dense":
            volume = 0.5 * (float(np.linalg.slogdet(data.dense[np.ix_(index, index)])[1]) - log_det)
        else:
            volume = 0.5 * (float(np.log(data.ridge[index]).sum()) - log_det)
        n, noise = self.n_rows, self.noise_model
        if noise.is_known:
            return volume - 0.5 * n * float(np.log(2 * np.pi * noise.variance)) - 0.5 * rss / noise.variance
        constant = inverse_gamma_constant(self.shape, self.rate, n)
        return volume + constant - noise.kappa * float(np.log(self.rate + 0.5 * rss))

    def enumerate(self) -> tuple[list[tuple[int, ...]], Floats]:
        """Return all models that are allowed and the log of prior x marginal likelihood of each; for small p."""
        p = self.n_columns
        if p > 20:
            raise InputError(f"There are 2^{p} models, too many to enumerate. 20 columns are the limit.")
        every = (model for size in range(p + 1) for model in combinations(range(p), size))
        models = [model for model in every if self.is_allowed(model)]
        return models, np.array([self.log_prior(model) + self.log_marginal(model) for model in models])
