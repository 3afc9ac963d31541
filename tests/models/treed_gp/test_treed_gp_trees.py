"""Trees as they are shown and as they predict: the best one, its parameters, and where a cut lies between inputs."""

import numpy as np
import pytest

from tempering.models.treed_gp import Prior, TreedGP
from tempering.models.treed_gp.trees import describe_tree

SETTINGS = {"draws": 3000, "tune": 2000, "chains": 2, "tempering": {"ladder": [1, 0.5, 0.2]}}


@pytest.fixture(scope="module")
def steps():
    """Return a fit of three steps with little noise."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.random(90))[:, None]
    y = np.digitize(x.ravel(), [0.3, 0.7]) * 1.0 + 0.05 * rng.standard_normal(90)
    return TreedGP(leaf="constant", random_state=1, **SETTINGS).fit(x, y), x.ravel(), y


def test_the_tree_shown_has_the_most_probable_number_of_leaves(steps):
    model, _, _ = steps
    assert len(model.map_tree_) == np.argmax(model.leaf_probabilities_) + 1 == 3
    assert set(model.best_trees_) >= {3}
    assert all(len(tree) == n for n, tree in model.best_trees_.items())


def test_its_parameters_are_means_and_not_one_draw(steps):
    model, x, y = steps
    noise = [leaf.noise for leaf in model.map_tree_]
    for i, leaf in enumerate(model.map_tree_):
        inside = (x > leaf.low[0]) & (x <= leaf.high[0]) if i else x <= leaf.high[0]
        assert leaf.n_rows == inside.sum()
        assert noise[i] == pytest.approx(y[inside].std(), rel=0.25)
    again = TreedGP(leaf="constant", random_state=2, **SETTINGS).fit(x[:, None], y)
    assert [leaf.noise for leaf in again.map_tree_] == pytest.approx(noise, rel=0.05)  # single draws differ by 13 %


def test_a_cut_lies_anywhere_between_two_inputs():
    x = np.concatenate([np.linspace(0, 0.3, 25), np.linspace(0.7, 1, 25)])[:, None]
    y = (x.ravel() > 0.5) + 0.01 * np.cos(90 * x.ravel())
    points = np.array([[0.3], [0.4], [0.5], [0.6], [0.7]])
    model = TreedGP(leaf="constant", random_state=1, **SETTINGS).fit(x, y, X_predict=points)
    straight = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    assert model.predict(points) == pytest.approx(straight, abs=0.13)  # 200 trees: 3.6 standard errors of a coin
    assert model.running_prediction_[0] == pytest.approx(straight, abs=0.05)
    assert [leaf.high[0] for leaf in model.map_tree_] == pytest.approx([0.5, 1.0])
    band = model.predict([[0.5]], quantiles=[0.05, 0.95])[1]
    assert band[0, 0] < 0.1
    assert band[0, 1] > 0.9


def plane(n=80):
    x = np.random.default_rng(0).random((n, 2))
    return x, 1 + 2 * x[:, 0] - x[:, 1]


def planes(n=120):
    x, y = plane(n)
    return x, np.where(x[:, 0] < 0.5, y, 4 * x[:, 1] - x[:, 0])


@pytest.mark.parametrize("data", [plane, planes])
@pytest.mark.parametrize("rule", ["screened", "pooled"])
def test_planes_without_noise_are_fitted_by_leaves_that_may_be_linear(data, rule):
    x, y = data()
    settings = {"draws": 1500, "tune": 1500, "chains": 2, "keep": {"trees": 50}}
    model = TreedGP(leaf="gp_linear", tempering={"rule": rule}, random_state=1, **settings).fit(x, y)
    assert model.leaf_probabilities_.sum() == pytest.approx(1.0)
    inside = np.abs(x[:, 0] - 0.5) > 0.05
    assert np.abs(model.predict(x) - y)[inside].max() < 1e-3
    log_weights = model.posterior_.draws.log_weights
    assert np.all(np.isfinite(log_weights) | (log_weights < 0))


def test_leaves_are_no_larger_than_asked_for():
    rng = np.random.default_rng(5)
    x = rng.random((300, 2))
    y = np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    prior = Prior(max_rows=60)
    model = TreedGP(
        prior=prior, random_state=1, draws=200, tune=200, keep={"trees": 30}, tempering={"ladder": [1, 0.5]}
    ).fit(x, y)
    for tree in model.best_trees_.values():
        assert max(leaf.n_rows for leaf in tree) <= 60
    assert model.score(x, y) > 0.95


@pytest.mark.slow
def test_parameters_at_inputs_are_those_of_their_leaves_in_each_tree():
    x, y = planes()
    y = 50 * y + 3 * np.random.default_rng(2).standard_normal(len(y))
    settings = {"draws": 600, "tune": 600, "chains": 1, "keep": {"trees": 12}}
    model = TreedGP(leaf="gp_linear", prior={"slope": 0.5}, random_state=1, **settings).fit(x, y)
    found = model.parameters_at(x)
    assert found["ranges"].shape == (12, len(x), 2)
    n_leaves = set()
    for j, row in enumerate(model.posterior_.rows):
        leaves = describe_tree(model.model_, row[None])
        n_leaves.add(len(leaves))
        for i, point in enumerate(x):
            (leaf,) = (
                one
                for one in leaves
                if np.all(point <= one.high) and np.all((point > one.low) | (one.low <= x.min(axis=0)))
            )
            assert found["noise"][j, i] == pytest.approx(leaf.noise)
            np.testing.assert_allclose(found["ranges"][j, i], leaf.ranges)
            np.testing.assert_array_equal(found["active"][j, i], leaf.active)
    assert max(n_leaves) > 1
    mean = model.predict(x)
    assert found["deviation"].shape == (12, len(x))
    assert np.ptp(mean) / 100 < np.median(found["deviation"]) < 10 * np.ptp(mean)  # in the unit of y
