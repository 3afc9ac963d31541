"""Posteriors on small data sets whose answers follow from symmetry or from one quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity, chance
from tempering.problems.label_switching import order_of_means
from tempering.problems.priors import NormalPrior, Prior, UniformPrior, normal_quantile
from tempering.problems.problem import Array, FloatArray, log_sum_exp, namespace_of

_LOG_2PI = np.log(2 * np.pi)

# Velocities of 82 galaxies in km/s, from six conic sections of the Corona Borealis region (Postman, Huchra & Geller
# 1986, as tabulated by Roeder 1990)
GALAXIES = np.array([
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419, 18552, 18600, 18927, 19052, 19070, 19330, 19343,
    19349, 19440, 19473, 19529, 19541, 19547, 19663, 19846, 19856, 19863, 19914, 19918, 19973, 19989, 20166, 20175,
    20179, 20196, 20215, 20221, 20415, 20629, 20795, 20821, 20846, 20875, 20986, 21137, 21492, 21701, 21814, 21921,
    21960, 22185, 22209, 22242, 22249, 22314, 22374, 22495, 22746, 22747, 22888, 22914, 23206, 23241, 23263, 23484,
    23538, 23542, 23666, 23706, 23711, 24129, 24285, 24289, 24366, 24717, 24990, 25633, 26960, 26995, 32065, 32789,
    34279,
]) / 1000.0  # fmt: skip


@dataclass(frozen=True)
class _ComponentsPrior(Prior):
    """Normal means and log deviations of three components, and log ratios of weights that are uniform (Dirichlet)."""

    mean: float = 20.0
    mean_sd: float = 10.0
    log_sd: float = 0.5
    log_sd_sd: float = 0.7

    @property
    def dimension(self) -> int:
        """Three means, three log deviations, two log ratios."""
        return 8

    def log_density(self, x: Array) -> Any:
        """Return the log density; that of the log ratios is Gamma(3) times the product of the weights."""
        xp = namespace_of(x)
        x = xp.asarray(x)
        normals = ((x[..., :3] - self.mean) / self.mean_sd, (x[..., 3:6] - self.log_sd) / self.log_sd_sd)
        total = -0.5 * sum(xp.sum(z * z, axis=-1) for z in normals) - 3 * _LOG_2PI
        total = total - 3 * float(np.log(self.mean_sd * self.log_sd_sd)) + np.log(2.0)
        return total + xp.sum(log_weights(x), axis=-1)

    def from_unit_cube(self, u: Array) -> Any:
        """Break the stick of weights at uniform places; normal quantiles for the rest."""
        xp = namespace_of(u)
        z = normal_quantile(u[..., :6])
        rest = xp.sqrt(1 - u[..., 6])  # what the first piece leaves: the first weight is Beta(1, 2)
        first, second, third = 1 - rest, rest * u[..., 7], rest * (1 - u[..., 7])
        ratios = xp.log(xp.stack([first / third, second / third], axis=-1))
        normals = [self.mean + self.mean_sd * z[..., :3], self.log_sd + self.log_sd_sd * z[..., 3:]]
        return xp.concat([*normals, ratios], axis=-1)


def log_weights(x: Array) -> Any:
    """Return the logs of the three weights, from the log ratios to the third in the last two coordinates."""
    xp = namespace_of(x)
    logits = xp.concat([x[..., 6:8], xp.zeros_like(x[..., :1])], axis=-1)
    return logits - xp.expand_dims(log_sum_exp(logits), -1)


def galaxies() -> KnownTarget:
    """Velocities of 82 galaxies as a mixture of three normals: six labellings of mass 1/6 each, exactly."""

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        means, log_sds = x[..., :3], x[..., 3:6]
        z = (GALAXIES[:, None] - xp.expand_dims(means, -2)) * xp.expand_dims(xp.exp(-log_sds), -2)
        heights = xp.expand_dims(log_weights(x) - log_sds - 0.5 * _LOG_2PI, -2)
        return xp.sum(log_sum_exp(heights - 0.5 * z * z), axis=-1)

    return KnownTarget(
        "galaxies", "velocities of galaxies, 3 normals, d = 8", density, _ComponentsPrior(), True,
        np.array([9.7, 21.4, 33.0, -0.5, 0.8, 0.0, 0.8, 3.0]), (), Modes(order_of_means, np.full(6, 1 / 6)),
        None, None, "Roeder (1990); Richardson & Green (1997)",
    )  # fmt: skip


SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SCHOOL_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])  # Rubin (1981)


@cache
def _schools_truth(n: int = 40_001) -> dict[str, Any]:
    """Integrate the effects and their mean away in closed form; one quadrature over log tau remains."""
    log_tau = np.linspace(-25.0, 12.0, n)
    tau2, prior_precision = np.exp(2 * log_tau)[:, None], 1 / 25.0
    precision = 1 / (SCHOOL_ERRORS**2 + tau2)
    total = precision.sum(axis=1) + prior_precision
    mean = (precision @ SCHOOLS[:, None])[:, 0] / total
    quadratic = (precision @ (SCHOOLS**2)[:, None])[:, 0] - total * mean**2
    log_marginal = 0.5 * (np.log(precision).sum(axis=1) + np.log(prior_precision) - np.log(total) - quadratic)
    log_marginal -= 4 * _LOG_2PI  # eight normals
    log_prior = np.log(2 / (np.pi * 5.0)) - np.log1p(np.exp(2 * log_tau) / 25.0) + log_tau  # half-Cauchy, on the log
    weight = np.exp(log_marginal + log_prior - (log_marginal + log_prior).max())
    integral = np.trapezoid(weight, log_tau)
    shrunk = tau2 / (SCHOOL_ERRORS**2 + tau2)
    effects = shrunk * SCHOOLS + (1 - shrunk) * mean[:, None]

    def expect(h: FloatArray) -> float:
        return float(np.trapezoid(weight * h, log_tau) / integral)

    step = 0.5 * (weight[1:] + weight[:-1]) * (log_tau[1] - log_tau[0])
    return {
        "log_tau_cdf": (log_tau, np.concatenate([[0.0], np.cumsum(step)]) / step.sum()),
        "log_evidence": float(np.log(integral) + (log_marginal + log_prior).max()),
        "mean": expect(mean),
        "log_tau": expect(log_tau),
        "small": expect(np.where(log_tau < 0, 1.0, np.where(log_tau == 0, 0.5, 0.0))),
        "effects": np.array([expect(effects[:, i]) for i in range(8)]),
    }


def _schools_density(x: Array) -> Any:
    """Return log prior + log likelihood of (mu, log tau, effects), normalised, the Jacobian of log tau included."""
    xp = namespace_of(x)
    x = xp.asarray(x)
    mu, log_tau, effects = x[..., 0], x[..., 1], x[..., 2:]
    spread = xp.sum((effects - xp.expand_dims(mu, -1)) ** 2, axis=-1) * xp.exp(-2 * log_tau)
    misfit = xp.sum(((SCHOOLS - effects) / SCHOOL_ERRORS) ** 2, axis=-1)
    log_half_cauchy = np.log(2 / (np.pi * 5.0)) - xp.logaddexp(0.0, 2 * log_tau - 2 * np.log(5.0))
    constant = -8.5 * _LOG_2PI - np.log(5.0) - float(np.sum(np.log(SCHOOL_ERRORS)))
    return constant + log_half_cauchy - 0.5 * (mu**2 / 25.0 + spread + misfit) - 7 * log_tau


def _draw_schools(rng: np.random.Generator, n: int) -> FloatArray:
    """Draw log tau by its distribution function on a fine grid; the mean and the effects are normal given it."""
    at, cdf = _schools_truth()["log_tau_cdf"]
    log_tau = np.interp(rng.random(n), cdf, at)
    tau2 = np.exp(2 * log_tau)[:, None]
    precision = 1 / (SCHOOL_ERRORS**2 + tau2)
    total = precision.sum(axis=1) + 1 / 25.0
    mu = precision @ SCHOOLS / total + rng.standard_normal(n) / np.sqrt(total)
    shrunk = tau2 / (SCHOOL_ERRORS**2 + tau2)
    centre, sd = shrunk * SCHOOLS + (1 - shrunk) * mu[:, None], SCHOOL_ERRORS * np.sqrt(shrunk)
    return np.column_stack([mu, log_tau, centre + sd * rng.standard_normal((n, 8))])


def eight_schools() -> KnownTarget:
    """Eight schools, centred, unconstrained: mu, log tau and the eight effects (Rubin 1981).

    mu ~ N(0, 5^2), tau ~ half-Cauchy(5), effect ~ N(mu, tau^2), observed with known errors. A funnel in log tau.
    """
    truth, start = _schools_truth(), np.array([4.0, 1.0, *np.full(8, 4.0)])
    return KnownTarget(
        "eight-schools", "eight schools, centred, d = 10", _schools_density,
        NormalPrior(start, np.array([5.0, 2.5, *np.full(8, 12.0)])), False, start,
        (
            Quantity("mean of mu", lambda x: x[..., 0], truth["mean"], 1e-8),
            Quantity("mean of log tau", lambda x: x[..., 1], truth["log_tau"], 1e-6),
            chance("tau < 1", lambda x: x[..., 1] < 0, truth["small"], 1e-5),
            Quantity("effects", lambda x: x[..., 2:], truth["effects"], 1e-8),
        ),
        None, Evidence(truth["log_evidence"], 1e-8, "quadrature over log tau"), _draw_schools, "Rubin (1981)",
    )  # fmt: skip


_TIMES = np.arange(16) / 4.0 + 0.03 * np.sin(7.0 * np.arange(16))  # four a second, not quite regular
_NOISE, _AMPLITUDE, _PHASE, _FREQUENCY = 0.6, 1.0, 2.0, 0.7


def _signal() -> FloatArray:
    rng = np.random.default_rng(1928)  # the data, part of the problem
    clean = _AMPLITUDE * np.sin(2 * np.pi * _FREQUENCY * _TIMES + _PHASE)
    return np.asarray(clean + _NOISE * rng.standard_normal(len(_TIMES)))


@cache
def _sinusoid_truth(n_frequencies: int = 4001, n_phases: int = 801) -> dict[str, Any]:
    """Integrate the amplitude away in closed form, phase and frequency on a grid: both are smooth at this width."""
    y = _signal()
    frequency, phase = np.linspace(0.0, 5.0, n_frequencies), np.linspace(0.0, 2 * np.pi, n_phases)
    angle = 2 * np.pi * np.outer(frequency, _TIMES)
    sine, cosine = np.sin(angle), np.cos(angle)
    ys, yc = sine @ y, cosine @ y
    ss, sc, cc = np.sum(sine**2, 1), np.sum(sine * cosine, 1), np.sum(cosine**2, 1)
    sp, cp = np.sin(phase), np.cos(phase)
    cross = np.outer(ys, cp) + np.outer(yc, sp)
    square = np.outer(ss, cp**2) + 2 * np.outer(sc, sp * cp) + np.outer(cc, sp**2) + 1e-12
    best, sd = cross / square, _NOISE / np.sqrt(square)
    inside = np.exp(log_ndtr((3.0 - best) / sd)) - np.exp(log_ndtr((0.0 - best) / sd))
    log_weight = 0.5 * cross * best / _NOISE**2 + np.log(sd) + np.log(np.maximum(inside, 1e-300))
    weight = np.exp(log_weight - log_weight.max())
    by_frequency = np.trapezoid(weight, phase, axis=1)
    total = np.trapezoid(by_frequency, frequency)
    constant = -0.5 * (y @ y) / _NOISE**2 - len(y) * (np.log(_NOISE) + 0.5 * _LOG_2PI) + 0.5 * _LOG_2PI
    step = frequency[1] - frequency[0]
    masses = [_piece(by_frequency, frequency, step, a, b) / total for a, b in ((0.0, 2.0), (2.0, 4.0), (4.0, 5.0))]
    return {
        "log_evidence": float(np.log(total) + log_weight.max() + constant - np.log(3.0 * 2 * np.pi * 5.0)),
        "masses": np.array(masses),
        "frequency": float(np.trapezoid(by_frequency * frequency, frequency) / total),
    }


def _piece(values: FloatArray, at: FloatArray, step: float, lower: float, upper: float) -> float:
    inside = (at >= lower - step / 2) & (at <= upper + step / 2)
    return float(np.trapezoid(values[inside], at[inside]))


def sinusoid() -> KnownTarget:
    """Amplitude, phase and frequency of a sine sampled four times a second: aliases of the true frequency are modes."""
    y, truth = _signal(), _sinusoid_truth()

    def density(x: Array) -> Any:
        xp = namespace_of(x)
        x = xp.asarray(x)
        angle = 2 * np.pi * x[..., 2:3] * _TIMES + x[..., 1:2]
        misfit = (y - x[..., 0:1] * xp.sin(angle)) / _NOISE
        return -0.5 * xp.sum(misfit**2, axis=-1) - len(y) * (np.log(_NOISE) + 0.5 * _LOG_2PI)

    def band_of(x: Array) -> Any:
        xp = namespace_of(x)
        return xp.where(x[..., 2] < 2, 0, xp.where(x[..., 2] < 4, 1, 2))

    return KnownTarget(
        "sinusoid", "a sinusoid with aliases, d = 3", density,
        UniformPrior(np.zeros(3), np.array([3.0, 2 * np.pi, 5.0])), True, np.array([1.0, 2.0, 0.7]),
        (Quantity("mean of the frequency", lambda x: x[..., 2], truth["frequency"], 1e-6),),
        Modes(band_of, truth["masses"], accuracy=1e-6),
        Evidence(truth["log_evidence"], 1e-6, "quadrature over phase and frequency"), None, "this package",
    )  # fmt: skip
