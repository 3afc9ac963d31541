"""The posteriors on data: their densities against slow twins, their symmetries, and their stored truths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering import problems
from tempering.errors import TargetError
from tempering.problems.sensors import _PAIRS, KNOWN, NOISE, REACH

PROBLEMS = {
    "labels": problems.label_switching(),
    "sensors": problems.sensors(),
    "logistic": problems.logistic(),
}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def points(problem, n=5):
    return problem.prior.sample(seeded_rng("posteriors"), n)


def slow_labels(problem, x):
    means, sds, logits = x[:3], np.exp(x[3:6]), x[6:]
    weights = np.exp(logits) / np.exp(logits).sum()
    density = sum(w * stats.norm.pdf(problem.data, m, s) for w, m, s in zip(weights, means, sds, strict=True))
    return np.log(density).sum()


def slow_sensors(problem, x):
    at = np.concatenate([x.reshape(4, 2), KNOWN])
    total = 0.0
    for (i, j), seen in zip(_PAIRS, problem.distances, strict=True):
        d = np.linalg.norm(at[i] - at[j])
        chance = np.exp(-(d**2) / (2 * REACH**2))
        total += np.log(chance) + stats.norm.logpdf(seen, d, NOISE) if seen >= 0 else np.log1p(-chance)
    return total


def slow_logistic(problem, x):
    chance = 1 / (1 + np.exp(-problem.design @ x))
    return np.sum(np.log(np.where(problem.outcomes == 1, chance, 1 - chance)))


SLOW = {"labels": slow_labels, "sensors": slow_sensors, "logistic": slow_logistic}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_likelihood_agrees_with_one_written_out(name):
    problem = PROBLEMS[name]
    x = problem.prior.mean + 0.3 * (points(problem) - problem.prior.mean)
    np.testing.assert_allclose(problem.log_likelihood(x), [SLOW[name](problem, row) for row in x], rtol=1e-9)


def test_the_prior_is_the_product_of_its_normals(problem):
    x = points(problem)
    expected = stats.norm.logpdf(x, problem.prior.mean, problem.prior.sd).sum(axis=1)
    np.testing.assert_allclose(problem.log_prior(x), expected, rtol=1e-12)


@pytest.mark.slow
def test_numpy_and_jax_agree_and_gradients_are_finite(problem):
    x = points(problem)
    with jax.enable_x64(True):
        traced = jax.jit(jax.vmap(problem.log_density))(jnp.asarray(x))
        np.testing.assert_allclose(traced, problem.log_density(x), rtol=1e-10)
        assert np.all(np.isfinite(jax.vmap(jax.grad(problem.log_density))(jnp.asarray(x))))


def test_relabelling_the_components_changes_the_mode_and_nothing_else():
    problem = PROBLEMS["labels"]
    x = points(problem, 1)[0]
    relabelled = np.stack([x.reshape(3, 3)[:, list(p)].reshape(-1) for p in ([0, 1, 2], [2, 0, 1], [1, 0, 2])])
    np.testing.assert_allclose(problem.log_density(relabelled), problem.log_density(x), rtol=1e-12)
    np.testing.assert_allclose(problem.summaries(relabelled), problem.summaries(x)[None].repeat(3, 0))
    assert len(set(problem.mode_of(relabelled).tolist())) == 3


def test_mirroring_a_sensor_on_the_line_of_the_known_ones_changes_its_bit_alone():
    problem = PROBLEMS["sensors"]
    x = problem.initial
    along = (KNOWN[1] - KNOWN[0]) / np.linalg.norm(KNOWN[1] - KNOWN[0])
    offset = x[:2] - KNOWN[0]
    mirrored = np.concatenate([KNOWN[0] + 2 * (offset @ along) * along - offset, x[2:]])
    assert problem.mode_of(mirrored) == problem.mode_of(x) ^ 1
    both_known = [i for i, pair in enumerate(_PAIRS) if pair in ((0, 4), (0, 5))]
    assert np.all(problem.distances[both_known] >= 0)  # so the mirror image is a mode


@pytest.mark.slow
def test_the_stored_truth_of_the_logistic_regression_is_that_of_weighted_draws():
    """Importance sampling from a Student distribution at the mode, apart from all of the package's samplers."""
    problem = PROBLEMS["logistic"]
    rng, truth = seeded_rng("logistic truth"), problem.truth
    mode, covariance = laplace(problem)
    proposal = stats.multivariate_t(mode, covariance, df=8, seed=rng)
    ratios = []
    for _ in range(24):
        x = proposal.rvs(200)
        ratios.append(np.exp(problem.log_density(x) - proposal.logpdf(x) - truth.log_evidence).mean())
    assert_mean_is(1.0, ratios)
    assert_mean_is_not(np.exp(0.1), ratios)


def laplace(problem):
    """Return mode and inverse curvature, by Newton's method."""
    x = problem.initial
    for _ in range(30):
        chance = 1 / (1 + np.exp(-problem.design @ x))
        gradient = problem.design.T @ (problem.outcomes - chance) - x
        curvature = (problem.design * (chance * (1 - chance))[:, None]).T @ problem.design + np.eye(len(x))
        x = x + np.linalg.solve(curvature, gradient)
    return x, np.linalg.inv(curvature)


def test_a_truth_that_was_never_computed_is_asked_for_in_vain():
    with pytest.raises(TargetError, match="not stored"):
        problems.Truth.stored("nobody")


def test_truths_are_what_their_shapes_and_laws_ask_for(problem):
    truth = problem.truth
    assert truth.mode_masses.shape == (problem.n_modes,)
    assert truth.mode_masses.sum() == pytest.approx(1.0, abs=1e-9)
    assert truth.mean.shape == truth.sd.shape == problem.summaries(problem.initial).shape
    assert np.all(truth.sd > 0)
