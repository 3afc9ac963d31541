"""A default fit runs until its chains agree, and have come round or agree closely."""

from types import SimpleNamespace

import numpy as np
import pytest

import tempering as tp
from tempering.models.treed_gp import TreedGP, TreedGPModel, agreement, estimator, fitting
from tempering.models.treed_gp.agreement import points_between
from tempering.models.treed_gp.compiled import entry, inlined
from tempering.models.treed_gp.fitting import is_enough, usual_method, usual_rounds
from tempering.models.treed_gp.model import energy_of
from tempering.models.treed_gp.records import HEAD
from tempering.models.treed_gp.state_type import STATE, state_of_row

X = np.linspace(0, 1, 50)[:, None]
Y = np.where(X[:, 0] < 0.4, 0.0, 1.0) + 0.05 * np.sin(50 * X[:, 0])


def fitted(**settings):
    return TreedGP(leaf="constant", random_state=1, keep={"trees": 20}, tempering={"ladder": [1, 0.5]}).fit(
        X, Y, **settings
    )


@pytest.fixture
def few_rounds(monkeypatch):
    monkeypatch.setattr(estimator, "usual_rounds", lambda n, method: (100, 100, 400))


@pytest.mark.parametrize(("agreed", "n_draws"), [(True, 100), (False, 400)])
def test_a_fit_ends_when_chains_agree(few_rounds, monkeypatch, agreed, n_draws):
    monkeypatch.setattr(fitting, "is_enough", lambda model, rule, run: agreed)
    assert fitted().posterior_.draws.rung.shape == (2, n_draws)


def test_chains_must_agree_and_come_round_or_agree_closely(monkeypatch):
    known = SimpleNamespace(ladder=[1.0, 0.5], n_round_trips=12, info=SimpleNamespace(seed=1))
    monkeypatch.setattr(fitting, "prediction_r_hat", lambda model, run, rule, rng: run.r_hat)
    nan = float("nan")
    cases = ((1.015, 12, True), (1.1, 12, False), (1.015, 4, False), (1.01, 4, True), (nan, 12, False), (nan, 4, False))
    for r_hat, trips, enough in cases:
        run = SimpleNamespace(**vars(known) | {"n_round_trips": trips, "r_hat": r_hat})
        assert is_enough(None, "mbar", run) == enough


def test_a_fit_that_had_enough_when_it_was_kept_makes_no_more_draws(few_rounds, monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "is_enough", lambda model, rule, run: run.n_draws >= 150)
    whole = fitted()
    assert whole.posterior_.draws.rung.shape == (2, 150)
    for _ in range(2):
        kept = fitted(checkpoint=tmp_path / "fit")
        np.testing.assert_array_equal(kept.posterior_.draws.terms, whole.posterior_.draws.terms)
        np.testing.assert_array_equal(kept.predict(X), whole.predict(X))


def test_large_data_have_fewer_rounds():
    tune, first, most = usual_rounds(50_000)
    assert tune == first == 400 < most


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({}, "parallel"),
        ({"draws": 100}, "simulated"),
        ({"tempering": {"ladder": [1, 0.5]}}, "simulated"),
        ({"tempering": {"method": "simulated"}}, "simulated"),
        ({"tempering": {"hottest": 1.0}}, "simulated"),
    ],
)
def test_a_fit_of_the_usual_length_has_coupled_chains_unless_something_is_said(few_rounds, settings, method):
    fit = TreedGP(leaf="constant", random_state=1, keep={"trees": 20}, **settings).fit(X, Y)
    assert fit.posterior_.draws.info.method == method
    assert (usual_method(400), usual_method(401)) == ("parallel", "simulated")


def test_chains_are_compared_between_neighbouring_inputs():
    x = np.array([[0.0, 0.0], [0.2, 0.0], [1.0, 1.0], [1.0, 0.8]])
    np.testing.assert_allclose(points_between(x), [[0.1, 0.0], [0.1, 0.0], [1.0, 0.9], [1.0, 0.9]])
    assert len(points_between(np.random.default_rng(1).random((1000, 2)))) == 100


def test_chains_that_differ_where_they_are_certain_disagree(monkeypatch):
    model = TreedGPModel(X, Y, leaf="linear")
    rows = np.broadcast_to(np.arange(2.0)[:, None, None], (2, 50, HEAD + 1))  # of each chain its own number
    run = SimpleNamespace(n_chains=2, chains_per_ensemble=1, weights=lambda rule: np.full((2, 50), 0.01))

    def predicted(model, chosen, points):
        n = len(points)
        gap = np.where(np.arange(n) < n // 2, 1e-3, 0.0)  # in the certain half alone
        noise = np.where(np.arange(n) < n // 2, 1e-8, 1.0)
        mean = chosen[:, -1:] * gap
        return np.stack([mean, np.zeros_like(mean), np.broadcast_to(noise, mean.shape)], axis=1)

    monkeypatch.setattr(agreement, "recorded_by", lambda run: rows)
    monkeypatch.setattr(agreement, "predict_scaled", predicted)
    n_points = len(agreement.points_between(model.data.x))
    expected = np.sqrt(1 + 0.5e-6 / 1e-8 * (n_points // 2) / n_points)
    assert agreement.prediction_r_hat(model, run, "mbar", np.random.default_rng(1)) == pytest.approx(expected)
    monkeypatch.setattr(agreement, "predict_scaled", lambda *given: predicted(*given) * [[[0.0], [1.0], [1.0]]])
    assert agreement.prediction_r_hat(model, run, "mbar", np.random.default_rng(1)) == 1.0


class Uncompiled(TreedGPModel):
    """The same model, whose functions are called one by one from a loop in Python."""

    @property
    def step(self):
        return lambda *arguments: TreedGPModel.step.fget(self)(*arguments)


def test_the_compiled_loop_of_coupled_chains_does_what_the_plain_one_does():
    how = {"ladder": [1, 0.6, 0.3], "method": "parallel", "draws": 60, "tuning": tp.Tuning(40), "progress": False}
    fast, slow = (tp.sample(kind(X, Y), chains=2, rng=3, **how) for kind in (TreedGPModel, Uncompiled))
    assert (fast.info.engine, slow.info.engine) == ("scalar (Numba)", "scalar (Python)")
    assert len(np.unique(fast.values["x"][..., 0])) > 1
    np.testing.assert_array_equal(fast.values["x"], slow.values["x"])
    np.testing.assert_array_equal(fast.terms, slow.terms)
    np.testing.assert_array_equal(fast.rung, slow.rung)


state_of_row_inside = inlined(state_of_row)


@entry
def energy_of_row(tables, r):
    return energy_of(state_of_row_inside(tables, r))


def test_a_row_of_tables_is_the_state_it_was_made_of():
    """A compiled loop finds every array of each state, and leaves what it is handed as it was."""
    rng = np.random.default_rng(2)
    model = TreedGPModel(X, Y)
    states = [model.initial(rng) for _ in range(3)]
    tables = STATE.tables_of(states)
    energies = [energy_of_row(tables, r) for r in range(3)]
    assert energies == [model.energy(state) for state in states]
    assert len(set(energies)) == 3
    with pytest.raises(TypeError, match="order of a state must be a contiguous"):
        STATE.tables_of([states[0]._replace(order=states[0].order[::2])])
