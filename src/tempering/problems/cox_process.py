"""A log-Gaussian Cox process on a grid: one mode in a thousand dimensions and more (Møller et al. 1998)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from tempering.errors import TargetError
from tempering.problems.known import Evidence, KnownTarget
from tempering.problems.priors import Prior, normal_quantile
from tempering.problems.problem import Array, FloatArray, namespace_of

VARIANCE, RANGE, EXPECTED = 1.91, 1 / 33, 126.0  # as Møller et al. estimated them from 126 pine saplings
# log evidence of the made-up saplings: mean and error of ten runs (five for 32) of `python -m benchmarks.suite_truths`
_KNOWN_EVIDENCE: dict[int, tuple[float, float]] = {
    8: (471.1817, 0.0061),
    16: (482.7405, 0.0261),
    32: (485.3505, 0.0439),
}


@dataclass(frozen=True, eq=False)
class FieldPrior(Prior):
    """A stationary Gaussian field on the cells of a square grid, row by row."""

    grid: int

    @property
    def dimension(self) -> int:
        """The number of cells."""
        return self.grid**2

    @property
    def mean(self) -> float:
        """The mean of the field: the intensity, its exponential, has mean 126."""
        return float(np.log(EXPECTED) - VARIANCE / 2)

    @cached_property
    def tril(self) -> FloatArray:
        """The Cholesky factor of the covariance, 1.91 exp(-distance / range)."""
        cells = np.stack(np.meshgrid(np.arange(self.grid), np.arange(self.grid), indexing="ij"), -1).reshape(-1, 2)
        distance = np.linalg.norm(cells[:, None] - cells, axis=-1) / self.grid
        return np.asarray(np.linalg.cholesky(VARIANCE * np.exp(-distance / RANGE)))

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self.tril))

    @cached_property
    def _log_height(self) -> float:
        return float(-np.sum(np.log(np.diag(self.tril))) - 0.5 * self.dimension * np.log(2 * np.pi))

    def log_density(self, x: Array) -> Any:
        """Return the log density for fields of shape (..., cells), NumPy or JAX."""
        xp = namespace_of(x)
        z = (xp.asarray(x) - self.mean) @ self._inverse.T
        return self._log_height - 0.5 * xp.sum(z * z, axis=-1)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw ``n`` fields."""
        return np.asarray(self.mean + rng.standard_normal((n, self.dimension)) @ self.tril.T)

    def from_unit_cube(self, u: Array) -> Any:
        """Colour normal quantiles."""
        return self.mean + normal_quantile(u) @ self.tril.T


@cache
def _made_up_points() -> FloatArray:
    """Draw a pattern of the process itself on a fine grid, uniformly within its cells."""
    rng, grid = np.random.default_rng(1998), 40  # the data, part of the problem
    intensity = np.exp(FieldPrior(grid).sample(rng, 1)[0]) / grid**2
    counts = rng.poisson(intensity)
    corner = np.stack(np.divmod(np.repeat(np.arange(grid**2), counts), grid), axis=-1)
    return np.asarray((corner + rng.random(corner.shape)) / grid)


def counts_on(points: Array, grid: int) -> FloatArray:
    """Count points of the unit square in the cells of a grid, row by row."""
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 2 or np.any((points < 0) | (points > 1)):
        raise TargetError(
            f"Points must have shape (n, 2) and lie in the unit square, but got shape {points.shape} and values from "
            f"{points.min():g} to {points.max():g}. Scale them first."
        )
    cell = np.minimum((points * grid).astype(int), grid - 1)
    return np.bincount(cell[:, 0] * grid + cell[:, 1], minlength=grid**2).astype(float)


def cox_process(grid: int = 32, points: Any = None, log_evidence: tuple[float, float] | None = None) -> KnownTarget:
    """Return the log intensity of a point pattern in the unit square, on a grid of ``grid`` x ``grid`` cells.

    Parameters
    ----------
    grid : int
        d = grid^2.
    points : array, shape (n, 2), optional
        By default a pattern made up from the process itself. With the 126 Finnish pine saplings (``finpines`` of the R
        package spatstat, scaled to the unit square) this is the target of the literature, whose log evidence is 503.39
        for 32 x 32 and 501.80 for 40 x 40; Laplace's approximation gives 511.5 and 511.2.
    log_evidence : tuple of float, optional
        Its value and accuracy, where points are given and it is known.
    """
    counts = counts_on(_made_up_points() if points is None else points, grid)
    area = 1.0 / grid**2
    prior = FieldPrior(grid)

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        return xp.sum(counts * x - area * xp.exp(x), axis=-1)

    known = _KNOWN_EVIDENCE.get(grid) if points is None else log_evidence
    source = "annealed SMC from Laplace's approximation" if points is None else "given"
    return KnownTarget(
        f"cox-{grid}x{grid}", f"log-Gaussian Cox process, d = {grid**2}", density, prior, True,
        np.full(grid**2, prior.mean), (), None, None if known is None else Evidence(*known, source), None,
        "Møller, Syversveen & Waagepetersen (1998)",
    )  # fmt: skip
