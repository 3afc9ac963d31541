"""Log densities that are concave for sure: begun at their one summit, without heating, along one leg (level 5).

Means and evidence of short runs over independent seeds are compared with the truth by Student's t: of a density with a
cusp at its summit, of one that is steep on one side, and of a posterior whose prior is normalised or is not.
"""

from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import tempering as tp
from statistical import assert_mean_is, assert_mean_is_not
from tempering.path import Ladder
from tempering.sampling import prior_constant
from tempering.sampling.prior_constant import is_normalised
from tempering.target.layout import Layout

SHORT = {"tuning": tp.Tuning(320), "draws": 400, "chains": 8, "progress": False}
N = 24


def gumbel_and_cusp(x):
    """A Gumbel distribution with mean 0.5772 beside Laplace's of scale 3 around 2, both normalised."""
    return -x[0] - jnp.exp(-x[0]) - jnp.abs(x[1] - 2.0) / 3.0 - np.log(6.0)


Y, NOISE, WIDTH = np.array([0.4, 1.1, -0.3, 2.0, 1.2]), 0.7, 2.0
PRECISION = 1 / WIDTH**2 + len(Y) / NOISE**2
COVARIANCE = NOISE**2 * np.eye(len(Y)) + WIDTH**2
LOG_Z = -0.5 * (Y @ np.linalg.solve(COVARIANCE, Y) + np.linalg.slogdet(2 * np.pi * COVARIANCE)[1])


def log_likelihood(x):
    return jnp.sum(-0.5 * ((Y - x[0]) / NOISE) ** 2 - np.log(NOISE) - 0.5 * np.log(2 * np.pi))


def log_prior(x):
    return -0.5 * jnp.sum(x**2) / WIDTH**2 - np.log(WIDTH) - 0.5 * np.log(2 * np.pi)


def sample_prior(key):
    return WIDTH * jax.random.normal(key, (1,))


def posterior(missing=0.0):
    return tp.Target.from_likelihood(log_likelihood, lambda x: log_prior(x) + missing, sample_prior)


def found(target, f, n=N, **start):
    runs = [tp.sample(target, rng=seed, **SHORT, **start) for seed in range(n)]
    assert all(len(run.path.legs[0].ladder) == 1 for run in runs)
    return np.array([[*np.ravel(run.expect(f).value), run.log_evidence().value] for run in runs]), runs


def test_means_and_evidence_are_right_at_a_cusp_and_on_a_slope():
    target = tp.Target(gumbel_and_cusp)
    rows, _ = found(
        target, lambda x: np.stack([x[..., 0], x[..., 1], x[..., 1] > 5.0], -1), initial=np.array([3.0, -8.0])
    )
    truth = [np.euler_gamma, 2.0, 0.5 * np.exp(-1.0), 0.0]
    assert_mean_is(truth, rows)
    assert_mean_is_not([np.euler_gamma + 0.05, 2.0, 0.5 * np.exp(-1.0), 0.0], rows)


def test_the_evidence_of_a_posterior_is_known_by_the_quick_leg_alone():
    rows, runs = found(posterior(), lambda x: x[..., 0])
    assert_mean_is([Y.sum() / NOISE**2 / PRECISION, LOG_Z], rows)
    assert_mean_is_not([Y.sum() / NOISE**2 / PRECISION, LOG_Z + 0.02], rows)
    evidence = runs[0].log_evidence()
    assert next(iter(evidence.by_method)) == "mbar, quick leg"
    assert evidence.is_absolute
    assert runs[0].n_round_trips > 20


@pytest.mark.parametrize("missing", [0.5, -np.log(WIDTH), 3.0])
def test_a_constant_that_the_prior_lacks_is_seen_and_is_no_part_of_the_evidence(missing):
    layout = Layout.of(np.zeros(1))
    assert is_normalised(posterior(), layout)
    assert not is_normalised(posterior(missing), layout)
    run = tp.sample(posterior(missing), rng=1, **SHORT)
    assert len(run.path.legs[0].ladder) > 1
    evidence = run.log_evidence()
    assert abs(evidence.value - LOG_Z) < 5 * evidence.standard_error
    assert abs(evidence.by_method["mbar, safe leg"].value - LOG_Z) < 0.2


@pytest.mark.parametrize("d", [2, 40, 100])
def test_priors_of_many_coordinates_are_known_to_be_normalised(d):
    root = np.tril(0.3 * np.ones((d, d))) + np.eye(d) if d == 2 else 2.0 * np.eye(d)
    log_volume = np.log(np.diagonal(root)).sum() + 0.5 * d * np.log(2 * np.pi)
    for missing in (0.0, 0.3):
        target = tp.Target.from_likelihood(
            log_likelihood,
            lambda x, missing=missing: -0.5 * jnp.sum((np.linalg.inv(root) @ x) ** 2) - log_volume + missing,
            lambda key: root @ jax.random.normal(key, (d,)),
        )
        assert is_normalised(target, Layout.of(np.zeros(d))) is (missing == 0.0)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_field_of_many_cells_is_known_to_be_normalised_by_its_curvature(monkeypatch, missing):
    """Draws say too little of 400 correlated coordinates: weights around them are tiny, and so is their error."""
    d = 400
    root = np.linalg.cholesky(np.exp(-np.abs(np.subtract.outer(np.arange(d), np.arange(d))) / 40.0))
    inverse, log_volume = np.linalg.inv(root), np.log(np.diagonal(root)).sum() + 0.5 * d * np.log(2 * np.pi)
    target = tp.Target.from_likelihood(
        log_likelihood,
        lambda x: -0.5 * jnp.sum((inverse @ x) ** 2) - log_volume + missing,
        lambda key: root @ jax.random.normal(key, (d,)),
    )
    assert is_normalised(target, Layout.of(np.zeros(d))) is (missing == 0.0)
    by_draws = prior_constant._surroundings
    monkeypatch.setattr(prior_constant, "_surroundings", lambda *a: islice(by_draws(*a), 1))
    is_normalised.cache_clear()
    assert not is_normalised(target, Layout.of(np.zeros(d)))  # control


def test_a_density_without_an_integral_is_not_begun_at_a_summit():
    """Logistic regression of data that a line parts, with a flat prior: it rises for ever."""
    x = np.array([-2.0, -1.0, 1.5, 3.0])
    target = tp.Target(lambda b: jnp.sum(jax.nn.log_sigmoid(np.sign(x) * (b[0] * x))))
    run = tp.sample(target, initial=np.zeros(1), rng=1, **SHORT)
    assert not run.diagnose().is_good


MANY = 160
TURNED = np.linalg.qr(np.random.default_rng(3).normal(size=(MANY, MANY)))[0]
TURNED = TURNED * np.exp(0.5 * np.random.default_rng(4).normal(size=MANY))[:, None]
LOG_STRETCH = np.linalg.slogdet(TURNED)[1]


def skewed_field(x):
    """Independent Gumbel coordinates, seen in others: normalised, and of mean 0.5772 each."""
    y = TURNED @ x
    return jnp.sum(-y - jnp.exp(-y)) + LOG_STRETCH


@pytest.mark.slow
def test_many_dimensions_are_begun_at_the_summit_too():
    """Draws of the normal approximation are worth nothing there (level 5), and errors are stated rightly (level 7)."""
    target = tp.Target(skewed_field)
    rows, runs = found(
        target, lambda x: np.stack([(x @ TURNED.T).mean(-1), (x @ TURNED.T)[..., 0] > 1.0], -1), initial=np.zeros(MANY)
    )
    truth = [np.euler_gamma, 1.0 - np.exp(-np.exp(-1.0)), 0.0]
    assert_mean_is(truth, rows)
    assert_mean_is_not([np.euler_gamma + 0.03, *truth[1:]], rows)
    assert_mean_is_not([*truth[:2], 0.4], rows)
    errors = [
        [r.expect(lambda x: (x @ TURNED.T).mean(-1)).standard_error, r.log_evidence().standard_error] for r in runs
    ]
    z = (rows[:, [0, 2]] - [np.euler_gamma, 0.0]) / errors
    cut = chi2.isf([1e-6 / 4, 1 - 1e-6 / 4], N)
    assert np.all((z**2).sum(axis=0) < cut[0])
    assert np.all((z**2).sum(axis=0) > cut[1])
    assert np.all(((5.0 * z) ** 2).sum(axis=0) > cut[0])  # control: errors a fifth as large


@pytest.mark.slow
def test_many_dimensions_without_an_integral_are_flagged():
    """Logistic regression of data that a plane parts, with a flat prior."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 150))
    y = np.sign(x @ rng.normal(size=150))
    target = tp.Target(lambda b: jnp.sum(jax.nn.log_sigmoid(y * (x @ b))))
    run = tp.sample(target, initial=np.zeros(150), rng=1, **SHORT)
    assert not run.diagnose().is_good


@pytest.mark.parametrize("method", ["simulated", "parallel"])
def test_runs_that_begin_at_the_summit_are_continued_joined_and_summed(method):
    options = SHORT | {"chains": 4 if method == "parallel" else 8, "method": method}
    run = tp.sample(posterior(), rng=3, keep="rounds", **options)
    more = run.more(100)
    assert more.n_draws == run.n_draws + 100
    assert np.all(np.isfinite(run.expect(lambda x: x).standard_error))
    if method == "simulated":
        joined = tp.join([*run.rounds, run])
        assert abs(joined.log_evidence().value - LOG_Z) < 0.2
        sums = tp.sample(posterior(), rng=3, keep=tp.Sums({"x": lambda x: x[..., 0]}), **SHORT)
        assert sums.n_round_trips == tp.sample(posterior(), rng=3, **SHORT).n_round_trips
        assert abs(sums.log_evidence().value - LOG_Z) < 0.2
        assert sums.diagnose().is_good


def test_round_trips_lead_to_the_end_that_a_path_has():
    run = tp.sample(posterior(), rng=3, **SHORT)
    assert run.path.far_end == 0 < run.path.target
    assert len(run.path.legs[0].ladder) == 1
    heated = tp.sample(posterior(1.0), rng=3, **SHORT)
    assert heated.path.far_end == len(heated.path) - 1 > heated.path.target
    assert tp.path.Path.powers(Ladder([1.0, 0.5])).far_end == 1
