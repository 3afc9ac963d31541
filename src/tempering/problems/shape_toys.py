"""One body of an awkward shape: funnels, rings, and densities that turn into NaN outside their support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity, chance, squared_length
from tempering.problems.priors import CauchyPrior, NormalPrior
from tempering.problems.problem import Array, FloatArray, log_sum_exp, namespace_of

_LOG_2PI = np.log(2 * np.pi)


@dataclass(frozen=True)
class _Funnel:
    """v ~ N(0, 3^2), the others ~ N(0, e^v)."""

    dimension: int

    def density(self, x: Array) -> Any:
        """Return the log density; the deviations are never formed."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        v, rest, d = x[..., 0], x[..., 1:], self.dimension
        scaled = xp.sum(rest * rest, axis=-1) * xp.exp(-v)
        return -v * v / 18 - np.log(3.0) - 0.5 * (scaled + (d - 1) * v + d * _LOG_2PI)

    def careless_density(self, x: Array) -> Any:
        """Return the same by deviations exp(v / 2), which underflow far away."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        sd = xp.expand_dims(xp.exp(x[..., 0] / 2), -1)
        rest = -0.5 * (x[..., 1:] / sd) ** 2 - xp.log(sd) - 0.5 * _LOG_2PI
        first = -0.5 * (x[..., 0] / 3.0) ** 2 - np.log(3.0) - 0.5 * _LOG_2PI
        return first + xp.sum(rest, axis=-1)

    def exact(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw positions."""
        z = rng.standard_normal((n, self.dimension))
        z[:, 0] *= 3.0
        z[:, 1:] *= np.exp(0.5 * z[:, :1])
        return z


def funnel(dimension: int = 10, *, careless: bool = False) -> KnownTarget:
    """Neal's funnel: v ~ N(0, 3^2), and d - 1 further coordinates ~ N(0, e^v) (Neal 2003).

    ``careless`` is the same density as a hurried user writes it, by deviations exp(v / 2): it is NaN where those
    underflow, 500 deviations from the centre.
    """
    d, form, tail = dimension, _Funnel(dimension), float(ndtr(-1.0))
    return KnownTarget(
        f"funnel-{d}" + ("-careless" if careless else ""),
        f"Neal's funnel, d = {d}" + (", NaN far away" if careless else ""),
        form.careless_density if careless else form.density,
        CauchyPrior(np.zeros(d), np.array([3.0, *np.full(d - 1, 2.0)])), False, np.zeros(d),
        (
            Quantity("mean of v", lambda x: x[..., 0], 0.0),
            Quantity("square of v", lambda x: x[..., 0] ** 2, 9.0),
            chance("v < -3", lambda x: x[..., 0] < -3, tail),
            chance("v > 3", lambda x: x[..., 0] > 3, tail),
        ),
        None, Evidence(0.0, 0.0, "closed form"), form.exact, "Neal (2003)",
        (-9.0, 9.0, -20.0, 20.0) if d == 2 else None,
    )  # fmt: skip


@dataclass(frozen=True)
class _Rings:
    """A radius that is a mixture of normals around 1, 2, ..., and a uniform angle."""

    n_rings: int
    width: float

    @property
    def radii(self) -> FloatArray:
        """Where the rings are."""
        return np.arange(1.0, self.n_rings + 1)

    def density(self, x: Array) -> Any:
        """Return the log density in the plane: that of the radius over 2 pi r."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        squared = xp.sum(x * x, axis=-1)
        r = xp.sqrt(xp.where(squared > 0, squared, 1e-300))  # a gradient also in the very centre
        z = (xp.expand_dims(r, -1) - self.radii) / self.width
        log_radius = log_sum_exp(-0.5 * z * z) - np.log(self.n_rings * self.width) - 0.5 * _LOG_2PI
        return log_radius - xp.log(2 * np.pi * r)

    def ring_of(self, x: Array) -> Any:
        """Return the number of the nearest ring."""
        xp = namespace_of(x)
        r = xp.sqrt(xp.sum(x * x, axis=-1))
        return xp.argmin(xp.abs(xp.expand_dims(r, -1) - self.radii), axis=-1)

    def exact(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw positions."""
        r = np.abs(rng.choice(self.radii, size=n) + self.width * rng.standard_normal(n))
        angle = 2 * np.pi * rng.random(n)
        return np.column_stack([r * np.cos(angle), r * np.sin(angle)])

    @property
    def masses(self) -> FloatArray:
        """The masses nearest to each ring, neighbours' tails included."""
        edges = np.array([0.0, *(self.radii[:-1] + 0.5), np.inf])
        masses = np.diff(ndtr((edges[:, None] - self.radii) / self.width), axis=0).mean(axis=1)
        return np.asarray(masses / masses.sum())


def rings(n_rings: int = 4, width: float = 0.15) -> KnownTarget:
    """Equal rings of radii 1 to ``n_rings`` around the origin of the plane (Grenioux et al. 2024).

    The radius is a mixture of normals of deviation ``width`` and the angle is uniform.
    """
    form, reach = _Rings(n_rings, width), n_rings + 1.0
    second = float(np.mean(form.radii**2) + width**2)
    return KnownTarget(
        f"rings-{n_rings}", f"{n_rings} rings in the plane", form.density,
        NormalPrior(np.zeros(2), np.full(2, 3.0)), False, np.array([1.0, 0.0]),
        (Quantity("mean", lambda x: x, np.zeros(2)), squared_length(second, 1e-9)),
        Modes(form.ring_of, form.masses, accuracy=1e-9), Evidence(0.0, 1e-10, "closed form"), form.exact,
        "Grenioux et al. (2024), SLIPS", (-reach, reach, -reach, reach),
    )  # fmt: skip


def walled_modes(half_width: float = 10.0) -> KnownTarget:
    """Two modes between walls, by a logarithm that is NaN, not minus infinity, outside the walls.

    Each coordinate has the density 1 - (x / 10)^2 times a mixture of two normals: beyond the walls the logarithm of a
    negative number. The modes lie off the middle, and one of them leans on a wall.
    """
    weights, sds = np.array([0.6, 0.4]), np.array([0.8, 1.2])
    centres = np.array([[-5.0, 3.0], [6.5, -8.0]])

    def parts(x: Array) -> Any:
        xp = namespace_of(x)
        z = (xp.expand_dims(xp.asarray(x), -2) - centres) / sds[:, None]
        return np.log(weights) - 2 * np.log(sds) - _LOG_2PI - 0.5 * xp.sum(z * z, axis=-1)

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        log_parts = parts(x)
        wall = xp.sum(xp.log(1 - (x / half_width) ** 2), axis=-1)
        return wall + xp.logaddexp(log_parts[..., 0], log_parts[..., 1])

    right = lambda x: namespace_of(x).where(x[..., 0] > 1, 1, 0)  # noqa: E731
    grid = np.linspace(-half_width, half_width, 2001)[1:-1]
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    mass = np.exp(density(points))
    total = mass.sum()
    mean = np.array([np.sum(mass * points[..., i]) for i in (0, 1)]) / total
    above = float(np.sum(mass * (points[..., 0] > 1)) / total)
    return KnownTarget(
        "walled-modes", "two modes between walls, NaN outside, d = 2", density,
        NormalPrior(np.zeros(2), np.full(2, 6.0)), False, centres[0], (Quantity("mean", lambda x: x, mean, 1e-4),),
        Modes(right, np.array([1 - above, above]), accuracy=1e-5),
        Evidence(float(np.log(total) + 2 * np.log(grid[1] - grid[0])), 1e-5, "quadrature"), None, "this package",
        (-half_width, half_width, -half_width, half_width),
    )  # fmt: skip
