"""When the rounds of a run with two legs end: no sooner than they must, no later than another one pays."""

from types import SimpleNamespace

import numpy as np
import pytest

import tempering as tp
from tempering.learning.loop import Learner
from tempering.learning.price import Price
from tempering.learning.rounds import Round

TARGET = tp.Target(lambda x: -0.5 * (x - 1.0) ** 2)


def a_round(worth=1_000.0, barrier=3.0, trips=2, n=1_000):
    nothing = np.zeros(2)
    return Round(n, nothing, nothing, nothing, trips, barrier, {"mbar": worth})


def is_stuck(last, before, spent=1_000, n=1_000):
    return Learner._is_stuck(SimpleNamespace(price=Price()), [before, last], spent, n)


def test_stuck_chains_are_tuned_on_while_a_round_is_better_than_the_last():
    assert is_stuck(a_round(1_200.0), a_round())
    assert is_stuck(a_round(2_400.0, n=2_000), a_round())  # in an iteration
    assert is_stuck(a_round(barrier=2.5), a_round())
    assert not is_stuck(a_round(1_050.0, barrier=2.9), a_round())
    assert not is_stuck(a_round(2_000.0, n=2_000), a_round())
    assert not is_stuck(a_round(1_200.0, trips=100), a_round())  # nor where they come round
    assert not is_stuck(a_round(1_200.0), a_round(), spent=2_000)


@pytest.mark.parametrize(
    ("call", "n_rounds"),
    [
        ({}, 4),
        ({"draws": 300}, 3),
        ({"draws": 300, "tuning": tp.Tuning(2_500)}, 4),  # as long as was said
        ({"until": tp.Until(effective_draws=300)}, 3),
        ({"until": tp.Until(effective_draws=1e9)}, 4),
        ({"until": tp.Until(seconds=100), "draws": 2_000}, 4),
    ],
)
def test_no_round_of_stuck_chains_is_longer_than_what_is_to_be_drawn(call, n_rounds, monkeypatch):
    monkeypatch.setattr(Learner, "_is_stuck", lambda self, rounds, spent, n: len(rounds) < 4)
    run = tp.sample(TARGET, initial=0.0, rng=1, progress=False, **call)
    assert len(run.info.rounds) == n_rounds
    assert all(b.n_iterations == 2 * a.n_iterations for a, b in zip(run.info.rounds, run.info.rounds[1:], strict=False))
