"""Tuning that ends once there is nothing left to learn."""

from dataclasses import replace

import numpy as np
import pytest

import tempering as tp
from tempering import problems
from tempering.engines.trace import Schedule
from tempering.kernels.settings import Settings
from tempering.learning.density_of_states import DensityOfStates, Energies
from tempering.learning.ladder_choice import aimed_occupancy
from tempering.learning.rounds import Tuner
from tempering.learning.settling import has_settled
from tempering.path import Path

EVENLY = np.full(4, 0.25)
LADDER = tp.Ladder([1.0, 0.5, 0.2, 0.1])


def schedule(ladder=LADDER, step=1.0, width=1.0):
    m = len(ladder)
    settings = Settings(np.full(m, step), np.tile(width * np.eye(2), (m, 1, 1)), np.zeros((m, 2)))
    return Schedule(Path.powers(ladder), np.zeros(m), (settings,))


def test_an_even_round_that_changes_nothing_is_the_last():
    assert has_settled(EVENLY, np.ones(4), 100, schedule(), schedule())
    assert has_settled(EVENLY, np.ones(4), 100, schedule(), schedule(tp.Ladder([1.0, 0.52, 0.21, 0.1])))
    assert has_settled(
        EVENLY, np.ones(4), 100, schedule(), schedule(step=0.5, width=2.0)
    )  # the same steps, written otherwise


@pytest.mark.parametrize(
    ("occupancy", "trips", "after"),
    [
        (EVENLY, 10, schedule()),
        (np.array([0.4, 0.2, 0.2, 0.2]), 100, schedule()),
        (np.array([0.3, 0.3, 0.25, 0.15]), 100, schedule()),
        (EVENLY, 100, schedule(tp.Ladder([1.0, 0.6, 0.2, 0.1]))),
        (EVENLY, 100, schedule(tp.Ladder([1.0, 0.5, 0.3, 0.2, 0.1]))),
        (EVENLY, 100, schedule(step=1.5)),
        (EVENLY, 100, schedule(width=0.6)),
    ],
    ids=["few trips", "crowded", "starved", "moved rung", "more rungs", "longer steps", "narrower shapes"],
)
def test_what_has_changed_or_is_uneven_is_tuned_on(occupancy, trips, after):
    assert not has_settled(occupancy, np.ones(4), trips, schedule(), after)


def test_rungs_visited_as_often_as_was_aimed_at_have_settled():
    aim = np.array([1.6, 1.2, 0.6, 0.6])
    assert has_settled(aim / 4, aim, 100, schedule(), schedule())
    assert not has_settled(EVENLY, aim, 100, schedule(), schedule())


def test_rungs_are_visited_the_more_the_more_their_draws_count():
    """Of a Gaussian in three dimensions ESS(w_i) / T_i is (k (2 - k))^(3/2); none is nearly left out."""
    energy = -0.5 * np.random.default_rng(1).chisquare(3, size=40_000)
    states = DensityOfStates.from_draws(energy, [1.0], np.zeros(40_000, int))
    k = np.array([1.0, 0.9, 0.75, 0.6])
    aim = aimed_occupancy(states, tp.Ladder(k))
    useful = np.sqrt((k * (2 - k)) ** 1.5)
    np.testing.assert_allclose(aim, useful / useful.mean(), rtol=0.03)
    assert not np.allclose(aim, 1.0, rtol=0.03)  # nor would even visits pass
    wide = aimed_occupancy(states, tp.Ladder(np.geomspace(1.0, 0.3, 60)))
    assert 0.5 < wide.min() < wide.max() < 1.9
    assert wide.mean() == pytest.approx(1.0)


def test_a_ladder_that_stays_is_visited_so_too_where_it_is_ours():
    """The pseudo-prior has the log of the aim besides 1 / Z; of a user's ladder it has 1 / Z alone."""
    known = Energies(np.ones(40_000), -0.5 * np.random.default_rng(1).chisquare(3, size=40_000))
    states, before = known.density_of_states(), schedule()
    learnt = {
        aims: Tuner(None, (), "mbar", None, aims=aims)._relearnt(before, known)[0].log_pseudo_prior
        for aims in (True, False)
    }
    aim = aimed_occupancy(states, LADDER)
    assert not np.allclose(aim, 1.0, rtol=0.1)
    np.testing.assert_allclose(learnt[False], states.log_pseudo_prior(LADDER))
    np.testing.assert_allclose(learnt[True] - learnt[False], np.log(aim / aim[0]))


def run_of(**options):
    problem = problems.variable_selection()
    return tp.sample(problem.compiled, chains=8, tuning=tp.Tuning(8000), draws=2000, rng=5, progress=False, **options)


def test_a_run_that_has_settled_is_tuned_no_longer_and_its_rungs_stay_even():
    run = run_of()
    assert run.info.n_iterations < 6000 + 2000
    share = run.visits / run.rung.size * len(run.ladder)
    assert 1 / 3 < share.min() <= share.max() < 3


@pytest.mark.slow
def test_tuning_of_a_given_ladder_is_as_long_as_was_asked_for():
    run = run_of(ladder=run_of().ladder)
    assert 8000 + 2000 - run.info.n_iterations < 64


def test_a_schedule_with_no_settings_can_settle():
    bare = replace(schedule(), settings=())
    assert has_settled(EVENLY, np.ones(4), 100, bare, bare)
