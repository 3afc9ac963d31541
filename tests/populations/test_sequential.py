import blackjax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import tempering as tp
from seeds import shifted
from statistical import assert_mean_is, assert_mean_is_not, assert_variance_is_one, seeded_rng
from tempering.errors import SamplerError, TargetError
from tempering.estimators import combine
from tempering.estimators.resampling import next_inverse_temperature, systematic
from tempering.kernels import BlackJAX, RandomWalk
from tempering.learning.reference import fitted
from tempering.populations import pilot
from tempering.populations.populations import along_longest_axis
from tempering.populations.sequential import Replicates, sample_sequential
from tempering.problems import five_modes, likelihood_gaussian, mixture, ring
from tempering.target.layout import Layout

PROBLEM = likelihood_gaussian()
LIKELIHOOD = tp.Target.from_likelihood(PROBLEM.log_likelihood, PROBLEM.log_prior, PROBLEM.sample_prior)
VECTOR = Layout.of(np.zeros(3))


def run(target=LIKELIHOOD, layout=VECTOR, starts=(), kernel=None, *, seed=0, **options):
    how = {name: options.pop(name) for name in ("chains", "draws") if name in options}
    replicates = Replicates(seed=shifted(seed), **how)
    return sample_sequential(target, layout, starts, kernel or RandomWalk(), replicates, **options)


def combined(result, values, rule="mbar"):
    """Combine the rungs; all draws of a replicate are one unit, so that its spread is that between replicates."""
    return combine(
        np.swapaxes(values, 0, 1),
        None,
        result.rung.T,
        rule,
        energy=result.energy.T,
        inverse_temperatures=result.ladder.inverse_temperatures,
        chains_per_ensemble=values.shape[1],
        batch_length=1,
    )


@pytest.fixture(scope="module")
def regression():
    return run(draws=8000, chains=32, seed=11)


@pytest.mark.slow
def test_every_population_is_kept_with_its_rung_and_energy(regression):
    r = regression
    assert r.values.shape == (*r.rung.shape, 3)
    assert r.ladder[0] == 1.0
    assert r.ladder.hottest == 0.0
    assert np.all(np.bincount(r.rung[0]) == r.rung.shape[1] // len(r.ladder))
    np.testing.assert_allclose(r.energy, PROBLEM.log_likelihood(r.values), rtol=1e-10)
    moved = r.rung < len(r.ladder) - 1
    assert np.all(np.isnan(r.acceptance[~moved]))
    assert np.all((r.acceptance[moved] >= 0) & (r.acceptance[moved] <= 1))
    assert all(part.shape[0] == len(r.ladder) for part in r.settings[0])


def population_moments(result, rung):
    """Return mean and mean square of each replicate's population on a rung, one row a replicate."""
    here = result.rung[0] == rung
    return np.hstack([result.values[:, here].mean(axis=1), (result.values[:, here] ** 2).mean(axis=1)])


def test_every_population_is_its_own_rung_of_the_path(regression):
    for rung, k in enumerate(regression.ladder):
        mean, covariance = PROBLEM.posterior(k)
        assert_mean_is(np.append(mean, np.diag(covariance) + mean**2), population_moments(regression, rung))


def test_control_a_population_is_not_its_neighbours(regression):
    mean, covariance = PROBLEM.posterior(regression.ladder[2])
    assert_mean_is_not(np.append(mean, np.diag(covariance) + mean**2), population_moments(regression, 1))


def test_the_evidence_is_unbiased_and_its_error_is_right(regression):
    ratios = np.exp(regression.log_evidences - PROBLEM.log_evidence)
    assert_mean_is(1.0, ratios)
    assert_mean_is_not(1.0, ratios * np.exp(0.5))
    estimate = regression.log_evidence
    assert estimate.value == pytest.approx(np.log(ratios.mean()) + PROBLEM.log_evidence)
    assert estimate.standard_error == pytest.approx(ratios.std(ddof=1) / ratios.mean() / np.sqrt(32))


def test_all_rungs_together_tell_more_than_the_cold_one(regression):
    cold = combined(regression, regression.values, "cold_only")
    every = combined(regression, regression.values, "mbar")
    z = (every.estimate - PROBLEM.mean) / every.standard_error
    assert np.all(np.abs(z) < 6.6)  # 32 replicates, 3 quantities, 1e-6
    assert np.mean(np.log(every.standard_error / cold.standard_error)) < 0.0


@pytest.mark.long
def test_standard_errors_between_replicates_are_right_and_within_them_are_not():
    z, within = [], []
    for seed in range(40):
        r = run(draws=3000, chains=16, seed=seed)
        found = combined(r, r.values[..., 0])
        z.append((found.estimate - PROBLEM.mean[0]) / found.standard_error)
        k = r.ladder.inverse_temperatures
        naive = combine(r.values[..., 0], None, r.rung, "mbar", energy=r.energy, inverse_temperatures=k)
        within.append((naive.estimate - PROBLEM.mean[0]) / naive.standard_error)
    # a Student variable with 15 degrees of freedom has variance 15 / 13
    assert_variance_is_one(np.array(z) * np.sqrt(13 / 15))
    with pytest.raises(AssertionError, match="squared z-scores"):
        assert_variance_is_one(within)


@pytest.mark.slow
def test_a_blackjax_kernel_moves_the_populations():
    r = run(kernel=BlackJAX(blackjax.hmc, num_integration_steps=5), draws=3000, chains=24, seed=3)
    mean, covariance = PROBLEM.posterior(1.0)
    assert_mean_is(np.append(mean, np.diag(covariance) + mean**2), population_moments(r, 0))
    assert r.n_moves <= 8  # hardly ever rejected


@pytest.mark.slow
def test_a_powered_up_density_starts_from_a_fitted_reference():
    problem = ring()
    r = run(
        tp.Target(problem.log_density), Layout.of(problem.initial), (problem.initial,), draws=2000, chains=24, seed=5
    )
    masses = combined(r, 1.0 * (problem.mode_of(r.values)[..., None] == np.arange(8)))
    assert np.all(np.abs(masses.estimate - problem.weights) < 7.1 * masses.standard_error)
    assert np.all(masses.standard_error < 0.01)
    assert_mean_is(1.0, np.exp(r.log_evidences))


@pytest.mark.slow
def test_a_scalar_position_finds_both_modes_of_equation_10():
    problem = mixture()
    initial = np.asarray(problem.initial)
    r = run(tp.Target(problem.log_density), Layout.of(initial), (initial,), draws=2000, chains=24, seed=6)
    above = combined(r, 1.0 * (r.values[..., 0] > 0))
    truth = problem.sample(seeded_rng("eq 10"), 400_000) > 0
    assert abs(above.estimate - truth.mean()) < 7.1 * above.standard_error + 0.004


@pytest.mark.slow
def test_a_poor_reference_leaves_its_broad_component(monkeypatch):
    monkeypatch.setattr(fitted, "GOOD_SHARE", 2.0)  # no fit is that good
    target = tp.Target(PROBLEM.log_density)
    r = run(target, starts=(PROBLEM.initial,), draws=4000, chains=24, seed=7)
    assert len(r.ladder) >= 3
    mean, covariance = PROBLEM.posterior(1.0)
    assert_mean_is(np.append(mean, np.diag(covariance) + mean**2), population_moments(r, 0))
    assert_mean_is(1.0, np.exp(r.log_evidences - PROBLEM.log_evidence))


def test_positions_with_names_and_equal_seeds():
    layout = Layout.of({"a": np.zeros(2), "b": 0.0})
    target = tp.Target.from_likelihood(
        lambda p: -0.5 * jnp.sum((p["a"] - 1.0) ** 2) - p["b"] ** 2,
        lambda p: -0.5 * (jnp.sum(p["a"] ** 2) + p["b"] ** 2),
        lambda key: layout.unflatten(PROBLEM.sample_prior(key)),
    )
    one, two = (run(target, layout, draws=500, chains=3, seed=8) for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)
    assert one.values.shape[-1] == 3


def test_the_report_hears_of_the_pilot_and_of_every_draw():
    heard = []
    r = run(draws=600, chains=4, seed=9, report=lambda done, line: heard.append((done, line)))
    assert heard[0][1].startswith("pilot: ")
    assert sum(done for done, _ in heard) + r.rung.shape[1] // len(r.ladder) == r.rung.shape[1]


# --- populations ---------------------------------------------------------------------------------


def test_systematic_resampling_takes_each_its_share_rounded_up_or_down():
    rng = seeded_rng("systematic")
    weights = rng.dirichlet(np.full(20, 0.3))
    counts = np.array([np.bincount(systematic(rng, np.log(weights), 50), minlength=20) for _ in range(2000)])
    assert np.all((counts >= np.floor(50 * weights)) & (counts <= np.ceil(50 * weights)))
    moving = (counts.std(axis=0) > 0) & (50 * weights > 0.02)
    assert_mean_is(50 * weights[moving], counts[:, moving])
    assert_mean_is_not(50 * np.sort(weights)[moving], counts[:, moving])


def test_in_the_order_of_the_longest_axis_two_clusters_keep_their_shares():
    rng = seeded_rng("clusters")
    above = rng.random(400) < 0.3
    values = rng.normal(size=(400, 4)) + 8.0 * above[:, None] * [0.5, -0.5, 0.5, 0.5]
    order = np.argsort(along_longest_axis(values))
    log_w = rng.normal(size=400)
    share = np.exp(logsumexp(log_w[above]) - logsumexp(log_w))
    kept = np.array([np.mean(above[order[systematic(rng, log_w[order], 50)]]) for _ in range(200)])
    assert np.all(np.abs(kept - share) < 1.01 / 50)
    unordered = np.array([np.mean(above[systematic(rng, log_w, 50)]) for _ in range(200)])
    assert np.any(np.abs(unordered - share) > 1.5 / 50)


def test_the_next_temperature_keeps_the_share_asked_for():
    energy = seeded_rng("next").normal(-30.0, 8.0, size=300)
    k = next_inverse_temperature(energy, 0.2, 0.6)
    log_w = (k - 0.2) * energy
    assert np.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w)) / 300 == pytest.approx(0.6, abs=1e-6)
    assert next_inverse_temperature(np.append(energy, [-np.inf] * 500), 0.2, 0.6) == pytest.approx(k)
    assert next_inverse_temperature(1e-3 * energy, 0.2, 0.6) == 1.0


# --- bad input -----------------------------------------------------------------------------------


def test_bad_input_is_refused_in_words():
    with pytest.raises(SamplerError, match="at least 2, but it is 1"):
        run(chains=1)
    opaque = tp.Target(lambda x: float(np.sum(np.asarray(x))))
    with pytest.raises(TargetError, match="JAX can trace"):
        run(opaque, starts=(np.zeros(3),))
    nowhere = tp.Target.from_likelihood(
        lambda x: jnp.where(x[0] > 1e6, 0.0, -jnp.inf), PROBLEM.log_prior, PROBLEM.sample_prior
    )
    with pytest.raises(SamplerError, match="-inf at all 512"):
        run(nowhere)


def test_what_is_not_a_number_is_outside_the_support():
    nan = tp.Target.from_likelihood(lambda x: jnp.log(x[0]), PROBLEM.log_prior, PROBLEM.sample_prior)
    r = run(nan, draws=400, chains=4)
    assert np.all(r.values[r.rung == 0][:, 0] > 0)


def test_a_path_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(pilot, "MAX_RUNGS", 3)
    with pytest.raises(SamplerError, match=r"no more than 3 temperatures, but after so many k is only"):
        run(draws=200, chains=2)


def test_part_of_the_base_may_lie_outside_the_support():
    half = tp.Target.from_likelihood(
        lambda x: jnp.where(x[0] > 0.0, 0.0, -jnp.inf), PROBLEM.log_prior, PROBLEM.sample_prior
    )
    r = run(half, draws=2000, chains=24, seed=10)
    share = np.mean(PROBLEM.sample(seeded_rng("half"), 400_000, k=0.0)[:, 0] > 0)
    assert_mean_is(share, np.exp(r.log_evidences), false_alarm_rate=1e-7)
    assert np.all(r.values[r.rung == 0][:, 0] > 0)


@pytest.mark.slow
def test_the_masses_of_five_modes_from_one_start_in_each_basin():
    problem = five_modes()
    rng = seeded_rng("five modes by populations")
    starts = tuple(problem.means + problem.sds * rng.standard_normal(problem.means.shape))
    r = run(tp.Target(problem.log_density), Layout.of(starts[0]), starts, draws=3000, chains=16, seed=12)
    masses = combined(r, 1.0 * (problem.mode_of(r.values)[..., None] == np.arange(5)))
    assert masses.estimate == pytest.approx(problem.weights, abs=0.02)
