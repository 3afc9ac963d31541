import matplotlib as mpl
import numpy as np
import pytest

import tempering as tp
from exact_runs import exact_run_on_two_legs
from tempering import plots
from tempering.errors import InputError
from tempering.plots.style import rung_colours, shade
from tempering.problems import mixture

mpl.use("Agg")


@pytest.fixture(scope="module")
def draws():
    target = tp.Target(mixture().as_vector.log_density_numba)
    ladder = tp.Ladder.geometric(12, 1e-3)
    return tp.sample(
        target, initial=np.zeros(1), ladder=ladder, draws=5000, tuning=tp.Tuning(3200), chains=2, rng=1, progress=False
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
    plots.plot_index_process(draws, chain=1, n_draws=300, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), draws.rung[1, :300])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_a_picture_of_its_own_is_made_where_no_axes_are_given(draws):
    import matplotlib.pyplot as plt

    ax = plots.plot_visits(draws)
    assert ax.figure is plt.gcf()
    plt.close(ax.figure)


def test_every_rule_has_a_colour_and_no_two_share_one():
    from tempering.estimators import RULES
    from tempering.plots.style import colour_of

    assert set(plots.COLOURS) <= set(RULES)
    assert len({colour_of(rule) for rule in RULES}) == len(RULES)


def test_what_cannot_be_drawn_is_refused(draws):
    with pytest.raises(InputError, match=r"must be one of \['x'\], but got 'y'"):
        plots.plot_density(draws, "y")
    target = tp.Target(lambda x: -0.5 * (x**2).sum())
    wide = tp.sample(target, initial=np.zeros(2), ladder=[1, 0.5], draws=64, tuning=tp.Tuning(64), chains=1, rng=1)
    with pytest.raises(InputError, match=r"one number per draw, but x has shape \(2,\). Name a coordinate: 'x\[0\]'"):
        plots.plot_density(wide)
    for name in ("x[2]", "x[0,1]"):
        with pytest.raises(InputError, match=r"within the shape \(2,\), but got 'x\["):
            plots.plot_density(wide, name)


def test_a_coordinate_is_named_by_its_index(draws, ax):
    from dataclasses import replace

    table = np.concatenate([draws.values["x"], 10 + draws.values["x"]], axis=-1)[..., None]
    wide = replace(draws, values={"x": table}, layout=None, _kept={})
    plots.plot_traces(wide, "x[1,0]", n_draws=draws.n_draws, ax=ax)
    shown = np.sort(ax.collections[0].get_offsets()[:, 1])
    np.testing.assert_array_equal(shown, np.sort(10 + draws.values["x"][0, :, 0]))
    ax.clear()
    plots.plot_estimates(wide, "x[1,0]", rules=["mbar"], ax=ax)
    assert ax.containers[0][0].get_xdata()[0] == pytest.approx(10 + draws.expect(lambda x: x[..., 0]).value)


def test_densities_by_rung_are_those_of_its_draws(draws, ax):
    plots.plot_densities(draws, ax=ax)
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown[0] == "k = 1"
    assert len(shown) == len(ax.patches) == 6
    heights, edges, _ = ax.patches[0].get_data()
    cold = draws.values["x"][draws.rung == 0, 0]
    inside = np.mean((cold >= edges[0]) & (cold <= edges[-1]))
    assert np.sum(heights * np.diff(edges)) == pytest.approx(inside)


def test_rungs_show_draws_and_what_they_are_worth(draws, ax):
    table = draws.rungs()
    plots.plot_rungs(draws, ax)
    m = len(table)
    heights = [bar.get_height() for bar in ax.patches]
    assert heights[:m] == table["visits"].tolist()
    assert heights[m : 2 * m] == pytest.approx(table["ess_of_weights"].tolist())
    hatched = [bar.get_hatch() is not None for bar in ax.patches[m : 2 * m]]
    assert hatched == (table["pareto_k"] >= 0.7).tolist()


class Leaf:
    def __init__(self, low, high, n_rows):
        self.low, self.high, self.n_rows = np.array(low), np.array(high), n_rows
        self.noise, self.is_linear = 0.1, False


def test_trees_show_their_splits_and_leaves(ax):
    """The tree of two splits: first x at 3, then, on the right, y at 5."""
    from types import SimpleNamespace

    leaves = [Leaf([0, 0], [3, 9], 11), Leaf([3, 0], [8, 5], 22), Leaf([3, 5], [8, 9], 33)]
    data = SimpleNamespace(columns=[0, 1])
    model = SimpleNamespace(
        map_tree_=leaves,
        n_features_in_=2,
        feature_names_in_=np.array(["speed", "angle"]),
        model_=SimpleNamespace(data=data),
    )
    plots.plot_trees(model, ax=ax)
    texts = [text.get_text() for text in ax.texts]
    assert [text for text in texts if "\u2264" in text] == ["angle \u2264 5", "speed \u2264 3"]
    assert [text.split()[0] for text in texts if "rows" in text] == ["11", "22", "33"]
    assert len(ax.lines) == 4


def test_the_ladder_is_drawn_rung_by_rung(draws, ax):
    plots.plot_ladder(draws, ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), draws.ladder.inverse_temperatures)


def test_both_legs_have_their_ladders_and_barriers(ax):
    run = exact_run_on_two_legs("both legs")
    plots.plot_ladder(run, ax)
    safe, quick = ax.lines
    np.testing.assert_array_equal(safe.get_xdata(), [2, 3, 4, 5, 6])
    np.testing.assert_array_equal(quick.get_xdata(), [2, 1, 0])
    np.testing.assert_array_equal(quick.get_ydata(), [1.0, 0.4, 0.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["safe leg", "quick leg"]
    assert ax.get_xlabel() == "rung (2 is the target)"
    ax.clear()
    plots.plot_barrier(run, ax)
    heights = [line.get_ydata()[-1] for line in ax.lines[::2]]
    assert sum(heights) == pytest.approx(run.diagnose().barrier, rel=0.02)
    assert heights[0] > 2 * heights[1]  # the fitted density is nearer


def test_colours_tell_the_legs_apart():
    colours = rung_colours(exact_run_on_two_legs("colours").path)
    assert colours[2] == shade(0, 5)  # the target is blue, on either
    assert colours[6] == shade(4, 5)
    assert len(set(colours)) == 7


def test_acceptance_and_trust_are_those_of_the_table(draws, ax):
    table = draws.rungs()
    plots.plot_acceptance(draws, ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["move_acceptance"])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), table["exchange_acceptance"][:-1])
    ax.clear()
    plots.plot_trust(draws, ax)
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in ax.patches}
    share = table["ess_of_weights"] / table["visits"]
    assert [heights[i] for i in range(len(table))] == pytest.approx(share.tolist())
    hollow = sum(bar.get_facecolor()[3] == 0 for bar in ax.patches)
    assert hollow == (table["pareto_k"] >= 0.7).sum()


def test_the_barrier_rises_from_zero_and_passes_through_the_rungs(draws, ax):
    plots.plot_barrier(draws, ax)
    curve, rungs = ax.lines
    assert curve.get_ydata()[0] == 0.0
    assert np.all(np.diff(curve.get_ydata()) >= 0)
    assert curve.get_ydata()[-1] == pytest.approx(draws.diagnose().barrier, rel=0.02)
    np.testing.assert_array_equal(rungs.get_xdata(), draws.ladder.inverse_temperatures)
    assert np.all(np.diff(rungs.get_ydata()) > 0)


def test_the_overlap_is_a_heat_map(draws, ax):
    plots.plot_overlap(draws, ax)
    np.testing.assert_array_equal(ax.images[0].get_array(), draws.mbar.overlap)


def test_energies_have_a_row_for_every_rung_with_the_cold_one_on_top(draws, ax):
    plots.plot_energies(draws, ax=ax)
    rows = [row.get_paths()[0].vertices[:, 1].min() for row in ax.collections]
    assert rows == [-float(i) for i in range(len(draws.ladder))]
    assert ax.get_xlim()[0] > ax.get_xlim()[1]  # the highest energy on the right
    middle = [np.median(draws.energy[draws.rung == i]) for i in (0, len(draws.ladder) - 1)]
    assert middle[0] > middle[1]


def test_traces_carry_the_colour_of_their_rung(draws, ax):
    plots.plot_traces(draws, n_draws=draws.n_draws, ax=ax)
    points = ax.collections[0]
    offsets, colours = points.get_offsets(), points.get_facecolors()
    for i in (0, len(draws.ladder) - 1):
        mine = np.all(np.isclose(colours, shade(i, len(draws.ladder))), axis=1)
        on_rung = draws.values["x"][0].ravel()[draws.rung[0] == i]
        np.testing.assert_array_equal(np.sort(offsets[mine, 1]), np.sort(on_rung))


def test_estimates_and_evidences_are_drawn_with_their_errors(draws, ax):
    plots.plot_estimates(draws, rules=["cold_only", "mbar"], ax=ax)
    for line, rule in zip(ax.containers, ["cold_only", "mbar"], strict=True):
        found = draws.expect(lambda x: x[..., 0], rule)
        assert line[0].get_xdata()[0] == pytest.approx(float(found.value))
        low, high = line[2][0].get_segments()[0][:, 0]
        assert (high - low) / 4 == pytest.approx(float(found.standard_error))
    ax.clear()
    plots.plot_evidence(draws, ax)
    found = draws.log_evidence()
    assert ax.containers[0][0].get_xdata()[0] == pytest.approx(found.value)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.by_method)
    assert ax.get_xlabel() == "log Z(1) - log Z(hottest)"


def test_rungs_have_whole_numbers(draws, ax):
    for plot in (plots.plot_visits, plots.plot_ladder, plots.plot_acceptance, plots.plot_trust, plots.plot_shares):
        ax.clear()
        plot(draws, ax=ax)
        assert all(float(tick).is_integer() for tick in ax.get_xticks())
