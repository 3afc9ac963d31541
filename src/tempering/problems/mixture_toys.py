"""Mixtures of normals and of heavy tails from the literature on multimodal sampling, with exact masses."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from tempering.problems.gaussian_mixture import GaussianMixture
from tempering.problems.known import Evidence, Function, KnownTarget, Modes, Quantity, chance, squared_length
from tempering.problems.priors import CauchyPrior, NormalPrior, UniformPrior
from tempering.problems.problem import Array, FloatArray, log_sum_exp, namespace_of

CLOSED_FORM = "closed form"


def component_shares(log_parts: Array) -> Any:
    """Return the chances that each component made a position, from its log parts of shape (..., n)."""
    xp = namespace_of(log_parts)
    return xp.exp(log_parts - xp.expand_dims(log_sum_exp(log_parts), -1))


def component_modes(log_parts: Function, weights: FloatArray, *, can_be_found: bool = True) -> Modes:
    """Return the components of a mixture as modes; their masses are exact also where they overlap."""

    def mode_of(x: Array) -> Any:
        return namespace_of(x).argmax(log_parts(x), axis=-1)

    return Modes(mode_of, weights, lambda x: component_shares(log_parts(x)), can_be_found=can_be_found)


def mixture_quantities(mixture: GaussianMixture) -> tuple[Quantity, ...]:
    """Return the mean, and the mean of the squared length."""
    second = float(np.trace(mixture.covariance) + np.sum(np.square(mixture.mean)))
    return Quantity("mean", lambda x: x, np.asarray(mixture.mean)), squared_length(second)


def known_mixture(
    name: str,
    title: str,
    mixture: GaussianMixture,
    *,
    box: tuple[float, float] | None = None,
    prior_sd: float | None = None,
    wide_sd: float | None = None,
    source: str = "",
    can_be_found: bool = True,
) -> KnownTarget:
    """Return a mixture as a bare density, or as a posterior under a box or a normal prior.

    With a prior the likelihood is the mixture over the prior, so that the posterior is the mixture itself. A box must
    hold the mixture: the mass outside is taken for nothing.
    """
    d = mixture.dimension
    reach = float(np.max(np.abs(mixture.means)) + 4 * np.max(mixture.sds))
    prior = (
        UniformPrior.cube(*box, d) if box else NormalPrior(np.zeros(d), np.full(d, prior_sd or wide_sd or reach / 2))
    )
    has_prior = box is not None or prior_sd is not None
    density = mixture.log_density
    if box is not None:
        volume = d * float(np.log(box[1] - box[0]))
        density = lambda x: mixture.log_density(x) + volume  # noqa: E731
    elif prior_sd is not None:
        density = lambda x: mixture.log_density(x) - prior.log_density(x)  # noqa: E731
    return KnownTarget(
        name, title, density, prior, has_prior, mixture.initial, mixture_quantities(mixture),
        component_modes(mixture.log_parts, np.asarray(mixture.weights), can_be_found=can_be_found),
        Evidence(0.0, 0.0, CLOSED_FORM), lambda rng, n: mixture.sample(rng, n), source,
        (-reach, reach, -reach, reach) if d == 2 else None,
    )  # fmt: skip


# jax.random.uniform(jax.random.PRNGKey(0), (40, 2), minval=-1, maxval=1) * 40, to single precision
_GMM40_MEANS = np.array([
    (35.81336, 38.28639), (-13.41668, -2.506523), (5.591097, -26.75976), (-15.18443, 15.15844),
    (19.74133, -26.31884), (38.82831, -37.97739), (11.20335, 5.015268), (31.9371, 34.763),
    (26.73121, 18.0493), (0.78825, -37.78783), (-37.4809, 36.6415), (1.505537, 23.37713),
    (4.179354, 8.908234), (31.45404, 20.39927), (-23.06866, -21.65202), (-35.04616, 9.515009),
    (-0.6611156, 3.607883), (-6.98555, 2.248888), (24.26019, -23.55178), (-0.466404, -4.784002),
    (-25.27807, -22.08764), (10.4375, 23.26512), (1.362133, -17.46056), (-12.85672, -37.9109),
    (32.47462, 21.97258), (5.138607, -1.111488), (-32.66771, 12.24554), (14.82469, 23.14018),
    (-18.94938, 28.04327), (-21.6666, -13.31098), (-7.123957, -15.86818), (-36.19702, 20.02197),
    (7.195091, -30.48067), (-26.85196, 30.74712), (-23.99226, 19.62491), (28.57946, 9.902325),
    (13.5348, 30.34981), (25.43874, 31.14113), (-16.60823, 24.32682), (-0.2542305, 14.564),
])  # fmt: skip


def gmm40(*, with_prior: bool = True) -> KnownTarget:
    """Forty normals of deviation 1 in the square [-40, 40]^2, two of them closer than two deviations.

    The means are those of fab-jax (Midgley et al. 2023): drawn by JAX from key 0. The PyTorch version of the same paper
    has other means and deviations of 1.313: figures for the two cannot be compared.
    """
    mixture = GaussianMixture(np.full(40, 1 / 40), _GMM40_MEANS, np.ones(40))
    return known_mixture(
        "gmm-40" if with_prior else "gmm-40-bare", "40 normals on [-40, 40]^2", mixture,
        box=(-45.0, 45.0) if with_prior else None, wide_sd=25.0, source="Midgley et al. (2023), fab-jax",
    )  # fmt: skip


def gmm9() -> KnownTarget:
    """Nine normals on a 3 x 3 grid five apart, deviation 0.5477."""
    axis = np.array([-5.0, 0.0, 5.0])
    means = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mixture = GaussianMixture(np.full(9, 1 / 9), means, np.full(9, 0.5477222))
    return known_mixture("gmm-9", "9 normals on a grid", mixture, source="Zhang & Chen (2022)")


def grid25() -> KnownTarget:
    """Twenty-five normals on a 5 x 5 grid five apart, deviation 0.5477."""
    axis = np.linspace(-10.0, 10.0, 5)
    means = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mixture = GaussianMixture(np.full(25, 1 / 25), means, np.full(25, 0.5477222))
    return known_mixture("grid-25", "25 normals on a grid", mixture, source="torchgfn")


def twin_modes(dimension: int = 128, separation: float = 1.0) -> KnownTarget:
    """Two modes of equal width and masses 2/3 and 1/3, on the diagonal, at -2/3 and 4/3 times ``separation``."""
    centres = np.outer([-2 / 3, 4 / 3], np.full(dimension, separation))
    mixture = GaussianMixture(np.array([2 / 3, 1 / 3]), centres, np.full(2, np.sqrt(0.05)))
    name = f"twin-modes-{dimension}" + ("" if separation == 1.0 else f"-apart-{separation:g}")
    return known_mixture(
        name, f"two modes, d = {dimension}", mixture, wide_sd=1.5, source="Grenioux et al. (2024), SLIPS"
    )


def eight_gaussians() -> KnownTarget:
    """Eight equal normals on a circle of radius 10, variance 0.7."""
    angle = 2 * np.pi * np.arange(8) / 8
    means = 10.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    mixture = GaussianMixture(np.full(8, 1 / 8), means, np.full(8, np.sqrt(0.7)))
    return known_mixture("eight-gaussians", "8 normals on a circle", mixture, source="Grenioux et al. (2024), SLIPS")


def four_modes() -> KnownTarget:
    """Four modes of unequal masses and shapes in the square [-10, 10]^2."""
    means = np.array([[-5.5, -4.0], [5.0, -6.0], [-4.0, 6.0], [6.0, 5.0]])
    sds = np.array([[0.6, 1.1], [0.9, 0.4], [0.5, 0.5], [1.0, 0.8]])
    mixture = GaussianMixture(np.array([0.4, 0.3, 0.2, 0.1]), means, sds)
    return known_mixture("four-modes", "4 unequal modes, d = 2", mixture, box=(-12.0, 12.0), source="this package")


def two_in_cube(dimension: int = 2) -> KnownTarget:
    """Two normals of deviation 0.01 at 0.4 and 0.6 on the diagonal of the unit cube (UltraNest's)."""
    centres = np.outer([0.4, 0.6], np.ones(dimension))
    mixture = GaussianMixture(np.array([0.5, 0.5]), centres, np.full(2, 0.01))
    return known_mixture(
        f"two-in-cube-{dimension}", f"two narrow normals in the unit cube, d = {dimension}", mixture, box=(0.0, 1.0),
        source="Buchner (2021), UltraNest",
    )  # fmt: skip


def plain_normal(dimension: int = 10) -> KnownTarget:
    """One normal with correlated coordinates and unequal scales: what everybody can do."""
    scale = 0.5 + np.arange(dimension) % 3
    tril = np.diag(scale) + np.diag(0.5 * scale[1:], -1)
    centre, inverse = 1.0 + np.arange(dimension) % 2, np.linalg.inv(tril)
    constant = -0.5 * dimension * np.log(2 * np.pi) - float(np.sum(np.log(scale)))

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        z = (xp.asarray(x) - centre) @ inverse.T
        return constant - 0.5 * xp.sum(z * z, axis=-1)

    variance = np.diag(tril @ tril.T)
    return KnownTarget(
        f"normal-{dimension}", f"a correlated normal, d = {dimension}", density,
        NormalPrior(np.zeros(dimension), np.full(dimension, 5.0)), False, np.zeros(dimension),
        (Quantity("mean", lambda x: x, centre), Quantity("square", lambda x: x * x, variance + centre**2)),
        None, Evidence(0.0, 0.0, CLOSED_FORM),
        lambda rng, n: centre + rng.standard_normal((n, dimension)) @ tril.T, "this package",
    )  # fmt: skip


def challenging() -> KnownTarget:
    """The "challenging" mixture of annealed flow transport: three normals, symmetrised by swapping coordinates."""
    means = np.array([[3.0, 0.0], [-2.5, 0.0], [2.0, 3.0]])
    covariances = np.array([np.diag([0.7, 0.05]), np.diag([0.7, 0.05]), [[1.0, 0.95], [0.95, 1.0]]])
    means = np.concatenate([means, means[:, ::-1]])
    covariances = np.concatenate([covariances, covariances[:, ::-1, ::-1]])
    inverse = np.linalg.inv(np.linalg.cholesky(covariances))
    heights = -np.log(6 * 2 * np.pi) - 0.5 * np.linalg.slogdet(covariances)[1]

    def log_parts(x: Array) -> Any:
        xp = namespace_of(x)
        z = xp.einsum("kij,...kj->...ki", inverse, xp.expand_dims(xp.asarray(x), -2) - means)
        return heights - 0.5 * xp.sum(z * z, axis=-1)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        which = rng.integers(6, size=n)
        noise = rng.standard_normal((n, 2))
        return np.asarray(means[which] + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[which], noise))

    second = float(np.mean(np.trace(covariances, axis1=1, axis2=2) + np.sum(means**2, axis=1)))
    return KnownTarget(
        "challenging", "the challenging mixture of AFT, d = 2", lambda x: log_sum_exp(log_parts(x)),
        NormalPrior(np.zeros(2), np.full(2, 4.0)), False, np.zeros(2),
        (Quantity("mean", lambda x: x, means.mean(axis=0)), squared_length(second)),
        component_modes(log_parts, np.full(6, 1 / 6)),
        Evidence(0.0, 0.0, CLOSED_FORM), exact, "Arbel, Matthews & Doucet (2021)", (-6.0, 7.0, -6.0, 7.0),
    )  # fmt: skip


def student_modes(dimension: int = 4, degrees: float = 5.0) -> KnownTarget:
    """Two Student modes of masses 0.65 and 0.35, 12 apart, as a bare density: powers below d / (d + 5) diverge."""
    weights, first = np.array([0.65, 0.35]), np.array([-5.0, 7.0])
    centres = np.zeros((2, dimension))
    centres[:, 0] = first
    scales = np.array([1.0, 0.7])
    d, nu = dimension, degrees
    constant = float(gammaln((nu + d) / 2) - gammaln(nu / 2) - 0.5 * d * np.log(nu * np.pi))
    heights = np.log(weights) + constant - d * np.log(scales)

    def log_parts(x: Array) -> Any:
        xp = namespace_of(x)
        z = (xp.expand_dims(xp.asarray(x), -2) - centres) / scales[:, None]
        return heights - 0.5 * (nu + d) * xp.log1p(xp.sum(z * z, axis=-1) / nu)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        which = rng.choice(2, size=n, p=weights)
        noise = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(nu, size=(n, 1)) / nu)
        return np.asarray(centres[which] + scales[which, None] * noise)

    beyond = float(weights @ stats.t.sf((0.0 - first) / scales, nu))
    square = float(weights @ (scales**2 * nu / (nu - 2) + first**2))
    return KnownTarget(
        f"student-modes-{d}", f"two Student modes, {nu:g} degrees of freedom, d = {d}",
        lambda x: log_sum_exp(log_parts(x)), CauchyPrior(np.zeros(d), np.full(d, 5.0)), False, centres[0],
        (
            chance("x_0 > 0", lambda x: x[..., 0] > 0, beyond),
            Quantity("mean of x_0", lambda x: x[..., 0], float(weights @ first)),
            Quantity("square of x_0", lambda x: x[..., 0] ** 2, square),
        ),
        component_modes(log_parts, weights), Evidence(0.0, 0.0, CLOSED_FORM), exact, "this package",
    )  # fmt: skip


def cauchy_modes() -> KnownTarget:
    """Two Cauchy modes on the line, 0.6 and 0.4: no mean exists, masses and tail chances do."""
    weights, centres, scales = np.array([0.6, 0.4]), np.array([-5.0, 10.0]), np.array([1.0, 0.5])
    heights = np.log(weights) - np.log(np.pi * scales)

    def log_parts(x: Array) -> Any:
        xp = namespace_of(x)
        z = (xp.asarray(x) - centres) / scales  # the only coordinate is the last axis
        return heights - xp.log1p(z * z)

    def exact(rng: np.random.Generator, n: int) -> FloatArray:
        which = rng.choice(2, size=n, p=weights)
        return np.asarray((centres[which] + scales[which] * rng.standard_cauchy(n))[:, None])

    def above(x: float) -> float:
        return float(weights @ stats.cauchy.sf((x - centres) / scales))

    return KnownTarget(
        "cauchy-modes", "two Cauchy modes, d = 1", lambda x: log_sum_exp(log_parts(x)),
        CauchyPrior(np.zeros(1), np.full(1, 8.0)), False, centres[:1],
        (
            chance("x > 2", lambda x: x[..., 0] > 2, above(2.0)),
            chance("x > 30", lambda x: x[..., 0] > 30, above(30.0)),
        ),
        component_modes(log_parts, weights), Evidence(0.0, 0.0, CLOSED_FORM), exact, "this package",
    )  # fmt: skip
