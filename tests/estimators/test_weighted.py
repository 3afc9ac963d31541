import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from statistical import seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import (
    ks_distance,
    weighted_ecdf,
    weighted_hdi,
    weighted_mean,
    weighted_quantile,
    weighted_variance,
)

counts = st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 4)), min_size=1, max_size=20).filter(
    lambda pairs: any(n for _, n in pairs)
)


@given(counts, st.floats(0, 1))
def test_integer_weights_are_repetitions(pairs, probability):
    x, n = np.array([p[0] for p in pairs], float), np.array([p[1] for p in pairs])
    repeated = np.repeat(x, n)
    assert weighted_mean(x, n) == pytest.approx(repeated.mean())
    assert weighted_variance(x, n) == pytest.approx(repeated.var())
    for p in (probability, 0.0, 0.25, 0.5, 1.0):
        slow = np.quantile(repeated, p, method="inverted_cdf")
        assert weighted_quantile(x, n / n.sum(), p) == slow
    ecdf = weighted_ecdf(x, n)
    points = np.linspace(-9, 9, 37)
    np.testing.assert_allclose(ecdf(points), [(repeated <= point).mean() for point in points], atol=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_the_distance_with_equal_weights_is_scipys(seed, n):
    x = np.random.default_rng(seed).normal(size=n).round(1)
    expected = stats.ks_1samp(x, stats.norm.cdf).statistic
    assert ks_distance(x, np.full(n, 3.0), stats.norm.cdf) == pytest.approx(expected, abs=1e-12)


def test_weighted_draws_come_near_their_target_and_unweighted_do_not():
    x = seeded_rng("weighted distance").normal(0, 2, 20_000)
    weights = np.exp(stats.norm.logpdf(x, 0.5, 1) - stats.norm.logpdf(x, 0, 2))
    cdf = stats.norm(0.5, 1).cdf
    assert ks_distance(x, weights, cdf) < 0.04  # 5 / sqrt(ESS of about 15 000)
    assert ks_distance(x, np.ones(20_000), cdf) > 0.15


def test_trailing_axes_belong_to_the_value():
    x = seeded_rng("trailing").normal(size=(3, 50, 2, 4))
    w = seeded_rng("trailing weights").random((3, 50))
    flat_w = w.ravel() / w.sum()
    np.testing.assert_allclose(weighted_mean(x, w), np.tensordot(flat_w, x.reshape(150, 2, 4), 1))
    assert weighted_variance(x, w).shape == (2, 4)
    quantiles = weighted_quantile(x, w, [[0.1, 0.5, 0.9]])
    assert quantiles.shape == (1, 3, 2, 4)
    assert quantiles[0, 1, 1, 2] == weighted_quantile(x[..., 1, 2], w, 0.5)


def test_draws_without_weight_are_not_looked_at():
    assert weighted_mean([1.0, np.nan], [1.0, 0.0]) == 1.0
    assert weighted_variance([1.0, np.inf], [1.0, 0.0]) == 0.0
    assert weighted_quantile([1.0, np.inf], [1.0, 0.0], 1.0) == 1.0


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0], [1.0]])
def test_weights_that_cannot_be_are_refused(weights):
    with pytest.raises(EstimatorError):
        weighted_mean([1.0, 2.0], weights)


def test_probabilities_and_vectors_are_checked():
    with pytest.raises(EstimatorError, match="between 0 and 1"):
        weighted_quantile([1.0], [1.0], 95)
    with pytest.raises(EstimatorError, match="scalars"):
        weighted_ecdf(np.zeros((3, 2)), np.ones(3))
    with pytest.raises(EstimatorError, match="between 0 and 1, but got 94"):
        weighted_hdi([1.0], [1.0], 94)


@given(counts, st.floats(0.05, 0.95))
def test_the_shortest_interval_is_the_shortest_of_all_that_hold_enough(pairs, probability):
    x, w = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    low, high = weighted_hdi(x, w, probability)

    def held(a, b):
        return np.sum(w[(x >= a) & (x <= b)]) / np.sum(w)

    assert held(low, high) >= probability - 1e-12
    widths = [b - a for a in x for b in x if b >= a and held(a, b) >= probability]
    assert high - low == pytest.approx(min(widths))


def test_weights_count_as_repeats_in_the_shortest_interval():
    x = seeded_rng("repeats").gamma(2.0, size=400)
    n = seeded_rng("repeat counts").integers(0, 5, size=400)
    np.testing.assert_array_equal(weighted_hdi(x, n, 0.8), weighted_hdi(x.repeat(n), np.ones(n.sum()), 0.8))
