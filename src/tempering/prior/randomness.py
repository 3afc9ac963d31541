"""Random numbers from whatever an engine hands over: a JAX key or a NumPy generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import jax

    Randomness = np.random.Generator | jax.Array


class Source(Protocol):
    """Random numbers by NumPy or by JAX."""

    xp: Any  # the functions of arrays that go with them

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Draw uniform numbers of (0, 1), neither end among them."""

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Draw standard normal numbers."""

    def log_gamma(self, a: Any, shape: tuple[int, ...]) -> Any:
        """Draw logs of gamma numbers of unit scale, which do not underflow for small shapes."""


def source_of(rng: Randomness) -> Source:
    """Return a source of random numbers: `FromGenerator` or `FromKey`."""
    return FromGenerator(rng) if isinstance(rng, np.random.Generator) else FromKey(rng)


class FromGenerator(Source):
    """Numbers of a NumPy generator."""

    xp = np

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Draw uniform numbers of (0, 1), neither end among them."""
        return 1.0 - self._rng.random(shape) * (1 - 2.0**-53)

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Draw standard normal numbers."""
        return self._rng.standard_normal(shape)

    def log_gamma(self, a: Any, shape: tuple[int, ...]) -> Any:
        """Draw logs of gamma numbers of unit scale, which do not underflow for small shapes."""
        larger = self._rng.standard_gamma(np.broadcast_to(np.asarray(a) + 1.0, shape))
        return np.log(larger) + np.log(self.uniform(shape)) / a


class FromKey(Source):
    """Numbers of a JAX key, split anew for each."""

    def __init__(self, key: Any) -> None:
        import jax.numpy as jnp

        self._key, self.xp = key, jnp

    def _next(self) -> Any:
        import jax

        self._key, key = jax.random.split(self._key)
        return key

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Draw uniform numbers of (0, 1), neither end among them."""
        import jax

        return jax.random.uniform(self._next(), shape, minval=float(np.finfo(np.float32).tiny))

    def normal(self, shape: tuple[int, ...]) -> Any:
        """Draw standard normal numbers."""
        import jax

        return jax.random.normal(self._next(), shape)

    def log_gamma(self, a: Any, shape: tuple[int, ...]) -> Any:
        """Draw logs of gamma numbers of unit scale, which do not underflow for small shapes."""
        import jax
        import jax.numpy as jnp

        return jax.random.loggamma(self._next(), jnp.broadcast_to(jnp.asarray(a, float), shape))
