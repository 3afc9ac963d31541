import warnings

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from tempered_draws import UNEVEN, correlated_draws, normal_draws

from statistical import assert_mean_is, assert_variance_is_one, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import energy_grid, mbar, mbar_from_matrix


def pymbar_on(log_density_kn, rung):
    """Solve with pymbar, which wants draws sorted by state and energies of the other sign.

    Inside the context JAX is in double precision already: otherwise pymbar switches it for the whole process.
    """
    before = jax.config.jax_enable_x64  # other packages, PyTensor among them, may have set it
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore")  # about its own options
        import pymbar

        order = np.argsort(rung, kind="stable")
        counts = np.bincount(rung, minlength=len(log_density_kn))
        fit = pymbar.MBAR(-log_density_kn[:, order], counts, solver_protocol="robust", relative_tolerance=1e-13)
        result = fit.compute_free_energy_differences(return_theta=True)
        weights = np.empty_like(fit.weights())
        weights[order] = fit.weights()
        overlap = fit.compute_overlap()
    assert jax.config.jax_enable_x64 == before
    return -fit.f_k, result["Theta"], weights, overlap


@pytest.fixture(scope="module")
def skewed():
    """Draws of exp(k (2 log x - x)): gamma laws, five rungs of which one is not visited."""
    rng = np.random.default_rng(11)
    k = np.array([1.0, 0.7, 0.6, 0.3, 0.1])
    rung = rng.choice([0, 1, 3, 4], p=[0.1, 0.4, 0.3, 0.2], size=6000)
    x = rng.gamma(2 * k[rung] + 1, 1 / k[rung])
    return x, 2 * np.log(x) - x, k, rung


def test_it_agrees_with_pymbar(skewed):
    _, energy, k, rung = skewed
    fit = mbar(energy, k, rung)
    log_z, theta, weights, overlap = pymbar_on(k[:, None] * energy, rung)
    np.testing.assert_allclose(fit.log_normalisers, log_z - log_z[0], atol=1e-9)
    contrast = np.eye(5) - np.eye(5)[0]
    np.testing.assert_allclose(fit.covariance, contrast @ theta @ contrast.T, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.exp(fit.log_weights()), weights[:, 0], rtol=1e-8)
    np.testing.assert_allclose(np.exp(fit.log_weights(0.3)), weights[:, 3], rtol=1e-8)
    np.testing.assert_allclose(fit.overlap, overlap["matrix"], atol=1e-9)
    assert fit.second_eigenvalue == pytest.approx(np.sort(overlap["eigenvalues"].real)[-2], abs=1e-8)


def test_the_matrix_form_is_the_same(skewed):
    x, energy, k, rung = skewed
    by_energy, by_matrix = mbar(energy, k, rung), mbar_from_matrix(k[:, None] * energy, rung)
    np.testing.assert_allclose(by_matrix.log_normalisers, by_energy.log_normalisers, atol=1e-10)
    np.testing.assert_allclose(by_matrix.covariance, by_energy.covariance, rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(by_matrix.batch_covariance(), by_energy.batch_covariance(), rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(by_matrix.log_weights(energy), by_energy.log_weights(), atol=1e-9)
    a, b = by_matrix.expectation(x, energy), by_energy.expectation(x)
    assert float(a.value) == pytest.approx(float(b.value), rel=1e-10)
    assert float(a.standard_error) == pytest.approx(float(b.standard_error), rel=1e-6)


def test_mbars_own_equations_hold_at_every_draw(skewed):
    _, energy, k, rung = skewed
    fit = mbar(energy, k, rung)
    log_terms = np.log(np.maximum(np.bincount(rung, minlength=5), 1e-300))[:, None] + k[:, None] * energy
    mixture = logsumexp(log_terms - fit.log_normalisers[:, None], axis=0)
    again = logsumexp(k[:, None] * energy - mixture, axis=1)
    np.testing.assert_allclose(again - again[0], fit.log_normalisers, atol=1e-10)


def test_the_grid_gives_what_all_draws_give(monkeypatch):
    rng = seeded_rng("grid against draws")
    k = np.geomspace(1, 0.05, 12)
    x, energy, rung = normal_draws(rng, k, 60_000, dimension=6)
    on_grid = mbar(energy, k, rung)
    assert on_grid.nodes.grid is not None
    monkeypatch.setattr(energy_grid, "MINIMUM_DRAWS", 10**9)
    exact = mbar(energy, k, rung)
    assert exact.nodes.grid is None
    np.testing.assert_allclose(on_grid.log_normalisers, exact.log_normalisers, atol=1e-10)
    np.testing.assert_allclose(on_grid.log_weights(), exact.log_weights(), atol=1e-10)
    np.testing.assert_allclose(on_grid.covariance, exact.covariance, rtol=1e-7, atol=1e-14)
    a, b = on_grid.expectation(x), exact.expectation(x)
    np.testing.assert_allclose(a.value, b.value, rtol=1e-10)
    np.testing.assert_allclose(a.standard_error, b.standard_error, rtol=1e-6)


def test_a_grid_too_coarse_is_polished_with_all_draws(monkeypatch):
    rng = seeded_rng("polish")
    k = np.geomspace(1, 0.05, 6)
    _, energy, rung = normal_draws(rng, k, 20_000, dimension=6)
    exact = mbar(energy, k, rung)
    monkeypatch.setattr(energy_grid, "MAXIMUM_NODES", 100)
    polished = mbar(energy, k, rung)
    assert not polished.nodes.is_exact
    np.testing.assert_allclose(polished.log_normalisers, exact.log_normalisers, atol=1e-10)
    np.testing.assert_allclose(polished.log_weights(), exact.log_weights(), atol=1e-10)


def test_rounds_with_ladders_of_their_own_are_one_fit():
    rng = seeded_rng("rounds")
    first, second = np.array([1.0, 0.4, 0.1]), np.array([1.0, 0.6, 0.4, 0.2])
    _, e1, r1 = normal_draws(rng, first, 3000)
    _, e2, r2 = normal_draws(rng, second, 5000)
    both = mbar(np.append(e1, e2), np.append(first, second), np.append(r1, r2 + 3))
    merged_k = np.array([1.0, 0.6, 0.4, 0.2, 0.1])
    where = [0, 2, 4, 0, 1, 2, 3]
    merged = mbar(np.append(e1, e2), merged_k, np.array(where)[np.append(r1, r2 + 3)])
    np.testing.assert_allclose(both.log_normalisers, merged.log_normalisers[where], atol=1e-10)
    np.testing.assert_allclose(both.overlap.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(both.covariance, merged.covariance[np.ix_(where, where)], atol=1e-10)
    assert both.second_eigenvalue == pytest.approx(merged.second_eigenvalue)


@pytest.mark.long
def test_a_hundred_rungs_over_thousands_of_nats():
    rng = seeded_rng("hundred rungs")
    k, dimension = np.geomspace(1, 1e-3, 100), 60
    _, energy, rung = normal_draws(rng, k, 100_000, dimension)
    assert np.ptp(energy) > 30_000
    fit = mbar(energy, k, rung)
    z = (fit.log_normalisers + dimension / 2 * np.log(k))[1:] / np.sqrt(np.diag(fit.covariance)[1:])
    assert np.abs(z).max() < 5.5  # of 99 correlated ones, at most 1e-6 each


def test_exact_normalisers_are_found_with_honest_errors():
    rng = seeded_rng("normalisers")
    z, log_z = [], []
    for _ in range(200):
        _, energy, rung = correlated_draws(rng, 4, 1000)
        fit = mbar(energy, UNEVEN, rung)
        log_z.append(fit.log_normalisers)
        z.append((fit.log_normalisers + 0.5 * np.log(UNEVEN))[3] / np.sqrt(fit.batch_covariance()[3, 3]))
    assert_mean_is(-0.5 * np.log(UNEVEN), log_z)
    assert_variance_is_one(z)


def test_control_the_errors_for_independent_draws_are_too_small_here():
    rng = seeded_rng("normalisers control")
    z = []
    for _ in range(100):
        _, energy, rung = correlated_draws(rng, 4, 1000)
        fit = mbar(energy, UNEVEN, rung)
        z.append((fit.log_normalisers + 0.5 * np.log(UNEVEN))[3] / np.sqrt(fit.covariance[3, 3]))
    with pytest.raises(AssertionError):
        assert_variance_is_one(z)


def test_both_errors_agree_for_independent_draws():
    _, energy, rung = normal_draws(seeded_rng("both errors"), UNEVEN, 40_000)
    fit = mbar(energy, UNEVEN, rung)
    covariance = fit.batch_covariance(batch_length=200)
    np.testing.assert_allclose(np.diag(covariance)[1:], np.diag(fit.covariance)[1:], rtol=0.3)
    ratio = fit.log_normaliser_ratio(0, -1, batch_length=200)
    assert ratio.value == -fit.log_normalisers[-1]
    assert ratio.standard_error == pytest.approx(np.sqrt(fit.covariance[3, 3]), rel=0.15)


def test_long_runs_are_held_as_sums_of_short_ones(monkeypatch):
    _, energy, rung = correlated_draws(seeded_rng("short runs"), 3, 5003)
    fit = mbar(energy, UNEVEN, rung)
    whole = fit.batch_covariance(batch_length=240)
    monkeypatch.setattr("tempering.estimators.mbar_result.INFLUENCES_AT_ONCE", 6000)  # runs of ten draws
    np.testing.assert_allclose(np.diag(fit.batch_covariance(batch_length=240)), np.diag(whole), rtol=0.1)


def test_prior_draws_without_likelihood_count_at_k_zero():
    k = np.array([1.0, 0.5, 0.0])
    rng = seeded_rng("outside the likelihood")
    inside = rng.random(4000) < 0.25  # the likelihood is 1 on a quarter of the prior
    energy = np.concatenate([np.zeros(3000), np.where(inside, 0.0, -np.inf)])
    rung = np.concatenate([np.repeat([0, 1], 1500), np.full(4000, 2)])
    fit = mbar(energy, k, rung)
    np.testing.assert_allclose(fit.log_normalisers, [0.0, 0.0, -np.log(inside.mean())], atol=1e-9)
    assert np.all(np.exp(fit.log_weights()).ravel()[3000:][~inside] == 0)
    assert np.isfinite(fit.log_normaliser_ratio().standard_error)


def test_a_draw_that_cannot_have_occurred_is_ignored():
    _, energy, rung = normal_draws(seeded_rng("impossible"), UNEVEN, 2000)
    reference = mbar(energy, UNEVEN, rung)
    spoilt = mbar(np.append(energy, -np.inf), UNEVEN, np.append(rung, 1))
    np.testing.assert_allclose(spoilt.log_normalisers, reference.log_normalisers, atol=1e-10)
    assert spoilt.log_weights()[-1] == -np.inf
    with pytest.raises(EstimatorError, match="own rung"):
        mbar([-np.inf], [1.0], [0])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_draws_are_enough_to_answer(n):
    fit = mbar(np.linspace(-1, 0, n), [1.0, 0.5, 0.2], np.arange(n))
    assert np.all(np.isfinite(fit.log_normalisers))
    assert np.exp(fit.log_weights()).sum() == pytest.approx(1.0)
    assert np.isfinite(fit.expectation(np.arange(n)).standard_error)


def test_rungs_without_overlap_say_so_and_do_not_break():
    energy = np.concatenate([np.linspace(-1, 0, 50), np.linspace(-9001, -9000, 50)])
    fit = mbar(energy, [1.0, 0.2], np.repeat([0, 1], 50))
    assert fit.second_eigenvalue == pytest.approx(1.0)
    assert fit.expectation(energy).value == pytest.approx(energy[:50].mean(), abs=1e-6)


def test_targets_of_the_wrong_kind_are_refused():
    fit = mbar_from_matrix(np.zeros((2, 5)), [0, 0, 1, 1, 1])
    with pytest.raises(EstimatorError, match="target"):
        fit.log_weights(0.5)
    with pytest.raises(EstimatorError, match="log_density_kn"):
        mbar_from_matrix(np.zeros(5), [0, 0, 1, 1, 1])
    with pytest.raises(EstimatorError, match="inverse_temperatures"):
        mbar([0.0], [-1.0], [0])


@pytest.mark.parametrize("depth", [-1e3, -1e15, -1e250, -np.inf])
def test_draws_of_a_base_that_fall_however_low_leave_the_normaliser_alone(depth):
    """A heavy-tailed reference draws where the target is next to nothing; the others' balance is what counts."""
    rng = np.random.default_rng(12)
    hot, cold = rng.normal(0.0, 1.0, 600), rng.normal(1.0, 1.0, 400)  # E exp(e) = exp(1/2) under the hot ones
    hot[::3] = depth
    energy, rung = np.concatenate([cold, hot]), np.repeat([0, 1], [400, 600])
    fit = mbar(energy, np.array([1.0, 0.0]), rung)
    log_ratio = float(fit.log_normalisers[0] - fit.log_normalisers[1])
    assert log_ratio == pytest.approx(0.5 + np.log(2 / 3), abs=0.15)
