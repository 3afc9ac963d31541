"""What every test problem offers, and the few lines they share.

A problem is a frozen value that knows its own truth, so that a sampler can be judged without another sampler.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from tempering.errors import TargetError

if TYPE_CHECKING:
    import jax

FloatArray = NDArray[np.floating[Any]]
Array = Union["jax.Array", FloatArray]


class Problem(Protocol):
    """A density with known moments, and exact draws of its k-th power.

    ``log_density`` takes one position or a stack of them, as NumPy or JAX arrays, and answers in kind.
    """

    @property
    def dimension(self) -> int:
        """Number of coordinates of a position."""

    @property
    def initial(self) -> FloatArray:
        """Where a chain may start: inside one mode, so that it has to find the others."""

    @property
    def mean(self) -> FloatArray | float:
        """Mean under the cold distribution."""

    @property
    def covariance(self) -> FloatArray | float:
        """Covariance under the cold distribution."""

    @property
    def log_density_numba(self) -> Callable[[Any], float]:
        """The same log density of one position, compiled by Numba."""

    def log_density(self, x: Array) -> Any:
        """Return log pi(x)."""

    def log_normaliser(self, k: float) -> float:
        """Return the log of the integral along the path at inverse temperature ``k``."""

    def sample(self, rng: np.random.Generator, n: int, k: float = 1.0) -> FloatArray:
        """Draw ``n`` independent positions at inverse temperature ``k``."""


class OneMode:
    """The modes of a density that has one."""

    @property
    def mode_masses(self) -> FloatArray:
        """One mode, which has it all."""
        return np.ones(1)

    def mode_of(self, x: Array) -> Any:
        """Return 0, the only mode, for each position."""
        xp = namespace_of(x)
        return xp.zeros(xp.asarray(x).shape[:-1], dtype=int)


def namespace_of(x: Array) -> Any:
    """Return the array module (``numpy`` or ``jax.numpy``) that ``x`` belongs to."""
    return x.__array_namespace__() if hasattr(x, "__array_namespace__") else np


def frozen_array(values: Any, name: str, ndim: int) -> FloatArray:
    """Copy to a read-only array of finite numbers with ``ndim`` axes."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != ndim or array.size == 0 or not np.all(np.isfinite(array)):
        raise TargetError(
            f"{name} must be a non-empty array of finite numbers with {ndim} axes, "
            f"but got shape {array.shape}. Pass one row per component and one column per coordinate."
        )
    array.setflags(write=False)
    return array


def check_power(k: float) -> float:
    """Return ``k`` when density^k can be normalised and drawn from."""
    if not 0.0 < k <= 1.0:
        raise TargetError(
            f"The inverse temperature must lie in (0, 1], but got {k}. "
            "A density on the whole space has no normaliser at k = 0: use a small positive k."
        )
    return float(k)


def _constant(x: Array) -> Any:
    """Keep JAX from differentiating what cancels: the gradient through a maximum takes half of a mixture's time."""
    if isinstance(x, np.ndarray | np.generic):
        return x
    import jax

    return jax.lax.stop_gradient(x)


def log_sum_exp(log_terms: Array) -> Any:
    """Sum ``exp(log_terms)`` over the last axis, in logs, for NumPy and JAX arrays alike."""
    xp = namespace_of(log_terms)
    largest = _constant(xp.max(log_terms, axis=-1, keepdims=True))
    largest = xp.where(xp.isfinite(largest), largest, 0.0)
    return xp.log(xp.sum(xp.exp(log_terms - largest), axis=-1)) + largest[..., 0]
