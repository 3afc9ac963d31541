"""ptemcee's and emcee's shapes: the arrays those packages hand out, and exact answers through them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tempering as tp
from tempering.doors import emcee, ptemcee

BOX = 20.0


def log_likelihood(x, centre):
    return -0.5 * np.sum((x - centre) ** 2) / 0.25


def log_prior(x, half):
    return -2 * np.log(2 * half) if np.all(np.abs(x) < half) else -np.inf


LOG_EVIDENCE = np.log(2 * np.pi * 0.25 / BOX**2)


@pytest.fixture(scope="module")
def sampler():
    made = ptemcee.Sampler(
        6, 2, log_likelihood, log_prior, betas=[1.0, 0.3, 0.08, 0.01, 0.0], loglargs=[np.array([1.0, 2.0])],
        logpkwargs={"half": BOX / 2}, random=3,
    )  # fmt: skip
    made.run_mcmc(np.random.default_rng(0).uniform(-5, 5, (5, 6, 2)), 64)
    made.reset()
    made.run_mcmc(iterations=400, thin=2)
    return made


def test_ptemcees_attributes_have_its_shapes(sampler):
    assert sampler.chain.shape == (5, 6, 200, 2)
    assert sampler.flatchain.shape == (5, 1200, 2)
    assert sampler.loglikelihood.shape == sampler.logprobability.shape == (5, 6, 200)
    assert sampler.acceptance_fraction.shape == (5, 6)
    assert sampler.tswap_acceptance_fraction.shape == (5,)
    assert sampler.acor.shape == (5, 2)
    assert sampler.ntemps == 5
    np.testing.assert_array_equal(sampler.betas, [1.0, 0.3, 0.08, 0.01, 0.0])  # cold first, as the rows of chain


def test_likelihoods_belong_to_their_positions(sampler):
    x = sampler.chain[2, 3, 7]
    own = log_likelihood(x, np.array([1.0, 2.0]))
    assert sampler.loglikelihood[2, 3, 7] == pytest.approx(own, rel=1e-12)
    assert sampler.logprobability[2, 3, 7] == pytest.approx(0.08 * own + log_prior(x, BOX / 2), rel=1e-12)
    spread = sampler.chain.std(axis=(1, 2)).mean(axis=1)
    assert np.all(np.diff(spread) > 0)  # hotter is wider: rows are sorted by temperature


def test_ptemcees_evidence_is_exact(sampler):
    value, error = sampler.log_evidence_estimate(fburnin=0.0)
    assert abs(value - LOG_EVIDENCE) < 6 * error < 2.0
    assert abs(value - LOG_EVIDENCE - np.log(BOX)) > 6 * error  # control: a prior of one dimension too few


def test_a_run_gives_our_answers_too(sampler):
    mean = sampler.run.expect(lambda x: x)
    assert np.all(np.abs(mean.value - [1.0, 2.0]) < 6 * mean.standard_error)


@pytest.mark.slow
def test_a_pool_is_used():
    class Pool:
        calls = 0

        def map(self, function, items):
            Pool.calls += 1
            with ThreadPoolExecutor(2) as executor:
                return list(executor.map(function, items))

    made = ptemcee.Sampler(
        2,
        1,
        lambda x: -0.5 * float(x[0] ** 2),
        lambda x: -0.5 * float(x[0] ** 2),
        betas=[1.0, 0.0],
        pool=Pool(),
        random=1,
    )
    made.run_mcmc(np.zeros((2, 2, 1)), 16)
    assert Pool.calls > 16


@pytest.mark.parametrize(
    ("options", "ends"), [({"ntemps": 4}, None), ({"Tmax": 50.0}, 1 / 50), ({"ntemps": 5, "Tmax": np.inf}, 0.0)]
)
def test_ladders_go_from_one_to_the_hottest(options, ends):
    betas = ptemcee.default_beta_ladder(3, **options)
    assert betas[0] == 1.0
    assert np.all(np.diff(betas) < 0)
    assert len(betas) == options.get("ntemps", len(betas))
    assert ends is None or betas[-1] == pytest.approx(ends)


def two_modes(x, distance):
    log_density = np.logaddexp(
        np.log(0.8) - 0.5 * np.sum((x - distance) ** 2, axis=-1),
        np.log(0.2) - 0.5 * np.sum((x + distance) ** 2, axis=-1),
    )
    return log_density, x[..., 0] - x[..., 1]


@pytest.mark.slow
def test_emcees_vectorised_functions_and_blobs():
    options = {"ladder": [1.0, 0.3, 0.1, 0.03], "tuning": tp.Tuning(640), "rng": 1}
    made = emcee.EnsembleSampler(8, 2, two_modes, args=[2.0], vectorize=True, blob_names=["d"], **options)
    made.run_mcmc(np.random.default_rng(0).normal(size=(8, 2)), 600)
    chain = made.get_chain()
    assert chain.shape[1:] == (8, 2)
    np.testing.assert_array_equal(made.get_blobs()["d"], chain[..., 0] - chain[..., 1])
    np.testing.assert_allclose(made.get_log_prob(), two_modes(chain, 2.0)[0], rtol=1e-10)
    assert made.get_chain(flat=True).shape == (chain.shape[0] * 8, 2)
    right = made.run.expect(lambda x, d: x[..., 0] > 0)
    assert abs(right.value - (0.8 * 0.97725 + 0.2 * 0.02275)) < 6 * right.standard_error < 0.6
