"""The pilot: chains that are trapped where there is no mass do not count for what is learnt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering.engines.trace import Trace
from tempering.learning import loop
from tempering.learning.pilot import Heating, PilotRung, gathered, log_masses
from tempering.path import Path


class Still:
    """An engine whose chains stay where they are put: what it was asked for is kept."""

    def __init__(self, values, terms):
        self.values, self.terms, self.moved = values, terms, None

    def on_rung(self, states, rung, places=None):
        if places is not None:
            self.moved = np.asarray(places.values)
        return states

    def run(self, states, schedule, n, moving=True):
        rung = np.zeros(self.values.shape[:2], dtype=np.int32)
        return states, Trace(self.values, self.terms, rung, rung, np.ones((*rung.shape, 1), dtype=np.float32))


def cold_rung(depths, n=64, d=2):
    rng = seeded_rng("cold_rung")
    values = rng.standard_normal((len(depths), n, d))
    terms = -0.5 * np.sum(values**2, axis=-1, keepdims=True) - np.asarray(depths)[:, np.newaxis, np.newaxis]
    engine = Still(values, terms)
    return Heating(engine, (), None, Path.powers, lambda *_: None), PilotRung(
        1.0, (), terms[..., 0], engine.run(None, None, n)[1]
    )


def test_a_chain_trapped_without_mass_starts_anew_where_another_is():
    run, cold = cold_rung([0.0, 500.0, 3.0])
    gathered(run, cold, seeded_rng("gathered"))
    last = cold.trace.values[:, -1]
    np.testing.assert_array_equal(run.engine.moved[[0, 2]], last[[0, 2]])
    assert any(np.array_equal(run.engine.moved[1], last[i]) for i in (0, 2))


def test_chains_at_summits_that_may_have_mass_stay_where_they_are():
    run, cold = cold_rung([0.0, 20.0, 3.0])
    assert gathered(run, cold, seeded_rng("gathered")) is cold
    assert run.engine.moved is None


def test_a_narrow_mode_is_not_taken_for_a_heavy_one_nor_a_wide_one_for_nothing():
    """In 128 dimensions the wider of two modes with equal mass lies 89 nats lower."""
    rng = seeded_rng("log_masses")
    width = np.array([1.0, 0.5])[:, np.newaxis, np.newaxis]
    x = width * rng.standard_normal((2, 400, 128))
    log_target = -0.5 * np.sum((x / width) ** 2, axis=-1) - 128 * np.log(width[..., 0])
    assert abs(np.subtract(*np.mean(log_target, axis=1))) > 80
    assert abs(np.subtract(*log_masses(x, log_target))) < 2


def test_a_chain_that_has_not_moved_counts_with_the_usual_width():
    values = np.zeros((3, 8, 1))
    values[:2] = seeded_rng("unmoved").standard_normal((2, 8, 1))
    assert np.isfinite(log_masses(values, np.zeros((3, 8)))).all()


def test_the_spread_of_the_energy_is_that_of_chains_which_are_not_trapped():
    energy = seeded_rng("barrier").exponential(size=(8, 32))
    trapped = energy + np.where(np.arange(8) < 3, 450.0, 0.0)[:, np.newaxis]
    alone = PilotRung(1.0, (), -energy, None).local_barrier
    assert PilotRung(1.0, (), -trapped, None).local_barrier == pytest.approx(alone, rel=0.3)
    assert 0.5 * np.mean(np.abs(trapped - trapped.mean())) > 50 * alone  # of all chains alike: the control


def test_the_spread_is_that_of_each_chain_where_its_density_is_positive():
    energy = seeded_rng("spread").normal(size=(7, 33))
    energy[energy < -0.5] = -np.inf
    energy[0] = -np.inf  # a chain that never was inside
    inside = [chain[chain > -np.inf] for chain in energy[1:]]
    centre = np.median([np.median(chain) for chain in inside])
    plain = 0.5 * np.median([np.mean(np.abs(chain - centre)) for chain in inside])
    assert PilotRung(1.0, (), energy, None).local_barrier == pytest.approx(plain, rel=1e-12)
    assert PilotRung(1.0, (), energy[:1], None).local_barrier == 0.0


def decoyed():
    """Two summits that chains climb to from the prior: one of them has exp(-300) of the mass."""

    def log_likelihood(x):
        main, decoy = jnp.sum((x / 0.1) ** 2), jnp.sum(((x - 6.0) / 0.1) ** 2)
        return jnp.logaddexp(-0.5 * main, -300.0 - 0.5 * decoy)

    def log_prior(x):
        return -0.5 * jnp.sum((x / 5.0) ** 2)

    return tp.Target.from_likelihood(
        log_likelihood, log_prior, sample_prior=lambda key: 5.0 * jax.random.normal(key, (2,))
    )


def test_trapped_chains_are_moved_to_where_the_mass_is_before_the_pilot_heats(monkeypatch):
    seen = []

    def watched(run, cold, rng):
        found = gathered(run, cold, rng)
        log_target = run.path_to(1.0).log_target
        seen.extend(log_masses(rung.trace.values, log_target(rung.trace.terms)) for rung in (cold, found))
        return found

    monkeypatch.setattr(loop, "gathered", watched)
    tp.sample(decoyed(), rng=5, draws=100, tuning=tp.Tuning(640), progress=False)
    before, after = seen
    assert np.any(before < np.max(before) - 250.0)  # there are some: the control
    assert np.all(after > np.max(after) - 20.0)
