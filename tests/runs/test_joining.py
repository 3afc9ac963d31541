import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering import problems
from tempering.errors import EstimatorError, SamplerError

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


@pytest.mark.slow
def test_runs_along_two_legs_are_not_joined_as_if_their_references_were_one():
    target = tp.Target(SKEWED.log_density_numba)
    run = tp.sample(target, initial=np.zeros(2), rng=1, tuning=tp.Tuning(640), draws=100, progress=False)
    assert run.path.has_two_legs
    with pytest.raises(EstimatorError, match="references of their own"):
        tp.join([run, run])


def test_runs_that_cannot_be_joined_are_refused():
    run = exact_run(tp.Ladder([1, 0.5]), 10, "short")
    with pytest.raises(EstimatorError, match="none"):
        tp.join([])
    with pytest.raises(EstimatorError, match="along must be"):
        tp.join([run], along="time")
    with pytest.raises(EstimatorError, match="as many chains"):
        tp.join([run, exact_run(tp.Ladder([1, 0.5]), 10, "few", n_chains=2)])
    with pytest.raises(SamplerError, match="keep='rounds'"):
        tp.sample(tp.Target(SKEWED.log_density), initial=np.zeros(2), keep="rounds", method="sequential")
