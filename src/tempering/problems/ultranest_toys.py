"""Four of the problems that UltraNest evaluates its steps on, in the unit cube (Buchner 2021)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate
from scipy.special import gammaln, ndtr, ndtri

from tempering.problems.known import Evidence, KnownTarget, Quantity
from tempering.problems.nested_toys import powered_normal
from tempering.problems.priors import UniformPrior
from tempering.problems.problem import Array, FloatArray, namespace_of

SOURCE = "Buchner (2021), UltraNest"


def unequal_sds(dimension: int) -> FloatArray:
    """Return deviations that fall as 0.1 / (1 + 4 i)."""
    return np.asarray(0.1 / (1 + 4 * np.arange(dimension)))


def unequal_scales(dimension: int = 10) -> KnownTarget:
    """A normal whose deviations fall from 0.1 as 0.1 / (1 + 4 i)."""
    sds = unequal_sds(dimension)
    inside = 1 - 2 * ndtr(-0.5 / sds)

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        z = (xp.asarray(x) - 0.5) / sds
        return -0.5 * xp.sum(z * z, axis=-1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        u = (1 - inside) / 2 + inside * rng.random((n, dimension))
        return np.asarray(0.5 + sds * ndtri(u))

    edge = 0.5 / sds
    variance = sds**2 * (1 - 2 * edge * np.exp(-0.5 * edge**2) / np.sqrt(2 * np.pi) / inside)
    return KnownTarget(
        f"unequal-scales-{dimension}", f"a normal of unequal scales in the unit cube, d = {dimension}", density,
        UniformPrior.cube(0.0, 1.0, dimension), True, np.full(dimension, 0.4),
        (
            Quantity("mean", lambda x: x, np.full(dimension, 0.5)),
            Quantity("variance over its scale", lambda x: ((x - 0.5) / sds) ** 2, variance / sds**2),
        ),
        None, Evidence(float(np.sum(np.log(sds * np.sqrt(2 * np.pi) * inside))), 1e-12, "closed form"), exact, SOURCE,
    )  # fmt: skip


def correlated(dimension: int = 10, mixing: float = 0.95) -> KnownTarget:
    """The normal of `unequal_scales`, each coordinate of it mixed with all others: a needle askew in the unit cube."""
    d = dimension
    factor = (np.full((d, d), mixing) + (1 - mixing) * np.eye(d)) * unequal_sds(d)  # of independent normals
    inverse = np.linalg.inv(factor)
    outside = float(np.sum(2 * ndtr(-0.5 / np.linalg.norm(factor, axis=1))))  # at the most: the sum over all faces

    def axes(x: Array) -> Any:
        return (namespace_of(x).asarray(x) - 0.5) @ inverse.T

    def density(x: Array) -> Any:
        return -0.5 * namespace_of(x).sum(axes(x) ** 2, axis=-1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        x = 0.5 + rng.standard_normal((n + 100, d)) @ factor.T
        return np.asarray(x[np.all((x > 0) & (x < 1), axis=1)][:n])

    log_z = np.linalg.slogdet(factor)[1] + 0.5 * d * np.log(2 * np.pi)
    return KnownTarget(
        f"correlated-{d}", f"a correlated normal of unequal scales in the unit cube, d = {d}", density,
        UniformPrior.cube(0.0, 1.0, d), True, np.full(d, 0.4),
        (
            Quantity("mean", lambda x: x, np.full(d, 0.5)),
            Quantity("squares along its axes", lambda x: axes(x) ** 2, np.ones(d), 30 * outside),
        ),
        None, Evidence(float(log_z), outside, "closed form; the mass outside the cube is left out"), exact, SOURCE,
        (0.0, 1.0, 0.0, 1.0) if d == 2 else None,
    )  # fmt: skip


def pyramid(dimension: int = 4) -> KnownTarget:
    """A nearly flat pyramid: log L = -(largest |x_i - 1/2|)^0.01, with a kink everywhere."""
    d = dimension

    def height(x: Array) -> Any:
        xp = namespace_of(x)
        return xp.max(xp.abs(xp.asarray(x) - 0.5), axis=-1)

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        r = height(x)
        return -(xp.where(r > 0, r, 1e-300) ** 0.01)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        kept = np.empty((0, d))
        while len(kept) < n:  # uniform in the cube, kept with probability L, which is at least exp(-1)
            x = rng.random((3 * n + 16, d))
            kept = np.concatenate([kept, x[-rng.standard_exponential(len(x)) <= density(x)]])
        return kept[:n]

    def integral(power: int) -> float:
        weigh = lambda r: 2 * d * (2 * r) ** (d - 1) * r**power * np.exp(-(r**0.01))  # noqa: E731
        return float(integrate.quad(weigh, 0.0, 0.5, epsabs=0, epsrel=1e-12)[0])

    total = integral(0)
    return KnownTarget(
        f"pyramid-{d}", f"a pyramid in the unit cube, d = {d}", density, UniformPrior.cube(0.0, 1.0, d), True,
        np.full(d, 0.4),
        (Quantity("mean", lambda x: x, np.full(d, 0.5)), Quantity("height", height, integral(1) / total)),
        None, Evidence(float(np.log(total)), 1e-11, "quadrature"), exact, SOURCE,
    )  # fmt: skip


def thin_shell(dimension: int = 4) -> KnownTarget:
    """One shell of radius 0.4 in the unit cube, in squared distances: log L = -((r^2 - 0.16) / 0.004)^2 / 2."""
    d, centre, width = dimension, 0.16, 0.004
    power = d / 2 - 1
    peak = 0.5 * (centre + np.sqrt(centre**2 + 4 * width**2 * power))

    def squared(x: Array) -> Any:
        xp = namespace_of(x)
        return xp.sum((xp.asarray(x) - 0.5) ** 2, axis=-1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        direction = rng.standard_normal((n, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(0.5 + np.sqrt(powered_normal(rng, n, power, peak, width))[:, None] * direction)

    def integral(extra: int) -> float:
        weigh = lambda v: (v / peak) ** power * v**extra * np.exp(-0.5 * ((v - centre) / width) ** 2)  # noqa: E731
        return float(integrate.quad(weigh, centre - 0.06, centre + 0.06, points=[peak], epsabs=0, epsrel=1e-12)[0])

    total = integral(0)
    log_half_sphere = 0.5 * d * np.log(np.pi) - gammaln(d / 2)  # r^(d - 1) dr is v^power dv / 2
    return KnownTarget(
        f"thin-shell-{d}", f"a thin shell in the unit cube, d = {d}",
        lambda x: -0.5 * ((squared(x) - centre) / width) ** 2, UniformPrior.cube(0.0, 1.0, d), True, np.full(d, 0.3),
        (
            Quantity("mean", lambda x: x, np.full(d, 0.5)),
            Quantity("squared distance", squared, integral(1) / total),
        ),
        None, Evidence(float(log_half_sphere + power * np.log(peak) + np.log(total)), 1e-10, "quadrature"),
        exact, SOURCE, (0.0, 1.0, 0.0, 1.0) if d == 2 else None,
    )  # fmt: skip
