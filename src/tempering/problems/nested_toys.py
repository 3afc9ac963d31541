"""The toys on which nested samplers are compared: a likelihood in a box, with its evidence."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import gammaln, ndtr, ndtri

from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity
from tempering.problems.priors import UniformPrior
from tempering.problems.problem import FloatArray, namespace_of

_LOG_2PI = np.log(2 * np.pi)


def eggbox() -> KnownTarget:
    """Eighteen equal peaks in [0, 10 pi]^2: eight inside, eight on the edges, two in corners (Feroz et al. 2009).

    Half a peak on an edge and a quarter in a corner: masses 0.08, 0.04 and 0.02, exactly, by symmetry.
    """
    nodes = np.array([(i, j) for i in range(6) for j in range(6) if (i + j) % 2 == 0])
    n_edges = np.sum((nodes == 0) | (nodes == 5), axis=1)

    def density(x: Any) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        return (2.0 + xp.cos(0.5 * x[..., 0]) * xp.cos(0.5 * x[..., 1])) ** 5

    def mode_of(x: Any) -> Any:
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

    def density(x: Any) -> Any:
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


def log_gamma(dimension: int = 4) -> KnownTarget:
    """Four skewed modes in the unit cube, products of log-gamma and normal densities (Beaujean & Caldwell 2013)."""
    d, width = dimension, 1 / 30
    first_normal = int((d + 2) / 2)  # coordinates 3 to (d + 2) / 2, counted from 1, are log-gamma

    def log_gamma_part(x: Any, centre: float) -> Any:
        z = (x - centre) / width
        return z - namespace_of(z).exp(z) - np.log(width)

    def normal_part(x: Any, centre: float) -> Any:
        z = (x - centre) / width
        return -0.5 * z * z - 0.5 * _LOG_2PI - np.log(width)

    def density(x: Any) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        total = xp.logaddexp(log_gamma_part(x[..., 0], 1 / 3), log_gamma_part(x[..., 0], 2 / 3)) - 2 * np.log(2)
        total = total + xp.logaddexp(normal_part(x[..., 1], 1 / 3), normal_part(x[..., 1], 2 / 3))
        total = total + xp.sum(log_gamma_part(x[..., 2:first_normal], 2 / 3), axis=-1)
        return total + xp.sum(normal_part(x[..., first_normal:], 2 / 3), axis=-1)

    low_gamma, total_gamma = _log_gamma_masses(width)

    def normal(lower: float, upper: float, centre: float) -> float:
        return float(ndtr((upper - centre) / width) - ndtr((lower - centre) / width))

    low_normal = 0.5 * (normal(0, 0.5, 1 / 3) + normal(0, 0.5, 2 / 3))
    total_normal = 0.5 * (normal(0, 1, 1 / 3) + normal(0, 1, 2 / 3))
    low_x, low_y = low_gamma / total_gamma, low_normal / total_normal
    masses = np.outer([low_x, 1 - low_x], [low_y, 1 - low_y])
    log_z = (
        np.log(total_gamma) + np.log(total_normal)
        + max(first_normal - 2, 0) * np.log(_log_gamma_cdf(1.0, 2 / 3, width) - _log_gamma_cdf(0.0, 2 / 3, width))
        + (d - max(first_normal, 2)) * np.log(normal(0, 1, 2 / 3))
    )  # fmt: skip

    def mode_of(x: Any) -> Any:
        xp = namespace_of(x)
        return xp.where(x[..., 0] < 0.5, 0, 2) + xp.where(x[..., 1] < 0.5, 0, 1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        centre = np.full((n, d), 2 / 3)
        centre[:, :2] -= rng.integers(2, size=(n, 2)) / 3
        noise = rng.standard_normal((n, d))
        is_gamma = np.r_[0, 2:first_normal]
        noise[:, is_gamma] = np.log(rng.standard_exponential((n, len(is_gamma))))
        x = centre + width * noise
        outside = np.any((x < 0) | (x > 1), axis=1)
        if outside.any():
            x[outside] = exact(rng, int(outside.sum()))
        return x

    return KnownTarget(
        f"log-gamma-{d}", f"LogGamma, d = {d}", density, UniformPrior.cube(0.0, 1.0, d), True, np.full(d, 0.5),
        (Quantity("mean of x_1", lambda x: x[..., 1], 0.5),), Modes(mode_of, masses.reshape(-1)),
        Evidence(float(log_z), 1e-9, "closed form"), exact, "Beaujean & Caldwell (2013); Buchner (2016)",
        (0.0, 1.0, 0.0, 1.0) if d == 2 else None,
    )  # fmt: skip


def _log_gamma_cdf(x: float, centre: float, width: float) -> float:
    return float(-np.expm1(-np.exp((x - centre) / width)))


def _log_gamma_masses(width: float) -> tuple[float, float]:
    """Return the mass of the first coordinate below 1/2, and in the whole of [0, 1]."""
    at = [0.5 * (_log_gamma_cdf(x, 1 / 3, width) + _log_gamma_cdf(x, 2 / 3, width)) for x in (0.0, 0.5, 1.0)]
    return at[1] - at[0], at[2] - at[0]


def spike_and_slab(dimension: int = 20) -> KnownTarget:
    """A spike a hundred times as heavy as the slab that it stands on, and a tenth as wide (Skilling 2006).

    The likelihood's path from prior to posterior has a first-order transition: at some power the mass jumps from
    slab to spike, and a path of powers has to be lucky.
    """
    d, slab, spike = dimension, 0.1, 0.01

    def parts(x: Any) -> tuple[Any, Any]:
        squared = namespace_of(x).sum(x * x, axis=-1)
        wide = -0.5 * squared / slab**2 - d * (0.5 * _LOG_2PI + np.log(slab))
        return wide, np.log(100.0) - 0.5 * squared / spike**2 - d * (0.5 * _LOG_2PI + np.log(spike))

    def density(x: Any) -> Any:
        xp = namespace_of(x)
        return xp.logaddexp(*parts(xp.asarray(x)))

    def share_of_spike(x: Any) -> Any:
        xp = namespace_of(x)
        wide, narrow = parts(xp.asarray(x))
        return 1 / (1 + xp.exp(xp.clip(wide - narrow, -700.0, 700.0)))

    inside = float(1 - 2 * ndtr(-0.5 / slab))
    slab_mass = inside**d
    edge = 0.5 / slab
    slab_variance = slab**2 * (1 - 2 * edge * np.exp(-0.5 * edge**2) / np.sqrt(2 * np.pi) / inside)
    total = slab_mass + 100.0

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        scale = np.where(rng.random(n) * total < 100.0, spike, slab)
        u = (1 - inside) / 2 + inside * rng.random((n, d))
        noise = np.where(scale[:, None] == slab, ndtri(u), rng.standard_normal((n, d)))
        return np.asarray(scale[:, None] * noise)

    return KnownTarget(
        f"spike-and-slab-{d}", f"spike and slab, d = {d}", density, UniformPrior.cube(-0.5, 0.5, d), True,
        np.full(d, 0.2),
        (
            Quantity("mass of the spike", share_of_spike, 100.0 / total),
            Quantity(
                "squared length", lambda x: namespace_of(x).sum(x * x, axis=-1),
                d * (slab_mass * slab_variance + 100.0 * spike**2) / total,
            ),
        ),
        None, Evidence(float(np.log(total)), 1e-9, "closed form"), exact, "Skilling (2006)",
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

    def density(x: Any) -> Any:
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
            Quantity(
                "P(x < 0)", lambda x: namespace_of(x).where(x[..., 0::2] < 0, 1.0, 0.0), np.full(pairs, below), 1e-5
            ),
        ),
        None, Evidence(pairs * (log_z - 2 * float(np.log(2 * half_width))), 1e-8, "quadrature"), exact,
        "Rosenbrock (1960); Feroz et al. (2009); Karamanis et al. (2022)",
        (-half_width, half_width, -half_width, half_width) if pairs == 1 else None,
    )  # fmt: skip
