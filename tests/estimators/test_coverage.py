"""Level 7: are the error bars of every combination rule right for correlated draws?"""

import numpy as np
import pytest
from scipy import stats
from tempered_draws import UNEVEN, ar1, correlated_draws

from statistical import FALSE_ALARM_RATE, assert_mean_is, assert_variance_is_one, seeded_rng
from tempering.estimators import RULES, combine, standard_error
from tempering.estimators.standard_error import standard_error_of_sum

TRUTH = np.array([1.0, 2.0])  # E x and E x^2 of N(1, 1)


def z_scores(draw, rng, n_replicates, rules=RULES, **options):
    """Return z-scores of both moments, shape (n_rules, n_replicates, 2)."""
    z = np.empty((len(rules), n_replicates, 2))
    for replicate in range(n_replicates):
        x, energy, rung = draw(rng)
        values = np.stack([x, x**2], axis=2)
        for i, rule in enumerate(rules):
            found = combine(values, None, rung, rule, energy=energy, inverse_temperatures=UNEVEN, **options)
            z[i, replicate] = (found.estimate - TRUTH) / found.standard_error
    return z


def exchanging_replicas(rng, n_ensembles=4, n_draws=2000):
    """Draw ensembles of four replicas that hold the four rungs between them and move mostly together."""
    shift = np.floor(6 * ar1(rng, 0.9, (n_ensembles, 1, n_draws))).astype(int)
    rung = (shift + np.arange(4)[:, None]) % 4
    together = ar1(rng, 0.8, (n_ensembles, 1, n_draws))
    alone = ar1(rng, 0.8, (n_ensembles, 4, n_draws))
    noise = ((np.sqrt(0.9) * together + np.sqrt(0.1) * alone) / np.sqrt(UNEVEN[rung])).reshape(4 * n_ensembles, n_draws)
    return 1.0 + noise, -0.5 * noise**2, rung.reshape(4 * n_ensembles, n_draws)


def slow_rungs(rng):
    return correlated_draws(rng, 4, 2000, rho=0.8, rung_rho=0.9)


def slow_positions(rng):
    return correlated_draws(rng, 2, 4000, rho=0.9, rung_rho=0.7)


@pytest.mark.slow
def test_z_scores_of_every_rule_have_variance_one():
    for z in z_scores(slow_rungs, seeded_rng("rules, short"), 120):
        assert_mean_is(0.0, z)
        assert_variance_is_one(z[:, 0])


@pytest.mark.slow
def test_replicas_that_exchange_states_are_one_ensemble():
    rules = ("cold_only", "ess_optimal", "mbar")
    for z in z_scores(exchanging_replicas, seeded_rng("replicas"), 100, rules, chains_per_ensemble=4):
        assert_variance_is_one(z[:, 0])
    (z,) = z_scores(exchanging_replicas, seeded_rng("replicas apart"), 100, ("ess_optimal",))
    with pytest.raises(AssertionError):  # the control: taken for independent chains
        assert_variance_is_one(z[:, 0])


def one_chain_per_rung(rng):
    rung = np.repeat(np.arange(4), 2)[:, None] * np.ones(2000, int)
    noise = ar1(rng, 0.8, (8, 2000)) / np.sqrt(UNEVEN[rung])
    return 1.0 + noise, -0.5 * noise**2, rung


def test_chains_that_keep_their_rung_are_no_special_case():
    rules = ("ess_optimal", "mbar")
    for z in z_scores(one_chain_per_rung, seeded_rng("one chain a rung"), 120, rules):
        assert_mean_is(0.0, z)
        assert_variance_is_one(z[:, 0])


def test_control_error_bars_for_independent_draws_are_seen_to_be_wrong():
    for z in z_scores(slow_rungs, seeded_rng("iid rules"), 60, ("ess_optimal", "mbar"), batch_length=1):
        with pytest.raises(AssertionError):
            assert_variance_is_one(z[:, 0])


def rare_long_stays(rng, n_chains=32, n_draws=4000, stay=500):
    """Draw chains whose draws are nearly independent but for a small shift that lasts for long, less its mean.

    The shift adds 6/10 to the variance of the mean of independent draws: too little for the autocorrelation time of
    single draws to show, or for the spread between the chains.
    """
    turns = rng.random((n_chains, n_draws)) < 1.0 / stay
    turns[:, 0] = rng.random(n_chains) < 0.5
    shift = np.sqrt(4 * 0.6 / stay) * (np.cumsum(turns, axis=1) % 2 - 0.5)
    return (rng.normal(size=shift.shape) + shift) / shift.size


@pytest.mark.slow
def test_rare_long_stays_of_many_chains_are_in_the_error_bar():
    rng = seeded_rng("rare long stays")
    runs = [rare_long_stays(rng) for _ in range(400)]
    assert_variance_is_one([run.sum() / standard_error_of_sum(run - run.mean()) for run in runs])
    short = {"batch_length": int(np.sqrt(runs[0].shape[1]))}  # the control: as long as one chain alone would afford
    with pytest.raises(AssertionError):
        assert_variance_is_one([run.sum() / standard_error_of_sum(run - run.mean(), **short) for run in runs])


def n_covered(rng, n_runs):
    """Count the runs of four slow chains, ten batches in all, whose 95 % interval covers the mean."""
    runs = np.moveaxis(ar1(rng, 0.92, (4, n_runs, 300)), 1, 2)
    means = runs.mean(axis=(0, 1))
    return int(np.sum(np.abs(means) < 1.96 * standard_error_of_sum((runs - means) / 1200)))


def test_intervals_from_few_batches_cover_too(monkeypatch):
    """At least 93.5 %; without Student's law, the control, it is 91 %."""
    n_runs = 12_000
    assert stats.binom.cdf(n_covered(seeded_rng("few batches"), n_runs), n_runs, 0.935) > FALSE_ALARM_RATE
    monkeypatch.setattr(standard_error, "student_factor", np.ones_like)
    assert stats.binom.cdf(n_covered(seeded_rng("few batches"), n_runs), n_runs, 0.935) < FALSE_ALARM_RATE


@pytest.mark.long
@pytest.mark.parametrize("draw", [slow_rungs, slow_positions])
def test_nominal_95_percent_intervals_cover_93_to_97_percent(draw):
    z = z_scores(draw, seeded_rng(f"coverage {draw.__name__}"), 4000)
    coverage = np.mean(np.abs(z) < 1.96, axis=1)
    for rule, row in zip(RULES, coverage, strict=True):
        assert np.all((row > 0.93) & (row < 0.97)), f"{rule} covers {row}"


@pytest.mark.long
def test_intervals_from_ensembles_cover_93_to_97_percent():
    z = z_scores(exchanging_replicas, seeded_rng("coverage of ensembles"), 2000, chains_per_ensemble=4)
    coverage = np.mean(np.abs(z) < 1.96, axis=1)
    for rule, row in zip(RULES, coverage, strict=True):
        assert np.all((row > 0.93) & (row < 0.97)), f"{rule} covers {row}"
