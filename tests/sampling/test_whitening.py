"""When correlations at a summit are taken for those of the target, and what runs in such coordinates say."""

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering import problems
from tempering.learning.reference.surface import Surface
from tempering.sampling.whitening import whitening
from tempering.target.layout import Layout

D = 24
LAG = np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
COVARIANCE = 0.95**LAG * np.outer(1.0 + np.arange(D) % 3, 1.0 + np.arange(D) % 3)
PRECISION = np.linalg.inv(COVARIANCE)
CENTRE = np.linspace(-2.0, 3.0, D)
LOG_Z = 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]


def log_neighbours(x):
    """A normal density of neighbours that are much alike: no few directions make it up."""
    return -0.5 * (x - CENTRE) @ PRECISION @ (x - CENTRE)


def found_for(log_density, start):
    start = np.asarray(start, float)
    return whitening(Surface(log_density, start.size), Layout.of(start), start, seeded_rng("tried"))


def test_a_normal_density_is_round_in_its_coordinates():
    found = found_for(log_neighbours, np.zeros(D))
    np.testing.assert_allclose(found.centre, CENTRE, atol=1e-3)
    np.testing.assert_allclose(np.linalg.det(found.factor), 1.0)
    np.testing.assert_allclose(found.factor @ found.inverse, np.eye(D), atol=1e-9)
    seen = found.factor.T @ PRECISION @ found.factor
    np.testing.assert_allclose(seen, seen[0, 0] * np.eye(D), atol=1e-7 * seen[0, 0])
    assert np.linalg.cond(PRECISION) > 1e3


@pytest.mark.parametrize("name", ["many-well-32", "funnel-30", "shells-30", "rosenbrock-pairs-30", "twin-modes-32"])
def test_coordinates_stay_where_a_summit_says_nothing_of_correlations(name):
    """Without correlations, on a ridge, in a valley that bends: Laplace's approximation is no better or far worse."""
    target = problems.suite()[name]
    assert found_for(target.log_density, target.initial) is None


def test_a_start_off_the_support_says_nothing():
    assert found_for(lambda x: jnp.where(x[0] > 1.0, log_neighbours(x), -jnp.inf), np.zeros(D)) is None


def log_prior(position):
    return -0.5 * (jnp.sum(position["left"] ** 2) + position["right"] ** 2) / 100.0 - 0.5 * D * jnp.log(200 * jnp.pi)


def log_likelihood(position):
    x = jnp.concatenate([position["left"], jnp.atleast_1d(position["right"])])
    return log_neighbours(x)


def draw_prior(key):
    x = 10.0 * jax.random.normal(key, (D,))
    return {"left": x[:-1], "right": x[-1]}


POSTERIOR = np.linalg.inv(PRECISION + np.eye(D) / 100.0)
MEAN = POSTERIOR @ PRECISION @ CENTRE
WHOLE = COVARIANCE + 100.0 * np.eye(D)
EVIDENCE = LOG_Z - 0.5 * np.linalg.slogdet(2 * np.pi * WHOLE)[1] - 0.5 * CENTRE @ np.linalg.solve(WHOLE, CENTRE)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["draws", "sums"])
def test_a_posterior_is_met_in_its_own_names(keep):
    target = tp.Target.from_likelihood(log_likelihood, log_prior, draw_prior)
    shown = {"left": lambda left, right: left, "right": lambda left, right: right}
    run = tp.sample(
        target, rng=1, tuning=tp.Tuning(960), draws=960, chains=16, progress=False,
        keep="draws" if keep == "draws" else tp.Sums(shown),
    )  # fmt: skip
    left, right = (run.expect(f) for f in shown.values()) if keep == "draws" else (run.expect(n) for n in shown)
    z = (np.append(left.value, right.value) - MEAN) / np.append(left.standard_error, right.standard_error)
    assert np.max(np.abs(z)) < 6.0
    assert np.max(np.append(left.standard_error, right.standard_error) / np.sqrt(np.diagonal(POSTERIOR))) < 0.1
    evidence = run.log_evidence()
    assert abs(evidence.value - EVIDENCE) < 5 * evidence.standard_error < 0.5


LONG = 144  # beyond what mixtures of all coordinates are fitted in


def log_chain(x):
    """Sites of a chain that are much like their neighbours, held at 0 at both ends: a condition of 5,000."""
    steps = jnp.diff(jnp.concatenate([jnp.zeros(1), x, jnp.zeros(1)]))
    return -0.5 * jnp.sum((x - 1.0) ** 2) - 0.5 * 1_250.0 * jnp.sum(steps**2)


def chain_truth():
    """Return the mean and the log integral."""
    precision = np.eye(LONG) * (1.0 + 2_500.0) - 1_250.0 * (np.eye(LONG, k=1) + np.eye(LONG, k=-1))
    mean = np.linalg.solve(precision, np.ones(LONG))
    return mean, 0.5 * (mean @ precision @ mean - LONG + LONG * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1])


def run_of_the_chain():
    how = {"tuning": tp.Tuning(640), "draws": 1_280, "chains": 8, "rng": 1, "progress": False}
    return tp.sample(tp.Target(log_chain), initial=np.zeros(LONG), **how)


@pytest.mark.slow
def test_a_stiff_chain_of_sites_is_sampled_from(monkeypatch):
    """Control: in plain coordinates four leapfrog steps go a twentieth of the way, and no mixture is near."""
    mean, log_z = chain_truth()
    run = run_of_the_chain()
    found, evidence = run.expect(lambda x: x), run.log_evidence()
    assert abs(evidence.value - log_z) < 5 * evidence.standard_error < 1.0
    assert np.max(np.abs(found.value - mean) / found.standard_error) < 6.0
    monkeypatch.setattr("tempering.sampling.sample.whitened", lambda plan: plan)
    plain = run_of_the_chain()
    assert np.mean(plain.expect(lambda x: x).standard_error) > 3.0 * np.mean(found.standard_error)


@pytest.mark.slow
def test_workers_checkpoints_and_more_draws_change_nothing(tmp_path):
    size = {"tuning": tp.Tuning(320), "chains": 8, "rng": 1, "progress": False, "initial": np.zeros(D)}
    target = tp.Target(log_neighbours)
    whole = tp.sample(target, draws=96, **size)
    with ThreadPoolExecutor(2) as pool:
        spread = tp.sample(target, draws=96, execution=tp.Execution(executor=pool, checkpoint=tmp_path / "run"), **size)
    np.testing.assert_array_equal(spread.values["x"], whole.values["x"])
    again = tp.sample(target, draws=96, execution=tp.Execution(checkpoint=tmp_path / "run"), **size)
    np.testing.assert_array_equal(again.values["x"], whole.values["x"])
    longer = tp.sample(target, draws=64, **size).more(32)
    np.testing.assert_array_equal(longer.values["x"], whole.values["x"])
    np.testing.assert_allclose(whole.terms[0, 0, 0], log_neighbours(whole.values["x"][0, 0]), rtol=1e-5)
