"""What a user asks of a fit beside predictions: the page, designs, and refusals of questions without an answer."""

import numpy as np
import pytest

from tempering.errors import InputError
from tempering.models.treed_gp import TreedGP, latin_hypercube, plots

QUICK = {"draws": 100, "tune": 100, "keep": {"trees": 20}, "tempering": {"ladder": [1, 0.5]}, "random_state": 1}


def fitted(n_columns):
    x = np.random.default_rng(2).random((40, n_columns))
    return TreedGP(**QUICK).fit(x, np.where(x[:, 0] < 0.5, 0.0, 1.0) + 0.1 * np.sin(9 * x[:, -1]))


@pytest.fixture(scope="module")
def model():
    return fitted(2)


@pytest.mark.parametrize(
    ("n_columns", "pictures"),
    [
        (1, ("Tree", "Leaves", "Curve")),
        (2, ("Tree", "Leaves", "Surface", "Main effects", "Sensitivity")),
        (3, ("Tree", "Leaves", "Main effects", "Sensitivity")),
    ],
)
def test_the_page_shows_the_model_before_the_run(tmp_path, n_columns, pictures):
    fit = fitted(n_columns)
    fit.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len(page) < 2e6  # a surface of a picture, not of thousands of drawn cells
    places = [page.index(f'aria-label="{title}"') for title in (*pictures, "Occupancy")]
    assert places == sorted(places)
    for title in {"Curve", "Surface", "Sensitivity"} - set(pictures):
        assert f'aria-label="{title}"' not in page


@pytest.mark.parametrize("is_good", [True, False])
def test_the_page_has_the_verdict_of_the_fit_not_that_of_its_run(tmp_path, model, monkeypatch, is_good):
    own = model.diagnose()
    monkeypatch.setattr(TreedGP, "diagnose", lambda self: type(own)(**vars(own) | {"is_good": is_good}))
    model.report(tmp_path / "page.html")
    assert ("The run looks sound" in (tmp_path / "page.html").read_text()) == is_good


def test_d_optimal_designs_have_the_determinant_of_a_greedy_search(model):
    candidates = np.random.default_rng(3).random((12, 2))
    latent = model.predict_covariance(candidates, latent=True)[1]
    noise = np.diag(model.predict_covariance(candidates)[1]) - np.diag(latent)

    def information(chosen):
        scaled = latent[np.ix_(chosen, chosen)] / np.sqrt(np.outer(noise[chosen], noise[chosen]))
        return np.linalg.slogdet(np.eye(len(chosen)) + scaled)[1]

    chosen = []
    for _ in range(4):
        chosen.append(max(set(range(12)) - set(chosen), key=lambda i: information([*chosen, i])))
    np.testing.assert_array_equal(model.d_optimal(candidates, 4), chosen)
    lowest = np.argsort(np.diag(latent) / noise)[:4]  # a control: the least uncertain points
    assert information(chosen) > information(list(lowest)) + 0.5
    assert sorted(model.d_optimal(candidates, 99)) == list(range(12))


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.rank_improvement([[0.1, 0.2]], 0),
        lambda model: model.d_optimal([[0.1, 0.2]], 0),
        lambda model: model.sensitivity(0),
        lambda model: model.cut_probabilities(2),
        lambda model: plots.plot_slice(model, 5, [0.5, 0.5]),
        lambda model: plots.plot_slice(model, 0, [0.5]),
        lambda model: latin_hypercube(0, [(0, 1)]),
    ],
)
def test_questions_without_an_answer_are_refused(model, ask):
    with pytest.raises(InputError, match="but got"):
        ask(model)
