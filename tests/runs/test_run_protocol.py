"""Draws and sums answer the same questions: one protocol, checked on one small target, and the same verdicts."""

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.errors import DamageError
from tempering.runs.run import Run

QUANTITIES = {"x": lambda x: x, "right": lambda x: x > 0}
LADDER = tp.Ladder.geometric(6, 0.02)
STARTS = [-4.0] * 8 + [4.0] * 8


def two_modes(x):
    return jnp.logaddexp(-2.0 * (x + 4) ** 2, -0.5 * (x - 4) ** 2)


def far_modes(x):
    return jnp.logaddexp(-2.0 * (x + 9) ** 2, -0.5 * (x - 9) ** 2)


def sampled(keep="draws", ladder=LADDER, method="simulated", rng=3, density=two_modes, initial=STARTS):
    return tp.sample(
        tp.Target(density), initial=initial, ladder=ladder, method=method, draws=2_000,
        tuning=tp.Tuning(1_000), chains=16 if method == "simulated" else 4, rng=rng, keep=keep,
        kernel=tp.kernels.RandomWalk(), progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs():
    return {"draws": sampled(), "sums": sampled(tp.Sums(QUANTITIES))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draws", "sums"])
def test_both_results_answer_the_protocol(kind, runs, tmp_path):
    run = runs[kind]
    assert isinstance(run, Run)
    assert run.visits.sum() == run.n_chains * run.n_draws
    assert run.info.method == "simulated"
    assert np.isclose(run.shares().sum(), 1.0)
    assert 100 < run.ess() <= run.visits.sum()
    estimate = run.expect("right" if kind == "sums" else QUANTITIES["right"])
    assert abs(estimate.value - 2 / 3) < 5 * estimate.standard_error < 0.2  # 5.7e-7 two-sided
    assert {"mean", "standard_error"} <= set(run.summary().columns)
    assert len(run.rungs()) == len(run.ladder) == len(run.visits)
    assert run.log_evidence().disagreement == ""
    found = run.diagnose()
    assert found.is_good, found
    run.report(tmp_path / "page.html", title="Two modes")
    page = (tmp_path / "page.html").read_text()
    assert "The run looks sound" in page
    assert "Two modes" in page
    run.save(tmp_path / "run")
    again = tp.load(tmp_path / "run") if kind == "draws" else tp.TemperedSums.load(tmp_path / "run")
    assert np.array_equal(again.visits, run.visits)


def test_control_what_lacks_a_question_is_no_run():
    assert not isinstance(object(), Run)
    assert not isinstance(tp.Ladder([1.0]), Run)


def test_the_verdict_of_sums_is_that_of_the_draws(runs):
    draws, sums = (runs[kind].diagnose() for kind in ("draws", "sums"))
    assert sums.n_round_trips == draws.n_round_trips
    assert np.isclose(sums.barrier, draws.barrier, rtol=0.02)
    assert np.allclose(sums.overlap, draws.overlap, atol=0.01)
    assert np.isclose(sums.second_eigenvalue, draws.second_eigenvalue, atol=0.01)
    assert 0.3 < sums.index_ess / draws.index_ess < 3.0
    assert 0.3 < sums.ess_by_quantity["x"] / draws.ess_by_quantity["x"] < 3.0
    assert abs(sums.r_hat_by_quantity["x"] - draws.r_hat_by_quantity["x"]) < 0.02


def test_the_evidence_of_sums_is_that_of_the_draws_by_every_method(runs):
    draws, sums = (runs[kind].log_evidence() for kind in ("draws", "sums"))
    assert sums.by_method.keys() == draws.by_method.keys()
    for name, other in draws.by_method.items():
        assert abs(sums.by_method[name].value - other.value) < 0.05 * float(other.standard_error) + 1e-3, name


@pytest.mark.long
def test_control_chains_that_stay_in_their_modes_are_seen():
    # so many rungs that batches hold several chains; starting points are taken in turn
    run = sampled(tp.Sums(QUANTITIES), np.linspace(1.0, 0.95, 24), density=far_modes, initial=[-9.0, 9.0])
    found = run.diagnose()
    assert not found.is_good
    assert "R-hat" in str(found)
    assert found.r_hat_by_quantity["x"] > 1.5
    assert run.expect("right").standard_error > 0.1  # half of 16 chains on either side: 0.5 / sqrt(16)


@pytest.mark.long
def test_control_rungs_that_do_not_overlap_are_seen():
    found = sampled(tp.Sums(QUANTITIES), ladder=[1.0, 0.9, 0.0005]).diagnose()
    assert not found.is_good
    assert "rungs 1 and 2" in str(found)


@pytest.mark.slow
def test_coupled_chains_have_a_verdict_too():
    found = sampled(tp.Sums(QUANTITIES), method="parallel").diagnose()
    assert np.isfinite(found.barrier)
    assert np.isfinite(found.r_hat_by_quantity["x"])


def test_a_file_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "other").write_bytes(b"something else\n")
    with pytest.raises(DamageError):
        tp.TemperedSums.load(tmp_path / "other")
