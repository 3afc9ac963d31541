"""Pseudo-priors: every way of learning one goes towards 1 / Z, and stops there."""

import numpy as np
import pytest

from statistical import assert_mean_is, seeded_rng
from tempering import Ladder, problems
from tempering.errors import SamplerError
from tempering.learning.pseudo_prior import (
    LARGEST_CHANGE,
    METHODS,
    Seen,
    from_mean_energies,
    log_conditional_occupancy,
    method_named,
    rao_blackwellised,
    visit_counts,
)

PROBLEM = problems.skewed(2)
LADDER = Ladder([1.0, 0.6, 0.3])
LOG_Z = np.array([PROBLEM.log_normaliser(k) for k in LADDER])
EXACT = LOG_Z[0] - LOG_Z  # log 1 / Z, 0 on the cold rung


def round_of_draws(log_pseudo_prior, rng, n=20_000, number=0):
    """Return what a chain run for ever would show: independent rungs, and exact draws on them."""
    log_occupancy = LOG_Z + log_pseudo_prior
    occupancy = np.exp(log_occupancy - np.logaddexp.reduce(log_occupancy))
    rung = rng.choice(len(LADDER), size=n, p=occupancy).astype(np.int32)
    energy = np.empty(n)
    for i, k in enumerate(LADDER):
        energy[rung == i] = PROBLEM.log_density(PROBLEM.sample(rng, int(np.sum(rung == i)), k))
    return Seen(LADDER, rung, energy, number)


@pytest.mark.parametrize("name", sorted([*METHODS, "two_stages"]))
def test_rounds_lead_to_the_inverse_of_the_normalisers(name):
    rng, log_p = seeded_rng(name), np.array([0.0, 2.5, -3.0])
    for number in range(60):
        log_p = method_named(name, 60)(log_p, round_of_draws(log_p, rng, number=number))
    assert log_p[0] == 0.0
    np.testing.assert_allclose(log_p, EXACT, atol=0.1)


def test_one_round_of_conditional_probabilities_is_closer_than_one_of_visits():
    """Every draw tells of all rungs: the same target, less noise."""
    off = EXACT + np.array([0.0, 0.3, -0.4])
    rng = seeded_rng("one round")
    rounds = [round_of_draws(off, rng, 1000) for _ in range(60)]
    smooth, rough = (np.array([m(off, seen) for seen in rounds]) for m in (rao_blackwellised, visit_counts))
    assert np.all(smooth.std(axis=0)[1:] < 0.8 * rough.std(axis=0)[1:])
    np.testing.assert_allclose(smooth.mean(axis=0), EXACT, atol=0.05)


def test_the_conditional_occupancy_is_the_occupancy():
    rng, log_p = seeded_rng("occupancy"), np.array([0.0, 0.5, -0.5])
    log_occupancy = LOG_Z + log_p
    truth = np.exp(log_occupancy - np.logaddexp.reduce(log_occupancy))
    seen = [round_of_draws(log_p, rng, 500) for _ in range(40)]
    assert_mean_is(truth, [np.exp(log_conditional_occupancy(log_p, s)) for s in seen])


def test_draws_outside_the_support_tell_nothing():
    seen = round_of_draws(EXACT, seeded_rng("outside"), 100)
    with_some = Seen(LADDER, np.append(seen.rung, 2), np.append(seen.energy, -np.inf), 0)
    np.testing.assert_allclose(
        log_conditional_occupancy(EXACT, with_some), log_conditional_occupancy(EXACT, seen), rtol=1e-12
    )


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_rung_never_seen_moves_by_a_bounded_step(name):
    seen = Seen(LADDER, np.zeros(1000, np.int32), np.full(1000, -5000.0), 0)
    before = np.zeros(3)
    after = METHODS[name](before, seen)
    assert np.all(np.isfinite(after))
    assert np.all(np.abs(np.diff(after)) <= 2 * LARGEST_CHANGE)
    assert before.tolist() == [0.0, 0.0, 0.0]


def test_mean_energies_integrate_to_the_normalisers():
    """d log Z / dk = E energy: exact means on a fine ladder give log 1 / Z, to the trapezium rule's error."""
    fine = Ladder.geometric(200, 0.3)
    k = fine.inverse_temperatures
    h = 1e-5
    slope = np.array([(PROBLEM.log_normaliser(x) - PROBLEM.log_normaliser(x - h)) / h for x in k])
    log_z = np.array([PROBLEM.log_normaliser(x) for x in k])
    np.testing.assert_allclose(from_mean_energies(fine, slope), log_z[0] - log_z, atol=1e-3)


def test_an_unknown_method_is_refused_by_name():
    with pytest.raises(SamplerError, match=r"must be one of .*'two_stages'.*array.*but got 'guess'"):
        method_named("guess", 5)
