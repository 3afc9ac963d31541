"""Mixtures of normals on the line, among them the paper's toy density (Eq. 10)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit
from scipy.special import logsumexp, ndtr

from tempering.problems.gaussian_mixture import GaussianMixture
from tempering.problems.problem import Array, FloatArray, check_power, frozen_array, namespace_of

_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True, eq=False)
class NormalMixture:
    r"""A mixture of normals on the line; a position is one number, without axes.

    .. math:: \pi(\theta) = \sum_j w_j N(\theta \mid \mu_j, s_j^2)

    Parameters
    ----------
    weights, means, sds : array_like, shape (n_modes,)
        The weights are positive and sum to one.

    Examples
    --------
    >>> problem = NormalMixture([0.6, 0.4], [-8, 8], [0.5, 0.9])
    >>> float(problem.cdf(0.0))
    0.6
    >>> problem.sample(np.random.default_rng(1), 3, k=0.01).shape
    (3,)
    """

    weights: FloatArray
    means: FloatArray
    sds: FloatArray

    def __post_init__(self) -> None:
        for name in ("weights", "means", "sds"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), name, 1))
        self.as_vector  # noqa: B018 (its constructor checks masses and scales)

    @cached_property
    def as_vector(self) -> GaussianMixture:
        """The same mixture with positions of shape (1,)."""
        return GaussianMixture(self.weights, self.means[:, None], self.sds)

    @property
    def dimension(self) -> int:
        """One."""
        return 1

    @property
    def initial(self) -> FloatArray:
        """The centre of the first mode, without axes."""
        return np.array(self.means[0])

    @property
    def mean(self) -> float:
        """The exact mean."""
        return float(self.as_vector.mean[0])

    @property
    def covariance(self) -> float:
        """The exact variance."""
        return float(self.as_vector.covariance[0, 0])

    @property
    def mode_masses(self) -> FloatArray:
        """The share of each mode: of draws that `mode_of` calls its own, but for the modes' overlap."""
        return self.weights

    def mode_of(self, x: Array) -> Any:
        """Return the mode that most probably made ``x``, any shape."""
        return self.as_vector.mode_of(_as_vectors(x))

    def log_density(self, x: Array) -> Any:
        """Return log pi(x) for numbers of any shape, NumPy or JAX."""
        return self.as_vector.log_density(_as_vectors(x))

    @cached_property
    def log_density_numba(self) -> Callable[[Any], float]:
        """The log density of one number, compiled."""
        of_vector = self.as_vector.log_density_numba

        def log_density(x: Array) -> float:
            return of_vector(x + np.zeros(1))

        compiled: Callable[[Any], float] = njit(log_density, nogil=True)
        return compiled

    def cdf(self, x: Array) -> FloatArray:
        """Return the exact cumulative distribution function of the cold density."""
        z = (np.asarray(x, dtype=np.float64)[..., None] - self.means) / self.sds
        return np.asarray(ndtr(z) @ self.weights)

    def log_normaliser(self, k: float) -> float:
        """Return log of the integral of pi^k, by quadrature to about 1e-12 (exact at k = 1)."""
        if check_power(k) == 1.0:
            return 0.0
        edges = self._panel_edges(k)
        half = np.diff(edges)[:, None] / 2
        points = edges[:-1, None] + half * (1 + _NODES)
        return float(logsumexp(k * self.log_density(points), b=half * _NODE_WEIGHTS))

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> FloatArray:
        """Draw ``n`` exact independent numbers from pi^k, by rejection."""
        return np.asarray(self.as_vector.sample(rng, n, k)[:, 0])

    def _panel_edges(self, k: float) -> FloatArray:
        """Return edges that crowd around every mean and every place where one mode hands over to another.

        At such a place log pi has a bend as narrow as the cold modes are, however flat pi^k is.
        """
        reach = 40 * self.sds.max() / np.sqrt(k) + np.ptp(self.means)
        edges = [self.means.min() - reach, self.means.max() + reach]
        for centre in [*self.means, *self._crossings()]:
            distances = np.geomspace(0.02 * self.sds.min(), 2 * reach, 80)
            edges += [centre, *(centre - distances), *(centre + distances)]
        return np.unique(np.clip(edges, edges[0], edges[1]))

    def _crossings(self) -> list[float]:
        """Return the points where two modes are equally high: the roots of a quadratic for each pair."""
        precision = 1 / self.sds**2
        quadratic = np.column_stack(
            [-precision / 2, precision * self.means, self.as_vector.log_heights - precision * self.means**2 / 2]
        )
        roots = [np.roots(quadratic[i] - quadratic[j]) for i, j in combinations(range(len(self.means)), 2)]
        return [float(root.real) for pair in roots for root in pair if root.imag == 0.0]


def _as_vectors(x: Array) -> Any:
    xp = namespace_of(x)
    return xp.expand_dims(xp.asarray(x), -1)


def mixture() -> NormalMixture:
    """Return the paper's mixture, 0.6 N(-8, 0.5^2) + 0.4 N(8, 0.9^2) (Eq. 10)."""
    return NormalMixture(np.array([0.6, 0.4]), np.array([-8.0, 8.0]), np.array([0.5, 0.9]))
