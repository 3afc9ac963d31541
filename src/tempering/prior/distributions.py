"""Priors by name. Each knows its density, its support and how to draw from it, on NumPy and JAX alike.

``log_density`` is normalised, so that the evidence is absolute. ``shape`` makes independent copies, as in
``Normal(0, 1, shape=8)``; parameters may be arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import special as scipy_special

from tempering.errors import TargetError
from tempering.prior.bijections import RADIUS_SHAPE, Circle, HalfLine, Interval, Line, Simplex, log_sigmoid, namespace
from tempering.prior.randomness import source_of


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

    def _number(self, parameter: str, value: Any) -> Any:
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
    def bijection(self) -> Any:
        """The map from free numbers to the support."""
        return Line()

    def log_density(self, x: Any) -> Any:
        """Return the normalised log density at a value inside the support; copies are summed over."""
        xp, _ = namespace(x)
        return xp.sum(self._log_density(xp, x))

    def _log_density(self, xp: Any, x: Any) -> Any:
        """Return the log density of each copy; ``xp`` is JAX's or NumPy's functions."""
        raise NotImplementedError

    def log_density_free(self, free: Any) -> Any:
        """Return the log density of the free numbers of one value: that of the value, and the Jacobian."""
        xp, _ = namespace(free)
        return self.log_density(self.bijection.forward(free)) + xp.sum(self.bijection.log_jacobian(free))

    def sample(self, rng: Any) -> Any:
        """Draw one value; ``rng`` is a NumPy generator or a JAX key."""
        return self._draw(source_of(rng), self.value_shape)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError

    def sample_free(self, rng: Any) -> Any:
        """Draw the free numbers of one value."""
        return self.bijection.inverse(self.sample(rng))

    def contains(self, value: Any) -> bool:
        """Say whether a value has the shape and lies inside the support."""
        with np.errstate(all="ignore"):
            free = self.bijection.inverse(np.asarray(value, dtype=float))
        return np.shape(value) == self.value_shape and bool(np.all(np.isfinite(free)))


@dataclass(frozen=True)
class Normal(Distribution):
    """A normal distribution."""

    mean: Any = 0.0
    sd: Any = 1.0
    above_0 = ("sd",)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return -0.5 * ((x - self.mean) / self.sd) ** 2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        return self.mean + self.sd * source.normal(shape)


@dataclass(frozen=True)
class StudentT(Distribution):
    """A Student distribution with a location and a scale."""

    degrees_of_freedom: Any
    location: Any = 0.0
    scale: Any = 1.0
    above_0 = ("degrees_of_freedom", "scale")

    def _log_density(self, xp: Any, x: Any) -> Any:
        nu, z = self.degrees_of_freedom, (x - self.location) / self.scale
        constant = scipy_special.gammaln((nu + 1) / 2) - scipy_special.gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        return constant - np.log(self.scale) - (nu + 1) / 2 * xp.log1p(z**2 / nu)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        nu = self.degrees_of_freedom
        log_chi2, xp = source.log_gamma(nu / 2, shape) + np.log(2.0), source.xp
        return self.location + self.scale * source.normal(shape) * xp.exp(0.5 * (np.log(nu) - log_chi2))


@dataclass(frozen=True)
class Cauchy(Distribution):
    """A Cauchy distribution with a location and a scale."""

    location: Any = 0.0
    scale: Any = 1.0
    above_0 = ("scale",)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return -np.log(np.pi * self.scale) - xp.log1p(((x - self.location) / self.scale) ** 2)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return self.location + self.scale * xp.tan(np.pi * (u - 0.5))


@dataclass(frozen=True)
class Uniform(Distribution):
    """A uniform distribution between two bounds; ``periodic=True`` joins them, as for an angle."""

    low: Any = 0.0
    high: Any = 1.0
    periodic: bool = False

    def _check(self) -> None:
        self._must(np.asarray(self.low) < self.high, "low must be below high")

    @property
    def bijection(self) -> Any:
        """The map from free numbers to the interval, or to the circle."""
        return Circle(self.low, self.high) if self.periodic else Interval(self.low, self.high)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return -np.log(self.high - self.low) + 0.0 * x

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        return self.low + (self.high - self.low) * source.uniform(shape)

    def sample_free(self, rng: Any) -> Any:
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
    def bijection(self) -> Any:
        """The map from the plane to the circle."""
        return Circle(self.low, self.low + 2 * np.pi)

    def _log_density(self, xp: Any, x: Any) -> Any:
        kappa = self.concentration
        return kappa * (xp.cos(x - self.mean) - 1.0) - np.log(2 * np.pi) - np.log(scipy_special.ive(0, kappa))

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
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

    def sample_free(self, rng: Any) -> Any:
        """Draw a point of the plane."""
        source = source_of(rng)
        return _with_radius(self.bijection.inverse(self._draw(source, self.value_shape)), source)


def _with_radius(directions: Any, source: Any) -> Any:
    """Give points at distance 1 the radius that the law of a circle has."""
    log_radius = source.log_gamma(RADIUS_SHAPE, directions.shape[:-1]) - np.log(RADIUS_SHAPE)
    xp, _ = namespace(directions)
    return directions * xp.exp(log_radius)[..., None]


@dataclass(frozen=True)
class Positive(Distribution):
    """What priors on positive numbers have in common."""

    @property
    def bijection(self) -> Any:
        """The map from free numbers to positive ones."""
        return HalfLine()


@dataclass(frozen=True)
class HalfNormal(Positive):
    """The positive half of a normal distribution around 0."""

    scale: Any = 1.0
    above_0 = ("scale",)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return -0.5 * (x / self.scale) ** 2 - np.log(self.scale) + 0.5 * np.log(2 / np.pi)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        return self.scale * abs(source.normal(shape))


@dataclass(frozen=True)
class HalfCauchy(Positive):
    """The positive half of a Cauchy distribution around 0."""

    scale: Any = 1.0
    above_0 = ("scale",)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return np.log(2 / np.pi) - np.log(self.scale) - xp.log1p((x / self.scale) ** 2)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return self.scale * xp.tan(0.5 * np.pi * u)


@dataclass(frozen=True)
class LogNormal(Positive):
    """A number whose log is normal."""

    mean_of_log: Any = 0.0
    sd_of_log: Any = 1.0
    above_0 = ("sd_of_log",)

    def _log_density(self, xp: Any, x: Any) -> Any:
        z = (xp.log(x) - self.mean_of_log) / self.sd_of_log
        return -0.5 * z**2 - np.log(self.sd_of_log) - 0.5 * np.log(2 * np.pi) - xp.log(x)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        z, xp = source.normal(shape), source.xp
        return xp.exp(self.mean_of_log + self.sd_of_log * z)


@dataclass(frozen=True)
class Gamma(Positive):
    """A gamma distribution with the mean shape_parameter / rate."""

    shape_parameter: Any
    rate: Any = 1.0
    above_0 = ("shape_parameter", "rate")

    def _log_density(self, xp: Any, x: Any) -> Any:
        a = self.shape_parameter
        return a * np.log(self.rate) - scipy_special.gammaln(a) + (a - 1) * xp.log(x) - self.rate * x

    def log_density_free(self, free: Any) -> Any:
        """Return the log density of the log: exact where the value underflows."""
        xp, _ = namespace(free)
        a = self.shape_parameter
        return xp.sum(a * np.log(self.rate) - scipy_special.gammaln(a) + a * free - self.rate * xp.exp(free))

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        log_value, xp = source.log_gamma(self.shape_parameter, shape), source.xp
        return xp.exp(log_value - np.log(self.rate))

    def sample_free(self, rng: Any) -> Any:
        """Draw the log of a value."""
        return source_of(rng).log_gamma(self.shape_parameter, self.value_shape) - np.log(self.rate)


@dataclass(frozen=True)
class InverseGamma(Positive):
    """The inverse of a gamma number: shape_parameter and scale."""

    shape_parameter: Any
    scale: Any = 1.0
    above_0 = ("shape_parameter", "scale")

    def _log_density(self, xp: Any, x: Any) -> Any:
        a = self.shape_parameter
        return a * np.log(self.scale) - scipy_special.gammaln(a) - (a + 1) * xp.log(x) - self.scale / x

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        log_value, xp = np.log(self.scale) - source.log_gamma(self.shape_parameter, shape), source.xp
        return xp.exp(log_value)


@dataclass(frozen=True)
class Exponential(Positive):
    """An exponential distribution with the mean 1 / rate."""

    rate: Any = 1.0
    above_0 = ("rate",)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return np.log(self.rate) - self.rate * x

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return -xp.log(u) / self.rate


@dataclass(frozen=True)
class LogUniform(Distribution):
    """A number between two positive bounds whose log is uniform."""

    low: Any
    high: Any

    def _check(self) -> None:
        self._must((np.asarray(self.low) > 0) & (np.asarray(self.low) < self.high), "0 < low < high must hold")

    @property
    def bijection(self) -> Any:
        """The map from free numbers to the interval."""
        return _Logged(Interval(np.log(self.low), np.log(self.high)))

    def _log_density(self, xp: Any, x: Any) -> Any:
        return -np.log(np.log(self.high) - np.log(self.low)) - xp.log(x)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return xp.exp(np.log(self.low) + (np.log(self.high) - np.log(self.low)) * u)


@dataclass(frozen=True)
class _Logged:
    """Positive numbers whose logs are what another map gives."""

    of_logs: Any

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.of_logs.free_shape(shape)  # type: ignore[no-any-return]

    def forward(self, free: Any) -> Any:
        xp, _ = namespace(free)
        return xp.exp(self.of_logs.forward(free))

    def inverse(self, value: Any) -> Any:
        xp, _ = namespace(value)
        return self.of_logs.inverse(xp.log(value))

    def log_jacobian(self, free: Any) -> Any:
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
    def bijection(self) -> Any:
        """The map from free numbers to the interval."""
        return Interval(self.low, self.high)

    def _log_density(self, xp: Any, x: Any) -> Any:
        width = self.high - self.low
        z = (x - self.low) / width
        return (
            (self.a - 1) * xp.log(z)
            + (self.b - 1) * xp.log1p(-z)
            - scipy_special.betaln(self.a, self.b)
            - np.log(width)
        )

    def log_density_free(self, free: Any) -> Any:
        """Return the log density of the log odds: exact next to the bounds."""
        xp, _ = namespace(free)
        constant = scipy_special.betaln(self.a, self.b)
        return xp.sum(self.a * log_sigmoid(free) + self.b * log_sigmoid(-free) - constant)

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        odds = source.log_gamma(self.a, shape) - source.log_gamma(self.b, shape)
        return self.bijection.forward(odds)

    def sample_free(self, rng: Any) -> Any:
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
    def bijection(self) -> Any:
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

    def _log_density(self, xp: Any, x: Any) -> Any:
        z = (x - self.mean) / self.sd
        return -0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi) - self._log_mass

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u = source.uniform(shape)
        xp, special = namespace(u)
        a, b, sign = self._ends
        low, high = scipy_special.ndtr(a), scipy_special.ndtr(b)
        z = special.ndtri(low + (high - low) * u)
        return xp.clip(self.mean + sign * self.sd * z, self.low, self.high)

    def sample_free(self, rng: Any) -> Any:
        """Draw the free numbers of one value, which rounding must not put on a bound."""
        value = self.sample(rng)
        xp, _ = namespace(value)
        width = self.high - self.low
        return self.bijection.inverse(xp.clip(value, self.low + 1e-15 * width, self.high - 1e-15 * width))


@dataclass(frozen=True)
class Sine(Distribution):
    """An angle of [0, pi] whose density goes with its sine, as an inclination has."""

    @property
    def bijection(self) -> Any:
        """The map from free numbers to the angles."""
        return Interval(0.0, np.pi)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return xp.log(0.5 * xp.sin(x))

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return 2.0 * xp.arcsin(xp.sqrt(u))


@dataclass(frozen=True)
class Cosine(Distribution):
    """An angle of [-pi/2, pi/2] whose density goes with its cosine, as a declination has."""

    @property
    def bijection(self) -> Any:
        """The map from free numbers to the angles."""
        return Interval(-np.pi / 2, np.pi / 2)

    def _log_density(self, xp: Any, x: Any) -> Any:
        return xp.log(0.5 * xp.cos(x))

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        u, xp = source.uniform(shape), source.xp
        return xp.arcsin(2.0 * u - 1.0)


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Positive numbers that sum to one."""

    concentration: Any
    above_0 = ("concentration",)

    def _check(self) -> None:
        self._must(np.ndim(self.concentration) == 1 and np.size(self.concentration) > 1, "two numbers are needed")
        self._must(self.shape == (), "copies are not possible: use several names")

    @property
    def bijection(self) -> Any:
        """The map from free numbers to the simplex."""
        return Simplex()

    @property
    def _constant(self) -> float:
        alpha = np.asarray(self.concentration)
        return float(scipy_special.gammaln(alpha.sum()) - scipy_special.gammaln(alpha).sum())

    def _log_density(self, xp: Any, x: Any) -> Any:
        return self._constant + xp.sum((self.concentration - 1.0) * xp.log(x))

    def log_density_free(self, free: Any) -> Any:
        """Return the log density of the log ratios: exact next to the edges."""
        xp, _ = namespace(free)
        return self._constant + xp.sum(self.concentration * self.bijection.log_forward(free))

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        log_gamma = source.log_gamma(self.concentration, shape)
        return self.bijection.forward(log_gamma[:-1] - log_gamma[-1:])

    def sample_free(self, rng: Any) -> Any:
        """Draw the log ratios of a value."""
        log_gamma = source_of(rng).log_gamma(self.concentration, self.value_shape)
        return log_gamma[:-1] - log_gamma[-1:]


@dataclass(frozen=True)
class MultivariateNormal(Distribution):
    """A normal distribution of several numbers, with their covariance."""

    mean: Any
    covariance: Any

    def _check(self) -> None:
        mean, cov = np.asarray(self.mean), np.asarray(self.covariance)
        self._must(mean.ndim == 1 and cov.shape == (mean.size, mean.size), "mean (d,) and covariance (d, d) are needed")
        self._must(np.allclose(cov, cov.T) and np.all(np.linalg.eigvalsh(cov) > 0), "covariance must be positive")

    @cached_property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a value."""
        return np.shape(self.mean)

    @cached_property
    def _root(self) -> Any:
        return np.linalg.cholesky(self.covariance)

    @cached_property
    def _inverse_root(self) -> Any:
        return np.linalg.inv(self._root)

    def _log_density(self, xp: Any, x: Any) -> Any:
        z = self._inverse_root @ (x - self.mean)
        constant = np.sum(np.log(np.diag(self._root))) + 0.5 * np.size(self.mean) * np.log(2 * np.pi)
        return -0.5 * xp.sum(z**2) - constant

    def _draw(self, source: Any, shape: tuple[int, ...]) -> Any:
        return self.mean + self._root @ source.normal(shape)
