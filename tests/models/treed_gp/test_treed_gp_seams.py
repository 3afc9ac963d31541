"""Seams: leaves are joined where the data say that the surface goes on, and then agree with dense algebra."""

import pickle

import numpy as np
import pytest
import treed_gp_twin as twin
from scipy import stats

from statistical import seeded_rng
from tempering.models.treed_gp import Prior, TreedGP, TreedGPModel, layout, seams
from tempering.models.treed_gp.records import load_record
from tempering.models.treed_gp.seams import boxes_of, seams_of
from tempering.models.treed_gp.surfaces import joint, predict_joined, predict_scaled


def fitted(name, surface, *, n=100, n_columns=1, noise=0.02, leaf="gp_linear", **prior):
    """Return a short fit of a surface on the unit cube."""
    rng = seeded_rng(name)
    x = rng.random((n, n_columns))
    y = surface(x) + noise * rng.standard_normal(n)
    settings = {"draws": 300, "tune": 200, "chains": 1, "tempering": {"ladder": [1.0]}, "keep": {"trees": 30}}
    return TreedGP(leaf=leaf, prior=Prior(**prior), random_state=1, **settings).fit(x, y)


FEW_SHORT = (1.0, 5.0, 1.0, 0.2)  # ranges with which the trees of a peak have cuts


def calm(x):
    """Return ripples that die away: a tree cuts where they end, and the surface goes on."""
    return np.sin(40 * x[:, 0]) / (1 + np.exp(40 * (x[:, 0] - 0.5)))


def step(x):
    return np.sin(3 * x[:, 0]) + 2 * (x[:, 0] > 0.5)


def peak(x):
    return np.exp(-20 * ((x - 0.3) ** 2).sum(axis=1))


def found_in(model):
    """Return the seams of each kept tree that has a cut."""
    state = model.model_.allocate()
    each = [(seams_of(model.model_, state, row), int(state.meta[layout.N_LEAVES])) for row in model.posterior_.rows]
    return [one for one, n_leaves in each if n_leaves > 1]


def test_a_surface_that_goes_on_is_joined_and_a_step_is_not():
    joined = found_in(fitted("calm", calm))
    assert len(joined) > 20
    assert np.mean([one is not None for one in joined]) > 0.25
    apart = found_in(fitted("step", step))
    assert len(apart) > 20
    assert not any(apart)


def test_control_without_a_bar_of_evidence_a_step_is_joined(monkeypatch):
    monkeypatch.setattr(seams, "ENOUGH_EVIDENCE", -np.inf)
    assert all(found_in(fitted("step", step)))


def test_joined_leaves_meet_at_the_cut():
    model = fitted("meet", calm)
    state = model.model_.allocate()
    for row in model.posterior_.rows:
        one = seams_of(model.model_, state, row)
        if one is None:
            continue
        beside = np.concatenate([one.points - 1e-9, one.points + 1e-9])
        apart = predict_scaled(model.model_, row[None], beside)[0]
        together = predict_joined(model.model_, row[None], beside)[0]
        gap = np.abs(np.diff(together[0].reshape(2, -1), axis=0))
        assert np.all(gap < 0.01 * np.sqrt(apart[1].max()))
        np.testing.assert_array_less(together[1], apart[1] + 1e-15)


def dense_surface(state, new, one, correlation):
    """Return mean and covariance at new points, of one normal for responses, surfaces and differences of a tree."""
    snapshot, boxes = twin.Snapshot(state), one.boxes
    m = int(state.integer[layout.N_MEAN])
    prior_w = np.linalg.inv(state.shared[layout.BETA0 + m : layout.BETA0 + m + m * m].reshape(m, m))
    beta0 = state.shared[layout.BETA0 : layout.BETA0 + m]
    home, inputs = boxes.holding(new), boxes.holding(state.x)
    places = np.concatenate([state.x, new, one.points, one.points])
    leaf_of = np.concatenate([inputs, home, one.pairs[:, 0], one.pairs[:, 1]])
    n, q, r = len(state.x), len(new), len(one.points)
    mean, covariance, noise = np.zeros(n + q + 2 * r), np.zeros((n + q + 2 * r,) * 2), np.zeros(n)
    for leaf, node in enumerate(boxes.nodes):
        mine = np.flatnonzero(leaf_of == leaf)
        sigma2, nugget, tau2, exponent = state.leaf[node, [layout.SIGMA2, layout.NUGGET, layout.TAU2, layout.EXPONENT]]
        ranges, active, _ = snapshot.parameters(node)
        f = twin.regressors(places[mine], m) * snapshot.used(node)
        surface = tau2 * f @ prior_w @ f.T
        if active.any():
            surface = surface + twin.correlation_matrix(places[mine], ranges, active, correlation, exponent)
        mean[mine] = f @ beta0
        covariance[np.ix_(mine, mine)] = sigma2 * surface
        noise[inputs == leaf] = sigma2 * nugget
    differences = np.zeros((r, n + q + 2 * r))
    differences[:, n + q : n + q + r], differences[:, n + q + r :] = np.eye(r), -np.eye(r)
    prior_of_differences = differences @ covariance @ differences.T
    slack = seams.SLACK * np.diag(np.diag(prior_of_differences))
    known = np.concatenate([np.eye(n, n + q + 2 * r), differences])
    errors = np.zeros((n + r, n + r))
    errors[:n, :n], errors[n:, n:] = np.diag(noise), slack
    gain = covariance @ known.T @ np.linalg.inv(known @ covariance @ known.T + errors)
    seen = np.concatenate([state.y[:, layout.MEAN], np.zeros(r)])
    after = mean + gain @ (seen - known @ mean), covariance - gain @ known @ covariance
    wanted = slice(n, n + q)
    data = np.eye(n, n + q + 2 * r)
    gain = covariance @ data.T @ np.linalg.inv(data @ covariance @ data.T + np.diag(noise))
    given = mean + gain @ (seen[:n] - data @ mean), covariance - gain @ data @ covariance
    zero = np.zeros(r)
    evidence = stats.multivariate_normal(differences @ given[0], differences @ given[1] @ differences.T + slack).logpdf(
        zero
    ) - stats.multivariate_normal(differences @ mean, prior_of_differences + slack).logpdf(zero)
    return after[0][wanted], after[1][wanted, wanted], evidence


@pytest.mark.parametrize(
    ("leaf", "correlation"),
    [("gp", "separable"), *[("gp_linear", name) for name in ("separable", "isotropic", "matern52", "power")]],
)
def test_joined_leaves_agree_with_one_dense_normal(leaf, correlation):
    trees = {"split_probability": 0.95, "min_leaf": 8, "correlation": correlation, "range_": FEW_SHORT}
    model = fitted(f"dense {leaf}", peak, n=50, n_columns=2, noise=0.02, leaf=leaf, **trees)
    built, state = model.model_, model.model_.allocate()
    new = seeded_rng("new points").random((15, 2))
    seen = 0
    for row in model.posterior_.rows:
        one = seams_of(built, state, row)
        if one is None or seen == 5:
            continue
        seen += 1
        mean, covariance, evidence = dense_surface(state, new, one, correlation)
        together = predict_joined(built, row[None], new)[0]
        np.testing.assert_allclose(together[0], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(together[1], np.diag(covariance), rtol=1e-3, atol=1e-7)
        found = joint(built, row, built.data.low + built.data.width * new)[1]
        np.testing.assert_allclose(found, covariance, rtol=1e-3, atol=1e-7)
        load_record(state, row)
        differences = seams._Differences(state, one.boxes, one.points, one.pairs)
        assert differences.evidence(np.arange(len(one.points))) == pytest.approx(evidence, abs=1e-3)
    assert seen == 5


def test_what_is_known_beyond_a_cut_counts_where_the_surface_goes_on():
    model = fitted("peak", peak, n=60, n_columns=2, noise=0.0, leaf="gp_linear", range_=FEW_SHORT)
    new = seeded_rng("points").random((200, 2))
    truth = model.model_.data
    rows = model.posterior_.rows
    wanted = (peak(truth.low + truth.width * new) - truth.centre) / truth.spread
    apart, together = (f(model.model_, rows, new)[:, 0].mean(axis=0) for f in (predict_scaled, predict_joined))
    assert np.mean(model.leaf_probabilities_[1:]) > 0
    assert np.mean((together - wanted) ** 2) < 0.9 * np.mean((apart - wanted) ** 2)


@pytest.mark.parametrize("settings", [{"coefficients": "flat"}, {"max_rows": 30}])
def test_leaves_of_flat_coefficients_and_of_many_rows_stay_apart(settings):
    assert not any(found_in(fitted("apart", calm, **settings)))


def test_boxes_hold_the_inputs_of_their_leaves():
    rng = seeded_rng("boxes")
    x = np.round(rng.random((80, 2)), 2)
    model = TreedGPModel(x, x[:, 0], leaf="linear", prior=Prior(split_probability=0.95, split_decay=0.5, min_leaf=4))
    state = model.initial(rng)
    boxes = boxes_of(state)
    home = boxes.holding(model.data.x)
    for leaf, node in enumerate(boxes.nodes):
        mine = state.order[state.tree[node, layout.START] : state.tree[node, layout.END]]
        np.testing.assert_array_equal(np.sort(mine), np.flatnonzero(home == leaf))


def test_seams_lie_in_both_leaves():
    model = fitted("sides", peak, n=80, n_columns=2, split_probability=0.95, split_decay=0.5, min_leaf=6)
    found = [one for one in found_in(model) if one is not None]
    assert found
    for one in found:
        for side in one.pairs.T:
            assert np.all((one.boxes.low[side] <= one.points) & (one.points <= one.boxes.high[side]))


def test_few_trees_are_remembered_and_forgotten_ones_found_again(monkeypatch):
    model = fitted("calm", calm)
    before = model.predict([[0.3], [0.5]])
    monkeypatch.setattr(seams, "MOST_KNOWN", 2)
    model.model_.known_seams.clear()
    np.testing.assert_array_equal(model.predict([[0.3], [0.5]]), before)
    assert len(model.model_.known_seams) <= 2


def test_a_pickle_leaves_out_what_can_be_found_again():
    model = fitted("calm", calm)
    before = model.predict([[0.3]])
    assert model.model_.known_seams
    copy = pickle.loads(pickle.dumps(model))
    assert "known_seams" not in vars(copy.model_)
    assert copy.predict([[0.3]]) == before
