"""Sums along two legs, the default path: those of the very draws that a run with draws keeps, whoever runs them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

import tempering as tp
from tempering import problems
from tempering.engines.trace import Schedule
from tempering.errors import EstimatorError, SamplerError
from tempering.estimators.regeneration import TourWeights
from tempering.estimators.running.mixed import MixedSums, RungMixture
from tempering.recorders import mixed_on_device
from tempering.runs.sums import TwoLegSums
from tempering.runs.tours import effective_pieces

PROBLEM = problems.skewed(2)
QUANTITIES = {"x": lambda x: x, "radius": lambda x: (x**2).sum(axis=-1)}
DENSITIES = {"vector": PROBLEM.log_density, "scalar": PROBLEM.log_density_numba}
CHAINS = {"vector": 16, "scalar": 4}


def run(engine, draws=600, execution=None, **options):
    common = {"initial": np.zeros(2), "tuning": tp.Tuning(640), "progress": False, "rng": 3, "chains": CHAINS[engine]}
    how = {"execution": tp.Execution(engine=engine, **(execution or {}))}
    return tp.sample(tp.Target(DENSITIES[engine]), draws=draws, **(common | how | options))


@cache
def sums_of(engine):
    return run(engine, keep=tp.Sums(QUANTITIES))


@cache
def draws_of(engine):
    return run(engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(DENSITIES))
def test_they_are_the_sums_of_the_draws_of_the_same_run(engine):
    draws, sums = draws_of(engine), sums_of(engine)
    assert isinstance(sums, TwoLegSums)
    assert sums.path.has_two_legs
    assert np.array_equal(sums.visits, draws.visits)
    assert sums.n_round_trips == draws.n_round_trips
    mixture = RungMixture(draws.path.coefficients, draws.log_pseudo_prior, draws.path.target)
    values = {name: function(draws.values["x"]) for name, function in QUANTITIES.items()}
    again = MixedSums.from_draws(draws.terms, draws.rung, values, mixture, quantities=sums.sums.quantities)
    for name in QUANTITIES:
        np.testing.assert_allclose(sums.expect(name).value, again.expect(name).value, rtol=1e-10)
    np.testing.assert_allclose(sums.mbar.log_normalisers, again.log_normalisers, atol=1e-10)
    chance = mixture.chances(draws.terms.reshape(draws.rung.size, -1))[:, mixture.target].reshape(draws.rung.shape)
    assert sums.n_crossings == pytest.approx(effective_pieces(draws, chance), rel=0.02)  # but for the first rungs
    assert sums.n_crossings == pytest.approx(draws.n_crossings, rel=0.3)  # whose weights are MBAR's


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(DENSITIES))
def test_they_say_what_mbar_says_of_the_draws(engine):
    """The same draws, weighed with shares fixed before the run: a fraction of a standard error apart."""
    draws, sums = run(engine), sums_of(engine)
    vars(draws)["_thin"] = None  # sums do not know which places are thinly covered, nor what these add
    vars(draws)["in_units_of_error"] = replace(draws.in_units_of_error, known=None)  # nor what is known of the mixture
    for name, function in QUANTITIES.items():
        kept, summed = draws.expect(function), sums.expect(name)
        assert np.all(np.abs(summed.value - kept.value) < kept.standard_error), name
        assert np.all(summed.standard_error < 2 * kept.standard_error), name
        assert np.all(summed.standard_error > kept.standard_error / 2), name
    one, other = draws.log_evidence(), sums.log_evidence()
    assert abs(one.value - other.value) < 2 * (one.standard_error + other.standard_error)
    np.testing.assert_allclose(
        sums.quantile(0.5, "x"), draws.quantile(0.5), atol=0.1 * float(np.std(draws.values["x"]))
    )
    one, other = (run.rungs()["exchange_acceptance"] for run in (sums, draws))
    np.testing.assert_allclose(one, other, atol=0.01)  # draws do not know the rung before the first of them


def test_sums_begin_with_the_types_that_they_keep():
    """A bare number would be of another type than the sums that follow, and the program would be compiled twice."""
    sums = sums_of("vector")
    schedule = Schedule(sums.path, np.zeros(len(sums.path)), ())
    begun = mixed_on_device.nothing_yet(np.zeros(8), schedule, sums.sums.quantities, 1)
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(begun))


@pytest.mark.slow
def test_an_accelerator_adds_up_what_a_processor_does(monkeypatch):
    """Level 3: draws summed where they are, row by row, against traces in NumPy."""
    usual = sums_of("vector")
    monkeypatch.setattr(mixed_on_device, "is_where_draws_are_summed", lambda: True)
    there = run("vector", keep=tp.Sums(QUANTITIES))
    assert np.array_equal(there.visits, usual.visits)
    assert there.n_round_trips == usual.n_round_trips > 0
    np.testing.assert_array_equal(there.index.exchanges, usual.index.exchanges)
    np.testing.assert_allclose(there.index.moves, usual.index.moves, rtol=1e-6)
    for name in QUANTITIES:
        np.testing.assert_allclose(there.expect(name).value, usual.expect(name).value, rtol=1e-10)
        np.testing.assert_allclose(there.expect(name).standard_error, usual.expect(name).standard_error, rtol=0.3)
        np.testing.assert_allclose(there.quantile([0.1, 0.5], name), usual.quantile([0.1, 0.5], name), rtol=1e-10)
    np.testing.assert_allclose(there.mbar.log_normalisers, usual.mbar.log_normalisers, atol=1e-10)
    np.testing.assert_allclose(there.sums.squares, usual.sums.squares, rtol=1e-10)
    assert there.n_crossings == pytest.approx(usual.n_crossings, rel=1e-10)


@pytest.mark.slow
def test_a_run_on_an_accelerator_may_be_cut_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(mixed_on_device, "is_where_draws_are_summed", lambda: True)
    whole = run("vector", keep=tp.Sums(QUANTITIES))
    often = tp.Checkpoint(tmp_path / "run", seconds=0)
    cut = run("vector", keep=tp.Sums(QUANTITIES), execution={"checkpoint": often})
    for name in QUANTITIES:
        np.testing.assert_array_equal(cut.expect(name).value, whole.expect(name).value)
        np.testing.assert_array_equal(cut.expect(name).standard_error, whole.expect(name).standard_error)
    assert cut.n_crossings == whole.n_crossings


def test_the_verdict_and_the_page_can_be_read(tmp_path):
    sums = sums_of("vector")
    assert "TemperedSums" in repr(sums)
    assert sums.diagnose().barrier > 0
    sums.report(tmp_path / "run.html")
    sums.save(tmp_path / "sums")
    again = tp.TemperedSums.load(tmp_path / "sums")
    assert_same(sums, again)
    assert list(sums.summary().index) == ["x[0]", "x[1]", "radius"]


def test_error_bars_are_widened_by_what_no_tour_has_seen_as_those_of_draws_are():
    proven = sums_of("vector")
    own, n = proven.sums.expect("radius"), proven.n_crossings
    assert proven.info.is_log_concave
    assert proven.expect("radius").standard_error == own.standard_error  # nothing is missed that tours would lead to
    sums = replace(proven, info=replace(proven.info, is_log_concave=False), _kept={})
    assert 2 < n < sums.n_summed
    spread = np.sqrt(sums.variance("radius")[0])
    assert sums.expect("radius").standard_error == pytest.approx(np.hypot(own.standard_error, spread / n))
    assert sums.summary().standard_error["radius"] == sums.expect("radius").standard_error
    lonely = replace(
        sums, sums=replace(sums.sums, tours=TourWeights.of(np.ones((1, 5)), np.zeros((1, 5), bool))), _kept={}
    )
    np.testing.assert_array_equal(lonely.expect("x").standard_error, [np.inf, np.inf])
    unknown = replace(sums, sums=replace(sums.sums, tours=None), _kept={})  # as files of earlier versions are
    assert unknown.n_crossings == sums.n_round_trips


def test_other_rules_are_refused():
    with pytest.raises(EstimatorError, match="'mbar' alone"):
        sums_of("vector").expect("x", "ess_optimal")
    with pytest.raises(SamplerError, match="one leg only"):
        run("vector", keep=tp.Sums(QUANTITIES), path="two_legs", method="parallel")


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(DENSITIES))
def test_neither_workers_nor_a_checkpoint_change_a_bit(engine, tmp_path):
    keep = tp.Sums(QUANTITIES)
    with ThreadPoolExecutor(2) as executor:
        assert_same(sums_of(engine), run(engine, keep=keep, execution={"executor": executor}))
    kept = run(engine, keep=keep, execution={"checkpoint": tmp_path / "run"})
    assert_same(sums_of(engine), kept)
    assert_same(kept, tp.TemperedSums.load(tmp_path / "run"))
    assert_same(kept, run(engine, keep=keep, execution={"checkpoint": tmp_path / "run"}))


def assert_same(one, two):
    for mine, other in zip(one.sums.batches, two.sums.batches, strict=True):
        np.testing.assert_array_equal(mine, other, strict=True)
    np.testing.assert_array_equal(one.sums.sketch, two.sums.sketch, strict=True)
    np.testing.assert_array_equal(one.index.exchanges, two.index.exchanges)
    assert one.index.n_round_trips == two.index.n_round_trips


def masses_of_many(monkeypatch, seed):
    """Return errors of the masses of four modes from 16,384 chains of two draws, of which 32 were tuned."""
    known = problems.suite()["four-modes"]
    monkeypatch.setattr("tempering.sampling.planning.TUNING_CHAINS", 32)
    kept = tp.Sums({"masses": known.modes.quantity.function})
    found = tp.sample(
        known.target(), keep=kept, chains=16_384, draws=2, tuning=tp.Tuning(1_280), rng=seed, progress=False
    )
    return found.expect("masses").value - known.modes.masses


@pytest.mark.slow
def test_many_chains_from_few_begin_in_equilibrium(monkeypatch):
    """Control: copies of 32 chains, whose errors are ten times as large (.032 beside .003)."""
    errors = [masses_of_many(monkeypatch, seed) for seed in (1, 2, 3)]
    monkeypatch.setattr("tempering.sampling.sum_sampling._apart", lambda plan, tuned, engine, states, draws: states)
    copied = [masses_of_many(monkeypatch, seed) for seed in (1, 2, 3)]
    assert np.sqrt(np.mean(np.square(errors))) < 0.01
    assert np.sqrt(np.mean(np.square(copied))) > 0.02
