import numpy as np
import pytest
from scipy import stats

from statistical import seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import weighted_density


def mixture_pdf(x):
    return 0.6 * stats.norm.pdf(x, -8, 0.5) + 0.4 * stats.norm.pdf(x, 8, 0.9)  # Eq. 10


def mixture_draws(rng, n):
    left = rng.random(n) < 0.6
    return np.where(left, rng.normal(-8, 0.5, n), rng.normal(8, 0.9, n))


def integrated_error(curve, pdf):
    return np.sum(np.abs(curve.density - pdf(curve.points))) * (curve.points[1] - curve.points[0])


def test_two_modes_far_apart_are_not_smoothed_together():
    x = mixture_draws(seeded_rng("two modes"), 50_000)
    curve = weighted_density(x, np.ones(x.size))
    assert integrated_error(curve, mixture_pdf) < 0.05
    silverman = 0.9 * min(x.std(), np.subtract(*np.percentile(x, [75, 25])) / 1.34) * x.size**-0.2
    rough = weighted_density(x, np.ones(x.size), bandwidth=silverman)
    assert integrated_error(rough, mixture_pdf) > 4 * integrated_error(curve, mixture_pdf)


def test_weights_move_the_curve_to_the_target():
    x = seeded_rng("density weights").normal(0, 2, 100_000)
    weights = np.exp(stats.norm.logpdf(x, 1, 1) - stats.norm.logpdf(x, 0, 2))
    assert integrated_error(weighted_density(x, weights), stats.norm(1, 1).pdf) < 0.05
    assert integrated_error(weighted_density(x, np.ones(x.size)), stats.norm(1, 1).pdf) > 0.5


def test_the_grid_is_as_good_as_a_sum_of_kernels():
    x = seeded_rng("kernel sum").normal(size=300)
    w = seeded_rng("kernel sum weights").random(300)
    curve = weighted_density(x, w, bandwidth=0.3, n_points=4096)
    slow = np.array([np.sum(w * stats.norm.pdf(point, x, 0.3)) / w.sum() for point in curve.points[::64]])
    inside = (curve.points[::64] > x.min() + 1) & (curve.points[::64] < x.max() - 1)  # the ends reflect
    np.testing.assert_allclose(curve.density[::64][inside], slow[inside], atol=1e-4)


def test_the_mass_is_one():
    x = seeded_rng("mass").gamma(2.0, size=5000)
    curve = weighted_density(x, np.ones(5000))
    assert curve.density.sum() * (curve.points[1] - curve.points[0]) == pytest.approx(1.0, abs=1e-9)
    assert curve.bandwidth == pytest.approx(0.9 * x.std() * 5000**-0.2, rel=0.6)


@pytest.mark.parametrize("values", [[2.0], [2.0, 2.0], [0.0, 1.0], [-1e9, 1e9, 3.0]])
def test_few_or_equal_draws_still_give_a_curve(values):
    curve = weighted_density(values, np.ones(len(values)))
    assert np.all(np.isfinite(curve.density))
    assert curve.density.sum() * (curve.points[1] - curve.points[0]) == pytest.approx(1.0, rel=1e-6)


def test_a_curve_needs_points():
    with pytest.raises(EstimatorError, match="n_points"):
        weighted_density([1.0, 2.0], [1.0, 1.0], n_points=2)
