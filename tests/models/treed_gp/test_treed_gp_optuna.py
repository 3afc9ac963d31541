"""The sampler for Optuna: its maps of distributions, and a study where Optuna is installed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tempering.errors import InputError
from tempering.models.treed_gp import TreedGP, optuna_sampler
from tempering.models.treed_gp.optuna_trials import from_unit, to_unit
from tempering.requirements import is_installed

KINDS = [
    SimpleNamespace(low=-2.0, high=5.0, log=False, step=None),
    SimpleNamespace(low=1e-4, high=10.0, log=True, step=None),
    SimpleNamespace(low=0.0, high=1.0, log=False, step=0.25),
    SimpleNamespace(low=1, high=9, log=False, step=2),
    SimpleNamespace(low=1, high=1000, log=True, step=1),
]


@pytest.mark.parametrize("kind", KINDS)
def test_values_go_to_the_unit_interval_and_back(kind):
    for u in (0.0, 0.31, 0.5, 1.0):
        value = from_unit(kind, u)
        assert kind.low <= value <= kind.high
        assert isinstance(value, int) == isinstance(kind.low, int)
        if kind.step:
            assert math.isclose((value - kind.low) / kind.step, round((value - kind.low) / kind.step))
        assert from_unit(kind, to_unit(kind, value)) == pytest.approx(value)
    assert to_unit(kind, kind.low) == 0.0
    assert to_unit(kind, kind.high) == pytest.approx(1.0)


@pytest.mark.skipif(is_installed("optuna"), reason="says what is missing where it is missing")
def test_without_optuna_one_sentence_says_so():
    with pytest.raises(InputError, match="pip install 'optuna'"):
        optuna_sampler()


@pytest.mark.slow
def test_a_study_finds_the_minimum_better_than_at_random():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        x, n = trial.suggest_float("x", 1e-3, 10.0, log=True), trial.suggest_int("n", 1, 9)
        return (math.log10(x) - 0.4) ** 2 + 0.1 * (n - 4) ** 2 + (trial.suggest_categorical("kind", ["a", "b"]) == "a")

    def best_of(sampler):
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, n_trials=40)
        return study.best_value

    quick = TreedGP(draws=300, tune=300, chains=1, keep={"trees": 20}, tempering={"ladder": [1]})
    ours = [best_of(optuna_sampler(model=quick, n_initial=10, random_state=seed)) for seed in range(5)]
    random = [best_of(optuna.samplers.RandomSampler(seed=seed)) for seed in range(40)]
    assert np.median(ours) < np.median(random) / 2
    both = optuna.create_study(directions=["minimize", "minimize"], sampler=optuna_sampler(random_state=1))
    with pytest.raises(InputError, match="one objective"):
        both.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 0.0), n_trials=1)
