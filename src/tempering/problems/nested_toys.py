"""The toys on which nested samplers are compared: a likelihood in a box, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import gammaln, ndtr, ndtri

from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity, chance, squared_length
from tempering.problems.priors import UniformPrior
from tempering.problems.problem import Array, FloatArray, namespace_of

_LOG_2PI = np.log(2 * np.pi)


def eggbox() -> KnownTarget:
    """Eighteen equal peaks in [0, 10 pi]^2: eight inside, eight on the edges, two in corners (Feroz et al. 2009).

    Half a peak on an edge and a quarter in a corner: masses 0.08, 0.04 and 0.02, exactly, by symmetry.
    """
    nodes = np.array([(i, j) for i in range(6) for j in range(6) if (i + j) % 2 == 0])
    n_edges = np.sum((nodes == 0) | (nodes == 5), axis=1)

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        return (2.0 + xp.cos(0.5 * x[..., 0]) * xp.cos(0.5 * x[..., 1])) ** 5

    def mode_of(x: Array) -> Any:
        xp = namespace_of(x)
        squared = xp.sum((xp.expand_dims(xp.asarray(x), -2) - 2 * np.pi * nodes) ** 2, axis=-1)
        return xp.argmin(squared, axis=-1)

    return KnownTarget(
        "eggbox", "the eggbox, 18 modes, d = 2", density, UniformPrior.cube(0.0, 10 * np.pi, 2), True,
        np.full(2, 6 * np.pi), (Quantity("mean", lambda x: x, np.full(2, 5 * np.pi)),),
        Modes(mode_of, 0.08 / 2.0**n_edges),
        Evidence(235.85594033, 1e-8, "quadrature"), None, "Feroz, Hobson & Bridges (2009)",
        (0.0, 10 * np.pi, 0.0, 10 * np.pi),
    )  # fmt: skip


def shells(dimension: int = 5) -> KnownTarget:
    """Two thin shells of radius 2 and thickness 0.1, centres 7 apart, in [-6, 6]^d (Feroz et al. 2009)."""
    d, radius, width = dimension, 2.0, 0.1
    centres = np.zeros((2, d))
    centres[:, 0] = [-3.5, 3.5]
    peak = 0.5 * (radius + np.sqrt(radius**2 + 4 * width**2 * (d - 1)))  # of r^(d - 1) N(r; radius, width)

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        offset = xp.expand_dims(xp.asarray(x), -2) - centres
        squared = xp.sum(offset * offset, axis=-1)
        distance = xp.sqrt(xp.where(squared > 0, squared, 1e-300))  # a gradient also in the very centre
        parts = -0.5 * ((distance - radius) / width) ** 2
        return xp.logaddexp(parts[..., 0], parts[..., 1]) - 0.5 * _LOG_2PI - np.log(width)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        direction = rng.standard_normal((n, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        radii = powered_normal(rng, n, d - 1, peak, width)
        return np.asarray(centres[rng.integers(2, size=n)] + radii[:, None] * direction)

    def weight(r: float) -> float:
        return float(np.exp((d - 1) * np.log(r / peak) - 0.5 * ((r - radius) / width) ** 2))

    integral = integrate.quad(weight, radius - 1.5, radius + 1.5, points=[peak], epsabs=0, epsrel=1e-12)[0]
    log_sphere = np.log(2) + 0.5 * d * np.log(np.pi) - gammaln(d / 2)
    log_z = np.log(2) + log_sphere + (d - 1) * np.log(peak) + np.log(integral) - 0.5 * _LOG_2PI - np.log(width)
    right = lambda x: namespace_of(x).where(x[..., 0] > 0, 1, 0)  # noqa: E731
    return KnownTarget(
        f"shells-{d}", f"two Gaussian shells, d = {d}", density, UniformPrior.cube(-6.0, 6.0, d), True, np.zeros(d),
        (Quantity("mean", lambda x: x, np.zeros(d)),), Modes(right, np.array([0.5, 0.5])),
        Evidence(float(log_z - d * np.log(12.0)), 1e-6, "radial quadrature; the mass outside the box is left out"),
        exact, "Feroz, Hobson & Bridges (2009)", (-6.0, 6.0, -6.0, 6.0) if d == 2 else None,
    )  # fmt: skip


def powered_normal(rng: np.random.Generator, n: int, power: float, peak: float, width: float) -> FloatArray:
    """Draw from r^power times a normal of deviation ``width``, given where it peaks.

    By rejection from the normal that touches it at its peak: log r lies below its tangent.
    """
    kept = np.empty(0)
    while len(kept) < n:
        r = peak + width * rng.standard_normal(2 * n + 16)
        r = r[r > 0]
        log_accept = power * (np.log(r / peak) - (r - peak) / peak)
        kept = np.concatenate([kept, r[-rng.standard_exponential(len(r)) <= log_accept]])
    return kept[:n]


@dataclass(frozen=True)
class _LogGamma:
    """Log-gamma and normal densities of scale 1/30 around 1/3 and 2/3, cut off at the unit cube."""

    dimension: int
    width: float = 1 / 30

    @property
    def first_normal(self) -> int:
        """Coordinates 3 to (d + 2) / 2, counted from 1, are log-gamma; the first that is not, counted from 0."""
        return max(2, (self.dimension + 2) // 2)

    def log_gamma_part(self, x: Array, centre: float) -> Any:
        """Return the log density of location + scale * log of an exponential variable."""
        z = (x - centre) / self.width
        return z - namespace_of(z).exp(z) - np.log(self.width)

    def normal_part(self, x: Array, centre: float) -> Any:
        """Return the log density of a normal."""
        z = (x - centre) / self.width
        return -0.5 * z * z - 0.5 * _LOG_2PI - np.log(self.width)

    def density(self, x: Array) -> Any:
        """Return the log likelihood."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        total = xp.logaddexp(*(self.log_gamma_part(x[..., 0], centre) for centre in (1 / 3, 2 / 3))) - 2 * np.log(2)
        total = total + xp.logaddexp(*(self.normal_part(x[..., 1], centre) for centre in (1 / 3, 2 / 3)))
        total = total + xp.sum(self.log_gamma_part(x[..., 2 : self.first_normal], 2 / 3), axis=-1)
        return total + xp.sum(self.normal_part(x[..., self.first_normal :], 2 / 3), axis=-1)

    def mode_of(self, x: Array) -> Any:
        """Return which quarter of the first two coordinates a position is in."""
        xp = namespace_of(x)
        return xp.where(x[..., 0] < 0.5, 0, 2) + xp.where(x[..., 1] < 0.5, 0, 1)

    def exact(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw positions; those outside the cube again."""
        centre = np.full((n, self.dimension), 2 / 3)
        centre[:, :2] -= rng.integers(2, size=(n, 2)) / 3
        noise = rng.standard_normal((n, self.dimension))
        is_gamma = np.r_[0, 2 : self.first_normal]
        noise[:, is_gamma] = np.log(rng.standard_exponential((n, len(is_gamma))))
        x = centre + self.width * noise
        outside = np.any((x < 0) | (x > 1), axis=1)
        if outside.any():
            x[outside] = self.exact(rng, int(outside.sum()))
        return x

    def gamma_mass(self, lower: float, upper: float, centre: float) -> float:
        """Return the mass of a log-gamma density between two points."""
        at = [-np.expm1(-np.exp((x - centre) / self.width)) for x in (lower, upper)]
        return float(at[1] - at[0])

    def normal_mass(self, lower: float, upper: float, centre: float) -> float:
        """Return the mass of a normal between two points."""
        return float(ndtr((upper - centre) / self.width) - ndtr((lower - centre) / self.width))

    def truth(self) -> tuple[FloatArray, float]:
        """Return the masses of the four quarters and the log evidence."""
        first, second = (
            np.array([sum(mass(lower, lower + 0.5, centre) for centre in (1 / 3, 2 / 3)) / 2 for lower in (0.0, 0.5)])
            for mass in (self.gamma_mass, self.normal_mass)
        )
        masses = np.outer(first, second)
        n_gamma, n_normal = self.first_normal - 2, self.dimension - self.first_normal
        log_rest = n_gamma * np.log(self.gamma_mass(0, 1, 2 / 3)) + n_normal * np.log(self.normal_mass(0, 1, 2 / 3))
        return np.ravel(masses / masses.sum()), float(np.log(masses.sum()) + log_rest)


def log_gamma(dimension: int = 4) -> KnownTarget:
    """Four skewed modes in the unit cube, products of log-gamma and normal densities (Beaujean & Caldwell 2013)."""
    d, form = dimension, _LogGamma(dimension)
    masses, log_z = form.truth()
    return KnownTarget(
        f"log-gamma-{d}", f"LogGamma, d = {d}", form.density, UniformPrior.cube(0.0, 1.0, d), True, np.full(d, 0.5),
        (Quantity("mean of x_1", lambda x: x[..., 1], 0.5),), Modes(form.mode_of, masses),
        Evidence(log_z, 1e-9, "closed form"), form.exact, "Beaujean & Caldwell (2013); Buchner (2016)",
        (0.0, 1.0, 0.0, 1.0) if d == 2 else None,
    )  # fmt: skip


@dataclass(frozen=True)
class _SpikeAndSlab:
    """A wide and a narrow normal at the centre of the cube, the narrow one a hundred times as heavy."""

    dimension: int
    slab: float = 0.1
    spike: float = 0.01
    weight: float = 100.0

    def parts(self, x: Array) -> tuple[Any, Any]:
        """Return the log densities of slab and spike, weighed."""
        squared, d = namespace_of(x).sum(x * x, axis=-1), self.dimension
        wide = -0.5 * squared / self.slab**2 - d * (0.5 * _LOG_2PI + np.log(self.slab))
        narrow = -0.5 * squared / self.spike**2 - d * (0.5 * _LOG_2PI + np.log(self.spike))
        return wide, np.log(self.weight) + narrow

    def density(self, x: Array) -> Any:
        """Return the log likelihood."""
        xp = namespace_of(x)
        return xp.logaddexp(*self.parts(xp.asarray(x)))

    def share_of_spike(self, x: Array) -> Any:
        """Return the chance that the spike made a position."""
        xp = namespace_of(x)
        wide, narrow = self.parts(xp.asarray(x))
        return 1 / (1 + xp.exp(xp.clip(wide - narrow, -700.0, 700.0)))

    @property
    def inside(self) -> float:
        """The mass of a coordinate of the slab inside the box; the spike's is 1 to all digits."""
        return float(1 - 2 * ndtr(-0.5 / self.slab))

    @property
    def total(self) -> float:
        """The evidence."""
        return self.inside**self.dimension + self.weight

    @property
    def squared_length(self) -> float:
        """The mean of the squared length; the slab's variance is that of a normal cut off at the box."""
        edge = 0.5 / self.slab
        cut = 2 * edge * np.exp(-0.5 * edge**2) / np.sqrt(2 * np.pi) / self.inside
        of_slab = (self.total - self.weight) * self.slab**2 * (1 - cut)
        return float(self.dimension * (of_slab + self.weight * self.spike**2) / self.total)

    def exact(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw positions, the slab's by quantiles of the cut-off normal."""
        is_spike = (rng.random(n) * self.total < self.weight)[:, None]
        u = (1 - self.inside) / 2 + self.inside * rng.random((n, self.dimension))
        normal = rng.standard_normal((n, self.dimension))
        return np.asarray(np.where(is_spike, self.spike * normal, self.slab * ndtri(u)))


def spike_and_slab(dimension: int = 20) -> KnownTarget:
    """A spike a hundred times as heavy as the slab that it stands on, and a tenth as wide (Skilling 2006).

    The likelihood's path from prior to posterior has a first-order transition: at some power the mass jumps from
    slab to spike, and a path of powers has to be lucky.
    """
    d, form = dimension, _SpikeAndSlab(dimension)
    return KnownTarget(
        f"spike-and-slab-{d}", f"spike and slab, d = {d}", form.density, UniformPrior.cube(-0.5, 0.5, d), True,
        np.full(d, 0.2),
        (
            Quantity("mass of the spike", form.share_of_spike, form.weight / form.total),
            squared_length(form.squared_length),
        ),
        None, Evidence(float(np.log(form.total)), 1e-9, "closed form"), form.exact, "Skilling (2006)",
        (-0.5, 0.5, -0.5, 0.5) if d == 2 else None,
    )  # fmt: skip


@cache
def _rosenbrock(steepness: float, half_width: float) -> tuple[float, ...]:
    """Return log of the integral of the likelihood over the square, and E x, E x^2, E y, P(x < 0).

    Given x the other coordinate is a normal around x^2, cut off at the edge: one quadrature remains.
    """
    x = np.linspace(-half_width, half_width, 200_001)
    sd = 1 / np.sqrt(2 * steepness)
    top, bottom = (half_width - x**2) / sd, (-half_width - x**2) / sd
    inside = ndtr(top) - ndtr(bottom)
    weight = np.exp(-((x - 1) ** 2)) * np.sqrt(np.pi / steepness)
    cut = sd * (np.exp(-0.5 * bottom**2) - np.exp(-0.5 * top**2)) / np.sqrt(2 * np.pi)
    total = float(np.trapezoid(weight * inside, x))
    means = [float(np.trapezoid(weight * inside * h, x)) / total for h in (x, x**2)]
    mean_y = float(np.trapezoid(weight * (x**2 * inside + cut), x)) / total
    below = float(np.trapezoid(np.where(x <= 0, weight * inside, 0.0), x)) / total
    return float(np.log(total)), *means, mean_y, below


def rosenbrock(pairs: int = 1, steepness: float = 100.0, half_width: float = 5.0) -> KnownTarget:
    """Pairs (x, y) on a bent ridge: log L = -steepness (y - x^2)^2 - (x - 1)^2 each, in a box.

    One pair, 100 and 5 are MultiNest's; ``rosenbrock(d // 2, 10, 10)`` is that of pocoMC. The even coordinates are
    the x, the odd ones the y.
    """
    log_z, mean_x, mean_square, mean_y, below = _rosenbrock(steepness, half_width)
    d = 2 * pairs

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        first, second = x[..., 0::2], x[..., 1::2]
        return -xp.sum(steepness * (second - first**2) ** 2 + (first - 1) ** 2, axis=-1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        kept = np.empty((0, 2))
        while len(kept) < n * pairs:  # normal x, normal y around its square, kept where both lie in the box
            x = 1 + rng.standard_normal(2 * n * pairs + 16) / np.sqrt(2)
            xy = np.column_stack([x, x**2 + rng.standard_normal(len(x)) / np.sqrt(2 * steepness)])
            kept = np.concatenate([kept, xy[np.all(np.abs(xy) <= half_width, axis=1)]])
        return kept[: n * pairs].reshape(n, d)

    name = f"rosenbrock-{d}" if steepness == 100.0 else f"rosenbrock-pairs-{d}"
    return KnownTarget(
        name, f"Rosenbrock on a box, d = {d}", density, UniformPrior.cube(-half_width, half_width, d), True,
        np.zeros(d),
        (
            Quantity("mean of x", lambda x: x[..., 0::2], np.full(pairs, mean_x), 1e-8),
            Quantity("square of x", lambda x: x[..., 0::2] ** 2, np.full(pairs, mean_square), 1e-8),
            Quantity("mean of y", lambda x: x[..., 1::2], np.full(pairs, mean_y), 1e-8),
            chance("x < 0", lambda x: x[..., 0::2] < 0, np.full(pairs, below), 1e-5),
        ),
        None, Evidence(pairs * (log_z - 2 * float(np.log(2 * half_width))), 1e-8, "quadrature"), exact,
        "Rosenbrock (1960); Feroz et al. (2009); Karamanis et al. (2022)",
        (-half_width, half_width, -half_width, half_width) if pairs == 1 else None,
    )  # fmt: skip
