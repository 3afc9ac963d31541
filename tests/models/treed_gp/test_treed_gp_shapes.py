"""Power exponential and single-index correlations: formulas, limits, priors and moves."""

import numpy as np
import pytest
from treed_gp_exact import N_STATISTICS, draw_joint, statistics
from treed_gp_twin import from_python

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.treed_gp import Prior, Proposals, TreedGP, layout
from tempering.models.treed_gp.compiled import entry
from tempering.models.treed_gp.correlation import add_up, correlate, fill_scales
from tempering.models.treed_gp.layout import EXPONENT, N_LEAVES
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.shape_moves import move_shapes, step_with_shapes

N_REPLICATES = 8000

fill_scales = from_python(fill_scales)
correlate = from_python(correlate)
add_up = from_python(add_up)


def correlations(x, ranges, active, exponent, family):
    """Return the matrix of correlations as the leaves compute it, four rows at a time."""
    n, d = x.shape
    width = -(-n // 8) * 8
    scales, inputs, out = np.empty(d), np.zeros((d, width)), np.empty((width, width))
    fill_scales(np.asarray(ranges, float), np.asarray(active, float), exponent, family, scales)
    inputs[:, :n] = (x * scales).T
    flat = inputs.ravel()
    columns = add_up(flat, width, n, d) if family == layout.SINGLE_INDEX else d
    for i in range(0, n, 4):
        correlate(flat[i:], width, flat, 0, n, columns, family, exponent, out[i:].ravel(), width)
    return out[:n, :n]


def inputs(label, n=16, d=3):
    rng = seeded_rng(label)
    return rng.random((n, d)), rng.standard_gamma(1.0, d) + 0.1


@pytest.mark.parametrize("exponent", [1.0, 1.37, 1.9, 2.0])
def test_power_exponential_agrees_with_its_formula(exponent):
    x, ranges = inputs(f"power {exponent}")
    ranges *= np.array([1e-3, 1.0, 1e3])  # distances far above and below 1
    gaps = np.abs(x[:, None] - x[None]) ** exponent / ranges
    found = correlations(x, ranges, [1, 1, 1], exponent, layout.POWER)
    np.testing.assert_allclose(found, np.exp(-gaps.sum(axis=2)), rtol=1e-12, atol=1e-300)


def test_power_exponential_has_the_other_families_as_limits():
    x, ranges = inputs("limits")
    gaussian = correlations(x, ranges, [1, 0, 1], 2.0, layout.SEPARABLE)
    np.testing.assert_allclose(correlations(x, ranges, [1, 0, 1], 2.0, layout.POWER), gaussian, rtol=1e-13)
    rough = correlations(x[:, :1], ranges[:1], [1], 2.0, layout.MATERN_12)
    np.testing.assert_allclose(correlations(x[:, :1], ranges[:1], [1], 1.0, layout.POWER), rough, rtol=1e-13)


def test_a_single_index_of_one_input_is_isotropic():
    x, ranges = inputs("one input")
    for sign in (-1, 1):
        found = correlations(x[:, :1], ranges[:1], [sign], 2.0, layout.SINGLE_INDEX)
        np.testing.assert_allclose(found, correlations(x[:, :1], ranges[:1], [1], 2.0, layout.ISOTROPIC), rtol=1e-13)


def test_a_single_index_sees_one_projection():
    x, ranges = inputs("projection")
    weights = np.array([1, -1, 0]) / np.sqrt(ranges)
    index = x @ weights
    found = correlations(x, ranges, [1, -1, 0], 2.0, layout.SINGLE_INDEX)
    np.testing.assert_allclose(found, np.exp(-(np.subtract.outer(index, index) ** 2)), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(
    ("family", "exponent"), [(layout.POWER, 1.3), (layout.POWER, 1.99), (layout.SINGLE_INDEX, 2.0)]
)
def test_correlations_are_positive_definite(family, exponent):
    x, ranges = inputs(f"definite {family} {exponent}", n=40)
    values = np.linalg.eigvalsh(correlations(x, ranges, [1, 1, 1], exponent, family))
    assert values[0] > -1e-13 * values[-1]


def build(correlation, leaf):
    """Return a state on skewed data with some replicated inputs, of three columns."""
    rng = np.random.default_rng(5)
    x = np.round(rng.random((20, 3)) ** 1.5, 1)
    z = rng.standard_normal(20) + 3 * x[:, 0]
    proposals = Proposals(window=2.0, tree_moves=0.9, far_reach=6.0)
    prior = Prior(0.8, 0.7, 5, correlation=correlation)
    state = TreedGPModel(x, z, leaf=leaf, prior=prior, proposals=proposals).allocate()
    return state._replace(y=state.y.copy(), real=state.real.copy())


@entry
def own_statistics(state, out):
    """Fill ``out`` with the common statistics and those of exponents and signs."""
    statistics(state, out[:N_STATISTICS])
    out[N_STATISTICS:] = 0.0
    total = 0.0
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        total += state.leaf[node, layout.N_ROWS]
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        share = state.leaf[node, layout.N_ROWS] / total
        first = layout.RANGES + state.integer[layout.N_RANGES]
        out[N_STATISTICS] += share * state.leaf[node, EXPONENT]
        out[N_STATISTICS + 1] += share * state.leaf[node, EXPONENT] * np.log(state.leaf[node, layout.RANGES])
        out[N_STATISTICS + 2] += share * state.leaf[node, first] * state.leaf[node, first + 1]
        out[N_STATISTICS + 3] += share * abs(state.leaf[node, first + 2])


@entry
def own_differences(rng, state, shapes_alone, real_move, n_replicates):
    """Return the change of the statistics under a move from an exact draw, one row a replicate; k is 1."""
    out = np.empty((n_replicates, N_STATISTICS + 4))
    before, after, real = np.empty(N_STATISTICS + 4), np.empty(N_STATISTICS + 4), state.real.copy()
    for i in range(n_replicates):
        draw_joint(rng, state, 1.0)
        own_statistics(state, before)
        state.real[:] = real_move
        if shapes_alone:
            move_shapes(rng, state, 1.0)
        else:
            step_with_shapes(rng, state, 1.0)
        state.real[:] = real
        own_statistics(state, after)
        out[i] = after - before
    return out


def changes(label, correlation, leaf, shapes_alone, wrong=None, n=N_REPLICATES):
    state = build(correlation, leaf)
    real = state.real.copy()
    if wrong is not None:
        real[wrong[0]] = wrong[1]
    return own_differences(seeded_rng(label), state, shapes_alone, real, n)


@pytest.mark.slow
@pytest.mark.parametrize("shapes_alone", [True, False])
@pytest.mark.parametrize("leaf", ["gp", "gp_linear"])
@pytest.mark.parametrize("correlation", ["power", "single_index"])
def test_moves_leave_the_posterior_invariant(correlation, leaf, shapes_alone):
    rows = changes(f"shapes {correlation} {leaf} {shapes_alone}", correlation, leaf, shapes_alone)
    assert_mean_is(np.zeros(rows.shape[1]), rows)
    assert np.ptp(rows[:, N_STATISTICS if correlation == "power" else N_STATISTICS + 2]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("correlation", "leaf", "wrong"),
    [("power", "gp", (layout.RANGE_PRIOR + 3, 3.0)), ("single_index", "gp_linear", (layout.GAMMA2, 0.1))],
)
def test_control_a_move_with_another_prior_is_seen(correlation, leaf, wrong):
    rows = changes(f"control {correlation}", correlation, leaf, False, wrong, n=4 * N_REPLICATES)
    assert_mean_is_not(np.zeros(rows.shape[1]), rows)


def test_the_prior_has_every_exponent_and_every_sign_alike():
    rng = seeded_rng("prior of shapes")
    found = []
    for correlation in ("power", "single_index"):
        model = TreedGPModel(*_data(), leaf="gp", prior=Prior(correlation=correlation, tree=False))
        leaves = np.array([model.initial(rng).leaf[0, : layout.RANGES + 6] for _ in range(2000)])
        found.append(leaves[:, EXPONENT] if correlation == "power" else leaves[:, layout.RANGES + 3 :])
    exponents, signs = found
    rows = np.column_stack([exponents, (exponents - 1.5) ** 2, signs, signs[:, 0] * signs[:, 1]])
    assert_mean_is([1.5, 1 / 12, 0, 0, 0, 0], rows)
    assert set(np.unique(signs)) == {-1.0, 1.0}


def _data():
    rng = np.random.default_rng(2)
    return rng.random((14, 3)), rng.standard_normal(14)


def test_a_fixed_exponent_stays_and_others_are_refused():
    x, y = _data()
    model = TreedGP(prior={"correlation": "power", "exponent": 1.5}, draws=30, tune=20, chains=1, random_state=1)
    model.fit(x, y)
    state = model.model_.initial(np.random.default_rng(1))
    assert np.all(state.leaf[state.lists[0, : state.meta[N_LEAVES]], EXPONENT] == 1.5)
    with pytest.raises(ValueError, match=r"exponent must lie in \[1, 2\]"):
        Prior(exponent=2.5)


def test_a_saved_model_of_a_single_index_predicts_the_same(tmp_path):
    rng = np.random.default_rng(4)
    x = rng.random((60, 3))
    y = np.sin(8 * (x[:, 0] - x[:, 1] + 0.5 * x[:, 2]))
    new = rng.random((200, 3))
    model = TreedGP(prior={"correlation": "single_index"}, draws=600, tune=400, random_state=1).fit(x, y)
    truth = np.sin(8 * (new[:, 0] - new[:, 1] + 0.5 * new[:, 2]))
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.05  # a fifteenth of the deviation
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(TreedGP.load(tmp_path / "model").predict(new), model.predict(new))
