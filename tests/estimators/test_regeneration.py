import numpy as np
import pytest

from statistical import assert_variance_is_one, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import regenerative_ratio


def tours(rng, n_tours):
    """Sum over tours of a chain that regenerates with probability 0.1 and keeps its value between."""
    length = rng.geometric(0.1, n_tours)
    value = rng.exponential(size=n_tours)
    return np.stack([value, value**2], axis=1) * length[:, None], length.astype(float)


def test_error_bars_of_tours_are_right_and_those_of_draws_are_not():
    rng = seeded_rng("tours")
    z, naive = [], []
    for _ in range(300):
        top, bottom = tours(rng, 2000)
        result = regenerative_ratio(top, bottom)
        z.append((result.value[0] - 1.0) / result.standard_error[0])
        naive.append((result.value[0] - 1.0) * np.sqrt(bottom.sum()))
    assert_variance_is_one(z)
    with pytest.raises(AssertionError):
        assert_variance_is_one(naive)


def test_tour_effectiveness_is_between_one_tour_and_all():
    assert regenerative_ratio([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]).tour_effectiveness == pytest.approx(1.0)
    assert regenerative_ratio([1.0, 1.0, 1.0], [2.0, 0.0, 0.0]).tour_effectiveness == pytest.approx(1 / 3)
    _, length = tours(seeded_rng("effectiveness"), 200_000)
    expected = 10.0**2 / (10.0**2 + 0.9 / 0.1**2)  # E[D]^2 / E[D^2] of a geometric law
    assert regenerative_ratio(length, length).tour_effectiveness == pytest.approx(expected, rel=0.02)


def test_the_formula_is_the_printed_one():
    result = regenerative_ratio([1.0, 5.0], [1.0, 3.0])
    assert result.value == pytest.approx(1.5)
    assert result.standard_error == pytest.approx(np.sqrt(2 * (0.5**2 + 0.5**2)) / 4)
    assert result.n_tours == 2


def test_one_tour_is_not_enough():
    for top, bottom in (
        ([1.0], [1.0]),
        ([1.0, 1.0], [0.0, 0.0]),
        ([1.0, 1.0], [1.0]),
        ([1.0, 1.0], [-1.0, 3.0]),
    ):
        with pytest.raises(EstimatorError, match="tours"):
            regenerative_ratio(top, bottom)
