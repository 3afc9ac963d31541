"""A log density seen as a surface: values of many points, gradients and Hessians, all calls counted.

JAX differentiates what it can trace; for any other function the optimiser takes differences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.compiling.programs import jitted

Floats = NDArray[np.float64]

BATCH, SMALL_BATCH, CLIMBING_BATCH, SMALL_CLIMBING_BATCH = 512, 32, 128, 16  # points at once: few shapes to compile
ASCENT = 60  # steps of a rough climb; what has not arrived is climbed properly
FASTER, SLOWER = 1.3, 0.5  # factors of a step whose slope kept its sign, or changed it
STEP = float(np.finfo(float).eps ** 0.25)  # of a second difference, in units of the local scale (Nocedal & Wright, 8.1)


class TooManyCalls(Exception):
    """A density took more evaluations than it was given: ``n_calls`` of them."""

    def __init__(self, n_calls: int) -> None:
        super().__init__(f"{n_calls} evaluations of the log density")
        self.n_calls = n_calls


class Surface:
    """Evaluate a log density of flat vectors; -inf where it is not a number or infinite."""

    def __init__(self, log_density: Callable[[Any], Any], dimension: int, most_calls: int | None = None) -> None:
        self.dimension = dimension
        self.n_calls = 0
        self._most_calls = most_calls
        self._log_density = log_density
        self._compiled = _compiled(log_density, dimension)

    @property
    def is_differentiable(self) -> bool:
        """Whether JAX can trace the function, and so differentiate it."""
        return self._compiled is not None

    @property
    def is_exhausted(self) -> bool:
        """Whether most of the calls that were given have been made: nothing new is to be begun."""
        return self._most_calls is not None and 2 * self.n_calls > self._most_calls

    def affordable(self, most: int, share: float, calls_each: int = 1) -> int:
        """Return how many points, at most ``most``, a share of the calls given is enough for."""
        if self._most_calls is None:
            return most
        return int(min(most, max(share * self._most_calls / calls_each, 1)))

    def values(self, points: Floats) -> Floats:
        """Return the log density of every row."""
        self._count(len(points))
        if self._compiled is None:
            return _support(np.array([float(self._log_density(x)) for x in points]))
        size = SMALL_BATCH if len(points) <= SMALL_BATCH else BATCH
        return _support(self._in_batches(self._compiled[0], points, size))

    def value(self, x: Floats) -> float:
        """Return the log density of one point."""
        return self.value_and_gradient(x)[0] if self.is_differentiable else float(self.values(x[None])[0])

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return the log density of one point and its gradient; zeros where it has none."""
        import jax

        assert self._compiled is not None
        self._count(1)
        with jax.enable_x64(True):
            value, gradient = self._compiled[1](x)
        gradient = np.asarray(gradient)
        return float(_support(np.asarray(value))), np.where(np.isfinite(gradient), gradient, 0.0)

    def hessian(self, x: Floats, scale: Floats) -> Floats:
        """Return the second derivatives at a point; ``scale`` sets the length of differences, if needed."""
        if self._compiled is None:
            return self._differences(x, scale)
        import jax

        self._count(self.dimension)
        with jax.enable_x64(True):
            return np.asarray(self._compiled[2](x))

    def ascend(self, points: Floats, step: Floats) -> Floats:
        """Climb roughly from many points at once: by each slope's sign alone, in steps that grow or shrink.

        Starting with small steps, a climb stays in the basin it began in (Riedmiller and Braun's resilient steps).
        """
        import jax

        assert self._compiled is not None
        self._count(ASCENT * len(points))
        inside = points[self.values(points) > -np.inf]
        if len(inside) == 0:
            return inside
        with jax.enable_x64(True):
            size = SMALL_CLIMBING_BATCH if 2 * len(inside) <= CLIMBING_BATCH else CLIMBING_BATCH
            return self._in_batches(lambda batch: _ascent(self._log_density)(batch, step), inside, size)

    def _count(self, calls: int) -> None:
        self.n_calls += calls
        if self._most_calls is not None and self.n_calls > self._most_calls:
            raise TooManyCalls(self.n_calls)

    def _differences(self, x: Floats, scale: Floats) -> Floats:
        """Take central second differences of values."""
        d = self.dimension
        steps = np.diag(STEP * scale)
        i, j = np.triu_indices(d)
        signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        corners = [self.values(x + a * steps[i] + b * steps[j]) for a, b in signs]
        with np.errstate(invalid="ignore"):  # off the support the difference is not a number; the caller copes
            second = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * STEP**2 * scale[i] * scale[j])
        hessian = np.zeros((d, d))
        hessian[i, j] = hessian[j, i] = second
        return hessian

    def _in_batches(self, function: Callable[[Any], Any], points: Floats, size: int) -> Floats:
        import jax

        n = len(points)
        padded = np.concatenate([points, np.repeat(points[-1:], -n % size, axis=0)])
        with jax.enable_x64(True):
            parts = [np.asarray(function(padded[i : i + size])) for i in range(0, len(padded), size)]
        return np.concatenate(parts)[:n]


def _support(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, -np.inf)


@lru_cache(maxsize=32)
def _compiled(log_density: Callable[[Any], Any], dimension: int) -> tuple[Any, Any, Any] | None:
    """Compile values, gradient and Hessian; None where JAX cannot trace the function."""
    import jax

    with jax.enable_x64(True):
        try:
            jax.eval_shape(jax.grad(log_density), np.zeros(dimension))
        except Exception:  # whatever JAX or the user's function says, it is not traceable
            return None
    return (
        jitted(jax.vmap(log_density)),
        jitted(jax.value_and_grad(log_density), is_brief=True),  # called for one point, from Python
        jitted(jax.hessian(log_density), is_brief=True),
    )


@lru_cache(maxsize=32)
def _ascent(log_density: Callable[[Any], Any]) -> Any:
    import jax
    import jax.numpy as jnp

    slope = jax.grad(log_density)

    def climb(x: Any, step: Any) -> Any:
        def advance(carry: Any, _: Any) -> tuple[Any, None]:
            x, step, last = carry
            sign = jnp.sign(jnp.nan_to_num(slope(x), posinf=0.0, neginf=0.0))
            step = jnp.where(sign * last < 0, SLOWER * step, jnp.where(sign * last > 0, FASTER * step, step))
            proposed = x + step * sign
            stays = ~jnp.isfinite(log_density(proposed))
            return (jnp.where(stays, x, proposed), jnp.where(stays, SLOWER * step, step), sign), None

        return jax.lax.scan(advance, (x, step, jnp.zeros_like(x)), length=ASCENT)[0][0]

    return jitted(jax.vmap(climb, in_axes=(0, None)))
