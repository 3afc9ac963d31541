"""Priors between two bounds, and on circles that join them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special as scipy_special

from tempering.prior.bijections import RADIUS_SHAPE, Bijection, Circle, Interval, log_sigmoid, namespace
from tempering.prior.distribution import Distribution
from tempering.prior.randomness import Source, source_of

if TYPE_CHECKING:
    from tempering.prior.bijections import Array
    from tempering.prior.randomness import Randomness


@dataclass(frozen=True)
class Uniform(Distribution):
    """A uniform distribution between two bounds; ``periodic=True`` joins them, as for an angle."""

    low: Any = 0.0
    high: Any = 1.0
    periodic: bool = False

    def _check(self) -> None:
        self._must(np.asarray(self.low) < self.high, "low must be below high")

    @property
    def bijection(self) -> Bijection:
        """The map from free numbers to the interval, or to the circle."""
        return Circle(self.low, self.high) if self.periodic else Interval(self.low, self.high)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return -np.log(self.high - self.low) + 0.0 * x

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        return self.low + (self.high - self.low) * source.uniform(shape)

    def sample_free(self, rng: Randomness) -> Any:
        """Draw the free numbers of one value; those of a circle with their radius."""
        source = source_of(rng)
        if self.periodic:
            return _with_radius(self.bijection.inverse(self._draw(source, self.value_shape)), source)
        u, xp = source.uniform(self.value_shape), source.xp
        return xp.log(u) - xp.log1p(-u)


@dataclass(frozen=True)
class VonMises(Distribution):
    """A von Mises distribution on a circle of angles that begins at ``low``."""

    mean: Any = 0.0
    concentration: float = 1.0
    low: float = -np.pi
    above_0 = ("concentration",)

    def _check(self) -> None:
        self._must(np.ndim(self.concentration) == 0, "concentration must be one number")

    @property
    def bijection(self) -> Bijection:
        """The map from the plane to the circle."""
        return Circle(self.low, self.low + 2 * np.pi)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        kappa = self.concentration
        return kappa * (xp.cos(x - self.mean) - 1.0) - np.log(2 * np.pi) - np.log(scipy_special.ive(0, kappa))

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        grid, share = self._table
        angle = self.mean + xp.interp(u, xp.asarray(share), xp.asarray(grid)) - self.low
        return self.low + angle - 2 * np.pi * xp.floor(angle / (2 * np.pi))

    @cached_property
    def _table(self) -> tuple[Any, Any]:
        """The distribution function on a grid, fine enough that a line between its points is off by less than 1e-7."""
        from scipy import stats

        around = stats.vonmises(self.concentration)
        grid = np.linspace(-np.pi, np.pi, 20_001)
        return grid, around.cdf(grid)

    def sample_free(self, rng: Randomness) -> Any:
        """Draw a point of the plane."""
        source = source_of(rng)
        return _with_radius(self.bijection.inverse(self._draw(source, self.value_shape)), source)


def _with_radius(directions: Array, source: Source) -> Any:
    """Give points at distance 1 the radius that the law of a circle has."""
    log_radius = source.log_gamma(RADIUS_SHAPE, directions.shape[:-1]) - np.log(RADIUS_SHAPE)
    xp, _ = namespace(directions)
    return directions * xp.exp(log_radius)[..., None]


@dataclass(frozen=True)
class LogUniform(Distribution):
    """A number between two positive bounds whose log is uniform."""

    low: Any
    high: Any

    def _check(self) -> None:
        self._must((np.asarray(self.low) > 0) & (np.asarray(self.low) < self.high), "0 < low < high must hold")

    @property
    def bijection(self) -> Bijection:
        """The map from free numbers to the interval."""
        return _Logged(Interval(np.log(self.low), np.log(self.high)))

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return -np.log(np.log(self.high) - np.log(self.low)) - xp.log(x)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return xp.exp(np.log(self.low) + (np.log(self.high) - np.log(self.low)) * u)


@dataclass(frozen=True)
class _Logged(Bijection):
    """Positive numbers whose logs are what another map gives."""

    of_logs: Any

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.of_logs.free_shape(shape)  # type: ignore[no-any-return]

    def forward(self, free: Array) -> Any:
        xp, _ = namespace(free)
        return xp.exp(self.of_logs.forward(free))

    def inverse(self, value: Array) -> Any:
        xp, _ = namespace(value)
        return self.of_logs.inverse(xp.log(value))

    def log_jacobian(self, free: Array) -> Any:
        return self.of_logs.forward(free) + self.of_logs.log_jacobian(free)


@dataclass(frozen=True)
class Beta(Distribution):
    """A beta distribution between two bounds, 0 and 1 by default."""

    a: Any
    b: Any
    low: Any = 0.0
    high: Any = 1.0
    above_0 = ("a", "b")

    def _check(self) -> None:
        self._must(np.asarray(self.low) < self.high, "low must be below high")

    @property
    def bijection(self) -> Bijection:
        """The map from free numbers to the interval."""
        return Interval(self.low, self.high)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        width = self.high - self.low
        z = (x - self.low) / width
        return (
            (self.a - 1) * xp.log(z)
            + (self.b - 1) * xp.log1p(-z)
            - scipy_special.betaln(self.a, self.b)
            - np.log(width)
        )

    def log_density_free(self, free: Array) -> Any:
        """Return the log density of the log odds: exact next to the bounds."""
        xp, _ = namespace(free)
        constant = scipy_special.betaln(self.a, self.b)
        return xp.sum(self.a * log_sigmoid(free) + self.b * log_sigmoid(-free) - constant)

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        odds = source.log_gamma(self.a, shape) - source.log_gamma(self.b, shape)
        return self.bijection.forward(odds)

    def sample_free(self, rng: Randomness) -> Any:
        """Draw the log odds of a value."""
        source = source_of(rng)
        return source.log_gamma(self.a, self.value_shape) - source.log_gamma(self.b, self.value_shape)


@dataclass(frozen=True)
class TruncatedNormal(Distribution):
    """A normal distribution cut to an interval."""

    mean: Any = 0.0
    sd: Any = 1.0
    low: Any = -1.0
    high: Any = 1.0
    above_0 = ("sd",)

    def _check(self) -> None:
        self._must(np.asarray(self.low) < self.high, "low must be below high")

    @property
    def bijection(self) -> Bijection:
        """The map from free numbers to the interval."""
        return Interval(self.low, self.high)

    @cached_property
    def _ends(self) -> tuple[Any, Any, Any]:
        """Both ends in standard units, mirrored so that the interval is not far above 0, and the sign."""
        a, b = (np.asarray(self.low) - self.mean) / self.sd, (np.asarray(self.high) - self.mean) / self.sd
        mirrored = np.where(a > 0, -1.0, 1.0)
        return np.where(a > 0, -b, a), np.where(a > 0, -a, b), mirrored

    @cached_property
    def _log_mass(self) -> Any:
        a, b, _ = self._ends
        top, bottom = scipy_special.log_ndtr(b), scipy_special.log_ndtr(a)
        return top + np.log1p(-np.exp(bottom - top))

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        z = (x - self.mean) / self.sd
        return -0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi) - self._log_mass

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u = source.uniform(shape)
        xp, special = namespace(u)
        a, b, sign = self._ends
        low, high = scipy_special.ndtr(a), scipy_special.ndtr(b)
        z = special.ndtri(low + (high - low) * u)
        return xp.clip(self.mean + sign * self.sd * z, self.low, self.high)

    def sample_free(self, rng: Randomness) -> Any:
        """Draw the free numbers of one value, which rounding must not put on a bound."""
        value = self.sample(rng)
        xp, _ = namespace(value)
        width = self.high - self.low
        return self.bijection.inverse(xp.clip(value, self.low + 1e-15 * width, self.high - 1e-15 * width))


@dataclass(frozen=True)
class Sine(Distribution):
    """An angle of [0, pi] whose density goes with its sine, as an inclination has."""

    bijection = Interval(0.0, np.pi)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return xp.log(0.5 * xp.sin(x))

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return 2.0 * xp.arcsin(xp.sqrt(u))


@dataclass(frozen=True)
class Cosine(Distribution):
    """An angle of [-pi/2, pi/2] whose density goes with its cosine, as a declination has."""

    bijection = Interval(-np.pi / 2, np.pi / 2)

    def _log_density(self, xp: ModuleType, x: Array) -> Any:
        return xp.log(0.5 * xp.cos(x))

    def _draw(self, source: Source, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return xp.arcsin(2.0 * u - 1.0)
