"""The package's own problems as members of the suite, and a small logistic regression with its exact answers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtri
from scipy.stats import qmc

from tempering.problems.banana import Banana
from tempering.problems.gaussian_likelihood import likelihood_gaussian
from tempering.problems.gaussian_mixture import five_modes, ring, two_modes, unequal_modes
from tempering.problems.known import Evidence, KnownTarget, Modes, Quantity
from tempering.problems.label_switching import label_switching
from tempering.problems.logistic import LogisticRegression
from tempering.problems.mixture_toys import known_mixture
from tempering.problems.normal_mixture import mixture
from tempering.problems.priors import NormalPrior
from tempering.problems.sensors import sensors
from tempering.problems.skewed import skewed


def paper_mixture() -> KnownTarget:
    """The two normals on the line of the paper's Eq. 10."""
    return known_mixture("paper-mixture", "the paper's mixture, d = 1", mixture().as_vector, source="Gramacy et al.")


def ring_of_modes() -> KnownTarget:
    """Eight unequal modes on a circle."""
    return known_mixture("ring", "ring of 8 unequal modes, d = 2", ring(), source="this package")


def unequal_posterior(dimension: int = 5) -> KnownTarget:
    """Four unequal modes under a normal prior of deviation 6."""
    name, title = f"unequal-modes-{dimension}", f"4 unequal modes under a prior, d = {dimension}"
    return known_mixture(name, title, unequal_modes(dimension), prior_sd=6.0, source="this package")


def five_hidden() -> KnownTarget:
    """Five modes in ten dimensions from one starting point: the narrow ones cannot be counted on to be found."""
    return known_mixture(
        "five-modes", "5 modes, d = 10, one point given", five_modes(), source="this package", can_be_found=False
    )


def two_hidden() -> KnownTarget:
    """A wide and a narrow mode in 25 dimensions, started in the wide one: nothing leads to the other."""
    return known_mixture(
        "two-modes-25", "2 modes, d = 25, one point given", two_modes(), source="this package", can_be_found=False
    )


def known_density(name: str, title: str, problem: Any, wide: float) -> KnownTarget:
    """Return one of the densities with exact moments and draws as a bare density."""
    d = problem.dimension
    square = np.diag(problem.covariance) + np.square(problem.mean)
    return KnownTarget(
        name, title, problem.log_density, NormalPrior(np.zeros(d), np.full(d, wide)), False, problem.initial,
        (Quantity("mean", lambda x: x, problem.mean), Quantity("square", lambda x: x * x, square)), None,
        Evidence(0.0, 0.0, "closed form"), lambda rng, n: problem.sample(rng, n), "this package",
        (-8.0, 10.0, -4.0, 18.0) if d == 2 else None,
    )  # fmt: skip


def skewed_body(dimension: int = 5) -> KnownTarget:
    """Logarithms of gamma variables, correlated."""
    return known_density(f"skewed-{dimension}", f"a skewed body, d = {dimension}", skewed(dimension), 6.0)


def banana() -> KnownTarget:
    """A bent ridge in the plane."""
    return known_density("banana", "a banana, d = 2", Banana(), 8.0)


def regression(dimension: int = 3) -> KnownTarget:
    """A linear regression with known noise: everything in closed form."""
    problem = likelihood_gaussian(dimension)
    return KnownTarget(
        f"regression-{dimension}", f"linear regression, d = {dimension}", problem.log_likelihood,
        problem.prior, True, problem.initial,
        (
            Quantity("mean", lambda x: x, problem.mean),
            Quantity("square", lambda x: x * x, np.diag(problem.covariance) + problem.mean**2),
        ),
        None, Evidence(problem.log_evidence, 0.0, "closed form"), lambda rng, n: problem.sample(rng, n),
        "this package",
    )  # fmt: skip


def known_posterior(name: str, title: str, problem: Any) -> KnownTarget:
    """Return a posterior on data with its stored truth; errors of the truth are part of it."""
    truth = problem.truth
    modes = Modes(problem.mode_of, truth.mode_masses, accuracy=float(np.max(truth.mode_masses_error)))
    return KnownTarget(
        name, title, problem.log_likelihood, problem.prior, True, problem.initial,
        (Quantity("mean", problem.summaries, truth.mean, float(np.max(truth.mean_error))),),
        modes if problem.n_modes > 1 else None,
        Evidence(truth.log_evidence, truth.log_evidence_error, "a long run and SMC, which agree"), None,
        "this package",
    )  # fmt: skip


def labels() -> KnownTarget:
    """Three normals on 200 made-up data, every labelling a mode."""
    return known_posterior("labels", "label switching, n = 200, d = 9", label_switching())


def sensor_network() -> KnownTarget:
    """Four sensors placed by noisy distances."""
    return known_posterior("sensors", "sensor network, d = 8", sensors())


@cache
def _logistic_truth(dimension: int, n_rows: int, log_points: int = 19) -> tuple[Any, ...]:
    """Weigh scrambled Sobol points of a Student distribution at the mode; eight scramblings give the error."""
    problem = _logistic(dimension, n_rows)
    mode, covariance = _laplace(problem)
    tril, degrees = np.linalg.cholesky(covariance), 10
    proposal = stats.multivariate_t(mode, covariance, df=degrees)
    rows = []
    for seed in range(8):
        u = qmc.Sobol(dimension + 1, rng=np.random.default_rng(seed)).random_base2(log_points - 3)
        scale = np.sqrt(degrees / stats.chi2.ppf(u[:, -1:], degrees))
        x = mode + scale * ndtri(u[:, :-1]) @ tril.T
        weight = np.exp(problem.log_density(x) - proposal.logpdf(x) - problem.log_density(mode))
        rows.append([np.mean(weight), *(weight @ x / weight.sum()), *(weight @ x**2 / weight.sum())])
    table = np.array(rows)
    value, error = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(8)
    log_z = float(np.log(value[0]) + problem.log_density(mode))
    return log_z, float(error[0] / value[0]), value[1:], float(error[1:].max())


def _laplace(problem: LogisticRegression) -> tuple[Any, Any]:
    """Return the mode and the inverse curvature there, by Newton's method: the posterior is log-concave."""
    x = np.zeros(problem.design.shape[1])
    curvature = np.eye(len(x))
    for _ in range(30):
        chance = 1 / (1 + np.exp(-problem.design @ x))
        curvature = (problem.design * (chance * (1 - chance))[:, None]).T @ problem.design + np.eye(len(x))
        x = x + np.linalg.solve(curvature, problem.design.T @ (problem.outcomes - chance) - x)
    return x, np.linalg.inv(curvature)


def _logistic(dimension: int, n_rows: int) -> LogisticRegression:
    rng = np.random.default_rng(1958)  # the data, part of the problem
    design = np.hstack([np.ones((n_rows, 1)), rng.standard_exponential((n_rows, dimension - 1)) - 0.5])
    outcomes = rng.random(n_rows) < 1 / (1 + np.exp(-design @ (1.5 - np.arange(dimension))))
    return LogisticRegression(design, outcomes.astype(float))


def small_logistic(dimension: int = 4, n_rows: int = 40) -> KnownTarget:
    """A logistic regression on 40 rows: one skewed mode, and moments by importance sampling to 1e-4."""
    problem = _logistic(dimension, n_rows)
    log_z, log_z_error, moments, error = _logistic_truth(dimension, n_rows)
    return KnownTarget(
        f"logistic-{dimension}", f"logistic regression, {n_rows} rows, d = {dimension}", problem.log_likelihood,
        problem.prior, True, problem.initial,
        (
            Quantity("mean", lambda x: x, moments[:dimension], error),
            Quantity("square", lambda x: x * x, moments[dimension:], error),
        ),
        None, Evidence(log_z, log_z_error, "importance sampling by quasi-Monte Carlo"), None, "this package",
    )  # fmt: skip
