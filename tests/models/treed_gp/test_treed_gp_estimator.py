"""`TreedGP` as its users meet it: scikit-learn's checks, predictions against twins, bad input, files."""

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import treed_gp_twin as twin
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.errors import EstimatorError, InputError
from tempering.experiments import motorcycle
from tempering.models.treed_gp import (
    Keeping,
    Prior,
    Proposals,
    Tempering,
    TreedGP,
    TreedGPModel,
    layout,
    surfaces,
)
from tempering.models.treed_gp.diagnosis import diagnosis_of
from tempering.models.treed_gp.fitting import Plan, preflight
from tempering.models.treed_gp.mixture import quantiles
from tempering.models.treed_gp.records import HEAD, load_record, record
from tempering.models.treed_gp.surfaces import joint, predict_each

LEAVES = ["constant", "linear", "gp", "gp_linear"]


def short(*, ladder=(1, 0.6, 0.3), hottest=0.1, rule="mbar", kept=40, predict_every=10, thin=None, **arguments):
    settings = {
        "tempering": Tempering(ladder=ladder, hottest=hottest, rule=rule),
        "keep": Keeping(trees=kept, predict_every=predict_every, thin=thin),
    }
    return TreedGP(**({"draws": 300, "tune": 200, "random_state": 3} | settings | arguments))


def wiggle(n=60, n_columns=1, seed=4):
    rng = np.random.default_rng(seed)
    x = np.round(rng.random((n, n_columns)) * 5, 1)
    return x, np.sin(3 * x[:, 0]) * (x[:, 0] < 2.5) + 0.1 * rng.standard_normal(n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_accepts_it():
    check_estimator(TreedGP(draws=60, tune=40, keep={"trees": 20}, chains=1, tempering={"ladder": [1, 0.5]}))


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("leaf", LEAVES)
def test_every_family_fits_and_predicts(leaf, tree):
    x, y = wiggle()
    model = short(leaf=leaf, prior=Prior(tree=tree)).fit(x, y)
    mean, deviation, band = model.predict(x, return_std=True, quantiles=[0.05, 0.95])
    assert np.all(band[:, 0] < mean)
    assert np.all(mean < band[:, 1])
    assert np.all(deviation > 0)
    assert model.leaf_probabilities_.sum() == pytest.approx(1.0)
    assert tree or model.leaf_probabilities_[0] == pytest.approx(1.0)
    assert leaf != "gp" or model.score(x, y) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("correlation", ["separable", "isotropic", "matern32", "power", "single_index"])
@pytest.mark.parametrize("leaf", ["linear", "gp", "gp_linear"])
def test_prediction_of_one_tree_agrees_with_dense_algebra(leaf, correlation):
    rng = seeded_rng(f"prediction {leaf} {correlation}")
    x = rng.random((25, 2))
    y = x[:, 0] + rng.standard_normal(25)
    model = TreedGPModel(x, y, leaf=leaf, prior=Prior(tree=False, correlation=correlation))
    state = model.initial(rng)
    row = record(state)[HEAD:]
    new = rng.random((6, 2))
    both = np.concatenate([model.data.x, model.data.scale(new)])
    n, m = 25, 3
    ranges, active, _ = twin.Snapshot(state).parameters(0)
    sigma2, nugget, tau2 = state.leaf[0, [layout.SIGMA2, layout.NUGGET, layout.TAU2]]
    prior_w = np.linalg.inv(state.shared[layout.BETA0 + m :].reshape(m, m))
    beta0 = state.shared[layout.BETA0 : layout.BETA0 + m]
    f = twin.regressors(both, m) * twin.Snapshot(state).used(0)
    surface = tau2 * f @ prior_w @ f.T
    if active.any():
        exponent = state.leaf[0, layout.EXPONENT]
        surface = surface + twin.correlation_matrix(both, ranges, active, correlation, exponent)
    noise = 1 + nugget if leaf == "linear" else nugget
    known = np.linalg.inv(surface[:n, :n] + noise * np.eye(n))
    z = model.data.y[:, 1]
    mean = f[n:] @ beta0 + surface[n:, :n] @ known @ (z - f[:n] @ beta0)
    covariance = sigma2 * (surface[n:, n:] - surface[n:, :n] @ known @ surface[:n, n:])
    each = predict_each(model, row[None], new)[0]
    np.testing.assert_allclose(each[0], mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(each[1], np.diag(covariance), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(each[2], sigma2 * noise, rtol=1e-12)
    _, full, _ = joint(model, row, new)
    np.testing.assert_allclose(full, covariance, rtol=1e-5, atol=1e-7)


def test_a_record_restores_the_tree():
    rng = seeded_rng("record")
    x, y = wiggle(80, 2)
    model = TreedGPModel(x, y, leaf="gp_linear", prior=Prior(split_probability=0.9, min_leaf=5))
    state, copy = model.initial(rng), model.allocate()
    row = record(state)[HEAD:]
    load_record(copy, row)
    np.testing.assert_array_equal(record(copy)[HEAD:], row)
    used = np.flatnonzero(row)[-1] + 1  # as runs cut it
    load_record(copy, row[:used].copy())
    np.testing.assert_array_equal(record(copy)[HEAD:], row)
    before, after = twin.Snapshot(state), twin.Snapshot(copy)
    assert [sorted(r) for _, _, r in before.leaves()] == [sorted(r) for _, _, r in after.leaves()]


@pytest.mark.long
def test_predictions_of_all_draws_agree_with_those_of_the_kept_trees():
    x, y = wiggle()
    new = np.linspace(0.2, 4.8, 12)[:, None]
    model = short(draws=3000, kept=400, predict_every=2).fit(x, y, X_predict=new)
    mean, deviation = model.predict(new, return_std=True)
    running = model.running_prediction_
    np.testing.assert_allclose(running[0], mean, atol=0.05)
    np.testing.assert_allclose(running[1], deviation, rtol=0.25)


@pytest.mark.slow
def test_predicting_elsewhere_does_not_change_the_model():
    x, y = wiggle()
    one, other = short().fit(x, y), short().fit(x, y, X_predict=[[0.0], [7.0]])
    np.testing.assert_array_equal(one.posterior_.rows, other.posterior_.rows)


def test_equal_seeds_give_equal_fits_and_others_do_not():
    x, y = wiggle()
    first, second, third = (short(random_state=s).fit(x, y).posterior_.rows for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_trees_of_all_draws_are_dropped_once_some_are_drawn_and_are_thinned_where_they_would_fill_the_memory():
    x, y = wiggle()
    posterior = short(leaf="constant", draws=2000).fit(x, y).posterior_
    assert posterior.draws.values["leaves"].shape == (2, 2000)
    assert sum(value.nbytes for value in posterior.draws.values.values()) == 8 * 2 * 2000
    model = short()._build(x, y)
    room = Plan(Tempering(), 100, 100, 100, 2, Keeping()).thin(model, memory=1e9)
    assert room == 1
    assert Plan(Tempering(), 100, 100, 100, 2, Keeping()).thin(model, memory=1e5) == -(
        -200 * 8 * model.record_size // 100_000
    )
    thinned = short(leaf="constant", draws=300, thin=3).fit(x, y).posterior_
    assert thinned.draws.rung.shape == (2, 100)


@pytest.mark.parametrize("rule", ["cold_only", "pooled", "equal", "ess_optimal", "screened", "mbar"])
def test_all_rules_tell_the_same_story(rule):
    x = np.linspace(0, 1, 40)[:, None]
    y = np.where(x.ravel() < 0.5, 0.0, 1.0) + 0.05 * np.sin(40 * x.ravel())
    model = short(leaf="constant", draws=3000, rule=rule).fit(x, y)
    assert model.predict([[0.1], [0.9]]) == pytest.approx([0.0, 1.0], abs=0.1)
    values, probability = model.cut_probabilities(0)
    assert values[np.argmax(probability)] == pytest.approx(0.5, abs=0.03)
    assert [leaf.n_rows for leaf in model.map_tree_] == [20, 20]
    assert model.feature_importances_ == pytest.approx([1.0])


def test_sampled_responses_have_the_predictive_moments():
    x, y = wiggle()
    model = short(kept=20).fit(x, y)
    new = np.array([[0.5], [2.0], [4.0]])
    samples = model.sample_y(new, 4000, random_state=1)
    mean, deviation = model.predict(new, return_std=True)
    assert_mean_is(mean, samples.T)
    assert_mean_is(deviation**2, (samples.T - mean) ** 2)
    assert_mean_is_not(mean + 0.2 * deviation, samples.T)


def test_mixture_quantiles_invert_the_distribution_function():
    rng = np.random.default_rng(1)
    mean, deviation = rng.standard_normal((9, 4)), rng.random((9, 4)) + 0.1
    q = quantiles(mean, deviation, [0.05, 0.5, 0.95])
    for j, level in enumerate([0.05, 0.5, 0.95]):
        assert stats.norm.cdf(q[:, j], mean, deviation).mean(axis=0) == pytest.approx(np.full(4, level))
    certain = quantiles(mean, np.full((9, 4), 1e-150), [0.05, 0.5, 0.95])  # a staircase
    np.testing.assert_allclose(certain, np.sort(mean, axis=0)[[0, 4, 8]].T, atol=1e-6)


def test_design_criteria_prefer_where_little_is_known():
    rng = np.random.default_rng(2)
    x = np.sort(np.concatenate([rng.random(25) * 0.4, [0.95, 1.0]]))[:, None]
    y = (x.ravel() - 0.3) ** 2 + 0.01 * rng.standard_normal(27)
    model = short(prior=Prior(tree=False, mean="constant"), draws=1500).fit(x, y)
    candidates = np.array([[0.2], [0.7]])
    assert np.argmax(model.alm(candidates)) == 1
    assert np.argmax(model.alc(candidates, np.linspace(0, 1, 21)[:, None])) == 1
    improvement = model.expected_improvement(np.array([[0.3], [0.0]]))
    assert improvement[0] > improvement[1] >= 0


def test_expected_improvement_agrees_with_simulation():
    from tempering.models.treed_gp.surfaces import expected_improvement

    each = np.array([[[0.1, 0.5], [0.04, 0.09], [0.0, 0.0]]])
    rng = np.random.default_rng(0)
    draws = 0.1 + 0.2 * rng.standard_normal(400_000), 0.5 + 0.3 * rng.standard_normal(400_000)
    simulated = [np.maximum(0.2 - d, 0).mean() for d in draws]
    assert expected_improvement(each, np.array([0.2])) == pytest.approx(simulated, rel=0.02)


def test_a_saved_model_predicts_the_same(tmp_path):
    x, y = wiggle()
    model = short(prior=Prior(min_leaf=8)).fit(x, y, X_predict=x[:3])
    model.save(tmp_path / "model.npz")
    again = TreedGP.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(again.running_prediction_, model.running_prediction_)
    assert again.prior == model.prior
    assert again.posterior_.combined_ess == model.posterior_.combined_ess
    (tmp_path / "other").write_text("no model")
    with pytest.raises(InputError, match="written by the save of a treed GP"):
        TreedGP.load(tmp_path / "other")


def test_bad_input_is_refused_with_its_place():
    x, y = wiggle()
    broken = x.copy()
    broken[[3, 7]] = np.nan
    with pytest.raises(InputError, match=r"NaN.*2 rows: 3, 7"):
        short().fit(broken, y)
    with pytest.raises(InputError, match=r"rows: 5"):
        short().fit(x, np.where(np.arange(60) == 5, np.inf, y))
    with pytest.raises(ValueError, match="reshape"):
        short().fit(x.ravel(), y)
    with pytest.raises(InputError, match=r"smallest leaf, 100, but have 60"):
        short(prior=Prior(min_leaf=100)).fit(x, y)
    with pytest.raises(InputError, match="all of the 1 are constant"):
        short().fit(np.ones((60, 1)), y)
    with pytest.raises(InputError, match="leaf must be one of"):
        short(leaf="cubic").fit(x, y)
    with pytest.raises(InputError, match="draws must be"):
        short(draws=0).fit(x, y)
    with pytest.raises(InputError, match="coefficients must be one of"):
        Prior(coefficients="bflat")
    with pytest.raises(EstimatorError, match="rule must be one of"):
        short(rule="best").fit(x, y)


def test_a_constant_column_is_left_out_with_a_warning():
    x, y = wiggle()
    wide = np.column_stack([x, np.ones(60)])
    with pytest.warns(UserWarning, match=r"columns \[1\] are constant"):
        model = short(leaf="constant").fit(wide, y)
    np.testing.assert_allclose(model.predict(wide), short(leaf="constant").fit(x, y).predict(x))
    assert model.feature_importances_[1] == 0.0


def test_few_rows_are_fitted_without_a_tree():
    x, y = wiggle(8)
    with pytest.warns(UserWarning, match="one leaf and no tree"):
        model = short().fit(x, y)
    assert model.leaf_probabilities_ == pytest.approx([1.0])


def test_replicated_inputs_with_different_responses_are_fine():
    x, y = wiggle()
    model = short().fit(np.concatenate([x, x]), np.concatenate([y, y + 0.3]))
    assert np.all(np.isfinite(model.predict(x)))


def test_the_evidence_of_a_linear_leaf_is_its_multivariate_t():
    rng = np.random.default_rng(8)
    x = np.linspace(0, 1, 20)[:, None]
    y = 1 + x.ravel() + 0.3 * rng.standard_normal(20)
    prior = Prior(coefficients="fixed", sigma2=(5, 0.5), sigma2_rates=(0, 0), tau2_rates=(0, 0))
    ladder = [1, 0.7, 0.45, 0.25, 0.12, 0.05, 0.015, 0.0]
    model = short(leaf="linear", prior=replace(prior, tree=False), ladder=ladder, draws=6000, tune=3000).fit(x, y)
    f = np.column_stack([np.ones(20), x])
    spread = np.ptp(y)
    shape = 0.1 * (np.eye(20) + f @ f.T)
    exact = stats.multivariate_t.logpdf((y - y.mean()) / spread, np.zeros(20), shape, df=5) - 20 * np.log(spread)
    estimate = model.log_evidence()
    assert abs(estimate.value - exact) < 5 * estimate.standard_error + 1e-9
    assert estimate.standard_error < 0.3
    with pytest.raises(InputError, match="k = 0"):
        short(leaf="linear").fit(x, y).log_evidence()


def test_a_tuned_ladder_has_the_ends_asked_for():
    x, y = wiggle()
    model = short(leaf="constant", ladder="tuned", hottest=0.2, draws=1000, tune=2000).fit(x, y)
    assert model.posterior_.ladder[0] == 1.0
    assert model.posterior_.ladder.hottest == pytest.approx(0.2)
    assert np.all(model.posterior_.draws.visits > 0)


def many_rows():
    rng = np.random.default_rng(9)
    x = rng.random((10_000, 2))
    return x, np.where(x[:, 0] < 0.5, np.sin(8 * x[:, 1]), 2.0) + 0.1 * rng.standard_normal(10_000)


@pytest.mark.long
def test_ten_thousand_rows_work():
    x, y = many_rows()
    model = short(draws=60, tune=60, chains=1, kept=5, ladder=[1], random_state=1).fit(x, y)
    assert model.score(x[:500], y[:500]) > 0.9


@pytest.mark.slow
def test_ten_thousand_rows_say_beforehand_how_long_they_take():
    x, y = many_rows()
    plan = short(draws=2_000_000, ladder=[1])._plan(None, 10_000)
    with pytest.warns(UserWarning, match=r"will take about .* (hours|minutes): 10000 rows"):
        seconds = preflight(TreedGPModel(x, y), plan)
    assert seconds > 60
    assert preflight(TreedGPModel(x[:300], y[:300]), plan) == 0.0


@pytest.mark.parametrize("choice", ["least_squares", "zero_mean", "fixed", "flat"])
def test_every_prior_of_the_coefficients_fits(choice):
    x, y = wiggle()
    model = short(prior=Prior(coefficients=choice), ladder=[1, 0.8], draws=1000).fit(x, y)
    assert model.score(x, y) > 0.8


def test_fixed_coefficients_have_the_values_given():
    x, y = wiggle()
    prior = Prior(coefficients="fixed", beta0=(0.5, -0.2), scale=((2.0, 0.1), (0.1, 1.0)))
    state = TreedGPModel(x, y, prior=prior).initial(np.random.default_rng(1))
    assert state.shared[layout.BETA0 : layout.BETA0 + 2] == pytest.approx([0.5, -0.2])
    inverse = np.linalg.inv([[2.0, 0.1], [0.1, 1.0]])
    assert state.shared[layout.BETA0 + 2 :].reshape(2, 2) == pytest.approx(inverse)
    with pytest.raises(InputError, match="beta0 must have 2 entries"):
        TreedGPModel(x, y, prior=Prior(beta0=(1.0,)))
    with pytest.raises(InputError, match="scale must be a 2 x 2 covariance"):
        TreedGPModel(x, y, prior=Prior(scale=((1.0, 2.0), (2.0, 1.0))))


def test_flat_coefficients_refuse_a_ladder_that_makes_them_improper():
    x, y = wiggle(60, 4)
    with pytest.raises(InputError, match="flat"):
        short(prior=Prior(coefficients="flat"), ladder=[1, 0.5, 0.01]).fit(x, y)


def test_columns_can_be_kept_for_splits_or_for_the_leaves():
    rng = np.random.default_rng(6)
    x = rng.random((80, 2))
    y = np.where(x[:, 1] < 0.5, 2 * x[:, 0], -x[:, 0]) + 0.05 * rng.standard_normal(80)
    prior = Prior(base_columns=1, first_split=1)
    model = short(leaf="linear", prior=prior, draws=3000, tune=2000).fit(x, y)
    assert model.model_.integer[layout.N_MEAN] == 2
    assert model.feature_importances_ == pytest.approx([0.0, 1.0])
    assert model.score(x, y) > 0.9
    with pytest.raises(InputError, match="free for splits"):
        short(prior=Prior(first_split=2)).fit(x, y)


@pytest.mark.slow
def test_a_default_fit_of_the_motorcycle_data_is_sound_and_a_short_one_says_that_it_is_not():
    x, y = motorcycle.load()
    good = TreedGP(random_state=1).fit(x, y)
    assert good.diagnose().is_good
    assert good.leaf_probabilities_[0] < 0.05
    assert good.diagnose().evidence_agrees
    poor = TreedGP(random_state=1, draws=300, tune=200, chains=1).fit(x, y).diagnose()
    assert not poor.is_good
    assert any("cold to hot and back" in sentence for sentence in poor.sentences)


def test_without_round_trips_chains_must_agree_closely_to_be_called_sound():
    x, y = wiggle(60, 4)
    fitted = short(leaf="linear", prior=Prior(tree=False), ladder=[1, 0.5], draws=400, tune=200, chains=2).fit(x, y)
    run = fitted.posterior_.draws
    stuck = replace(fitted.posterior_, draws=replace(run, rung=np.zeros_like(run.rung), _kept=run._kept))
    assert stuck.n_round_trips == 0
    sound = diagnosis_of(replace(stuck, prediction_r_hat=1.005))
    assert sound.is_good
    assert sound.sentences
    assert all(sentence.startswith("for leaf probabilities: ") for sentence in sound.sentences)
    for r_hat in (1.02, float("nan")):
        told = diagnosis_of(replace(stuck, prediction_r_hat=r_hat))
        assert not told.is_good
        assert "never went from cold to hot and back" in told.sentences[0]
    assert diagnosis_of(replace(fitted.posterior_, prediction_r_hat=1.02)).is_good


def test_rungs_whose_energies_do_not_belong_together_are_told():
    x, y = wiggle(60, 4)
    # without a tree chains make 170 round trips, and the error of the evidence is small enough to tell
    posterior = short(leaf="linear", prior=Prior(tree=False), ladder=None, draws=8000, tune=4000).fit(x, y).posterior_
    assert diagnosis_of(posterior).evidence_agrees
    # as if the hotter half of the ladder had run with the wrong sign
    half = len(posterior.ladder) // 2
    run = posterior.draws
    turned = np.where((run.rung >= half)[..., None], -run.terms, run.terms)
    told = diagnosis_of(replace(posterior, draws=replace(run, terms=turned, _kept={})))
    assert not told.evidence_agrees
    assert not told.is_good
    assert any("log Z" in sentence or "evidence" in sentence for sentence in told.sentences), told


def test_draws_begin_on_the_cold_rung_whatever_tuning_ended_on():
    x, y = wiggle(60, 1)
    model = short(draws=1, tune=300, chains=3).fit(x, y)
    assert np.all(model.posterior_.draws.rung[:, 0] <= 1)


@pytest.mark.parametrize("scale", [1e300, 1e-200])
def test_the_unit_of_the_response_does_not_matter(scale):
    x, y = wiggle()
    plain, scaled = (short(leaf="linear").fit(x, y * unit) for unit in (1.0, scale))
    mean, deviation, band = plain.predict(x, return_std=True, quantiles=0.9)
    assert np.all(deviation > 0)
    for value, other in zip((mean, deviation, band), scaled.predict(x, return_std=True, quantiles=[0.9]), strict=True):
        np.testing.assert_allclose(other / scale, value, rtol=1e-6)
    np.testing.assert_allclose(scaled.sample_y(x[:1], 2, 1) / scale, plain.sample_y(x[:1], 2, 1), rtol=1e-6)
    with pytest.raises(InputError, match=r"1\.8e308"):
        short().fit(x, np.where(np.arange(60) < 3, -1.7e308, 1.7e308))


def test_many_points_are_predicted_in_blocks(monkeypatch):
    x, y = wiggle()
    model = short(leaf="constant").fit(x, y)
    points = np.linspace(0, 5, 1000)[:, None]
    whole = model.predict(points, return_std=True, quantiles=[0.1, 0.9])
    monkeypatch.setattr(surfaces, "_POINTS_AT_ONCE", 64)
    tracemalloc.start()
    for one, other in zip(whole, model.predict(points, return_std=True, quantiles=[0.1, 0.9]), strict=True):
        np.testing.assert_array_equal(one, other)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 1000 * 3 * 8  # what all trees say of all points at once


def test_priors_are_nested_parameters_and_may_be_dicts():
    x, y = wiggle()
    model = short(leaf="constant", prior={"min_leaf": 20})
    assert model.get_params()["prior__min_leaf"] == 20
    model.set_params(prior__min_leaf=25, proposals__tree_moves=2.0, draws=200)
    assert (model.prior, model.proposals.tree_moves, model.draws) == (Prior(min_leaf=25), 2.0, 200)
    same = short(leaf="constant", prior=Prior(min_leaf=25), draws=200, proposals=Proposals(tree_moves=2.0))
    np.testing.assert_array_equal(clone(model).fit(x, y).predict(x), same.fit(x, y).predict(x))
    search = GridSearchCV(short(leaf="constant"), {"prior__min_leaf": [5, 20]}, cv=2).fit(x, y)
    assert search.best_params_["prior__min_leaf"] in (5, 20)
    with pytest.raises(InputError, match="no setting 'smallest'"):
        short(prior={"smallest": 3}).fit(x, y)
    with pytest.raises(InputError, match="a dict of its settings"):
        short(prior=3).fit(x, y)
    with pytest.raises(ValueError, match="no setting 'smallest'"):
        model.set_params(prior__smallest=3)


def test_every_group_is_nested_and_a_name_that_moved_says_where_it_is():
    model = short().set_params(tempering__rule="pooled", keep__trees=7, prior__tree=False)
    assert (model.tempering.rule, model.keep.trees, model.prior.tree) == ("pooled", 7, False)
    assert model.get_params()["tempering__hottest"] == 0.1
    for name, (group, entry) in TreedGP.MOVED.items():
        with pytest.raises(InputError, match=rf"{group}=\w+\({entry}="):
            TreedGP(**{name: 1})
        with pytest.raises(InputError, match=f"{group}__{entry}"):
            model.set_params(**{name: 1})
        assert f"{group}__{entry}" in model.get_params()
    with pytest.raises(TypeError, match="unexpected keyword argument 'leaves'"):
        TreedGP(leaves=3)


def test_generators_are_seeds_that_move_on():
    x, y = wiggle()
    rng = np.random.default_rng(4)
    one, two = (short(leaf="constant", random_state=rng).fit(x, y) for _ in range(2))
    again = short(leaf="constant", random_state=np.random.default_rng(4)).fit(x, y)
    np.testing.assert_array_equal(one.posterior_.rows, again.posterior_.rows)
    assert not np.array_equal(one.posterior_.rows, two.posterior_.rows)
    assert one.sample_y(x, 1, np.random.default_rng(1)).shape == (60, 1)


def test_predictive_covariance_is_that_of_joint_draws():
    x, y = wiggle()
    model = short(kept=10).fit(x, y)
    points = np.array([[0.5], [0.7], [4.0]])
    mean, covariance = model.predict_covariance(points)
    np.testing.assert_allclose(mean, model.predict(points), rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), model.predict(points, return_std=True)[1], rtol=1e-6)
    draws = model.sample_y(points, 6000, random_state=1).T - mean
    products = draws[:, [0, 0, 1]] * draws[:, [1, 2, 2]]
    assert_mean_is(covariance[[0, 0, 1], [1, 2, 2]], products)
    assert_mean_is_not(np.zeros(3), products)
    latent = model.predict_covariance(points, latent=True)[1]
    assert np.all(np.diag(latent) < np.diag(covariance))


@pytest.mark.parametrize("levels", [1.5, [], "high"])
def test_quantiles_that_are_none_are_refused(levels):
    x, y = wiggle()
    with pytest.raises(InputError, match="between 0 and 1"):
        short(leaf="constant", draws=50).fit(x, y).predict(x, quantiles=levels)


def test_columns_of_categories_in_a_data_frame_are_split_on(tmp_path):
    rng = np.random.default_rng(3)
    x = pd.DataFrame({"kind": rng.choice(["red", "blue"], 90), "speed": rng.random(90)})
    y = np.where(x["kind"] == "red", 2 * x["speed"], -1.0) + 0.05 * rng.standard_normal(90)
    model = short(leaf="linear", draws=2000, tune=1000).fit(x, y)
    assert list(model.feature_names_in_) == ["speed", "kind=red"]
    assert model.feature_importances_ == pytest.approx([0, 1], abs=0.1)
    assert model.score(x, y) > 0.95
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(TreedGP.load(tmp_path / "model.npz").predict(x), model.predict(x))
    with pytest.raises(InputError, match="category 'green'"):
        model.predict(x.assign(kind="green"))
    with pytest.raises(InputError, match="kind is missing"):
        model.predict(x[["speed"]])
    with pytest.raises(InputError, match="without a category"):
        short().fit(x.assign(kind=None), y)
    with pytest.raises(InputError, match="one column of numbers"):
        short().fit(x[["kind"]], y)


def test_a_pickled_model_predicts_the_same():
    x, y = wiggle()
    model = short(leaf="constant").fit(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), model.predict(x))
    weight = np.linspace(0, 1, 60)
    assert model.score(x, y, sample_weight=weight) != model.score(x, y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        model.fit(sparse.csr_matrix(x), y)
