"""MBAR for draws along any path: what it says on one leg, and on two beside the matrix of all densities."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.estimators import mbar, mbar_from_matrix
from tempering.estimators.mbar import mbar_from_terms

K = np.array([1.0, 0.7, 0.3, 0.1])
TARGET = np.array([1.0, 1.0, 0.0])
# the end of a quick leg, its middle, the target, and a safe leg down to the prior
TWO_LEGS = np.array([[0, 0, 1.0], [0.4, 0.4, 0.6], [1, 1, 0], [0.35, 1, 0], [0, 1, 0]])


def gaussian(mean, variance, x):
    return -0.5 * (x - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)


def two_legged(name, n=3000):
    """Return terms and rungs of exact draws: likelihood N(1.2; x, 1/2), prior N(0, 4), fitted N(0.8, 1)."""
    rng = seeded_rng(name)
    rung = rng.choice(5, p=[0.15, 0.1, 0.3, 0.25, 0.2], size=n)
    precision = TWO_LEGS @ [2.0, 0.25, 1.0]
    mean = TWO_LEGS @ [2.0 * 1.2, 0.0, 0.8] / precision
    x = mean[rung] + rng.standard_normal(n) / np.sqrt(precision[rung])
    terms = np.stack([gaussian(1.2, 0.5, x), gaussian(0.0, 4.0, x), gaussian(0.8, 1.0, x)], axis=1)
    return x, terms, rung


def exact_log_normalisers():
    """Integrate exp(c . t) on a fine grid."""
    x = np.linspace(-30, 30, 200_001)
    terms = np.stack([gaussian(1.2, 0.5, x), gaussian(0.0, 4.0, x), gaussian(0.8, 1.0, x)], axis=1)
    return np.log(np.exp(terms @ TWO_LEGS.T).sum(axis=0) * (x[1] - x[0]))


def test_on_one_leg_it_is_mbar():
    rng = seeded_rng("one leg of terms")
    rung = rng.choice(4, p=[0.1, 0.4, 0.3, 0.2], size=4000)
    x = rng.gamma(2 * K[rung] + 1, 1 / K[rung])
    energy = 2 * np.log(x) - x
    by_terms, by_energy = mbar_from_terms(energy[:, None], K[:, None], rung, [1.0]), mbar(energy, K, rung)
    np.testing.assert_allclose(by_terms.log_normalisers, by_energy.log_normalisers, atol=1e-9)
    np.testing.assert_allclose(by_terms.log_weights(), by_energy.log_weights(), atol=1e-8)
    np.testing.assert_allclose(by_terms.covariance, by_energy.covariance, rtol=1e-6, atol=1e-12)


def test_on_two_legs_it_solves_the_equations_of_the_whole_matrix():
    _, terms, rung = two_legged("two legs of terms")
    by_terms = mbar_from_terms(terms, TWO_LEGS, rung, TARGET)
    by_matrix = mbar_from_matrix(TWO_LEGS @ terms.T, rung)
    np.testing.assert_allclose(by_terms.log_normalisers, by_matrix.log_normalisers, atol=1e-9)
    np.testing.assert_allclose(by_terms.covariance, by_matrix.covariance, rtol=1e-6, atol=1e-12)
    # the equations themselves: Z_i = sum_n exp(c_i t_n) / sum_j N_j exp(c_j t_n) / Z_j
    log_z, counts = by_terms.log_normalisers, np.bincount(rung, minlength=5)
    mixture = np.logaddexp.reduce(np.log(counts)[:, None] - log_z[:, None] + TWO_LEGS @ terms.T, axis=0)
    again = np.logaddexp.reduce(TWO_LEGS @ terms.T - mixture, axis=1)
    np.testing.assert_allclose(again - again[0], log_z - log_z[0], atol=1e-9)


def test_weights_lead_to_the_target_in_the_middle():
    x, terms, rung = two_legged("weights of terms", 20_000)
    fit = mbar_from_terms(terms, TWO_LEGS, rung, TARGET)
    w = np.exp(fit.log_weights())
    assert w.sum() == pytest.approx(1.0)
    assert w @ x == pytest.approx(2.4 / 2.25, abs=0.03)  # a Gaussian's mean: sixteen thousand effective draws
    log_z, exact = fit.log_normalisers, exact_log_normalisers()
    np.testing.assert_allclose(log_z - log_z[2], exact - exact[2], atol=0.05)


def test_control_another_order_of_the_terms_is_seen():
    _, terms, rung = two_legged("order of terms")
    wrong = mbar_from_terms(terms[:, [1, 0, 2]], TWO_LEGS, rung, TARGET).log_normalisers
    exact = exact_log_normalisers()
    assert np.abs(wrong - wrong[2] - exact + exact[2]).max() > 0.2


def test_draws_outside_the_support_of_a_term_count_where_it_does_not():
    """A fitted end reaches beyond the target's support: there draws have no likelihood and no prior."""
    x, terms, rung = two_legged("cut terms", 20_000)
    inside = x > 0.5
    cut = terms.copy()
    cut[~inside, :2] = -np.inf
    kept = inside | (rung == 0)  # of the other rungs only draws inside exist
    fit = mbar_from_terms(cut[kept], TWO_LEGS, rung[kept], TARGET)
    grid = np.linspace(-30, 30, 200_001)
    t = np.stack([gaussian(1.2, 0.5, grid), gaussian(0.0, 4.0, grid), gaussian(0.8, 1.0, grid)], axis=1)
    density = np.exp(t @ TWO_LEGS.T)
    density[grid <= 0.5, 1:] = 0.0
    exact = np.log(density.sum(axis=0) * (grid[1] - grid[0]))
    np.testing.assert_allclose(fit.log_normalisers - fit.log_normalisers[2], exact - exact[2], atol=0.05)
    w = np.exp(fit.log_weights())
    assert np.all(w[~inside[kept]] < 1e-12)


def test_a_draw_that_counts_twice_is_two_draws():
    _, terms, rung = two_legged("counts of terms", n=600)
    counts = 1.0 + (np.arange(600) % 3 == 0)
    twice = np.repeat(np.arange(600), counts.astype(int))
    found = mbar_from_terms(terms, TWO_LEGS, rung, TARGET, counts=counts)
    expected = mbar_from_terms(terms[twice], TWO_LEGS, rung[twice], TARGET)
    np.testing.assert_allclose(found.log_normalisers, expected.log_normalisers, atol=1e-8)
    mixture = expected.log_mixture[np.cumsum(counts).astype(int) - 1]
    np.testing.assert_allclose(found.log_mixture - found.log_mixture[0], mixture - mixture[0], atol=1e-8)
    alike = mbar_from_terms(terms, TWO_LEGS, rung, TARGET)
    assert np.abs(found.log_normalisers - alike.log_normalisers).max() > 1e-3  # the control
