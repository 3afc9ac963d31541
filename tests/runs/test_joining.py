from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from seeds import shifted
from statistical import seeded_rng
from tempering import problems
from tempering.errors import EstimatorError, SamplerError
from tempering.path import weighted_terms
from tempering.runs.diagnosis import component_indicators
from tempering.runs.positions import Positions, positions_of
from tempering.runs.stored import changed
from tempering.target.layout import Layout
from tempering.target.whitened import Coordinates

SKEWED = problems.skewed(2)


def exact_run(ladder, n_draws, label, n_chains=8):
    """Return independent draws of every rung, as a run."""
    rng = seeded_rng(label)
    rung = rng.integers(len(ladder), size=(n_chains, n_draws)).astype(np.int32)
    x = np.empty((n_chains, n_draws, 2))
    for i, k in enumerate(ladder):
        x[rung == i] = SKEWED.sample(rng, int(np.sum(rung == i)), k)
    energy = np.asarray(SKEWED.log_density(x))
    acceptance = np.full((*rung.shape, 1), np.nan, dtype=np.float32)
    return tp.TemperedDraws.of_energies({"x": x}, rung, energy, ladder, acceptance=acceptance)


def test_rungs_of_several_ladders_are_rungs_of_their_union():
    first, second = exact_run(tp.Ladder([1, 0.5, 0.2]), 30, "a"), exact_run(tp.Ladder([1, 0.3]), 20, "b")
    whole = tp.join([first, second])
    assert whole.ladder.inverse_temperatures.tolist() == [1.0, 0.5, 0.3, 0.2]
    k = whole.ladder.inverse_temperatures[whole.rung]
    assert np.array_equal(k[:, :30], first.ladder.inverse_temperatures[first.rung])
    assert np.array_equal(k[:, 30:], second.ladder.inverse_temperatures[second.rung])
    beside = tp.join([first, exact_run(tp.Ladder([1, 0.3]), 30, "c")], along="chains")
    assert beside.rung.shape == (16, 30)


@pytest.mark.parametrize("rule", ["mbar", "ess_optimal", "screened"])
def test_joined_runs_are_right_and_their_errors_honest(rule):
    scores, errors = [], []
    for i in range(60):
        first = exact_run(tp.Ladder([1, 0.5, 0.2]), 100, f"joined {i}")
        second = exact_run(tp.Ladder([1, 0.7, 0.3]), 150, f"other {i}")
        joined, alone = (r.expect(lambda x: x[..., 0], rule) for r in (tp.join([first, second]), second))
        scores.append((joined.value - SKEWED.mean[0]) / joined.standard_error)
        errors.append((joined.standard_error, alone.standard_error))
    assert abs(np.mean(scores)) < 4 / np.sqrt(60)  # a mean of unit scores, four of its deviations
    assert 0.7 < np.std(scores) < 1.35  # chi-square with 59 degrees of freedom, 1 - 1e-3 both ways
    assert np.mean([whole < part for whole, part in errors]) > 0.9


def test_control_rungs_taken_for_those_of_one_ladder_are_wrong():
    first, second = exact_run(tp.Ladder([1, 0.5, 0.2]), 4000, "x"), exact_run(tp.Ladder([1, 0.3, 0.01]), 4000, "y")
    wrong = np.concatenate([first.rung, second.rung], axis=1)
    mixed = tp.TemperedDraws.of_energies(
        {"x": np.concatenate([first.values["x"], second.values["x"]], axis=1)}, wrong,
        np.concatenate([first.energy, second.energy], axis=1), first.ladder,
    )  # fmt: skip
    estimate = mixed.expect(lambda x: x[..., 0] ** 2)
    truth = tp.join([first, second]).expect(lambda x: x[..., 0] ** 2)
    assert abs(estimate.value - truth.value) > 10 * truth.standard_error


def test_tuning_rounds_are_kept_when_asked_for():
    target = tp.Target(SKEWED.log_density_numba)
    options = {
        "initial": np.zeros(2),
        "rng": 1,
        "tuning": tp.Tuning(1600),
        "draws": 400,
        "path": "powers",
        "progress": False,
    }
    run = tp.sample(target, keep="rounds", **options)
    assert [r.n_draws for r in run.rounds] == [r.n_iterations for r in run.info.rounds]
    whole = tp.join([*run.rounds[1:], run])
    assert whole.expect(lambda x: x[..., 0]).standard_error < run.expect(lambda x: x[..., 0]).standard_error
    assert np.array_equal(tp.sample(target, **options).energy, run.energy)


def test_runs_that_cannot_be_joined_are_refused():
    run = exact_run(tp.Ladder([1, 0.5]), 10, "short")
    with pytest.raises(EstimatorError, match="none"):
        tp.join([])
    with pytest.raises(EstimatorError, match="along must be"):
        tp.join([run], along="time")
    with pytest.raises(EstimatorError, match="the same number of chains"):
        tp.join([run, exact_run(tp.Ladder([1, 0.5]), 10, "few", n_chains=2)])
    with pytest.raises(SamplerError, match="keep='rounds'"):
        tp.sample(tp.Target(SKEWED.log_density), initial=np.zeros(2), keep="rounds", method="sequential")


def two_humps(x):
    """Return the log density of two normals, a third and two thirds."""
    left, right = jax.scipy.stats.norm.logpdf(x, -4.0, 0.5), jax.scipy.stats.norm.logpdf(x, 3.0, 1.0)
    return jnp.logaddexp(left + jnp.log(1 / 3), right + jnp.log(2 / 3))


BARE = tp.Target(two_humps)
IN_A_BOX = tp.Target.from_likelihood(lambda p: two_humps(16.0 * p["u"] - 8.0), {"u": tp.prior.Uniform(0.0, 1.0)})
SHORT = {"draws": 500, "tuning": tp.Tuning(1_000), "progress": False}


@cache
def run_along_two_legs(name, seed):
    """Return a short run with the draws of its rounds."""
    target, start = {"bare": (BARE, {"initial": 0.0}), "box": (IN_A_BOX, {})}[name]
    return tp.sample(target, rng=seed, keep="rounds", **start, **SHORT)


@pytest.mark.parametrize("name", ["bare", "box"])
def test_rounds_with_mixtures_of_their_own_are_one_run(name):
    run = run_along_two_legs(name, shifted(1))
    parts = [*run.rounds, run]
    whole = tp.join(parts)
    assert whole.n_draws == sum(part.n_draws for part in parts)
    done = 0
    for part, first in zip(parts, whole.path.first_rungs, strict=True):
        here = slice(done, done + part.n_draws)
        log_density = weighted_terms(part.path.coefficients[part.rung], part.terms)
        again = weighted_terms(whole.path.coefficients[whole.rung[:, here]], whole.terms[:, here])
        np.testing.assert_allclose(again, log_density, atol=1e-12)
        assert np.array_equal(whole.rung[:, here], part.rung + first)
        done += part.n_draws
    for i, reference in enumerate(whole.path.references):  # each is known at the draws of all
        at = np.asarray(reference.log_density(whole.positions.values))
        np.testing.assert_allclose(whole.terms[..., whole.path.n_own_terms + i], at, atol=1e-9)
    is_left = {"bare": lambda x: x < -1.0, "box": lambda u: u < 7 / 16}[name]
    found = whole.expect(lambda *x, **p: is_left(*x, **p) * 1.0)
    assert abs(found.value - 1 / 3) < 5 * found.standard_error < 0.1
    log_z = whole.log_evidence()
    assert abs(log_z.value - {"bare": 0.0, "box": -np.log(16.0)}[name]) < 5 * log_z.standard_error < 0.5
    assert whole.ess() > run.ess()
    assert whole.go_on is None
    assert repr(whole)
    assert str(whole.diagnose())


def test_runs_of_two_seeds_join_beside_one_another_and_are_stored_whole(tmp_path):
    one, other = (run_along_two_legs("bare", shifted(i)) for i in (1, 2))
    whole = tp.join([one, other], along="chains")
    assert whole.n_chains == one.n_chains + other.n_chains
    whole.save(tmp_path / "joined.zarr")
    again = tp.load(tmp_path / "joined.zarr")
    assert again.path.leg_names == whole.path.leg_names
    assert again.expect(lambda x: x) == whole.expect(lambda x: x)


def test_runs_whose_positions_are_not_known_are_refused(tmp_path):
    run = run_along_two_legs("box", shifted(1))
    run.save(tmp_path / "run.zarr")
    with pytest.raises(EstimatorError, match="Join runs first"):
        tp.join([tp.load(tmp_path / "run.zarr"), run])


def test_control_values_are_not_taken_for_the_positions_they_are_functions_of():
    """Where values are probabilities, say, the mixture's density there is another one."""
    run = changed(run_along_two_legs("box", shifted(1)), positions=None)
    assert positions_of(run) is None
    assert positions_of(run_along_two_legs("bare", shifted(1))) is not None


def test_modes_are_told_apart_by_positions_where_values_are_functions_of_them():
    run = run_along_two_legs("box", shifted(1))
    owner = np.argmax(component_indicators(run), axis=-1)
    counts = run.weights() > 1e-7
    is_left = run.values["u"] < 7 / 16
    shares = [np.mean(is_left[counts & (owner == i)]) for i in np.unique(owner[counts])]
    assert min(shares) < 0.01
    assert max(shares) > 0.99


def test_coordinates_of_two_runs_are_exchanged_by_way_of_positions():
    rng = seeded_rng("coordinates")
    layout = Layout.of(np.zeros(3))

    def coordinates():
        factor = rng.normal(size=(3, 3))
        factor /= np.cbrt(np.linalg.det(factor))
        return Coordinates(layout, rng.normal(size=3), factor, np.linalg.inv(factor))

    x, here, there = rng.normal(size=(4, 5, 3)), coordinates(), coordinates()
    seen = Positions(here.flat_whitened(x), here)
    np.testing.assert_allclose(seen.seen_from(Positions(x)), x, atol=1e-12)
    np.testing.assert_allclose(seen.seen_from(Positions(x, there)), there.flat_whitened(x), atol=1e-10)
    assert np.max(np.abs(seen.values - there.flat_whitened(x))) > 0.1
