"""The scikit-learn face of variable selection, and its command."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

from models.variable_selection.selection_cases import data, exact_inclusion
from statistical import seeded_rng
from tempering.errors import InputError
from tempering.models.variable_selection import Family, Sampling, Slab, VariableSelection
from tempering.models.variable_selection.cli import app
from tempering.models.variable_selection.plots import plot_inclusion, plot_size

QUICK = {"sampling": Sampling(400, 200, 2), "random_state": 1}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_keeps_all_conventions_of_scikit_learn():
    check_estimator(VariableSelection(sampling=Sampling(100, 50, 2)))


def test_the_diabetes_data_in_a_pipeline():
    x, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), VariableSelection(**QUICK)).fit(x, y)
    assert 0.5 < model.score(x, y) < 0.53  # least squares on all ten columns: 0.518
    support = model[-1].get_support()
    assert support[[1, 2, 3, 8]].all()  # sex, bmi, bp, s5
    assert not support[[0, 9]].any()  # age, s6
    assert list(model[-1].get_support(indices=True)) == list(np.flatnonzero(support))


def test_answers_agree_with_all_models_and_are_on_the_scale_of_the_columns():
    x, y = data()
    shifted = 5.0 + 3.0 * x
    model = VariableSelection(sampling=Sampling(4000), random_state=2).fit(shifted, y + 7.0)
    truth = exact_inclusion(model.problem_)
    z = (model.inclusion_probabilities_ - truth) / model.inclusion_errors_
    assert np.abs(z).max() < 6
    models, log_posterior = model.problem_.enumerate()
    weight = np.exp(log_posterior - log_posterior.max())
    weight /= weight.sum()
    mean, square = np.zeros(8), np.zeros(8)
    for found, w in zip(models, weight, strict=True):
        beta, inverse, rss = model.problem_.posterior(found)
        noise = model.problem_.noise_model
        variance = (noise.twice_rate + rss) / 2 / (noise.kappa - 1) * np.diag(inverse)
        mean[list(found)] += w * beta
        square[list(found)] += w * (beta**2 + variance)
    error = np.asarray(model.posterior_.coefficients.standard_error)
    assert np.all(np.abs(model.coef_ * model.terms_.scale - mean) < 6 * error + 1e-12)
    assert np.allclose(model.coef_std_ * model.terms_.scale, np.sqrt(square - mean**2), rtol=0.05)
    assert np.allclose(model.predict(shifted), model.intercept_ + shifted @ model.coef_)
    wide, narrow = model.predict(shifted, return_std=True)[1], np.std(y - model.predict(shifted) + 7)
    assert np.all(wide > 0.8 * narrow)
    assert np.all(wide < 2.5 * narrow)


def test_forced_columns_are_in_and_names_are_understood():
    x, y = data()
    frame = pd.DataFrame(x, columns=list("abcdefgh"))
    model = VariableSelection(design={"forced": ["h", 2]}, **QUICK).fit(frame, y)
    assert model.inclusion_probabilities_[[2, 7]] == pytest.approx([1.0, 1.0])
    assert all({2, 7} <= set(found.columns) for found in model.best_models())
    with pytest.raises(InputError, match="no column 'z'"):
        VariableSelection(design={"forced": ["z"]}, **QUICK).fit(frame, y)


@pytest.mark.parametrize("heredity", ["strong", "weak"])
def test_products_come_with_their_columns(heredity):
    rng = seeded_rng("test_products_come_with_their_columns")
    x = rng.standard_normal((120, 4))
    y = x[:, 0] + x[:, 1] + 1.5 * x[:, 0] * x[:, 1] + 0.8 * x[:, 2] ** 2 + rng.standard_normal(120)
    model = VariableSelection(design={"interactions": "quadratic", "heredity": heredity}, **QUICK).fit(x, y)
    names = np.array(model.term_names_)
    assert len(names) == 14
    chosen = set(names[model.get_support()])
    assert {"x0", "x1", "x0:x1", "x2^2", "x2"} <= chosen
    for found in model.best_models(20):
        for j in found.columns:
            if model.terms_.parents[j, 0] >= 0:
                n_parents = len(set(model.terms_.parents[j]) & set(found.columns))
                assert n_parents == len(set(model.terms_.parents[j])) or (heredity == "weak" and n_parents == 1)
    new = rng.standard_normal((5, 4))
    assert np.allclose(model.predict(new), model.predict(np.vstack([new, x]))[:5])


def test_groups_enter_and_leave_together_and_are_exact():
    x, y = data(p=6)
    groups = ["a", "a", "b", "c", "d", "d"]
    model = VariableSelection(design={"groups": groups}, sampling=Sampling(1500, 200, 4), random_state=3).fit(x, y)
    problem = model.problem_
    sets = [tuple(i for i in range(4) if row[i]) for row in np.ndindex(2, 2, 2, 2)]
    log_posterior = np.array([problem.log_prior(s) + problem.evaluate(s)[0] for s in sets])
    weight = np.exp(log_posterior - log_posterior.max())
    weight /= weight.sum()
    truth = np.array([sum(w for s, w in zip(sets, weight, strict=True) if unit in s) for unit in (0, 0, 1, 2, 3, 3)])
    assert np.abs((model.inclusion_probabilities_ - truth) / model.inclusion_errors_).max() < 6
    assert model.inclusion_probabilities_[0] == model.inclusion_probabilities_[1]
    assert np.isfinite(model.predict(x, return_std=True)[1]).all()


def test_the_evidence_is_that_of_all_models_and_refused_where_it_is_not_defined():
    x, y = data()
    model = VariableSelection(Family(noise_prior=(2.0, 1.0)), sampling=Sampling(3000), random_state=4).fit(x, y)
    log_posterior = model.problem_.enumerate()[1]
    truth = np.logaddexp.reduce(log_posterior)
    found = model.log_evidence()
    assert abs(found.value - truth) < 6 * found.standard_error < 0.5
    with pytest.raises(InputError, match="not defined"):
        VariableSelection(**QUICK).fit(x, y).log_evidence()
    with pytest.raises(InputError, match="all models"):
        VariableSelection(Family(noise=1.0), design={"forced": [0]}, **QUICK).fit(x, y).log_evidence()


def test_more_columns_than_rows_and_a_g_prior_with_copies():
    x, y = data(n=30)
    wide = np.hstack([x, x[:, :3], seeded_rng("wide").standard_normal((30, 60))])
    for slab in (1.0, "g", Slab("g", g=10.0)):
        model = VariableSelection(prior={"slab": slab}, **QUICK).fit(wide, y)
        assert np.isfinite(model.inclusion_probabilities_).all()
        assert model.inclusion_probabilities_.sum() < 20
        pair = model.inclusion_probabilities_[[0, 8]]
        assert pair[0] == pytest.approx(pair[1], abs=6 * model.inclusion_errors_[[0, 8]].max() + 1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "gamma"}, "family"),
        ({"sampling": {"draws": 0}}, "draws"),
        ({"sampling": {"draws": 50}}, "100 draws"),
        ({"sampling": {"moves": "fast"}}, "moves"),
        ({"sampling": {"jumps": 500}}, "no setting 'jumps'"),
        ({"sampling": 500}, "must be a Sampling"),
        ({"prior": {"slab": "wide"}}, "slab"),
        ({"prior": {"slab": np.ones(3)}}, "one for each of the 8 columns"),
        ({"prior": {"slab": np.ones((8, 8))}}, "positive definite"),
        ({"prior": {"size": -1.0}}, "positive"),
        ({"prior": {"size": (1, 2, 3)}}, "beta distribution"),
        ({"prior": {"size": "few"}}, "beta distribution"),
        ({"prior": {"max_size": 2.5}}, "max_size must be a whole number"),
        ({"prior": {"slab": Slab("dense", -np.eye(8))}}, "positive definite"),
        ({"design": {"interactions": "cubes"}}, "interactions"),
        ({"design": {"heredity": "some"}}, "heredity"),
        ({"design": {"forced": "x1"}}, "must be a list"),
        ({"design": {"forced": [1.5]}}, "counted from 0 to 7"),
        ({"design": {"groups": 3}}, "must be a list"),
        ({"sampling": {"tries": 2.5}}, "tries must be a whole number"),
        ({"threshold": 2}, "threshold"),
        ({"family": {"name": "binomial", "trials": np.full(5, 9)}}, "one for each of the 60 rows"),
        ({"family": {"name": "binomial", "trials": "nine"}}, "positive whole number"),
        ({"family": {"noise": "loud"}}, "noise must be a positive number"),
        ({"family": {"noise_prior": 3}}, "shape and a rate"),
        ({"design": {"groups": ["a"]}}, "label"),
        ({"family": "logistic"}, "0 or 1"),
        ({"family": "binomial"}, "number of trials"),
        ({"draws": 500}, r"sampling=Sampling\(draws=500\)"),
        ({"slab": "g"}, r"prior=SelectionPrior\(slab='g'\)"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    x, y = data()
    with pytest.raises(InputError, match=message):
        VariableSelection(**settings).fit(x, y)


def test_a_setting_that_there_is_not_is_named_as_python_does():
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        VariableSelection(speed=2)


def test_wrong_slabs_and_questions_are_named():
    with pytest.raises(InputError, match="kind of a slab"):
        Slab("soft")
    with pytest.raises(InputError, match="g of a g-prior"):
        Slab("g", g=-1.0)
    with pytest.raises(NotFittedError):
        VariableSelection().score(*data())
    with pytest.raises(InputError, match="n must be a whole number"):
        VariableSelection(**QUICK).fit(*data()).best_models(-1)


def test_a_column_without_variation_is_named():
    x, y = data()
    with pytest.warns(UserWarning, match="x8: no variation"):
        VariableSelection(**QUICK).fit(np.column_stack([x, np.ones(len(x))]), y)


def test_answers_do_not_depend_on_units_however_large():
    x, y = data()
    plain = VariableSelection(**QUICK).fit(x, y)
    large = VariableSelection(**QUICK).fit(x * 1e200, y * 1e-150)
    np.testing.assert_allclose(large.inclusion_probabilities_, plain.inclusion_probabilities_, atol=1e-6)


def test_probabilities_of_models_never_add_up_to_more_than_one():
    x, y = data()
    for seed in range(12):
        model = VariableSelection(sampling=Sampling(100, 50, 2), random_state=seed).fit(x, y)
        assert sum(found.probability for found in model.best_models(256)) <= 1.0 + 1e-12


def test_settings_are_nested_parameters_and_old_ones_are_named():
    model = VariableSelection("poisson", sampling={"draws": 700})
    assert model.get_params()["sampling__draws"] == 700
    assert model.get_params()["family__name"] == "poisson"
    same = clone(model.set_params(prior__slab=2.0, sampling__chains=3))
    assert (same.get_params()["prior__slab"], same.get_params()["sampling__chains"]) == (2.0, 3)
    assert same.get_params()["sampling__draws"] == 700
    with pytest.raises(ValueError, match="no setting 'colour'"):
        model.set_params(prior__colour=1)
    with pytest.raises(InputError, match=r"set_params\(sampling__draws="):
        model.set_params(draws=1)


def test_pictures_are_drawn():
    x, y = data()
    model = VariableSelection(**QUICK).fit(x, y)
    assert len(plot_inclusion(model, n=5).patches) == 5
    assert len(plot_size(model).patches) >= 2


def test_the_command_prints_a_table_that_fits_and_writes_files(tmp_path):
    x, y = data()
    frame = pd.DataFrame(x, columns=[f"column {j}" for j in range(8)]).assign(y=y)
    frame.to_csv(tmp_path / "data.csv", index=False)
    arguments = [str(tmp_path / "data.csv"), "--response", "y", "--draws", "400", "--seed", "1", "--top", "3"]
    files = ["--out", str(tmp_path / "all.csv"), "--plot", str(tmp_path / "picture.png")]
    done = CliRunner().invoke(app, arguments + files)
    assert done.exit_code == 0, done.output
    assert "column 0" in done.output
    assert max(map(len, done.output.splitlines())) <= 100
    assert len(pd.read_csv(tmp_path / "all.csv")) == 8
    assert (tmp_path / "picture.png").stat().st_size > 5000
    together = CliRunner().invoke(app, [*arguments, "--groups", "column 0+column 5", "--out", str(tmp_path / "g.csv")])
    assert together.exit_code == 0, together.output
    inclusion = pd.read_csv(tmp_path / "g.csv", index_col="column")["inclusion"]
    assert inclusion["column 0"] == inclusion["column 5"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--slab", "soft"], "--slab must be a positive number or g"),
        (["--groups", "column 0+z"], "--groups names 'z', which is not a column"),
        (["--groups", "column 0+column 1,column 1+column 2"], "--groups names 'column 1' twice"),
        (["--plot", "picture.foo"], "a picture cannot be written as '.foo'"),
        (["--out", "no/where.csv"], "the folder no does not exist"),
        (["--inputs", ""], "There are no columns to choose from"),
        (["--inputs", "column 0,column 0"], "--inputs names 'column 0' 2 times"),
        (["--inputs", "y,column 0"], "--inputs names 'y', which is the response"),
        (["--seed", "-1"], "must be None, a generator of NumPy or a whole number from 0"),
        (["--top", "0"], "--top must be at least 1"),
        (["--family", "poisson", "--noise", "2"], "noise belongs to a gaussian response"),
        (["--trials", "3"], "trials belongs to a binomial response"),
    ],
)
def test_wrong_options_end_in_one_sentence_before_the_run(wrong, message, tmp_path):
    x, y = data()
    file = tmp_path / "data.csv"
    pd.DataFrame(x, columns=[f"column {j}" for j in range(8)]).assign(y=y).to_csv(file, index=False)
    bad = CliRunner().invoke(app, [str(file), "--response", "y", *wrong])
    assert isinstance(bad.exception, InputError)
    assert message in str(bad.exception)
    assert not bad.stdout


def test_a_constant_response_is_warned_of():
    x, _ = data()
    with pytest.warns(UserWarning, match="The response is 3 in every row"):
        VariableSelection(**QUICK).fit(x, np.full(len(x), 3.0))


@pytest.mark.filterwarnings("always::UserWarning")
def test_the_command_notes_what_the_estimator_warns_of(tmp_path):
    x, y = data()
    pd.DataFrame({"a": x[:, 0], "still": 1.0, "y": y}).to_csv(tmp_path / "data.csv", index=False)
    done = CliRunner().invoke(app, [str(tmp_path / "data.csv"), "--response", "y", "--draws", "100"])
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("Note: still: no variation")


def test_help_shows_the_options_in_groups():
    text = CliRunner().invoke(app, ["--help"]).output
    places = [text.index(f"─ {panel} ─") for panel in ("Response", "Columns", "Priors", "Sampling", "Output")]
    assert places == sorted(places)
