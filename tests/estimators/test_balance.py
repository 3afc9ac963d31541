import numpy as np
import pytest
from scipy import stats

from statistical import assert_mean_is, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import balance_heuristic

SCALES, COUNTS = np.array([1.0, 2.0, 4.0]), np.array([2000, 1000, 3000])


def log_densities(x):
    return np.array([stats.norm.logpdf(x, 0.5, s) for s in SCALES])


def test_equations_7_and_8_agree():
    rng = seeded_rng("balance equations")
    origin = np.repeat(np.arange(3), COUNTS)
    x = 0.5 + SCALES[origin] * rng.normal(size=origin.size)
    g, c = np.exp(log_densities(x)), COUNTS / COUNTS.sum()
    target = stats.gamma.pdf(x + 3, 4.0)
    lam = c[origin] * g[origin, np.arange(x.size)] / (c @ g)  # Eq. 7
    by_equation_6 = sum(np.sum((lam * target / g[i] * x)[origin == i]) / COUNTS[i] for i in range(3))
    with np.errstate(divide="ignore"):
        w = np.exp(balance_heuristic(np.log(target), log_densities(x), COUNTS))
    assert np.mean(w * x) == pytest.approx(by_equation_6, rel=1e-12)


def test_a_normalised_target_is_estimated_without_bias():
    rng = seeded_rng("balance unbiased")
    estimates = []
    for _ in range(200):
        x = 0.5 + np.repeat(SCALES, COUNTS // 10) * rng.normal(size=600)
        w = np.exp(balance_heuristic(stats.norm.logpdf(x, 1.0, 0.7), log_densities(x), COUNTS // 10))
        estimates.append([np.mean(w), np.mean(w * x), np.mean(w * x**2)])
    assert_mean_is([1.0, 1.0, 1.49], estimates)


def test_draws_outside_every_proposal_are_refused():
    with pytest.raises(EstimatorError, match="positive density"):
        balance_heuristic([0.0], [[-np.inf]], [1])
    np.testing.assert_array_equal(balance_heuristic([-np.inf, 1.0], [[-np.inf, 0.0]], [1]), [-np.inf, 1.0])


def test_shapes_that_do_not_match_are_refused():
    with pytest.raises(EstimatorError, match="n_draws"):
        balance_heuristic(np.zeros(3), np.zeros((2, 3)), [1])
