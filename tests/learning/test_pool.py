"""What rounds with references of their own know together: normalisers against exact ones, of a Gaussian toy."""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import assert_mean_is, seeded_rng
from tempering.engines.trace import Schedule, Trace
from tempering.kernels.settings import Settings
from tempering.learning.pool import Pool, Stage
from tempering.path import Ladder, Leg, Path
from tempering.path.reference import Reference

D = 2
SAFE_END = Reference([1.0], [[0.5, 0.0]], [3.0 * np.eye(D)], [5])
QUICK_ENDS = [
    Reference([1.0], [[1.0, -1.0]], [1.5 * np.eye(D)], [6]),
    Reference([1.0], [[0.6, -0.2]], [[[0.9, 0.0], [0.3, 1.1]]], [8]),
    Reference([0.7, 0.3], [[0.3, 0.0], [1.0, 0.5]], [np.eye(D), 0.8 * np.eye(D)], [7, 7]),
]
TRUE_LOG_Z = 1.7 + D / 2 * np.log(2 * np.pi)  # of the target below


def log_density(x):
    return 1.7 - 0.5 * np.sum((x - np.array([0.4, 0.1])) ** 2, axis=-1)


def path_to(quick, safe_ladder=(1.0, 0.4, 0.0), quick_ladder=(1.0, 0.5, 0.0)):
    safe = Leg("safe", np.array([0.0, 1.0, 0.0]), Ladder(safe_ladder), source=1)
    end = Leg("quick", np.array([0.0, 0.0, 1.0]), Ladder(quick_ladder), source=2)
    return Path([1.0, 0.0, 0.0], [safe, end], references=[SAFE_END, quick])


def draws_of(path, rung, rng):
    """Draw exactly from a rung by weighing many draws of a wide mixture."""
    wide = np.concatenate([SAFE_END.sample_many(rng, 8000), path.references[1].sample_many(rng, 8000)])
    log_q = np.logaddexp(SAFE_END.log_density(wide), path.references[1].log_density(wide))
    terms = path.with_reference_terms(wide, np.stack([log_density(wide)] * 3, axis=-1))
    values, own = np.empty((rung.size, D)), np.empty((rung.size, 3))
    for r in np.unique(rung):
        log_w = terms @ path.coefficients[r] - log_q
        rows = rng.choice(len(wide), np.sum(rung == r), p=np.exp(log_w - np.logaddexp.reduce(log_w)))
        values[rung == r], own[rung == r] = wide[rows], terms[rows]
    return values, own


def round_along(path, rng, log_pseudo_prior=None, n=1600):
    """Return a round of 8 chains, as if made by simulated tempering with this pseudo-prior, near 1 / Z."""
    log_p = np.zeros(len(path)) if log_pseudo_prior is None else log_pseudo_prior
    share = np.exp(log_p + log_normalisers(path))
    rung = rng.choice(len(path), size=n, p=share / share.sum())
    values, terms = draws_of(path, rung, rng)
    trace = Trace(values.reshape(8, -1, D), terms.reshape(8, -1, 3), rung.reshape(8, -1).astype(np.int32), None, None)
    m = len(path)
    settings = (Settings(np.ones(m), np.tile(np.eye(D), (m, 1, 1)), np.zeros((m, D))),)
    return trace, Schedule(path, log_p, settings)


AXIS = np.linspace(-40, 40, 321)  # a quarter of a deviation: the trapezium rule is exact to many digits


def log_normalisers(path):
    """Integrate every rung on a grid."""
    return _log_normalisers(path.references[1], *(tuple(leg.ladder) for leg in path.legs))


@cache
def _log_normalisers(quick, safe_ladder, quick_ladder):
    path, axis = path_to(quick, safe_ladder, quick_ladder), AXIS
    x = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, D)
    terms = path.with_reference_terms(x, np.stack([log_density(x)] * 3, axis=-1))
    return np.logaddexp.reduce(terms @ path.coefficients.T, axis=0) + 2 * np.log(axis[1] - axis[0])


def pool_of(name, n=1600, quick_ends=QUICK_ENDS):
    """Return a pool of three rounds, each with a fitted end of its own and a pseudo-prior that is not 1 / Z."""
    rng, stages = seeded_rng(name), []
    for i, quick in enumerate(quick_ends):
        path = path_to(quick, safe_ladder=(1.0, 0.5 - 0.1 * i, 0.0))
        stages.append(Stage.of(*round_along(path, rng, 0.4 * np.sin(np.arange(len(path)) + i), n)))
    return Pool(stages[0], tuple(stages[1:]))


def test_log_normalisers_are_right_whatever_references_the_rounds_had():
    path = path_to(QUICK_ENDS[2], (1.0, 0.6, 0.2, 0.0), (1.0, 0.3, 0.0))
    exact = log_normalisers(path)
    assert exact[path.target] == pytest.approx(TRUE_LOG_Z, abs=1e-6)
    found = np.array([pool_of(f"pool {i}").along(path).log_normalisers(path) for i in range(24)])
    relative = found - found[:, :1]
    truth = exact - exact[0]
    assert_mean_is(truth[1:], relative[:, 1:], false_alarm_rate=1e-6)
    assert relative.std(axis=0).max() < 0.1


def test_control_rounds_whose_terms_are_taken_for_those_of_another_reference_are_seen():
    """As if the fitted end had been the same in every round."""
    path, far = path_to(QUICK_ENDS[2]), Reference([1.0], [[4.0, -4.0]], [np.eye(D)], [6])
    pool = pool_of("mistaken", 4000, [far, QUICK_ENDS[1], QUICK_ENDS[2]])
    stages = [Stage(path, s.log_pseudo_prior, s.values, s.terms, s.rung) for s in pool.stages]
    mistaken = Pool(stages[0], tuple(stages[1:])).along(path).log_normalisers(path)
    right = pool.along(path).log_normalisers(path)
    truth = log_normalisers(path)

    def worst(found):
        return np.abs(found - found[path.target] - truth + truth[path.target]).max()

    assert worst(right) < 0.15
    assert worst(mistaken) > 2 * worst(right)


def test_what_one_fit_found_begins_the_next():
    """The normalisers that a settled pool begins from are those that its draws told."""
    path, pool = path_to(QUICK_ENDS[2]), pool_of("settled", 4000)
    begun = np.array([stage.log_normalisers for stage in pool.settled.stages[-1:]])
    rough = np.array([stage.log_normalisers for stage in pool.stages[-1:]])
    truth = log_normalisers(pool.stages[-1].path)
    truth = truth - truth[pool.stages[-1].path.target]
    assert np.abs(begun - truth).max() < 0.1
    assert np.abs(begun - truth).max() < np.abs(rough - truth).max()
    np.testing.assert_allclose(
        pool.settled.along(path).log_normalisers(path), pool.along(path).log_normalisers(path), atol=0.01
    )


def test_rounds_stays_and_ends_are_remembered_apart_and_of_the_pilot_half_is_forgotten_each_time():
    stages = pool_of("remembered", 400).stages
    pool = Pool(stages[0])
    for _ in range(5):
        pool = pool.with_round(stages[1], stages[2]).with_end(stages[1])
    assert [len(part) for part in (pool.rounds, pool.stays, pool.ends)] == [3, 3, 3]
    np.testing.assert_array_equal(pool.pilot.values, stages[0].values[:: 2**5])


def test_what_is_known_of_a_leg_is_its_density_of_states():
    path = path_to(QUICK_ENDS[1])
    known, truth = pool_of("states", 4000).along(path), log_normalisers(path)
    for leg in (0, 1):
        states, rungs = known.density_of_states(leg), path.rungs_of(leg)
        found = states.log_normaliser(path.legs[leg].ladder.inverse_temperatures)
        np.testing.assert_allclose(found - found[0], truth[rungs] - truth[path.target], atol=0.1)
        assert known.share_inside(leg) == pytest.approx(1.0)


def test_places_on_a_rung_are_drawn_by_their_weight_there():
    path = path_to(QUICK_ENDS[0])
    known = pool_of("places", 4000).along(path)
    rung = np.repeat(np.arange(len(path)), 4000)
    places = known.places_on(path, rung, seeded_rng("places on rungs"))
    at_target = places.values[rung == path.target]
    np.testing.assert_allclose(at_target.mean(axis=0), [0.4, 0.1], atol=0.15)
    assert places.values[rung == len(path) - 1].std() > 2 * at_target.std()  # the safe end reaches far
    np.testing.assert_allclose(places.terms[:, 0], log_density(places.values))


def test_a_pilot_that_never_was_in_equilibrium_is_forgotten_as_rounds_are_added():
    """All its draws are shifted, as where chains cannot cross between modes: normalisers come to follow the rounds."""
    path, rng = path_to(QUICK_ENDS[2]), seeded_rng("poor pilot")
    settled = [Stage.of(*round_along(path, rng, n=4000)) for _ in range(7)]
    values = settled[0].values + np.array([1.5, 0.0])
    terms = path.with_reference_terms(values, np.stack([log_density(values)] * 3, axis=-1))
    pilot = Stage(path, settled[0].log_pseudo_prior, values, terms, settled[0].rung)
    truth = log_normalisers(path)

    def error(pool):
        found = pool.along(path).log_normalisers(path)
        return np.abs(found - found[path.target] - truth + truth[path.target]).max()

    pool = Pool(pilot)
    for _ in range(2):
        for drawn, stay in zip(settled[1:4], settled[4:], strict=True):
            pool = pool.with_round(drawn, stay)
    assert error(pool) < 0.1
    assert error(replace(pool, pilot=pilot)) > 3 * error(pool)  # the control: all of it is remembered


TRAP, TRAPPED = np.array([9.0, 9.0]), 1e-3  # where no mass is, and the share that draws from there count as


def stay_with_trapped_chains(path, rng, counts):
    """Return a stay at the target, half of whose chains began and stayed far out."""
    trace, schedule = round_along(path, rng, n=1600)
    values, terms = draws_of(path, np.full(1600, path.target), rng)
    values[800:] = TRAP + 0.1 * rng.standard_normal((800, D))
    terms = path.with_reference_terms(values, np.stack([log_density(values)] * 3, axis=-1))
    at_target = np.full((8, 200), path.target, np.int32)
    trace = trace._replace(values=values.reshape(8, -1, D), terms=terms.reshape(8, -1, 3), rung=at_target)
    return Stage.of(trace, schedule, counts=counts)


@pytest.mark.parametrize("is_counted", [True, False])
def test_chains_that_began_at_the_edge_of_a_mixture_count_as_its_share(is_counted):
    """Taken for draws of the target they would put mass into a trap, and spoil the constant of what covers it."""
    covering = Reference([0.9, 0.1], [[0.4, 0.1], TRAP], [np.eye(D), 0.1 * np.eye(D)], [7, 7])
    path, rng = path_to(covering), seeded_rng("trapped at the edge")
    drawn = Stage.of(*round_along(path_to(QUICK_ENDS[0]), rng, n=1600))
    counts = np.where(np.arange(8) < 4, 1.0, TRAPPED) if is_counted else None
    stay = stay_with_trapped_chains(path_to(QUICK_ENDS[0]), rng, counts)
    known = Pool(drawn, (drawn,), (stay,)).along(path)
    log_w = known.log_weights(path.target_coefficients)
    share = np.exp(np.logaddexp.reduce(log_w[known.values[:, 0] > 5.0]) - np.logaddexp.reduce(log_w))
    assert (share < 1e-5) == is_counted  # the target itself has exp(-80) there
    assert (share > 0.01) != is_counted


def test_draws_that_count_for_little_weigh_little():
    """Half of a stay's draws are one in a thousand: they must neither add to the target's mass nor take from it."""
    path, rng = path_to(QUICK_ENDS[0]), seeded_rng("counts of a stay")
    drawn = Stage.of(*round_along(path, rng, n=1600))
    trace, schedule = round_along(path, rng, n=8000)
    values, terms = draws_of(path, np.full(8000, path.target), rng)
    at_target = np.full((8, 1000), path.target, np.int32)
    trace = trace._replace(values=values.reshape(8, -1, D), terms=terms.reshape(8, -1, 3), rung=at_target)
    stay = Stage.of(trace, schedule, counts=np.where(np.arange(8) < 4, 1.0, 1e-3))
    found, truth = Pool(drawn, (), (stay,)).along(path).log_normalisers(path), log_normalisers(path)
    assert np.abs(found - found[0] - truth + truth[0]).max() < 0.15


def test_half_of_a_stay_counts_as_what_the_edge_of_the_mixture_has(monkeypatch):
    seen, with_round = [], Pool.with_round

    def watched(pool, drawn, stay):
        seen.append(stay.counts)
        return with_round(pool, drawn, stay)

    monkeypatch.setattr(Pool, "with_round", watched)
    target = tp.Target(lambda x: -0.5 * jnp.sum(x**2))
    tp.sample(target, initial=np.zeros(2), draws=20, tuning=tp.Tuning(320), rng=1, progress=False)
    for counts in seen:
        few = counts[counts < 1.0]
        assert np.isclose(few.size, counts.size / 2, rtol=0.1)
        assert len(np.unique(few)) == 1
        assert 0.0 < few[0] < 0.2  # a hundredth of all draws, and of those at the target a few times as much
    assert seen
