import matplotlib as mpl
import numpy as np
import pytest

import tempering as tp
from tempering import plots
from tempering.errors import InputError
from tempering.problems import mixture

mpl.use("Agg")


@pytest.fixture(scope="module")
def draws():
    target = tp.Target(mixture().as_vector.log_density_numba)
    ladder = tp.Ladder.geometric(12, 1e-3)
    return tp.sample(
        target, initial=np.zeros(1), ladder=ladder, draws=5000, tune=3200, chains=2, rng=1, progress=False
    )


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure().subplots()


def test_the_density_is_that_of_the_weighted_draws(draws, ax):
    assert plots.plot_density(draws, rules=("cold_only", "ess_optimal"), truth=np.cos, ax=ax) is ax
    cold, optimal = ax.patches
    for patch, rule in ((cold, "cold_only"), (optimal, "ess_optimal")):
        heights, edges, _ = patch.get_data()
        assert np.sum(heights * np.diff(edges)) == pytest.approx(1.0, abs=0.01)
        inside = (draws.values["x"] > edges[0]) & (draws.values["x"] < 0)
        left = np.sum(draws.weights(rule) * inside[..., 0])
        below = np.clip((0 - edges[:-1]) / np.diff(edges), 0, 1)
        assert np.sum(heights * np.diff(edges) * below) == pytest.approx(left, abs=0.02)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["truth", "cold_only", "ess_optimal"]


def test_visits_and_shares_show_every_rung(draws, ax):
    plots.plot_visits(draws, ax)
    assert [bar.get_height() for bar in ax.patches] == draws.visits.tolist()
    ax.clear()
    plots.plot_shares(draws, ("pooled", "mbar"), ax)
    np.testing.assert_allclose(ax.patches[1].get_data().values, draws.shares("mbar"))


def test_the_path_is_that_of_the_chain_with_the_cold_rung_on_top(draws, ax):
    plots.plot_rung_path(draws, chain=1, n_draws=300, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), draws.rung[1, :300])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_a_picture_of_its_own_is_made_where_no_axes_are_given(draws):
    import matplotlib.pyplot as plt

    ax = plots.plot_visits(draws)
    assert ax.figure is plt.gcf()
    plt.close(ax.figure)


def test_every_rule_has_a_colour():
    from tempering.estimators import RULES

    assert set(RULES) == set(plots.COLOURS)
    assert len(set(plots.COLOURS.values())) == len(RULES)


def test_what_cannot_be_drawn_is_refused(draws):
    with pytest.raises(InputError, match=r"must be one of \['x'\], but got 'y'"):
        plots.plot_density(draws, "y")
    target = tp.Target(lambda x: -0.5 * (x**2).sum())
    wide = tp.sample(target, initial=np.zeros(2), ladder=[1, 0.5], draws=64, tune=64, chains=1, rng=1)
    with pytest.raises(InputError, match=r"one number a draw, but x has shape \(2,\)"):
        plots.plot_density(wide)
