"""The call with nothing but a target: masses and evidence over replicates, on both methods and both engines (level 5).

Each run is short; its estimates are compared with the truth by Student's t over independent seeds.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not
from tempering.learning.density_of_states import DensityOfStates
from tempering.learning.reference.spanned import one_around
from tempering.learning.two_legs import SAFE, Frame, aimed_visits
from tempering.path import Ladder
from tempering.sampling.effort import Effort

MASS = 0.3  # of the narrow mode


def log_two_modes(x):
    """A bare density in two dimensions: a wide mode at -4, a narrow one at 4 with mass 0.3; its integral is 2 pi."""
    wide = np.log(1 - MASS) - 0.5 * jnp.sum((x + 4.0) ** 2)
    narrow = np.log(MASS) - np.log(0.25) - 0.5 * jnp.sum((x - 4.0) ** 2) / 0.25
    return jnp.logaddexp(wide, narrow)


def log_two_modes_plain(x):
    wide = np.log(1 - MASS) - 0.5 * float(np.sum((x + 4.0) ** 2))
    narrow = np.log(MASS) - np.log(0.25) - 0.5 * float(np.sum((x - 4.0) ** 2)) / 0.25
    return float(np.logaddexp(wide, narrow))


TARGETS = {"vector": tp.Target(log_two_modes), "python": tp.Target(log_two_modes_plain)}
START = [np.array([-4.0, -4.0])]


@cache
def replicates(engine, method, n):
    """Return (mass of the narrow mode, log evidence) of every replicate, all started in the wide mode."""
    found = []
    for i in range(n):
        size = (
            {"tuning": tp.Tuning(960), "draws": 640, "chains": 8}
            if method == "simulated"
            else {"tuning": tp.Tuning(960), "draws": 320}
        )
        if engine == "python":
            size = {"tuning": tp.Tuning(640), "draws": 320, "chains": 4 if method == "simulated" else 1}
        elif method == "parallel":
            size |= {"chains": 2}
        run = tp.sample(TARGETS[engine], initial=START, method=method, rng=i, progress=False, **size)
        assert run.path.has_two_legs
        found.append((float(run.expect(lambda x: x[..., 0] > 0).value), run.log_evidence().value))
    return np.array(found)


COUPLED = pytest.param("parallel", marks=pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["simulated", COUPLED])
def test_both_modes_and_the_evidence_of_a_bare_density_are_found(method):
    found = replicates("vector", method, 24)
    assert_mean_is([MASS, np.log(2 * np.pi)], found)
    assert_mean_is_not([0.0, np.log(2 * np.pi)], found)  # nor would the wide mode alone pass
    assert np.all(found.std(axis=0) < [0.12, 0.25])


@pytest.mark.long
@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_plain_python_finds_them_too(method):
    found = replicates("python", method, 12)
    assert_mean_is([MASS, np.log(2 * np.pi)], found)


def test_one_run_in_plain_python_is_within_its_own_errors():
    run = tp.sample(TARGETS["python"], initial=START, rng=1, tuning=tp.Tuning(640), draws=640, chains=4, progress=False)
    assert run.info.engine == "scalar (Python)"
    assert run.path.has_two_legs
    mass, evidence = run.expect(lambda x: x[..., 0] > 0), run.log_evidence()
    assert abs(mass.value - MASS) < 5 * mass.standard_error < 0.5
    assert abs(evidence.value - np.log(2 * np.pi)) < 5 * evidence.standard_error < 1.0


@pytest.mark.slow
def test_one_run_of_coupled_chains_is_within_its_own_errors():
    run = tp.sample(
        TARGETS["vector"],
        initial=START,
        method="parallel",
        rng=1,
        tuning=tp.Tuning(960),
        draws=640,
        chains=2,
        progress=False,
    )
    assert run.path.has_two_legs
    mass, evidence = run.expect(lambda x: x[..., 0] > 0), run.log_evidence()
    assert abs(mass.value - MASS) < 5 * mass.standard_error < 0.5
    assert abs(evidence.value - np.log(2 * np.pi)) < 5 * evidence.standard_error < 1.0


@cache
def posterior(method, with_draws):
    """Return (mean, log evidence) by replicate of N(2; x, 1) under N(0, 4) in each of two dimensions."""
    import jax

    def log_likelihood(x):
        return -0.5 * jnp.sum((x - 2.0) ** 2) - jnp.log(2 * jnp.pi)

    def log_prior(x):
        return -0.125 * jnp.sum(x**2) - jnp.log(8 * jnp.pi)

    draw = (lambda key: 2.0 * jax.random.normal(key, (2,))) if with_draws else None
    target = tp.Target.from_likelihood(log_likelihood, log_prior, draw)
    found = []
    for i in range(24):
        run = tp.sample(
            target,
            initial=None if with_draws else np.zeros(2),
            method=method,
            rng=i,
            tuning=tp.Tuning(640),
            draws=320,
            chains=8 if method == "simulated" else 2,
            progress=False,
        )
        assert run.path.has_two_legs
        assert (run.path.legs[0].source == 1) == with_draws
        found.append((*run.expect(lambda x: x).value, run.log_evidence().value))
    return np.array(found)


@pytest.mark.parametrize(
    ("method", "with_draws"),
    [
        ("simulated", True),
        pytest.param("parallel", True, marks=pytest.mark.long),
        pytest.param("simulated", False, marks=pytest.mark.long),
    ],
)
def test_a_prior_and_a_likelihood_give_the_posterior_and_its_evidence(method, with_draws):
    truth = [1.6, 1.6, -np.log(2 * np.pi * 5.0) - 4.0 / 5.0]
    assert_mean_is(truth, posterior(method, with_draws))
    assert_mean_is_not([1.6, 1.6, truth[2] + 0.3], posterior(method, with_draws))


@pytest.mark.slow
def test_a_run_that_asks_for_more_draws_gets_as_many_again(monkeypatch):
    """Unless their number was given; what is mended by no draw is left alone."""
    few = Effort(chains=8, draws=32)  # too few for any verdict
    monkeypatch.setattr("tempering.sampling.planning.usual_effort", lambda *known: few)
    call = {"initial": START, "tuning": tp.Tuning(640), "chains": 8, "rng": 1, "progress": False}
    gone_on = tp.sample(TARGETS["vector"], **call)
    as_asked = tp.sample(TARGETS["vector"], draws=32, **call)
    assert (gone_on.n_draws, as_asked.n_draws) == (64, 32)
    assert as_asked.diagnose().asks_for_draws
    np.testing.assert_array_equal(gone_on.rung[:, :32], as_asked.rung)
    monkeypatch.setattr("tempering.runs.diagnosis.Diagnosis.asks_for_draws", False)
    assert tp.sample(TARGETS["vector"], **call).n_draws == 32


def log_two_rooms(x):
    """Two rooms of areas 3 and 1, and nothing outside."""
    near = (jnp.abs(x[..., 0] + 2.0) < 1.5) & (jnp.abs(x[..., 1]) < 0.5)
    far = (jnp.abs(x[..., 0] - 2.0) < 0.5) & (jnp.abs(x[..., 1]) < 0.5)
    return jnp.where(near | far, 0.0, -jnp.inf)


def test_coupled_chains_start_inside_walls_that_the_safe_end_reaches_over():
    run = tp.sample(
        tp.Target(log_two_rooms), initial=np.array([-2.0, 0.0]), method="parallel", rng=1, tuning=tp.Tuning(960),
        draws=640, chains=2, progress=False,
    )  # fmt: skip
    mass, evidence = run.expect(lambda x: x[..., 0] > 0), run.log_evidence()
    assert abs(mass.value - 0.25) < 5 * mass.standard_error < 0.5
    assert abs(evidence.value - np.log(4.0)) < 5 * evidence.standard_error < 1.0


@pytest.mark.parametrize("n_safe", [1, 2, 6])
@pytest.mark.parametrize("n_quick", [1, 3])
def test_a_quarter_of_all_visits_is_aimed_at_the_safe_leg_however_useless_it_is(n_safe, n_quick):
    frame = Frame(has_prior=True, can_draw=True)
    q = one_around(np.zeros(1), np.ones(1), 5)
    path = frame.path(*(Ladder(np.linspace(1.0, 0.0, n + 1)) for n in (n_safe, n_quick)), (q,))
    steep = DensityOfStates.weighted(np.linspace(-500.0, 0.0, 200), np.zeros(200))
    flat = DensityOfStates.weighted(np.linspace(-1e-3, 0.0, 200), np.zeros(200))
    aim = aimed_visits(path, [steep, flat], "barrier", "simulated")
    assert aim.sum() == pytest.approx(1.0)
    assert aim[path.rungs_of(SAFE)[1:]].sum() == pytest.approx(0.25)
    useful = aimed_visits(path, [flat, steep], "barrier", "simulated")
    assert useful[path.rungs_of(SAFE)[1:]].sum() > 0.25
    assert np.all(useful > 0)
