"""bilby's plugin: exact evidences, boundaries and constraints, its result, and runs that are stopped and resumed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from statistical import FALSE_ALARM_RATE

bilby = pytest.importorskip("bilby")
import bilby_run  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STOPPED_BY_BILBY = 77  # the exit code that bilby was told to use


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return bilby_run.run(tmp_path_factory.mktemp("whole"))


def off(result, exact):
    return abs(result.log_evidence - exact) / result.log_evidence_err


def test_the_evidence_is_exact(result):
    assert off(result, bilby_run.LOG_EVIDENCE) < 6
    assert result.log_evidence_err < 0.15
    assert off(result, bilby_run.LOG_EVIDENCE + np.log(2 * np.pi)) > 6  # control: a prior of one dimension too few


def test_samples_have_equal_weight_and_wrap_round(result):
    assert set(result.posterior) >= {"a", "phase", "log_likelihood"}
    phase = result.posterior["phase"].to_numpy()
    near_both_ends = np.mean((phase < 0.3) | (phase > 2 * np.pi - 0.3))
    exact = np.diff(stats.vonmises(2.0, loc=0.1).cdf([-0.3, 0.3]))[0]
    n = len(phase)
    assert abs(near_both_ends - exact) < 8 * np.sqrt(exact * (1 - exact) / n)  # draws are correlated, a little
    assert stats.kstest(result.posterior["a"][:: max(1, n // 200)], stats.norm(1, 0.5).cdf).pvalue > FALSE_ALARM_RATE


def test_weighted_draws_and_counts_come_with_it(result):
    table = result.nested_samples
    assert table["weights"].sum() == pytest.approx(1.0)
    mean = np.sum(table["weights"] * table["a"])
    assert mean == pytest.approx(result.posterior["a"].mean(), abs=0.1)
    assert result.num_likelihood_evaluations > 8 * 600
    assert result.log_bayes_factor == result.log_evidence


@pytest.mark.long
@pytest.mark.parametrize(("name", "at"), [("SIGINT", 2000), ("SIGTERM", 8000), ("SIGALRM", 9000), ("SIGKILL", 9000)])
def test_a_run_that_was_stopped_resumes_and_ends_as_it_would_have(name, at, tmp_path, result):
    command = [sys.executable, bilby_run.__file__, str(tmp_path), name, str(at)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == (-9 if name == "SIGKILL" else STOPPED_BY_BILBY), done.stderr[-2000:]
    folder = tmp_path / "tempering_x"
    assert (folder / "run.json").is_file()
    resumed = bilby_run.run(tmp_path)
    np.testing.assert_array_equal(resumed.samples, result.samples)
    assert resumed.log_evidence == result.log_evidence
    assert resumed.num_likelihood_evaluations < result.num_likelihood_evaluations - at / 2  # it did not start anew
    assert not folder.exists()


def test_without_resume_a_run_starts_anew(tmp_path, result):
    folder = tmp_path / "tempering_x"
    folder.mkdir(parents=True)
    (folder / "rest").write_text("of another run")
    anew = bilby_run.run(tmp_path, resume=False)
    np.testing.assert_array_equal(anew.samples, result.samples)


def test_a_pool_changes_nothing(tmp_path, result):
    np.testing.assert_array_equal(bilby_run.run(tmp_path, npool=2).samples, result.samples)


def test_constraints_cut_the_prior_and_its_evidence(tmp_path):
    prior = bilby.core.prior.PriorDict(
        {**bilby_run.priors(), "late": bilby.core.prior.Constraint(1.0, 10.0)},
        conversion_function=lambda p: {**p, "late": p["a"]},
    )
    result = bilby_run.run(tmp_path, prior=prior)
    exact = bilby_run.LOG_EVIDENCE + np.log(0.5) - np.log(0.4)  # half of the likelihood, 4 of 10 of the prior
    assert result.posterior["a"].min() >= 1.0
    assert off(result, exact) < 6
    assert off(result, exact + np.log(0.4)) > 6  # control: the prior not normalised


@pytest.mark.parametrize("extension", ["json", "hdf5", "pkl"])
def test_a_result_is_written_and_read(tmp_path, extension):
    result = bilby_run.run(tmp_path, save=extension, draws=64, tune=64, ladder=[1.0, 0.0])
    again = bilby.read_in_result(outdir=str(tmp_path), label="x", extension=extension)
    np.testing.assert_allclose(again.posterior["a"], result.posterior["a"])
    assert again.log_evidence == pytest.approx(result.log_evidence)


def test_bilbys_other_names_of_arguments_are_taken(tmp_path):
    from tempering.doors.bilby import Tempering

    sampler = Tempering(
        bilby_run.Likelihood(), bilby_run.priors(), outdir=str(tmp_path), label="x", check_point_deltaT=5, random_seed=4
    )
    assert sampler.kwargs["check_point_delta_t"] == 5
    assert sampler.kwargs["seed"] == 4
    assert sampler.get_expected_outputs(str(tmp_path), "x") == ([], [f"{tmp_path}/tempering_x/"])


class Asking:
    """A run whose verdict asks for more draws, or does not."""

    def __init__(self, asks):
        self.asks_for_draws = asks

    def diagnose(self):
        return self


def test_without_a_number_of_draws_the_verdict_ends_a_run(tmp_path, monkeypatch):
    from tempering.doors import bilby as door

    assert not door.UntilSound().is_reached(lambda: Asking(True), 0.0)
    assert door.UntilSound().is_reached(lambda: Asking(False), 1e9)
    monkeypatch.setattr(door, "DRAWS", 32)
    monkeypatch.setattr(door, "MOST_DRAWS", 8192)  # of about 500, for 100 effective draws of a random walk, are enough
    sound = bilby_run.run(tmp_path, draws=None, tune=64, ladder=[1.0, 0.0])
    assert len(sound.nested_samples) in [8 * 32 << i for i in range(1, 8)]
    monkeypatch.setattr(door.UntilSound, "is_reached", lambda *_: False)
    monkeypatch.setattr(door, "MOST_DRAWS", 96)
    assert len(bilby_run.run(tmp_path, draws=None, tune=64, ladder=[1.0, 0.0]).nested_samples) == 8 * 96


def test_the_plugin_is_an_entry_point():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["bilby.samplers"] == {"tempering": "tempering.doors.bilby:Tempering"}
