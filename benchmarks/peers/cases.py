"""The problems of the comparison: one likelihood and one normal prior for everybody, and the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from tempering import problems
from tempering.problems.posterior import NormalPrior

NEARBY = 0.1  # spread of ensembles around the points they are given


@dataclass(frozen=True, eq=False)
class Case:
    """A posterior as every sampler sees it, and what is known about it.

    ``log_likelihood`` and ``log_prior`` take NumPy or JAX arrays of shape (..., dimension).
    """

    name: str
    title: str
    log_likelihood: Callable[[Any], Any]
    prior: Any  # tempering.problems.Prior; normal in the cases of this file
    initial: Any
    mode_of: Callable[[Any], Any]
    mode_masses: Any
    summaries: Callable[[Any], Any]
    mean: Any
    sd: Any
    log_evidence: float
    error_wanted: float  # "a given error": of the masses of modes, or of moments in deviations where there is one mode
    basins: tuple[Any, Any] | None = None  # centres and widths of the modes, where everybody is given a point in each

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.prior.dimension)

    @property
    def is_multimodal(self) -> bool:
        """Whether there are masses of modes to get wrong."""
        return len(self.mode_masses) > 1

    def points_in_basins(self, seed: int) -> Any:
        """Return the points that everybody is given, one in each basin; None where there are none."""
        if self.basins is None:
            return None
        means, sds = self.basins
        return means + sds * np.random.default_rng(seed).standard_normal(means.shape)

    def starting_points(self, seed: int, n: int) -> Any:
        """Return ``n`` points to start from: closely around the given ones in turn, or draws of the prior."""
        rng, points = np.random.default_rng(seed), self.points_in_basins(seed)
        if points is None:
            return self.prior.sample(rng, n)
        return points[np.arange(n) % len(points)] + NEARBY * rng.standard_normal((n, self.dimension))

    @cached_property
    def log_density(self) -> Callable[[Any], Any]:
        """The posterior, not normalised."""
        return lambda x: self.log_likelihood(x) + self.prior.log_density(x)

    def errors(self, draws: Any, weights: Any | None, log_evidence: float | None) -> dict[str, float | None]:
        """Return the errors of masses (the worst), moments (in deviations, root mean square) and log evidence."""
        draws = np.asarray(draws, float)
        weights = np.full(len(draws), 1 / len(draws)) if weights is None else np.asarray(weights) / np.sum(weights)
        masses = np.bincount(self.mode_of(draws), weights, minlength=len(self.mode_masses))
        values = self.summaries(draws)
        mean = weights @ values
        sd = np.sqrt(weights @ (values - mean) ** 2)
        moments = np.concatenate([(mean - self.mean) / self.sd, sd / self.sd - 1])
        return {
            "masses": float(np.max(np.abs(masses - self.mode_masses))) if self.is_multimodal else None,
            "moments": float(np.sqrt(np.mean(moments**2))),
            "log_evidence": None if log_evidence is None else float(abs(log_evidence - self.log_evidence)),
        }


def of_mixture(name: str, title: str, mixture: problems.GaussianMixture, prior_sd: float, wanted: float) -> Case:
    """Return the posterior that is the mixture itself: the likelihood is the mixture over the prior, the evidence 1."""
    prior = NormalPrior(np.zeros(mixture.dimension), np.full(mixture.dimension, prior_sd))
    return Case(
        name, title, lambda x: mixture.log_density(x) - prior.log_density(x), prior, mixture.initial, mixture.mode_of,
        mixture.weights, np.asarray, mixture.mean, np.sqrt(np.diag(mixture.covariance)), 0.0, wanted,
    )  # fmt: skip


def with_points(case: Case, mixture: problems.GaussianMixture) -> Case:
    """Give everybody a point in the basin of each mode."""
    return replace(case, basins=(mixture.means, mixture.sds))


def of_posterior(name: str, title: str, problem: Any, wanted: float) -> Case:
    """Return a posterior on data, with its stored truth."""
    truth = problem.truth
    return Case(
        name, title, problem.log_likelihood, problem.prior, problem.initial, problem.mode_of, truth.mode_masses,
        problem.summaries, truth.mean, truth.sd, truth.log_evidence, wanted,
    )  # fmt: skip


MAKERS: dict[str, Callable[[], Case]] = {
    "mixture": lambda: of_mixture("mixture", "the paper's mixture", problems.mixture().as_vector, 10.0, 0.003),
    "ring": lambda: of_mixture("ring", "ring of 8 modes, d = 2", problems.ring(), 10.0, 0.003),
    "modes_5": lambda: of_mixture("modes_5", "4 unequal modes, d = 5", problems.unequal_modes(5), 6.0, 0.01),
    "modes_20": lambda: of_mixture("modes_20", "4 unequal modes, d = 20", problems.unequal_modes(20), 6.0, 0.01),
    "modes_50": lambda: of_mixture("modes_50", "4 unequal modes, d = 50", problems.unequal_modes(50), 6.0, 0.01),
    "two_given": lambda: with_points(
        of_mixture("two_given", "2 modes, d = 25, points given", problems.two_modes(), 6.0, 0.02), problems.two_modes()
    ),
    "five_given": lambda: with_points(
        of_mixture("five_given", "5 modes, d = 10, points given", problems.five_modes(), 6.0, 0.02),
        problems.five_modes(),
    ),
    "labels": lambda: of_posterior("labels", "label switching, n = 200, d = 9", problems.label_switching(), 0.01),
    "sensors": lambda: of_posterior("sensors", "sensor network, d = 8", problems.sensors(), 0.05),
    "logistic": lambda: of_posterior("logistic", "logistic, 1e4 rows, d = 10", problems.logistic(), 0.02),
}


@cache
def case_of(name: str) -> Case:
    """Return a case by its name, or the target of the suite that has it."""
    if name in MAKERS:
        return MAKERS[name]()
    from benchmarks.suite.cases import known_case

    return known_case(name)
