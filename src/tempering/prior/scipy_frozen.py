"""Frozen distributions of ``scipy.stats`` as priors: ours where there is one alike, else SciPy's own functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import TargetError
from tempering.prior.bijections import Bijection, HalfLine, Interval, Line
from tempering.prior.distribution import Distribution
from tempering.prior.interval import Beta, LogUniform, Uniform
from tempering.prior.line import (
    Cauchy,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    LogNormal,
    Normal,
    StudentT,
)

if TYPE_CHECKING:
    from tempering.prior.bijections import Array
    from tempering.prior.randomness import Randomness


def is_frozen(given: Any) -> bool:
    """Say whether something is a frozen distribution of SciPy."""
    return callable(getattr(given, "logpdf", None)) and callable(getattr(given, "rvs", None)) and hasattr(given, "args")


def from_scipy(frozen: Any) -> Distribution:
    """Return the prior that a frozen distribution stands for."""
    if callable(getattr(frozen, "logpmf", None)) and not hasattr(frozen.dist, "logpdf"):
        raise TargetError(f"A prior must be continuous, but got the discrete {frozen.dist.name}. Sum it out.")
    make = _ALIKE.get(frozen.dist.name)
    if make is not None:
        shapes, location, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
        found = make(shapes, location, scale)
        if found is not None:
            return found
    return FromSciPy(frozen)


def _at_zero(make: Callable[..., Distribution]) -> Callable[..., Distribution | None]:
    """Take a distribution only where it begins at 0, as ours does."""
    return lambda shapes, location, scale: make(shapes, scale) if np.all(location == 0) else None


_ALIKE: dict[str, Callable[..., Distribution | None]] = {
    "norm": lambda _, location, scale: Normal(location, scale),
    "t": lambda shapes, location, scale: StudentT(shapes[0], location, scale),
    "cauchy": lambda _, location, scale: Cauchy(location, scale),
    "uniform": lambda _, location, scale: Uniform(location, location + scale),
    "beta": lambda shapes, location, scale: Beta(shapes[0], shapes[1], location, location + scale),
    "halfnorm": _at_zero(lambda _, scale: HalfNormal(scale)),
    "halfcauchy": _at_zero(lambda _, scale: HalfCauchy(scale)),
    "expon": _at_zero(lambda _, scale: Exponential(1.0 / scale)),
    "gamma": _at_zero(lambda shapes, scale: Gamma(shapes[0], 1.0 / scale)),
    "invgamma": _at_zero(lambda shapes, scale: InverseGamma(shapes[0], scale)),
    "lognorm": _at_zero(lambda shapes, scale: LogNormal(np.log(scale), shapes[0])),
    "loguniform": _at_zero(lambda shapes, scale: LogUniform(shapes[0] * scale, shapes[1] * scale)),
    "reciprocal": _at_zero(lambda shapes, scale: LogUniform(shapes[0] * scale, shapes[1] * scale)),
}


@dataclass(frozen=True, eq=False)
class FromSciPy(Distribution):
    """Any other continuous distribution of SciPy, by its own functions; JAX cannot trace those."""

    frozen: Any

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(self.frozen.mean())) and not np.all(np.isfinite(self.frozen.median())):
            raise TargetError(f"The parameters of {self.frozen.dist.name} make no distribution: {self.frozen.args}.")

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of a value: that of the parameters."""
        return np.shape(self.frozen.median())

    @property
    def bijection(self) -> Bijection:
        """The map from free numbers to the support."""
        low, high = self.frozen.support()
        if np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
            return Interval(low, high)
        if np.all(np.isfinite(low)):
            return HalfLine(low)
        return HalfLine(high, -1.0) if np.all(np.isfinite(high)) else Line()

    def log_density(self, x: Array) -> Any:
        """Return the log density."""
        return np.sum(self.frozen.logpdf(x))

    def sample(self, rng: Randomness) -> Any:
        """Draw one value, from a NumPy generator."""
        return np.asarray(self.frozen.rvs(size=self.value_shape or None, random_state=rng), dtype=float)

    def __repr__(self) -> str:
        given = [*(f"{a:g}" for a in self.frozen.args), *(f"{k}={v:g}" for k, v in self.frozen.kwds.items())]
        return f"scipy.stats.{self.frozen.dist.name}({', '.join(given)})"
