"""Classification: Polya-Gamma draws, the tempered posterior of log-odds, and the scikit-learn classifier."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import InputError
from tempering.models.treed_gp import Prior, Proposals, TreedGPClassifier, layout
from tempering.models.treed_gp.classes import draw_log_odds, energy_of_classes, step_of_classes
from tempering.models.treed_gp.classifier import expected_logistic
from tempering.models.treed_gp.compiled import entry
from tempering.models.treed_gp.layout import COUNT, KAPPA, LOG_ODDS, N_LEAVES, NUGGET, RANGES
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.polya_gamma import draw_polya_gamma
from tempering.models.treed_gp.reference import sample_reference


@entry
def many_polya_gammas(rng, b, c, n):
    out = np.empty(n)
    for i in range(n):
        out[i] = draw_polya_gamma(rng, b, c)
    return out


def transform(b, c, t):
    """Return E exp(-t omega) of PG(b, c)."""
    return (np.cosh(c / 2) / np.cosh(np.sqrt(c * c / 4 + t / 2))) ** b


@pytest.mark.parametrize("c", [0.0, 1e-3, 2.5, -9.0])
@pytest.mark.parametrize("b", [0.2, 1.0, 6.4])
def test_polya_gamma_draws_have_their_laplace_transform(b, c):
    t = np.array([0.5, 2.0, 8.0]) / b
    draws = many_polya_gammas(seeded_rng(f"polya-gamma {b} {c}"), b, c, 40_000)
    rows = np.exp(-np.multiply.outer(draws, t))
    assert_mean_is(transform(b, c, t), rows)
    assert_mean_is_not(transform(1.1 * b, c, t), rows)


def build(leaf="gp_linear", correlation="separable"):
    """Return a state of classes on data with replicated inputs, and trees of up to four leaves."""
    rng = np.random.default_rng(5)
    x = np.round(rng.random((24, 2)) ** 1.5, 1)
    prior = Prior(0.8, 0.7, 5, nugget=(2.0, 4.0, 2.0, 8.0), sigma2_rates=(0.0, 0.0), correlation=correlation)
    proposals = Proposals(window=2.0, tree_moves=0.9, far_reach=6.0)
    model = TreedGPModel(x, x[:, 0] > 0.3, leaf=leaf, prior=prior, proposals=proposals, has_classes=True)
    state = model.allocate()
    return state._replace(real=state.real.copy())


@entry
def draw_classes(rng, state, k):
    """Draw parameters, log-odds and classes from prior x likelihood^k; return the log weight that makes it that."""
    sample_reference(rng, state)
    draw_log_odds(rng, state, False)
    log_weight = 0.0
    for i in range(state.y.shape[0]):
        psi = state.y[i, LOG_ODDS]
        chance = 1.0 / (1.0 + np.exp(-k * psi))  # of the first class: likelihood^k over the sum of both
        log_both = np.log(np.exp(k * min(psi, 0.0)) + np.exp(-k * max(psi, 0.0)))
        log_both -= k * np.log1p(np.exp(-abs(psi)))
        log_weight += state.y[i, COUNT] * log_both
        state.y[i, KAPPA] = -0.5 * state.y[i, COUNT]
        for _ in range(int(state.y[i, COUNT])):
            state.y[i, KAPPA] += 1.0 if rng.random() < chance else 0.0
    return log_weight


N_STATISTICS = 14


@entry
def statistics_of_classes(state, out):
    n = state.y.shape[0]
    out[:] = 0.0
    out[0] = state.meta[N_LEAVES]
    out[1] = 1.0 if state.meta[N_LEAVES] > 2 else 0.0
    for i in range(state.meta[N_LEAVES]):
        node = state.lists[0, i]
        share = state.leaf[node, layout.N_ROWS] / 24.0
        out[2] += share * np.log(state.leaf[node, NUGGET])
        out[3] += share * np.log(state.leaf[node, RANGES])
        out[4] += share * state.leaf[node, RANGES + state.integer[layout.N_RANGES]]
        out[5] += share * np.log(state.leaf[node, layout.TAU2])
    for i in range(n):
        out[6] += np.tanh(state.y[i, LOG_ODDS]) / n
        out[7] += np.tanh(0.3 * state.y[i, LOG_ODDS]) ** 2 / n
        out[8] += np.tanh(state.y[i, LOG_ODDS]) * state.y[i, KAPPA] / n
    out[9] = np.tanh(0.5 * (state.y[0, LOG_ODDS] - state.y[1, LOG_ODDS])) ** 2
    out[10] = np.tanh(energy_of_classes(state) / n)
    out[11] = np.tanh(state.shared[layout.BETA0])
    out[12] = np.log(state.shared[layout.A_TAU]) - np.log(state.shared[layout.Q_TAU])
    out[13] = state.shared[layout.LOG_DET_PRECISION]


@entry
def differences_of_classes(rng, state, k, k_move, real_move, n_replicates):
    """Return weight times the change of the statistics under one round from an exact draw, one row a replicate."""
    out, log_weights = np.empty((n_replicates, N_STATISTICS)), np.empty(n_replicates)
    before, after, real = np.empty(N_STATISTICS), np.empty(N_STATISTICS), state.real.copy()
    for i in range(n_replicates):
        log_weights[i] = draw_classes(rng, state, k)
        statistics_of_classes(state, before)
        state.real[:] = real_move
        for _ in range(2):
            step_of_classes(rng, state, k_move)
        state.real[:] = real
        statistics_of_classes(state, after)
        out[i] = after - before
    weights = np.exp(log_weights - np.max(log_weights))
    for i in range(n_replicates):
        out[i] *= weights[i] / np.mean(weights)
    return out


def changes(label, state, k, *, k_move=None, wrong=None, n=6000):
    real = state.real.copy()
    if wrong is not None:
        real[wrong[0]] = wrong[1]
    return differences_of_classes(seeded_rng(label), state, k, k if k_move is None else k_move, real, n)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0.3, 1.0])
@pytest.mark.parametrize("leaf", ["constant", "linear", "gp", "gp_linear"])
def test_a_round_leaves_the_tempered_posterior_invariant(leaf, k):
    assert_mean_is(np.zeros(N_STATISTICS), changes(f"round of classes {leaf} {k}", build(leaf), k))


def test_a_round_leaves_the_posterior_invariant():
    assert_mean_is(np.zeros(N_STATISTICS), changes("short round of classes", build(), 0.5, n=3000))


@pytest.mark.slow
@pytest.mark.parametrize("correlation", ["power", "single_index"])
def test_a_round_with_shapes_leaves_the_posterior_invariant(correlation):
    rows = changes(f"shapes of classes {correlation}", build(correlation=correlation), 0.6)
    assert_mean_is(np.zeros(N_STATISTICS), rows)


def test_control_a_round_at_another_temperature_is_seen():
    rows = changes("temperature of classes", build(), 0.3, k_move=1.0, n=3000)
    assert_mean_is_not(np.zeros(N_STATISTICS), rows)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [(layout.NUGGET_PRIOR + 1, 12.0), (layout.ALPHA, 0.4), (layout.GAMMA2, 0.05)])
def test_control_a_round_with_another_prior_is_seen(wrong):
    rows = changes(f"prior of classes {wrong[0]}", build(), 1.0, wrong=wrong, n=12_000)
    assert_mean_is_not(np.zeros(N_STATISTICS), rows)


@entry
def follow(rng, state, k, n, out):
    for i in range(n):
        step_of_classes(rng, state, k)
        out[i, 0], out[i, 1] = state.y[0, LOG_ODDS], state.y[1, LOG_ODDS]


@pytest.mark.parametrize("k", [0.4, 1.0])
def test_log_odds_of_two_inputs_agree_with_quadrature(k):
    # One leaf, everything fixed but the log-odds: their posterior is an integral over the plane.
    x, y = np.repeat([[0.0], [1.0]], [7, 5], axis=0), np.repeat([1, 0, 1, 0], [6, 1, 1, 4])
    variance, reach = 4.0, 1.5
    prior = Prior(
        tree=False, mean="constant", coefficients="fixed", range_fixed=reach, nugget_fixed=1 / variance, tau2_start=0.5
    )
    model = TreedGPModel(x, y, leaf="gp", prior=prior, has_classes=True)
    covariance = variance * (0.5 + np.array([[1.0, np.exp(-1 / reach)], [np.exp(-1 / reach), 1.0]]))
    density = stats.multivariate_normal(np.zeros(2), covariance).logpdf
    grid = np.linspace(-14, 14, 561)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    log_likelihood = 6 * a - 7 * np.logaddexp(0, a) + b - 5 * np.logaddexp(0, b)
    mass = np.exp(density(np.stack([a, b], axis=-1)) + k * log_likelihood)
    exact = np.array([(mass * f).sum() for f in (a, b, a * b, special.expit(a))]) / mass.sum()
    rng = seeded_rng(f"two inputs {k}")
    means = []
    for _ in range(24):
        state, out = model.initial(rng), np.empty((1500, 2))
        follow(rng, state, k, len(out), out)
        a, b = out[100:].T
        means.append([a.mean(), b.mean(), (a * b).mean(), special.expit(a).mean()])
    assert_mean_is(exact, means)


def test_the_mean_of_the_logistic_function_is_its_integral():
    mean, deviation = np.meshgrid([-6.0, 0.3, 2.0], [0.0, 0.7, 1.49, 1.51, 4.0, 30.0])
    exact = [
        integrate.quad(lambda z, m=m, s=s: special.expit(m + s * z) * stats.norm.pdf(z), -12, 12, limit=400)[0]
        for m, s in zip(mean.ravel(), deviation.ravel(), strict=True)
    ]
    np.testing.assert_allclose(expected_logistic(mean, deviation).ravel(), exact, atol=1e-5)


def test_a_class_that_is_certain_has_no_probability_above_one():
    certain = expected_logistic(np.array([-400.0, 400.0]), np.array([2.0, 2.0]))
    assert 0.0 <= certain[0] < 1e-12
    assert 1.0 - 1e-12 < certain[1] <= 1.0


def steps(n, seed):
    """Return inputs in the plane and classes whose probability is known."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    p = special.expit(np.where(x[:, 0] < 0.5, 3 * np.sin(6 * x[:, 1]), 2.5))
    return x, rng.random(n) < p, p


SHORT = {"draws": 400, "tune": 300, "random_state": 1, "keep": {"trees": 60}}


def test_probabilities_come_near_those_the_classes_were_drawn_with():
    x, y, _ = steps(300, 1)
    new, _, p = steps(400, 2)
    found = TreedGPClassifier(**SHORT).fit(x, y).predict_proba(new)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.sqrt(np.mean((found[:, 1] - p) ** 2)) < 0.12  # 0.33 for the mean of y


@pytest.mark.slow
def test_probabilities_are_calibrated_over_the_prior():
    # Classes drawn from the model itself: then a predicted probability is the chance of what is predicted.
    rows = []
    for seed in range(40):
        rng = seeded_rng(f"calibration {seed}")
        x = rng.random((120, 1))
        prior = Prior(tree=False, nugget=(4.0, 16.0, 4.0, 16.0), coefficients="zero_mean", mean="constant")
        model = TreedGPModel(x, x[:, 0] > 0.5, leaf="gp", prior=prior, has_classes=True)
        psi = model.initial(rng).y[:, LOG_ODDS]
        y = rng.random(120) < special.expit(psi)
        here = rng.permutation(120)
        fitted, held = here[:60], here[60:]
        if len(set(y[fitted])) < 2:
            continue
        points = model.data.x
        found = TreedGPClassifier(leaf="gp", prior=prior, **SHORT).fit(points[fitted], y[fitted])
        p = found.predict_proba(points[held])[:, 1]
        rows.append(
            [np.mean(y[held] - p), np.mean((y[held] - p) * (p - 0.5)), np.mean((y[held] - p) ** 2 - p * (1 - p))]
        )
    assert_mean_is(np.zeros(3), rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_it():
    check_estimator(TreedGPClassifier(draws=60, tune=40, keep={"trees": 20}, chains=1, tempering={"ladder": [1, 0.5]}))


def three():
    rng = np.random.default_rng(3)
    x = rng.random((150, 2))
    y = np.where(x[:, 0] < 0.4, "left", np.where(x[:, 1] < 0.5, "below", "above"))
    return x, y


def test_three_classes_are_told_apart_kept_and_piped(tmp_path):
    x, y = three()
    model = TreedGPClassifier(**SHORT).fit(x, y)
    assert model.score(x, y) > 0.95
    assert model.classes_.tolist() == ["above", "below", "left"]
    proba = model.predict_proba(x)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    model.save(tmp_path / "model")
    for other in (TreedGPClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(x), proba)
        assert other.predict(x[:3]).tolist() == model.predict(x[:3]).tolist()
    pipe = make_pipeline(StandardScaler(), clone(model).set_params(prior__min_leaf=6)).fit(x, y)
    assert pipe.score(x, y) > 0.95
    assert len(model.diagnose()) == len(model.leaf_probabilities_) == 2


def test_columns_of_categories_are_inputs_too():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.random(80), "kind": rng.choice(["red", "blue"], 80)})
    y = np.where(frame["kind"] == "red", 1, 0)
    model = TreedGPClassifier(leaf="constant", **SHORT).fit(frame, y)
    assert model.predict(frame).tolist() == y.tolist()


def test_what_cannot_be_fitted_is_refused():
    x, y = three()
    with pytest.raises(InputError, match="one class, 'left'"):
        TreedGPClassifier().fit(x, np.full(len(x), "left"))
    with pytest.raises(InputError, match="coefficients of classes must be one of"):
        TreedGPClassifier(prior={"coefficients": "flat"}).fit(x, y)
    with pytest.raises(InputError, match="temper of classes must be one of"):
        TreedGPClassifier(tempering={"target": "likelihood_and_tree"}).fit(x, y)


@pytest.mark.parametrize("correlation", ["power", "single_index"])
def test_other_correlations_classify(correlation):
    x, y, _ = steps(120, 1)
    assert TreedGPClassifier(prior={"correlation": correlation}, **SHORT).fit(x, y).score(x, y) > 0.7
