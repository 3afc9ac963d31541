"""Data of four models whose evidence is known: by sums over allocations, or by quadrature."""

import itertools

import numpy as np
from scipy import integrate, stats

import tempering as tp

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])  # eight schools (Rubin 1981)
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
MIXED = np.array([-2.1, -1.4, 1.2, 2.3, 1.9, 3.0])
COVARIATE = np.linspace(-1.0, 1.5, 12)
COUNTS = np.array([0.0, 1.0, 0.0, np.nan, 2.0, 1.0, 3.0, 2.0, np.nan, 5.0, 4.0, 9.0])
GROUPED = np.array([[2.4, 1.1], [-1.8, -2.6], [0.9, -0.4]])  # two observations in each of three groups


def eight_schools():
    """Integrate over tau, mu and the effects being Gaussian given it."""

    def likelihood(angle):
        covariance = np.diag(ERROR**2 + (5 * np.tan(angle)) ** 2) + 25.0
        return stats.multivariate_normal(np.zeros(8), covariance).pdf(EFFECT) * 2 / np.pi

    return np.log(integrate.quad(likelihood, 0, np.pi / 2, epsabs=0, epsrel=1e-9)[0])


def mixture():
    """Sum over all allocations of six data to two components; each component's data are jointly Gaussian."""
    total = 0.0
    for labels in itertools.product([0, 1], repeat=len(MIXED)):
        part = 0.5 ** len(MIXED)
        for component in (0, 1):
            y = MIXED[np.array(labels) == component]
            if len(y):
                part *= stats.multivariate_normal(np.zeros(len(y)), np.eye(len(y)) + 9.0).pdf(y)
        total += part
    return np.log(total)


def poisson():
    """Integrate over both coefficients on a grid, with the rows that are there."""
    a, b = np.meshgrid(np.linspace(-5, 5, 801), np.linspace(-5, 5, 801), indexing="ij")
    seen = ~np.isnan(COUNTS)
    log_joint = stats.norm.logpdf(a) + stats.norm.logpdf(b)
    for x, y in zip(COVARIATE[seen], COUNTS[seen], strict=True):
        log_joint += stats.poisson.logpmf(y, np.exp(a + b * x))
    return np.log(np.sum(np.exp(log_joint)) * (10 / 800) ** 2)


def bimodal_groups():
    """Sum over the sides of the three group effects; given them all data are jointly Gaussian."""
    total = 0.0
    group = np.repeat(np.arange(3), 2)
    same = (group[:, None] == group).astype(float)
    for sides in itertools.product([-2.0, 2.0], repeat=3):
        covariance = 1.0 + 0.25 * same + np.eye(6)
        total += 0.125 * stats.multivariate_normal(np.array(sides)[group], covariance).pdf(GROUPED.ravel())
    return np.log(total)


EVIDENCE = {f.__name__: f for f in (eight_schools, mixture, poisson, bimodal_groups)}
SETTINGS = {
    "ladder": [1.0, 0.4, 0.12, 0.03, 0.0],
    "draws": 1500,
    "tuning": tp.Tuning(640),
    "chains": 8,
    "rng": 7,
    "progress": False,
}


def assert_evidence(run, name):
    """Check the log evidence: 6 standard errors, each below 0.15."""
    found = run.log_evidence()
    assert found.is_absolute
    assert found.standard_error < 0.15
    gap = abs(found.value - EVIDENCE[name]()) / found.standard_error
    assert gap < 6, f"{name}: log evidence {found.value:.3f}, {gap:.1f} standard errors from the truth"


def refuses_evidence(target, name):
    """Whether the check of an evidence rejects a run of this target."""
    run = tp.sample(target, **SETTINGS)
    try:
        assert_evidence(run, name)
    except AssertionError as error:
        return "standard errors from the truth" in str(error)
    return False


def without_a_constant(target):
    """Return a target whose likelihood has lost the constant of one row."""
    constant = 0.5 * np.log(2 * np.pi)
    return tp.Target.from_likelihood(lambda x: target.energy(x) + constant, target.base, target.sample_base)
