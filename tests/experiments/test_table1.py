import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import InputError
from tempering.experiments import table1

RATIOS = [*table1.RATIOS.values(), 0.01, 300.0, math.inf]


def test_every_figure_agrees_with_the_paper_to_the_printed_digits():
    for row in table1.run().rows:
        assert round(row.ours, 2) == row.paper, row


@pytest.mark.parametrize("ratio", RATIOS)
def test_equation_1_is_where_the_closed_form_variance_is_least(ratio):
    found = minimize_scalar(lambda k: table1.variance(k, ratio), bounds=(0.01, 1.5), options={"xatol": 1e-12})
    assert found.x == pytest.approx(table1.best_power(ratio), abs=2e-5)


@pytest.mark.parametrize("ratio", RATIOS)
def test_below_k_minus_and_only_there_tempering_hurts(ratio):
    least, best = table1.least_power(ratio), table1.best_power(ratio)
    assert least < best
    assert table1.variance(least * 0.999, ratio) > 1
    for k in np.linspace(least, 1, 50)[1:-1]:
        assert table1.variance(k, ratio) < 1
    assert table1.variance(1.0, ratio) == 1


@pytest.mark.parametrize("k", [0.6, 0.9])
def test_the_closed_form_is_the_second_moment_of_weighted_draws(k):
    ratio, rng = 0.5, seeded_rng(f"table 1 {k}")
    x = 1 + ratio * rng.standard_normal(40_000) / math.sqrt(k)
    weight = np.exp(-(1 - k) * (x - 1) ** 2 / (2 * ratio**2)) / math.sqrt(k)
    assert_mean_is(table1.variance(k, ratio) * ratio**2, (weight * x) ** 2 - 1)
    assert_mean_is_not(table1.variance(k, 0.8 * ratio) * (0.8 * ratio) ** 2, (weight * x) ** 2 - 1)


def test_outside_its_range_the_variance_is_infinite_and_a_bad_ratio_is_refused():
    assert table1.variance(0.0, 1.0) == math.inf
    assert table1.variance(2.0, 1.0) == math.inf
    with pytest.raises(InputError, match=r"positive, but got -1"):
        table1.best_power(-1)
