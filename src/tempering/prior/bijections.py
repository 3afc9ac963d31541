"""Maps between the free numbers that chains move and the values that a user sees.

Each works on NumPy and JAX arrays alike, whatever axes lead; free numbers may be any real numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

    Array = jax.Array | NDArray[np.float64]

RADIUS_SHAPE = 25.0  # of the gamma law of a circle's radius: mean 1, deviation 0.2, so that chains walk along a ring


def namespace(x: Array) -> tuple[ModuleType, ModuleType]:
    """Return (array functions, special functions) that fit an array: JAX's or NumPy's and SciPy's."""
    import jax

    if isinstance(x, jax.Array):
        import jax.numpy as jnp
        import jax.scipy.special as jax_special

        return jnp, jax_special
    from scipy import special

    return np, special


def log_sigmoid(x: Array) -> Any:
    """Return log(1 / (1 + exp(-x))), exact in both tails."""
    xp, _ = namespace(x)
    return -xp.logaddexp(0.0, -x)


class Bijection:
    """A map between free numbers and values."""

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the free numbers of values of a shape."""
        return shape

    def forward(self, free: Array) -> Any:
        """Turn free numbers into values."""
        raise NotImplementedError

    def inverse(self, value: Array) -> Any:
        """Turn values into free numbers."""
        raise NotImplementedError

    def log_jacobian(self, free: Array) -> Any:
        """Return log |d value / d free|, one for each value."""
        raise NotImplementedError


@dataclass(frozen=True)
class Line(Bijection):
    """All real numbers: values are the free numbers."""

    def forward(self, free: Array) -> Any:
        """Turn free numbers into values."""
        return free

    def inverse(self, value: Array) -> Any:
        """Turn values into free numbers."""
        return value

    def log_jacobian(self, free: Array) -> Any:
        """Return log |d value / d free|, one for each value."""
        xp, _ = namespace(free)
        return xp.zeros_like(free)


@dataclass(frozen=True)
class HalfLine(Bijection):
    """Numbers above ``low`` (or below it): low + exp(free), or low - exp(free)."""

    low: float = 0.0
    sign: float = 1.0

    def forward(self, free: Array) -> Any:
        """Turn free numbers into values."""
        xp, _ = namespace(free)
        return self.low + self.sign * xp.exp(free)

    def inverse(self, value: Array) -> Any:
        """Turn values into free numbers."""
        xp, _ = namespace(value)
        return xp.log(self.sign * (value - self.low))

    def log_jacobian(self, free: Array) -> Any:
        """Return log |d value / d free|, one for each value."""
        return free


@dataclass(frozen=True)
class Interval(Bijection):
    """Numbers between two bounds: low + (high - low) / (1 + exp(-free))."""

    low: Any = 0.0
    high: Any = 1.0

    def forward(self, free: Array) -> Any:
        """Turn free numbers into values, from the nearer bound, so that neither loses digits."""
        xp, special = namespace(free)
        width = self.high - self.low
        return xp.where(free < 0, self.low + width * special.expit(free), self.high - width * special.expit(-free))

    def inverse(self, value: Array) -> Any:
        """Turn values into free numbers."""
        xp, _ = namespace(value)
        return xp.log(value - self.low) - xp.log(self.high - value)

    def log_jacobian(self, free: Array) -> Any:
        """Return log |d value / d free|, one for each value."""
        return np.log(self.high - self.low) + log_sigmoid(free) + log_sigmoid(-free)


@dataclass(frozen=True)
class Circle(Bijection):
    """Numbers on a circle of circumference high - low: the direction of a point of the plane.

    The point's distance from the origin is a gamma variable of mean 1 that nobody sees. There is no edge: a chain that
    leaves at ``high`` comes in at ``low``, with any kernel.
    """

    low: float = 0.0
    high: float = 2 * np.pi

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the free numbers of values of a shape: two each."""
        return (*shape, 2)

    def forward(self, free: Array) -> Any:
        """Turn points of the plane into values."""
        xp, _ = namespace(free)
        turn = xp.arctan2(free[..., 1], free[..., 0]) / (2 * np.pi)
        return self.low + (self.high - self.low) * (turn - xp.floor(turn))

    def inverse(self, value: Array) -> Any:
        """Turn values into points of the plane, at distance 1."""
        xp, _ = namespace(value)
        angle = 2 * np.pi * (value - self.low) / (self.high - self.low)
        return xp.stack([xp.cos(angle), xp.sin(angle)], axis=-1)

    def log_jacobian(self, free: Array) -> Any:
        """Return the log density of a point, less that of its value: the law of the radius, and the area."""
        from scipy.special import gammaln

        xp, _ = namespace(free)
        square = xp.sum(free**2, axis=-1)
        radius = xp.sqrt(square)
        a = RADIUS_SHAPE
        log_radius = a * np.log(a) - float(gammaln(a)) + 0.5 * (a - 1) * xp.log(square) - a * radius
        # The point has density p(radius) p(angle) / radius, and p(angle) is p(value) (high - low) / 2 pi
        return log_radius - 0.5 * xp.log(square) + np.log((self.high - self.low) / (2 * np.pi))


@dataclass(frozen=True)
class Simplex(Bijection):
    """Positive numbers that sum to one: the softmax of the free numbers and a zero."""

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the free numbers of values of a shape: one fewer."""
        return (*shape[:-1], shape[-1] - 1)

    def log_forward(self, free: Array) -> Any:
        """Turn free numbers into logs of the values."""
        xp, special = namespace(free)
        padded = xp.concatenate([free, xp.zeros_like(free[..., :1])], axis=-1)
        return padded - special.logsumexp(padded, axis=-1, keepdims=True)

    def forward(self, free: Array) -> Any:
        """Turn free numbers into values."""
        xp, _ = namespace(free)
        return xp.exp(self.log_forward(free))

    def inverse(self, value: Array) -> Any:
        """Turn values into free numbers."""
        xp, _ = namespace(value)
        return xp.log(value[..., :-1]) - xp.log(value[..., -1:])

    def log_jacobian(self, free: Array) -> Any:
        """Return log |d value / d free|."""
        xp, _ = namespace(free)
        return xp.sum(self.log_forward(free), axis=-1)
