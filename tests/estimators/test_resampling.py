import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import resample

weights = st.lists(st.floats(0, 10), min_size=1, max_size=30).filter(lambda w: sum(w) > 1e-3)


@given(weights, st.integers(0, 50), st.sampled_from(["systematic", "residual"]), st.integers(0, 2**32))
def test_each_draw_comes_at_least_as_often_as_it_must(w, n_draws, method, seed):
    chosen = resample(w, n_draws, method=method, rng=seed)
    assert chosen.size == n_draws
    counts = np.bincount(chosen, minlength=len(w))
    expected = n_draws * np.array(w) / sum(w)
    assert np.all(counts >= np.floor(expected - 1e-9))
    assert np.all(counts[np.array(w) == 0] == 0)
    if method == "systematic":
        assert np.all(counts <= np.ceil(expected + 1e-9))


@pytest.mark.parametrize("method", ["systematic", "residual"])
def test_expected_counts_are_the_weights(method):
    rng = seeded_rng(f"resample {method}")
    w = np.array([0.05, 0.3, 0.0, 0.17, 0.48])
    counts = [np.bincount(resample(w, 7, method=method, rng=rng), minlength=5) for _ in range(2000)]
    assert_mean_is(7 * w, counts)
    assert_mean_is_not(7 * w[::-1], counts)


def test_equal_seeds_give_equal_choices_and_different_ones_do_not():
    w = seeded_rng("resample seeds").random(1000)
    np.testing.assert_array_equal(resample(w, 500, rng=3), resample(w, 500, rng=np.random.default_rng(3)))
    assert np.any(resample(w, 500, rng=3) != resample(w, 500, rng=4))


def test_what_cannot_be_resampled_is_refused():
    for bad in ([], [0.0], [-1.0, 2.0], [np.nan]):
        with pytest.raises(EstimatorError):
            resample(bad, 3, rng=1)
    with pytest.raises(EstimatorError, match="method"):
        resample([1.0], 3, method="bootstrap", rng=1)
