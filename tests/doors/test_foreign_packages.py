"""Arrays that the samplers themselves handed out (`make_foreign_draws.py`) are read as what they are.

Every energy must be that of its values, every rung must have the moments of its own inverse temperature, and all
together those of k = 1, which are known exactly. Misreadings that a user might fall for are seen.
"""

from pathlib import Path

import make_foreign_draws as made
import numpy as np
import pytest
from scipy import stats

from statistical import FALSE_ALARM_RATE
from tempering.doors import foreign
from tempering.problems.gaussian_likelihood import GaussianLikelihood

PROBLEM = GaussianLikelihood(made.DESIGN, made.DATA, made.PRIOR_MEAN, made.PRIOR_SD, made.NOISE_SD)
CONSTANT = len(made.DATA) * (np.log(made.NOISE_SD) + 0.5 * np.log(2 * np.pi))  # left out by the samplers
VERSIONS = {
    "ptemcee": "1.0.0", "eryn": "1.2.6", "emcee": "3.1.6", "tensorflow_probability": "0.25.0", "blackjax": "1.7.1",
}  # fmt: skip


def stored(name):
    with np.load(Path(__file__).parent / "data" / f"{name}.npz") as arrays:
        return dict(arrays)


def read_ptemcee():
    a = stored("ptemcee")
    return foreign.from_ptemcee(a["chain"], a["loglikelihood"], a["betas"])


def read_eryn():
    a = stored("eryn")
    return foreign.from_eryn({"x": a["chain"]}, a["log_like"], a["betas"])


def read_emcee():
    a = stored("emcee")
    k = a["inverse_temperatures"]
    return foreign.from_emcee(a["chain"], a["log_prob"] / k[:, None, None], k)


def read_tfp():
    a = stored("tensorflow_probability")
    return foreign.from_tfp(a["states"], a["target_log_prob"], a["inverse_temperatures"], is_powered=False)


def read_blackjax():
    a = stored("blackjax")
    return foreign.from_blackjax_smc(a["particles"], a["tempering_param"], made.log_likelihood(a["particles"]))


READERS = {
    "ptemcee": read_ptemcee, "eryn": read_eryn, "emcee": read_emcee, "tensorflow_probability": read_tfp,
    "blackjax": read_blackjax,
}  # fmt: skip


def positions(run):
    return np.asarray(run.values["x"]).reshape(*run.rung.shape, 2)


def moments(k, is_powered):
    """Return the exact mean and covariance at k: of prior x likelihood^k, or of (prior x likelihood)^k."""
    mean, covariance = PROBLEM.posterior(1.0 if is_powered else k)
    return mean, covariance / (k if is_powered else 1.0)


def z_scores(run):
    """Return how far the means of every rung lie from the truth, in standard errors between walkers' batches."""
    found = []
    x = positions(run)
    for i, k in enumerate(run.ladder):
        mine = x[run.rung == i].reshape(-1, 2)
        if len(mine) == 0:
            continue
        mean, covariance = moments(k, run.is_powered)
        whitened = np.linalg.solve(np.linalg.cholesky(covariance), (mine - mean).T).T
        for h in (whitened, whitened**2 - 1):
            # rows come walker by walker, in time order (particles by kinship): batches of them are nearly independent
            batches = np.array([part.mean(axis=0) for part in np.array_split(h, 24)])
            found.append(batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / np.sqrt(24)))
    return np.ravel(found)


def cut(scores):
    return stats.t.isf(FALSE_ALARM_RATE / len(scores) / 2, 23)


@pytest.mark.parametrize("name", READERS)
def test_every_energy_is_that_of_its_values(name):
    run = READERS[name]()
    x = positions(run)
    energy = made.log_likelihood(x) + (made.log_prior(x) if run.is_powered else 0.0)
    np.testing.assert_allclose(run.energy, energy, rtol=1e-9, atol=1e-9)
    assert str(stored(name)["version"]) == VERSIONS[name]


@pytest.mark.parametrize("name", READERS)
def test_every_rung_has_the_moments_of_its_temperature(name):
    scores = z_scores(READERS[name]())
    assert np.max(np.abs(scores)) < cut(scores), scores.round(1)


@pytest.mark.parametrize("name", READERS)
def test_all_rungs_together_give_the_cold_mean_and_the_evidence(name):
    run = READERS[name]()
    mean = run.expect(lambda x: x.reshape(*run.rung.shape, 2))
    assert np.all(np.abs(mean.value - PROBLEM.mean) < 6 * mean.standard_error)
    assert np.all(mean.standard_error < 0.2 * np.sqrt(np.diag(PROBLEM.covariance)))
    if not run.is_powered:
        exact = PROBLEM.log_normaliser(1.0) - PROBLEM.log_normaliser(run.ladder.hottest)
        evidence = run.log_evidence()
        shift = (1.0 - run.ladder.hottest) * CONSTANT
        assert abs(evidence.value - shift - exact) < 6 * evidence.standard_error < 0.5


def hot_for_cold(name):
    a = stored(name)
    chain, energy = a["chain"][::-1], a["loglikelihood"][::-1]
    return foreign.from_ptemcee(chain, energy, a["betas"])


def test_control_temperatures_in_reverse_are_seen():
    scores = z_scores(hot_for_cold("ptemcee"))
    assert np.max(np.abs(scores)) > 1.3 * cut(scores)


def test_control_smc_particles_at_their_states_own_temperature_are_seen():
    a = stored("blackjax")
    k = np.repeat(a["tempering_param"], a["particles"].shape[1])[None]
    energy = made.log_likelihood(a["particles"]).reshape(1, -1)
    scores = z_scores(foreign.from_arrays({"x": a["particles"].reshape(1, -1, 2)}, k, energy))
    assert np.max(np.abs(scores)) > 1.3 * cut(scores)


def test_control_what_tfp_calls_potential_energy_belongs_to_the_states_before_the_exchange():
    a = stored("tensorflow_probability")
    assert np.max(np.abs(-a["potential_energy"] - made.log_likelihood(a["states"]))) > 1.0
    before, after = np.sort(-a["potential_energy"], axis=1), np.sort(a["target_log_prob"], axis=1)
    np.testing.assert_allclose(before, after, rtol=1e-9)  # the same, otherwise ordered


def test_control_ptemcees_log_probability_has_the_prior_in_it():
    a = stored("ptemcee")
    assert np.max(np.abs(a["logprobability"] - made.log_likelihood(a["chain"]))) > 1.0
