"""A default fit runs in stages until its chains agree; a stage that is not the last becomes tuning."""

from dataclasses import replace

import numpy as np
import pytest

from tempering.models.treed_gp import TreedGP, estimator, fitting
from tempering.models.treed_gp.agreement import points_between
from tempering.models.treed_gp.fitting import Plan, is_enough, usual_rounds
from tempering.models.treed_gp.settings import Keeping, Tempering

X = np.linspace(0, 1, 50)[:, None]
Y = np.where(X[:, 0] < 0.4, 0.0, 1.0) + 0.05 * np.sin(50 * X[:, 0])


def fitted(**settings):
    return TreedGP(leaf="constant", random_state=1, keep={"trees": 20}, tempering={"ladder": [1, 0.5]}).fit(
        X, Y, **settings
    )


@pytest.fixture
def in_short_stages(monkeypatch):
    monkeypatch.setattr(estimator, "usual_rounds", lambda n: (100, 400))


@pytest.mark.parametrize(("agreed", "n_draws"), [(True, 100), (False, 400)])
def test_the_last_stage_is_the_first_in_which_chains_agree(in_short_stages, monkeypatch, agreed, n_draws):
    monkeypatch.setattr(fitting, "is_enough", lambda found: agreed)
    posterior = fitted().posterior_
    assert posterior.sums.n_draws.sum() == 2 * n_draws
    assert all(len(trace.rung) == n_draws for trace in posterior.trace)


def test_chains_must_agree_and_come_round(in_short_stages, monkeypatch):
    monkeypatch.setattr(fitting, "is_enough", lambda found: True)
    found = fitted().posterior_
    agreed = replace(found, prediction_r_hat=1.01, n_round_trips=12)
    assert is_enough(agreed)
    assert not is_enough(replace(agreed, prediction_r_hat=1.1))
    assert not is_enough(replace(agreed, n_round_trips=4))
    assert not is_enough(replace(agreed, prediction_r_hat=float("nan")))


def test_a_fit_killed_between_two_stages_ends_as_if_nothing_had_happened(in_short_stages, monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "is_enough", lambda found: len(found.trace[0].rung) >= 200)
    whole, begin, seen = fitted(), fitting.begin_sums, []

    def begin_and_die(*arguments):
        seen.append(1)
        if len(seen) == 2:
            raise RuntimeError("killed")
        begin(*arguments)

    monkeypatch.setattr(fitting, "begin_sums", begin_and_die)
    with pytest.raises(RuntimeError, match="killed"):
        fitted(checkpoint=tmp_path / "fit")
    monkeypatch.setattr(fitting, "begin_sums", begin)
    again = fitted(checkpoint=tmp_path / "fit")
    assert again.posterior_.sums.n_draws.sum() == 400
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    np.testing.assert_array_equal(again.posterior_.rows, whole.posterior_.rows)


def test_the_announced_rounds_are_those_of_all_stages():
    plan = Plan(Tempering(), first=100, draws=350, tune=100, chains=2, keep=Keeping())
    assert plan.most_rounds == 100 + 100 + 200 + 350
    first, most = usual_rounds(50_000)
    assert 400 <= first < most


def test_chains_are_compared_between_neighbouring_inputs():
    x = np.array([[0.0, 0.0], [0.2, 0.0], [1.0, 1.0], [1.0, 0.8]])
    np.testing.assert_allclose(points_between(x), [[0.1, 0.0], [0.1, 0.0], [1.0, 0.9], [1.0, 0.9]])
    assert len(points_between(np.random.default_rng(1).random((1000, 2)))) == 100
