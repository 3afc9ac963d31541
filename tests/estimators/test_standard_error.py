import numpy as np
import pytest
from tempered_draws import ar1

from statistical import assert_mean_is, assert_mean_is_not, assert_variance_is_one, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import covariance_of_sum, standard_error_of_sum
from tempering.estimators.standard_error import _batch_variance, _cumulative


def z_scores(rng, rho, n_replicates, n_chains, n_draws, **options):
    """Return z-scores of the mean of AR(1) chains."""
    x = ar1(rng, rho, (n_replicates, n_chains, n_draws))
    mean = x.mean(axis=(1, 2))
    centred = (x - mean[:, None, None]) / (n_chains * n_draws)
    return np.array([m / standard_error_of_sum(c, **options) for m, c in zip(mean, centred, strict=True)])


@pytest.mark.parametrize("rho", [0.0, 0.7, 0.9, -0.5])
@pytest.mark.parametrize(("n_chains", "n_draws"), [(1, 16_000), (16, 1000)])
def test_error_bars_of_a_mean_are_right(rho, n_chains, n_draws):
    assert_variance_is_one(z_scores(seeded_rng(f"bars {rho} {n_chains}"), rho, 200, n_chains, n_draws))


def test_control_error_bars_for_independent_draws_are_seen_to_be_wrong():
    z = z_scores(seeded_rng("iid bars"), 0.7, 200, 1, 8000, batch_length=1)
    with pytest.raises(AssertionError):
        assert_variance_is_one(z)
    assert np.var(z) > 4


def test_chains_that_disagree_widen_the_error():
    rng = seeded_rng("disagreement")
    x = rng.normal(size=(8, 2000)) + 3.0 * np.arange(-3.5, 4)[:, None]
    error = float(standard_error_of_sum((x - x.mean()) / x.size))
    between = 3.0 * np.std(np.arange(8), ddof=1) / np.sqrt(8)
    assert 0.5 * between < error < 2.0 * between


def test_replicas_of_one_ensemble_are_not_independent():
    rng = seeded_rng("ensembles")
    x = np.repeat(rng.normal(size=(6, 4000)), 3, axis=0)  # three replicas that move as one
    centred = (x - x.mean()) / x.size
    together = float(standard_error_of_sum(centred, chains_per_ensemble=3, batch_length=63))
    apart = float(standard_error_of_sum(centred, batch_length=63))
    assert together == pytest.approx(1 / np.sqrt(24_000), rel=0.1)
    assert together / apart == pytest.approx(np.sqrt(3), rel=0.05)


def test_opposite_replicas_cancel():
    x = seeded_rng("opposites").normal(size=(1, 4000))
    assert standard_error_of_sum(np.concatenate([x, -x]), chains_per_ensemble=2) == 0.0


def test_many_quantities_equal_one_at_a_time(monkeypatch):
    x = ar1(seeded_rng("quantities"), 0.8, (5, 3, 400)).transpose(1, 2, 0)
    x = x - x.mean(axis=(0, 1))
    expected = [float(standard_error_of_sum(x[..., i])) for i in range(5)]
    np.testing.assert_allclose(standard_error_of_sum(x), expected, rtol=1e-12)
    monkeypatch.setattr("tempering.estimators.standard_error.QUANTITIES_AT_ONCE", 2400)
    np.testing.assert_allclose(standard_error_of_sum(x), expected, rtol=1e-12)
    assert standard_error_of_sum(x.reshape(3, 400, 5, 1)).shape == (5, 1)


def test_the_covariance_is_that_of_correlated_sums():
    rng = seeded_rng("covariance of sums")
    a, b = ar1(rng, 0.7, (2, 4, 20_000))
    x = np.stack([a, a + b, np.zeros_like(a)], axis=2)
    x = (x - x.mean(axis=(0, 1))) / a.size
    truth = (1 + 0.7) / (1 - 0.7) / a.size * np.array([[1, 1, 0], [1, 2, 0], [0, 0, 0]])
    found = covariance_of_sum(x)
    np.testing.assert_allclose(found, truth, atol=0.3 * truth.max())
    np.testing.assert_allclose(np.diag(found)[:2], standard_error_of_sum(x)[:2] ** 2, rtol=0.25)
    assert np.all(np.linalg.eigvalsh(found) >= -1e-12 * truth.max())


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (1, 5)])
def test_a_few_draws_give_a_finite_error(shape):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    assert np.isfinite(standard_error_of_sum(x - x.mean()))


def test_influences_of_zero_have_no_error():
    assert standard_error_of_sum(np.zeros((2, 100))) == 0.0


def test_ensembles_must_divide_the_chains():
    with pytest.raises(EstimatorError, match="divide"):
        standard_error_of_sum(np.zeros((4, 10)), chains_per_ensemble=3)


def test_the_control_of_coverage_has_power():
    """Error bars a fifth too small are seen by 200 replicates of the check above."""
    z = z_scores(seeded_rng("power"), 0.7, 200, 1, 8000)
    with pytest.raises(AssertionError):
        assert_variance_is_one(z / 0.75)
    assert_mean_is_not(1.0, (z / 0.7) ** 2, margin=0.2)


@pytest.mark.parametrize("length", [1, 3, 8, 20])
def test_batches_of_independent_draws_know_their_variance_at_any_length(length):
    """Exactly: a sum over unit vectors, less their mean, is the mean over independent draws of variance one."""
    n_chains, n_draws = 2, 24
    total = n_chains * n_draws
    units = (np.eye(total) - 1 / total).reshape(total, n_chains, n_draws)
    assert np.sum(_batch_variance(_cumulative(units), length)) == pytest.approx(total, rel=1e-12)


def variance_by_batches(rho, length, total):
    """Return what batches of one length find on average for a sum of AR(1) draws with mean zero, over their number."""
    k = np.arange(1, length)
    return (1 + 2 * np.sum((1 - k / length) * rho**k)) / (1 - length / total)


def test_two_lengths_of_batches_take_away_what_one_leaves():
    """Of a variance of 5.7 batches of 8 see 3.8 on average, together with those of 4 they see 5.0."""
    rng, rho, (n_chains, n_draws) = seeded_rng("flat top"), 0.7, (4, 1000)
    total = n_chains * n_draws
    x = ar1(rng, rho, (300, n_chains, n_draws)) / total
    found = [total * float(standard_error_of_sum(one, batch_length=8)) ** 2 for one in x]
    long, short = (variance_by_batches(rho, b, total) for b in (8, 4))
    assert_mean_is(2 * long - short, found)
    assert_mean_is_not(long, found)
