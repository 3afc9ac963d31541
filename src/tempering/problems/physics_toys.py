"""Wells and fields of physics: many-well products, and the phi^4 chain by its transfer operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import integrate

from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity, chance
from tempering.problems.priors import NormalPrior
from tempering.problems.problem import Array, FloatArray, namespace_of

_ROOT_3 = np.sqrt(3.0)


def many_well(dimension: int = 32) -> KnownTarget:
    """Pairs of a double well and a normal: 2^(d/2) modes, all exact by one quadrature (Noé et al. 2019).

    log p = -x^4 + 6 x^2 + x / 2 - y^2 / 2 for each pair (x, y); the even coordinates are the x.
    """
    pairs = dimension // 2
    mean, square, above, log_z = _well()

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        first, second = x[..., 0::2], x[..., 1::2]
        return xp.sum(first * (0.5 + first * (6.0 - first**2)) - 0.5 * second**2, axis=-1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        out = rng.standard_normal((n, 2 * pairs))
        out[:, 0::2] = _draw_well(rng, n * pairs).reshape(n, pairs)
        return out

    return KnownTarget(
        f"many-well-{dimension}", f"many-well, d = {dimension}", density,
        NormalPrior(np.zeros(2 * pairs), np.full(2 * pairs, 2.0)), False, np.zeros(2 * pairs),
        (
            chance("x > 0", lambda x: x[..., 0::2] > 0, np.full(pairs, above)),
            Quantity("mean of x", lambda x: x[..., 0::2], np.full(pairs, mean)),
            Quantity("square of x", lambda x: x[..., 0::2] ** 2, np.full(pairs, square)),
        ),
        None, Evidence(pairs * (log_z + 0.5 * float(np.log(2 * np.pi))), 1e-9 * pairs, "quadrature"), exact,
        "Noé et al. (2019); Midgley et al. (2023)", (-3.0, 3.0, -4.0, 4.0) if dimension == 2 else None,
    )  # fmt: skip


@cache
def _well() -> tuple[float, float, float, float]:
    """Return E x, E x^2, P(x > 0) and the log integral of exp(-x^4 + 6 x^2 + x / 2)."""

    def integral(h: Any, lower: float = -6.0, upper: float = 6.0) -> float:
        weigh = lambda x: h(x) * np.exp(-(x**4) + 6 * x**2 + 0.5 * x - 9.0)  # noqa: E731
        inner = [p for p in (-_ROOT_3, 0.0, _ROOT_3) if lower < p < upper]
        return float(integrate.quad(weigh, lower, upper, points=inner, epsabs=0, epsrel=1e-12)[0])

    total = integral(lambda x: 1.0)
    return (
        integral(lambda x: x) / total,
        integral(lambda x: x**2) / total,
        integral(lambda x: 1.0, lower=0.0) / total,
        float(np.log(total) + 9.0),
    )


def _draw_well(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw by rejection: 9 - (x^2 - 3)^2 lies below 9 - 3 (|x| - sqrt 3)^2, two normals once x / 2 is added."""
    kept = np.empty(0)
    while len(kept) < n:
        m = 2 * (n - len(kept)) + 64
        side = np.where(rng.random(m) < 1 / (1 + np.exp(-_ROOT_3)), 1.0, -1.0)
        x = side * _ROOT_3 + 1 / 12 + rng.standard_normal(m) / np.sqrt(6)
        log_accept = 3 * (np.abs(x) - _ROOT_3) ** 2 - (x**2 - 3) ** 2
        accepted = (x * side > 0) & (-rng.standard_exponential(m) <= log_accept)
        kept = np.concatenate([kept, x[accepted]])
    return kept[:n]


@dataclass(frozen=True)
class ChainTruth:
    """What the transfer operator says about a phi^4 chain, site by site."""

    log_evidence: float
    above: FloatArray  # P(x_i > 0)
    mean: FloatArray
    square: FloatArray


@cache
def phi4_chain_truth(dimension: int, tilt: float, n_nodes: int = 801) -> ChainTruth:
    """Integrate the chain exactly: messages from both ends meet at every site, on a grid of ``n_nodes``.

    The trapezoid rule converges faster than any power here: 801 and 1201 nodes agree to 1e-11 at d = 100.
    """
    coefficient = 0.1 * dimension
    x = np.linspace(-3.5, 3.5, n_nodes)
    step = x[1] - x[0]
    log_site = -20.0 * ((1 - x**2) ** 2 / 4 + tilt * x) / coefficient
    kernel = np.exp(-10.0 * coefficient * (x[:, None] - x) ** 2) * step
    site, end = np.exp(log_site - log_site.max()), np.exp(-10.0 * coefficient * x**2)
    messages, log_scale, message = np.empty((dimension, n_nodes)), 0.0, end
    for i in range(dimension):
        scale = message.max()
        messages[i] = message / scale
        log_scale += np.log(scale) + log_site.max()
        message = kernel @ (messages[i] * site)
    log_z = log_scale + float(np.log(np.sum(messages[-1] * site * end) * step))
    marginal = messages * site * messages[::-1]  # the chain reads the same from both ends
    marginal /= marginal.sum(axis=1, keepdims=True)
    half = np.where(x > 0, 1.0, np.where(x == 0, 0.5, 0.0))
    return ChainTruth(log_z, marginal @ half, marginal @ x, marginal @ x**2)


def phi4_chain(dimension: int = 100, tilt: float = 0.005) -> KnownTarget:
    """A chain of coupled double wells, held at 0 at both ends: two modes, all sites up or all down.

    ``tilt`` is the external field b: the larger, the less mass has the upper mode. Published scores of masses at
    b = 0.025 and 0.05 used Laplace's approximation, which is off by 0.3 and 0.6 in the log odds.
    """
    d, coefficient = dimension, 0.1 * dimension
    truth, middle = phi4_chain_truth(d, tilt, 801 if d <= 200 else 1601), dimension // 2

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        bends = xp.sum((x[..., 1:] - x[..., :-1]) ** 2, axis=-1) + x[..., 0] ** 2 + x[..., -1] ** 2
        wells = xp.sum((1 - x**2) ** 2 / 4 + tilt * x, axis=-1)
        return -20.0 * (coefficient * bends / 2 + wells / coefficient)

    up = lambda x: namespace_of(x).where(x[..., middle] > 0, 1, 0)  # noqa: E731
    above = float(truth.above[middle])
    return KnownTarget(
        f"phi4-chain-{d}" + ("" if tilt == 0.005 else f"-tilt-{tilt:g}"), f"phi^4 chain, d = {d}, b = {tilt:g}",
        density, NormalPrior(np.zeros(d), np.full(d, 1.5)), False, np.full(d, -1.0),
        (
            Quantity("mean of the middle", lambda x: x[..., middle], float(truth.mean[middle]), 1e-9),
            Quantity("square of the middle", lambda x: x[..., middle] ** 2, float(truth.square[middle]), 1e-9),
        ),
        Modes(up, np.array([1 - above, above]), accuracy=1e-9),
        Evidence(truth.log_evidence, 1e-9, "transfer operator"), None, "Gabrié et al. (2022); Grenioux et al. (2024)",
    )  # fmt: skip


def phi4_lattice(side: int = 14, mass: float = -4.75, coupling: float = 5.1) -> KnownTarget:
    """A phi^4 field on a torus of ``side`` x ``side``, near its phase transition (Matthews et al. 2022).

    log p = -sum x (4 x - its four neighbours) - mass sum x^2 - coupling sum x^4. Changing all signs changes nothing, so
    that the mean field is positive with probability 1/2; the evidence is not known.
    """
    d = side * side

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        field = xp.reshape(xp.asarray(x), (*x.shape[:-1], side, side))
        around = sum(xp.roll(field, shift, axis=axis) for shift in (1, -1) for axis in (-1, -2))
        action = field * (4.0 * field - around) + mass * field**2 + coupling * field**4
        return -xp.sum(action, axis=(-1, -2))

    positive = lambda x: namespace_of(x).where(namespace_of(x).mean(x, axis=-1) > 0, 1, 0)  # noqa: E731
    return KnownTarget(
        f"phi4-lattice-{d}", f"phi^4 field on a torus, d = {d}", density, NormalPrior(np.zeros(d), np.ones(d)), False,
        np.full(d, 0.6), (Quantity("mean field", lambda x: namespace_of(x).mean(x, axis=-1), 0.0),),
        Modes(positive, np.array([0.5, 0.5])), None, None, "Matthews et al. (2022), CRAFT",
    )  # fmt: skip
