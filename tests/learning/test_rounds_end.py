"""When the rounds of a run with two legs end: no sooner than they must, no later than another one pays."""

import pytest

import tempering as tp
from tempering.learning.loop import Learner

TARGET = tp.Target(lambda x: -0.5 * (x - 1.0) ** 2)


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
    monkeypatch.setattr(Learner, "_is_stuck", lambda self, last, spent, n: last.n_iterations < 1_280)
    run = tp.sample(TARGET, initial=0.0, rng=1, progress=False, **call)
    assert len(run.info.rounds) == n_rounds
    assert all(b.n_iterations == 2 * a.n_iterations for a, b in zip(run.info.rounds, run.info.rounds[1:], strict=False))
