"""A log density seen as a surface: values of many points, gradients and Hessians, all calls counted.

JAX differentiates what it can trace; for any other function the optimiser takes differences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tempering.arrays import Floats
from tempering.compiling.programs import jitted

MOST_ROOM, MOST_ENTRIES = 512, 1 << 16  # points of a call, and numbers
TOGETHER = 8  # of these, evaluated together: a call with few points takes a part of the time
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
        """Return the log density of every row; by the program of the gradients, for compiling another takes longer."""
        if self._compiled is not None:
            return self.values_and_gradients(points)[0]
        self._count(len(points))
        return _support(np.array([float(self._log_density(x)) for x in points]))

    def value(self, x: Floats) -> float:
        """Return the log density of one point."""
        return self.value_and_gradient(x)[0] if self.is_differentiable else float(self.values(x[None])[0])

    def value_and_gradient(self, x: Floats) -> tuple[float, Floats]:
        """Return the log density of one point and its gradient; zeros where it has none."""
        values, gradients = self.values_and_gradients(x[None])
        return float(values[0]), gradients[0]

    def values_and_gradients(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the log density of every row and its gradient."""
        assert self._compiled is not None
        self._count(len(points))
        values, gradients = self._called(self._compiled[0], points)
        return _support(values), np.where(np.isfinite(gradients), gradients, 0.0)

    def hessian(self, x: Floats, scale: Floats) -> Floats:
        """Return the second derivatives at a point; ``scale`` sets the length of differences, if needed."""
        if self._compiled is None:
            return self._differences(x, scale)
        import jax

        self._count(self.dimension)
        with jax.enable_x64(True):
            return np.asarray(self._compiled[1](x))

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

    def _called(self, program: Any, points: Floats) -> list[Floats]:
        import jax

        parts = []
        with jax.enable_x64(True):
            room = int(np.clip(MOST_ENTRIES // self.dimension // TOGETHER * TOGETHER, TOGETHER, MOST_ROOM))
            for first in range(0, max(len(points), 1), room):
                some = points[first : first + room]
                rows = np.zeros((room, self.dimension))
                rows[: len(some)] = some
                parts.append([np.asarray(part)[: len(some)] for part in program(rows, np.int32(len(some)))])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _support(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, -np.inf)


@lru_cache(maxsize=32)
def _compiled(log_density: Callable[[Any], Any], dimension: int) -> tuple[Any, Any] | None:
    """Compile values with gradients, and the Hessian; None where JAX cannot trace the function."""
    import jax

    with jax.enable_x64(True):
        try:
            jax.eval_shape(jax.grad(log_density), np.zeros(dimension))
        except Exception:  # whatever JAX or the user's function says, it is not traceable
            return None
    return (
        jitted(_in_groups(jax.value_and_grad(log_density), TOGETHER)),
        jitted(jax.hessian(log_density), is_brief=True),
    )


def _in_groups(function: Callable[[Any], Any], size: int) -> Callable[[Any, Any], Any]:
    """Map a function over the first rows of an array, however many: one program for all numbers of points."""
    import jax
    import jax.numpy as jnp

    of_group = jax.vmap(function)

    def run(rows: Any, n: Any) -> Any:
        def add(i: Any, found: Any) -> Any:
            made = of_group(jax.lax.dynamic_slice_in_dim(rows, i * size, size))
            return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, i * size, 0), found, made)

        room = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(of_group, rows))
        return jax.lax.fori_loop(0, (n + size - 1) // size, add, room)

    return run
