"""Sobol indices and main effects against exact ones, whatever the mean of the response."""

import numpy as np
import pytest
from scipy import stats

from tempering.errors import InputError
from tempering.models.treed_gp import TreedGP
from tempering.models.treed_gp.sensitivity import analyse
from tempering.models.treed_gp.surfaces import surface_means

EXACT = np.array([3, 3, 12]) / 19  # of x1 x2 + x3: variances 1/48, 1/48, 1/144 together, 1/12


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    x = rng.random((80, 3))
    groups = {"prior": {"tree": False}, "keep": {"trees": 20}, "tempering": {"ladder": [1]}}
    model = TreedGP(leaf="gp", draws=300, tune=300, chains=1, random_state=1, **groups)
    return model.fit(x, x[:, 0] * x[:, 1] + x[:, 2] + 20)


def uniform(u):
    return u


@pytest.mark.slow
def test_first_order_indices_are_exact_though_the_mean_is_far_from_zero(model):
    found = model.sensitivity(4096, distributions=dict.fromkeys(range(3), stats.uniform()), random_state=1)
    assert found.first == pytest.approx(EXACT, abs=0.01)
    assert found.total == pytest.approx(EXACT + np.array([1, 1, 0]) / 19, abs=0.01)
    assert np.all(found.first_interval[0] <= found.first)
    assert np.all(found.first <= found.first_interval[1])
    assert model.sobol(4096, random_state=1)[0] == pytest.approx(EXACT, abs=0.03)  # on the box of the data


def test_control_without_the_mean_taken_off_the_same_points_are_far_off(model):
    rng, rows = np.random.default_rng(1), model.posterior_.rows[:5]
    a, b = rng.random((1024, 3)), rng.random((1024, 3))
    f_a, f_b = (model.model_.data.response(surface_means(model.model_, rows, x)) for x in (a, b))
    mixed = np.column_stack([b[:, 0], a[:, 1:]])
    f_mixed = model.model_.data.response(surface_means(model.model_, rows, mixed))
    plain = (f_b * (f_mixed - f_a)).mean(axis=1) / f_a.var(axis=1)
    assert np.abs(plain - EXACT[0]).max() > 0.2
    centred = analyse(model.model_, rows, [uniform] * 3, 1024, rng)[0]
    assert np.abs(centred - EXACT).max() < 0.02


def test_intervals_know_of_the_error_of_the_design(model):
    exact, boxes = (EXACT, EXACT + np.array([1, 1, 0]) / 19), dict.fromkeys(range(3), stats.uniform())
    for seed in range(3):
        found = model.sensitivity(distributions=boxes, level=0.999, random_state=seed)
        for (low, high), values in zip((found.first_interval, found.total_interval), exact, strict=True):
            assert np.all((low - 3e-4 <= values) & (values <= high + 3e-4))  # the surface itself is that far off
            assert np.all(high - low < 0.1)


@pytest.mark.long
def test_seeds_hardly_matter(model):
    found = [model.sobol(1024, random_state=seed)[0] for seed in range(4)]
    assert np.std(found, axis=0).max() < 0.01


def test_main_effects_are_those_of_the_function(model):
    found = model.sensitivity(distributions=dict.fromkeys(range(3), stats.uniform()), random_state=1)
    assert found.main_effects[2] == pytest.approx(20.25 + found.grid[2], abs=0.03)
    assert found.main_effects[0] == pytest.approx(20.5 + found.grid[0] / 2, abs=0.03)
    assert np.all(found.main_effects_interval[0] <= found.main_effects + 1e-9)


def test_inputs_have_the_distributions_given(model):
    narrow = model.sensitivity(distributions={"2": stats.uniform(0.5, 1e-9)}, random_state=1)
    assert narrow.total[2] < 1e-6
    sampled = model.sensitivity(distributions={2: [0.2, 0.4]}, random_state=1)
    assert set(np.round(sampled.grid[2], 6)) == {0.2, 0.4}
    with pytest.raises(InputError, match="are not inputs"):
        model.sensitivity(distributions={"speed": stats.norm()})


def test_it_prints_a_table_of_eighty_columns(model):
    lines = str(model.sensitivity(64, random_state=1)).splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
