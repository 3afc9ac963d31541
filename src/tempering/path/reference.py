"""A reference: a normalised mixture of multivariate t distributions that can be drawn from exactly.

As the base of a path (base = log q, energy = log pi - log q) it is the distribution at k = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtri

from tempering.arrays import Floats
from tempering.errors import TargetError
from tempering.path.stacked import compiled_draw, compiled_log_density
from tempering.path.subspace import Subspace

if TYPE_CHECKING:
    import jax

    from tempering.path.subspace import Array

ENTRIES_AT_ONCE = 2**16  # of whitened vectors, for all components: half a megabyte


@dataclass(frozen=True, eq=False)
class Reference:
    r"""A mixture of multivariate t distributions on flat vectors.

    .. math:: q(x) = \sum_c w_c \, t_{\nu_c}(x \mid \mu_c, L_c L_c^T)

    Two references are the same only if they are one object, so that compiled code can be kept by them.

    In many dimensions components differ along a few directions. With a ``subspace`` they are described by these, and
    by the distance from it as the last coordinate, which stands for all other dimensions: a component has one width
    for them. Evaluating or drawing a vector then takes one product with the directions, whatever the components.

    Parameters
    ----------
    weights : array_like, shape (component,)
        Positive, summing to one.
    means : array_like, shape (component, d)
    factors : array_like, shape (component, d, d)
        Lower Cholesky factors of the scale matrices; a covariance is nu / (nu - 2) times its scale matrix.
    degrees_of_freedom : array_like of int, shape (component,)
        Whole numbers of at least 1: a chi-square draw is then a sum of squares, which is quick in lockstep.
    n_across : int
        How many dimensions the last coordinate stands for, as a distance from 0, if that is more than one.
    subspace : Subspace, optional
        What vectors are reduced to those coordinates by. Without, they are given in them.
    summits : array_like, shape (summit, d), optional
        Summits of what it describes. Chains may leap by the way from one to another.

    Examples
    --------
    >>> q = Reference([0.7, 0.3], [[0.0, 0.0], [5.0, 5.0]], [np.eye(2), 0.5 * np.eye(2)], [5, 8])
    >>> q.sample_many(np.random.default_rng(1), 4).shape
    (4, 2)
    >>> q.log_density(np.zeros((4, 2))).shape
    (4,)
    """

    weights: Floats
    means: Floats
    factors: Floats
    degrees_of_freedom: NDArray[np.int64]
    n_across: int
    subspace: Subspace | None
    summits: Floats
    n_components: int = field(init=False)
    dimension: int = field(init=False)
    n_coordinates: int = field(init=False)  # of the vectors it takes: the dimension, unless they are reduced already

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        factors: ArrayLike,
        degrees_of_freedom: ArrayLike,
        n_across: int = 1,
        subspace: Subspace | None = None,
        summits: ArrayLike = (),
    ) -> None:
        values = (
            np.array(weights, dtype=float),
            np.array(means, dtype=float),
            np.array(factors, dtype=float),
            np.array(degrees_of_freedom),
        )
        _check(*values)
        _check_across(values[1], values[2], n_across, subspace)
        for name, value in zip(self.__dataclass_fields__, values, strict=False):
            value = value.astype(np.int64) if name == "degrees_of_freedom" else value
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_across", int(n_across))
        object.__setattr__(self, "subspace", subspace)
        object.__setattr__(self, "n_components", len(values[0]))
        object.__setattr__(self, "dimension", int(values[1].shape[1]) - 1 + self.n_across)
        object.__setattr__(self, "n_coordinates", int(values[1].shape[1]) if subspace is None else self.dimension)
        places = np.array(summits, dtype=float).reshape(-1, self.n_coordinates)
        places.setflags(write=False)
        object.__setattr__(self, "summits", places)

    def log_density(self, x: Array) -> Any:
        """Return log q(x), normalised, for vectors in the last axis; NumPy or JAX."""
        xp = x.__array_namespace__() if hasattr(x, "__array_namespace__") else np
        if xp is np:
            return self._by_blocks(self._log_density, np.asarray(x, dtype=float), ())
        return self._log_density(x)

    def _log_density(self, x: Array) -> Any:
        xp = x.__array_namespace__()
        log_parts = self.log_parts_at(self._squared_distances(x))
        largest = xp.max(log_parts, axis=-1, keepdims=True)
        return xp.log(xp.sum(xp.exp(log_parts - largest), axis=-1)) + largest[..., 0]

    def log_density_gradient(self, x: Array) -> tuple[float, Floats]:
        """Return log q and its gradient at one vector."""
        x = np.asarray(x, dtype=float)
        value, log_parts = float(self.log_density(x)), self.log_parts(x)
        z = np.einsum("cij,cj->ci", self.inverse_factors, self._reduced(x) - self.means)
        pull = (self.degrees_of_freedom + self.dimension) / (self.degrees_of_freedom + np.sum(z**2, axis=1))
        slopes = -pull[:, None] * np.einsum("cij,ci->cj", self.inverse_factors, z)
        slope = np.exp(log_parts - value) @ slopes
        return value, np.asarray(slope if self.subspace is None else self.subspace.slope(x, slope))

    def _reduced(self, x: Array) -> Any:
        return x if self.subspace is None else self.subspace.reduced(x)

    def log_parts(self, x: Array) -> Any:
        """Return log of w_c t_c(x), one column a component."""
        return self.log_parts_at(self.squared_distances(x))

    def log_parts_at(self, squared_distances: Array) -> Any:
        """Return log of w_c t_c where the squared distances to all components are known."""
        xp = squared_distances.__array_namespace__()
        half = 0.5 * (self.degrees_of_freedom + self.dimension)
        return self.log_heights - half * xp.log1p(squared_distances / self.degrees_of_freedom)

    def squared_distances(self, x: Array) -> Any:
        """Return the squared Mahalanobis distance of vectors to every component, one column each."""
        if isinstance(x, np.ndarray):
            return self._by_blocks(self._squared_distances, x, (self.n_components,))
        return self._squared_distances(x)

    def _by_blocks(self, function: Callable[[Floats], Floats], x: Floats, trailing: tuple[int, ...]) -> Any:
        """Apply a function to a few vectors at a time, which takes a fifth of the time: they stay in the cache."""
        d = self.n_coordinates
        rows = max(1, ENTRIES_AT_ONCE // max(self.means.size, d))
        flat = x.reshape(-1, d)
        if len(flat) <= rows:
            return function(x)
        found = np.empty((len(flat), *trailing))
        for first in range(0, len(flat), rows):
            found[first : first + rows] = function(flat[first : first + rows])
        return found.reshape(*x.shape[:-1], *trailing)

    def _squared_distances(self, x: Array) -> Any:
        xp = x.__array_namespace__()
        stacked, shift = self._whitening
        z = (self._reduced(x) - self.means[0]) @ stacked - shift
        z = xp.reshape(z, (*x.shape[:-1], *self.means.shape))
        return np.einsum("...i,...i->...", z, z) if xp is np else xp.sum(z**2, axis=-1)  # six times as fast

    def sample(self, rng: np.random.Generator | jax.Array) -> Any:
        """Draw one vector, by a JAX key or by a NumPy ``Generator``."""
        if isinstance(rng, np.random.Generator):
            return self.sample_many(rng, 1)[0]
        import jax
        import jax.numpy as jnp

        # one vector of normals for the component, the direction and the tail: quick to compile and to run
        most = int(self.degrees_of_freedom.max())
        normals = jax.random.normal(rng, (1 + self.dimension + most,))
        choice, z, tail = normals[0], normals[1 : 1 + self.dimension], normals[1 + self.dimension :]
        component = jnp.sum(choice >= jnp.asarray(ndtri(np.cumsum(self.weights)[:-1]), choice.dtype))
        nu = jnp.asarray(self.degrees_of_freedom)[component]
        stretch = jnp.sqrt(nu / jnp.sum(jnp.where(jnp.arange(most) < nu, tail**2, 0.0)))
        return self._placed(jnp.asarray(self.means)[component], jnp.asarray(self.factors)[component], stretch * z)

    def sample_many(self, rng: np.random.Generator, n: int) -> Floats:
        """Draw ``n`` independent vectors with NumPy."""
        return self.sample_components(rng, rng.choice(self.n_components, size=n, p=self.weights))

    def sample_components(self, rng: np.random.Generator, component: NDArray[np.int64]) -> Floats:
        """Draw one vector from each of the named components."""
        nu = self.degrees_of_freedom[component]
        z = rng.standard_normal((len(component), self.dimension))
        z *= np.sqrt(nu / rng.chisquare(nu))[:, None]
        drawn = np.empty_like(z)
        for c in range(self.n_components):
            mine = component == c
            drawn[mine] = self._placed(self.means[c], self.factors[c], z[mine])
        return drawn

    def _placed(self, mean: Array, factor: Array, z: Array) -> Any:
        """Return vectors of a component made of standard ones."""
        return mean + z @ factor.T if self.subspace is None else self.subspace.placed(mean, factor, z)

    @property
    def mixture(self) -> Reference:
        """Itself: what a reference of any form has, to be refitted."""
        return self

    @cached_property
    def dense(self) -> Reference:
        """The same mixture in all coordinates, with as many entries as that takes."""
        if self.subspace is None:
            return self
        placed = [self.subspace.dense(*component) for component in zip(self.means, self.factors, strict=True)]
        means, scales = (np.array(part) for part in zip(*placed, strict=True))
        return Reference(self.weights, means, np.linalg.cholesky(scales), self.degrees_of_freedom)

    @cached_property
    def log_density_numba(self) -> Callable[[Any], float]:
        """The log density of one vector, compiled by Numba."""
        return compiled_log_density(self)

    @cached_property
    def sample_numba(self) -> Callable[[np.random.Generator], Any]:
        """Draw one vector by a ``Generator``, compiled by Numba."""
        return compiled_draw(self)

    @cached_property
    def inverse_factors(self) -> Floats:
        """What whitens a vector less its component's mean."""
        return np.asarray(np.linalg.inv(self.factors), dtype=float)

    @cached_property
    def _whitening(self) -> tuple[Floats, Floats]:
        """All inverse factors side by side, so that one product whitens for every component."""
        stacked = self.inverse_factors.reshape(-1, self.means.shape[1]).T
        shift = np.einsum("cij,cj->ci", self.inverse_factors, self.means - self.means[0]).ravel()
        return stacked, shift

    @cached_property
    def log_heights(self) -> Floats:
        """Log of w_c times the height of each component at its mean."""
        nu, d = self.degrees_of_freedom, self.dimension
        log_widths = np.log(np.diagonal(self.factors, axis1=1, axis2=2))
        log_diagonal = log_widths.sum(axis=1) + (self.n_across - 1) * log_widths[:, -1]
        if self.subspace is not None:
            log_diagonal = log_diagonal + np.log(self.subspace.deviations).sum()
        log_t = gammaln(0.5 * (nu + d)) - gammaln(0.5 * nu) - 0.5 * d * np.log(nu * np.pi)
        return np.asarray(np.log(self.weights) + log_t - log_diagonal)

    def __repr__(self) -> str:
        return f"Reference({self.n_components} components in {self.dimension} dimensions)"


def _check(weights: Floats, means: Floats, factors: Floats, nu: NDArray[Any]) -> None:
    n, d = means.shape if means.ndim == 2 else (0, 0)
    shapes = (weights.shape, means.shape, factors.shape, nu.shape)
    if n == 0 or d == 0 or shapes != ((n,), (n, d), (n, d, d), (n,)):
        raise TargetError(
            "A reference needs one weight, mean, square factor and degrees of freedom for each component, "
            f"but their shapes are {shapes}. Give arrays of shapes (c,), (c, d), (c, d, d) and (c,)."
        )
    if not (np.all(weights > 0) and abs(weights.sum() - 1.0) < 1e-9):
        raise TargetError(
            f"A reference's weights must be positive and sum to 1, but they are {weights.tolist()}. "
            "Divide them by their sum."
        )
    if not (np.all(nu >= 1) and np.all(nu == np.floor(nu))):
        raise TargetError(
            f"Degrees of freedom must be whole numbers of at least 1, but they are {nu.tolist()}. Round them."
        )
    diagonal = np.diagonal(factors, axis1=1, axis2=2)
    finite = np.all(np.isfinite(means)) and np.all(np.isfinite(factors))
    if not (finite and np.all(diagonal > 0) and np.array_equal(factors, np.tril(factors))):
        raise TargetError(
            "A reference's means must be finite and its factors lower triangular with a positive diagonal, "
            "but they are not. Pass numpy.linalg.cholesky(scale_matrix) of each component."
        )


def _check_across(means: Floats, factors: Floats, n_across: int, subspace: Subspace | None) -> None:
    """Refuse a last coordinate that is a distance, and has a mean or a correlation."""
    if n_across > 1 and (np.any(means[:, -1] != 0) or np.any(factors[:, -1, :-1] != 0)):
        raise TargetError(
            "The last coordinate of a reference is a distance from 0, but a mean or a correlation of it is not 0. "
            "Set these to 0, or n_across to 1."
        )
    if subspace is not None and (means.shape[1], n_across) != (subspace.n_directions + 1, subspace.n_across):
        raise TargetError(
            f"A reference in a subspace of {subspace.n_directions} directions has one coordinate more, which stands "
            f"for {subspace.n_across} dimensions, but it has {means.shape[1]} and n_across is {n_across}. "
            "Make them agree."
        )
