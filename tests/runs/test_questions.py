import dataclasses

import numpy as np
import pytest

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import problems
from tempering.errors import EstimatorError

PROBLEM = problems.likelihood_gaussian(2)
LADDER = tp.Ladder([1.0, 0.6, 0.3, 0.1, 0.02, 0.0])


TARGET = tp.Target.from_likelihood(PROBLEM.log_likelihood, PROBLEM.log_prior, PROBLEM.sample_prior)
LOG_PSEUDO_PRIOR = np.array([-PROBLEM.log_normaliser(k) for k in LADDER]) + 0.3 * np.sin(np.arange(6))  # uneven


def likelihood_run(seed: int, rung_moves: str = "lifted") -> tp.TemperedDraws:
    """One run that redraws from the prior at k = 0, on the vector engine (compiled once)."""
    return tp.sample(
        TARGET,
        ladder=LADDER,
        rng=seed,
        tuning=tp.Tuning(320, pseudo_prior=LOG_PSEUDO_PRIOR),
        draws=1600,
        chains=16,
        method=tp.Method("simulated", rung_moves),
        progress=False,
    )


@pytest.fixture(scope="module")
def runs():
    return [likelihood_run(seed) for seed in range(24)]


@pytest.mark.slow
def test_the_evidence_is_the_exact_one(runs):
    evidence = [run.log_evidence() for run in runs]
    assert all(e.is_absolute for e in evidence)
    assert_mean_is(PROBLEM.log_evidence, [e.value for e in evidence])
    z = [(e.value - PROBLEM.log_evidence) / e.standard_error for e in evidence]
    assert 0.4 < np.std(z) < 2.0
    for method in ("stepping stone", "mbar"):
        assert_mean_is(PROBLEM.log_evidence, [e.by_method[method].value for e in evidence])


def with_energy(run, energy):
    """Return a run with other log likelihoods."""
    terms = np.concatenate([energy[..., None], run.terms[..., 1:]], axis=-1)
    return dataclasses.replace(run, terms=terms, _kept={})


@pytest.mark.slow
def test_control_energies_off_by_a_hundredth_are_seen(runs):
    wrong = [with_energy(run, 1.01 * run.energy) for run in runs]
    assert_mean_is_not(PROBLEM.log_evidence, [float(run.mbar.log_normaliser_ratio().value) for run in wrong])


def test_methods_that_disagree_are_a_warning_that_names_the_rungs(runs):
    run = runs[0]
    shifted = run.energy + np.where(run.rung == 2, 30.0, 0.0)  # one rung whose energies are wrong, by far
    with pytest.warns(UserWarning, match="overlap least: add rungs between"):
        evidence = with_energy(run, shifted).log_evidence()
    assert evidence.disagreement


@pytest.mark.slow
@pytest.mark.parametrize("rung_moves", ["lifted", "neighbour"])
def test_tours_give_the_posterior_mean(rung_moves, runs):
    estimates, z = [], []
    for run in runs if rung_moves == "lifted" else [likelihood_run(seed, rung_moves) for seed in range(24)]:
        tours = run.tours()
        result = tours.expect(run.values["x"])
        assert tours.n_tours > 100
        assert tours.lengths.min() >= 1
        estimates.append(result.value)
        z.append((result.value - PROBLEM.mean) / result.standard_error)
    assert_mean_is(PROBLEM.mean, estimates)
    assert 0.6 < np.std(z) < 1.6


def test_tours_do_not_depend_on_one_another(runs):
    """Neighbouring tours of one chain are uncorrelated; neighbouring draws are not (the control)."""
    correlations, control = [], []
    for run in runs:
        tours = run.tours()
        inside = tours.index >= 0
        sums = np.bincount(tours.index[inside], run.energy[inside], tours.n_tours) / tours.lengths
        correlations.append(np.corrcoef(sums[1:], sums[:-1])[0, 1])
        control.append(np.corrcoef(run.energy[:, 1:].ravel(), run.energy[:, :-1].ravel())[0, 1])
    assert_mean_is(0.0, correlations)
    assert_mean_is_not(0.0, control)


def test_runs_without_a_base_have_no_tours():
    run = tp.sample(
        tp.Target(problems.skewed(1).log_density_numba),
        initial=np.zeros(1),
        ladder=[1, 0.5],
        tuning=tp.Tuning(320),
        draws=320,
        rng=1,
        progress=False,
    )
    with pytest.raises(EstimatorError, match="sample_prior"):
        run.tours()


def test_a_sound_run_is_called_sound(runs):
    diagnosis = runs[0].diagnose()
    assert diagnosis.is_good, str(diagnosis)
    assert str(diagnosis) == "The run looks sound."
    assert np.isnan(runs[0].rungs()["move_acceptance"].to_numpy()[-1])  # k = 0 is drawn from, not moved on
    assert diagnosis.n_round_trips > 20
    assert 0 < diagnosis.barrier < 10
    assert diagnosis.overlap.sum(axis=1) == pytest.approx(np.ones(len(LADDER)))


def test_rungs_that_hardly_exchange_are_named():
    target = tp.Target(problems.mixture().as_vector.log_density_numba)
    run = tp.sample(
        target, initial=np.array([-8.0]), ladder=[1.0, 1e-5], tuning=tp.Tuning(2000), draws=4000, rng=1, progress=False
    )
    said = " ".join(run.diagnose().sentences)
    assert "rungs 0 and 1 (k = 1 and 1e-05) exchange in" in said
    assert "add rungs there" in said


def test_chains_that_never_met_are_said_to_disagree():
    target = tp.Target(problems.mixture().as_vector.log_density_numba)
    starts = [np.array([-8.0]), np.array([8.0])]
    run = tp.sample(target, initial=starts, ladder=[1.0], tuning=tp.Tuning(640), draws=4000, rng=1, progress=False)
    diagnosis = run.diagnose()
    assert not diagnosis.is_good
    assert diagnosis.r_hat_by_quantity["x"] > 5


def exact_draws_of_two_rungs(sd, n=40_000):
    """Draw from the posterior and from the prior of a mean, of precision 250 and 1 / sd**2, rung by turns."""
    rng = seeded_rng("two rungs")
    precision = np.array([250.0 + 1 / sd**2, 1 / sd**2])
    rung = np.tile(np.array([0, 1], np.int32), (4, n // 8))
    x = rng.normal(size=rung.shape) / np.sqrt(precision[rung]) + np.where(rung == 0, 25.0 / precision[0], 0.0)
    energy = -125.0 * (x - 0.1) ** 2
    run = tp.TemperedDraws.of_energies({"x": x}, rung, energy, tp.Ladder([1.0, 0.0]), is_powered=False)
    exact = -0.5 * np.log1p(250.0 * sd**2) - 0.005 / (1 / 250.0 + sd**2)
    return run, exact


def test_a_method_whose_rungs_are_too_far_apart_has_no_error_and_does_not_warn():
    run, exact = exact_draws_of_two_rungs(10.0)
    evidence = run.log_evidence()
    assert abs(evidence.value - exact) < 6 * evidence.standard_error < 0.6
    assert not evidence.disagreement
    backwards = evidence.by_method["stepping stone, reversed"]
    assert abs(backwards.value - exact) > 1.0
    assert np.isnan(backwards.standard_error)
    assert "reversed: " in str(evidence)
    assert "± unknown" in str(evidence)
    assert "<td>unknown</td>" in evidence._repr_html_()
    near, exact = exact_draws_of_two_rungs(0.1)  # control: where rungs overlap every method has its error
    for method in near.log_evidence().by_method.values():
        assert abs(method.value - exact) < 6 * method.standard_error < np.inf


def test_constants_have_neither_effective_draws_nor_chains_that_disagree():
    rng = seeded_rng("constants")
    x = rng.normal(size=(4, 200))
    values = np.stack([x, np.full_like(x, 0.1), np.full_like(x, -7.3)], axis=-1)  # as imputed data that were seen
    run = tp.TemperedDraws.of_energies({"x": values}, np.tile([0, 1], (4, 100)), -0.5 * x**2, tp.Ladder([1.0, 0.5]))
    table = run.summary()
    assert table["r_hat"].tolist()[1:] == [1.0, 1.0]
    assert table["ess"].isna().tolist() == [False, True, True]
    assert run.effective_draws() > 100
    halves = (run.weights() * values[..., 1]).reshape(8, -1).sum(axis=1) / run.weights().reshape(8, -1).sum(axis=1)
    assert np.var(halves) > 0  # control: by rounding alone the halves differ


def test_draws_so_far_out_that_their_squares_overflow_change_nothing():
    rng = seeded_rng("far out")
    x = rng.normal(size=(4, 400))
    rung = np.tile(np.array([0, 1], np.int32), (4, 200))
    far = (rung == 1) & (rng.random(x.shape) < 0.1)
    run = tp.TemperedDraws.of_energies(
        {"x": np.where(far, np.where(x > 0, 1e200, np.inf), x)},
        rung,
        np.where(far, -1e4, -0.5 * x**2),
        tp.Ladder([1.0, 0.5]),
    )
    row = run.summary().loc["x"]
    assert 0.8 < row["sd"] < 1.2
    assert 0.99 < row["r_hat"] < 1.1
    assert run.diagnose().is_good
    with np.errstate(all="ignore"):
        assert not np.isfinite(np.sum(run.weights() * run.values["x"] ** 2))  # control
