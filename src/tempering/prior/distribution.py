"""What all priors by name have in common. Each knows its density, its support and how to draw from it.

``log_density`` is normalised, so that the evidence is absolute, and takes arrays of NumPy and of JAX. ``shape`` makes
independent copies, as in ``Normal(0, 1, shape=8)``; parameters may be arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tempering.errors import TargetError
from tempering.prior.bijections import Bijection, Line, namespace
from tempering.prior.randomness import Source, source_of

if TYPE_CHECKING:
    from tempering.prior.bijections import Array
    from tempering.prior.randomness import Randomness


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """What all priors have in common: parameters that are checked, a shape, a support."""

    shape: int | tuple[int, ...] = ()
    above_0: ClassVar[tuple[str, ...]] = ()  # parameters that must be

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "shape":
                whole = (value,) if isinstance(value, int | np.integer) else value
                if not isinstance(whole, tuple) or not all(isinstance(n, int | np.integer) and n > 0 for n in whole):
                    raise TargetError(
                        f"{self.name}: shape must hold whole numbers above 0, but got {value!r}. Write shape=8."
                    )
                object.__setattr__(self, "shape", tuple(int(n) for n in whole))
            elif not isinstance(value, bool):
                object.__setattr__(self, field.name, self._number(field.name, value))
        for parameter in self.above_0:
            self._must(np.asarray(getattr(self, parameter)) > 0, f"{parameter} must be above 0")
        self._check()
        try:
            self.value_shape  # noqa: B018 - of all parameters together
        except ValueError as error:
            raise TargetError(f"{self.name}: shape and parameters must fit each other, but {error}.") from None

    def _number(self, parameter: str, value: Array) -> Any:
        try:
            number = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise TargetError(f"{self.name}: {parameter} must be a number, but got {value!r}. Pass one.") from None
        if not np.all(np.isfinite(number)):
            raise TargetError(f"{self.name}: {parameter} must be finite, but got {value!r}. Pass a number.")
        return float(number) if number.shape == () else number

    def _check(self) -> None:
        """Refuse parameters that make no distribution."""

    def _must(self, holds: Any, what: str) -> None:
        if not np.all(holds):
            given = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name != "shape")
            raise TargetError(f"{self.name}: {what}, but got {given}. Change them.")

    @property
    def name(self) -> str:
        """How messages call it."""
        return type(self).__name__

    @cached_property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a value: of the copies and of the parameters together."""
        given = [getattr(self, f.name) for f in fields(self) if f.name != "shape"]
        return np.broadcast_shapes(self.shape, *(np.shape(parameter) for parameter in given))

    @property
    def bijection(self) -> Bijection:
        """The map from free numbers to the support."""
        return Line()

    def log_density(self, x: Array) -> Any:
        """Return the normalised log density at a value inside the support; copies are summed over."""
        xp, _ = namespace(x)
        return xp.sum(self._log_density(xp, x))

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        """Return the log density of each copy; ``xp`` is JAX's or NumPy's functions."""
        raise NotImplementedError

    def log_density_free(self, free: Array) -> Any:
        """Return the log density of the free numbers of one value: that of the value, and the Jacobian."""
        xp, _ = namespace(free)
        return self.log_density(self.bijection.forward(free)) + xp.sum(self.bijection.log_jacobian(free))

    def sample(self, rng: Randomness) -> Any:
        """Draw one value; ``rng`` is a NumPy generator or a JAX key."""
        return self._draw(source_of(rng), self.value_shape)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError

    def sample_free(self, rng: Randomness) -> Any:
        """Draw the free numbers of one value."""
        return self.bijection.inverse(self.sample(rng))

    def contains(self, value: Array) -> bool:
        """Say whether a value has the shape and lies inside the support."""
        with np.errstate(all="ignore"):
            free = self.bijection.inverse(np.asarray(value, dtype=float))
        return np.shape(value) == self.value_shape and bool(np.all(np.isfinite(free)))
