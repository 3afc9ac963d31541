"""Weights that agree with what is known of the mixture, against exact draws of a target and of the mixture."""

import numpy as np
import pytest

from statistical import assert_mean_is, assert_mean_is_not, assert_variance_is_one, seeded_rng
from tempering.estimators.calibration import Known, calibrated
from tempering.estimators.combine import estimate_rungs, weigh_rungs
from tempering.estimators.rung_draws import RungDraws
from tempering.path.reference import Reference
from tempering.path.scores import scores

TARGET = Reference([0.6, 0.4], [[-3.0], [2.0]], [[[1.0]], [[0.6]]], [30, 30])
CLOSE = Reference([0.5, 0.4, 0.1], [[-2.9], [2.1], [0.0]], [[[1.1]], [[0.65]], [[3.0]]], [8, 8, 3])
HALF = Reference([0.9, 0.1], [[-2.9], [-3.0]], [[[1.1]], [[2.0]]], [8, 8])  # knows one mode of two
WRONG = Reference([0.5, 0.4, 0.1], [[-2.7], [2.1], [0.0]], [[[1.1]], [[0.65]], [[3.0]]], [8, 8, 3])
COEFFICIENTS = np.array([[0.0, 1.0], [1.0, 0.0]])  # the mixture, the target
QUANTITIES = (lambda x: x > 0.0, lambda x: x, lambda x: x**2)
TRUTH = TARGET.sample_many(np.random.default_rng(1), 4_000_000)[:, 0]
MEANS = np.array([np.mean(h(TRUTH)) for h in QUANTITIES])


def exact_draws(rng, mixture, n, *, said=None, is_known=True):
    """Return draws of the mixture and of the target, whichever, and what is said to be known of the former."""
    rung = rng.integers(2, size=(4, n // 4))
    x = np.where(rung == 0, mixture.sample_many(rng, n).reshape(4, -1), TARGET.sample_many(rng, n).reshape(4, -1))
    flat = x.reshape(-1, 1)
    terms = np.stack([TARGET.log_density(flat) + 3.0, mixture.log_density(flat)], axis=1).reshape(4, -1, 2)
    functions = said or mixture
    known = Known(mixture.log_density(flat), lambda most: scores(functions, flat, most)) if is_known else None
    draws = RungDraws.along(terms, COEFFICIENTS, rung, 1)
    return RungDraws(**{**vars(draws), "known": lambda: known}), x


def estimates(rng, mixture, n=4000, **how):
    """Return values and standard errors of all quantities."""
    draws, x = exact_draws(rng, mixture, n, **how)
    found = estimate_rungs(draws, np.stack([h(x) for h in QUANTITIES], axis=-1), weigh_rungs(draws, "mbar"))
    return np.stack([found.value, found.standard_error])


def replicates(name, mixture, n_replicates=100, **how):
    rng = seeded_rng(name)
    return np.array([estimates(rng, mixture, **how) for _ in range(n_replicates)])


@pytest.mark.parametrize(("mixture", "gain"), [(CLOSE, 10.0), (HALF, 1.0)])
def test_error_bars_of_calibrated_estimates_are_right_and_smaller(mixture, gain):
    """Where the mixture has missed a mode there is less to gain, and nothing to lose."""
    calm = replicates("calibrated", mixture)
    z = (calm[:, 0] - MEANS) / calm[:, 1]
    assert_mean_is(0.0, z)
    for quantity in z.T:
        assert_variance_is_one(quantity)
    plain = replicates("calibrated", mixture, is_known=False)
    assert np.all(np.mean(plain[:, 1] ** 2, axis=0) > gain * np.mean(calm[:, 1] ** 2, axis=0))


def test_the_mass_of_modes_is_known_as_well_as_the_mixture_fits():
    plain = replicates("masses", CLOSE, is_known=False)[:, 0, 0]
    assert np.var(plain) > 20.0 * np.var(replicates("masses", CLOSE)[:, 0, 0])


def test_control_functions_whose_mean_is_not_zero_are_seen():
    calm = replicates("calibrated", CLOSE, said=WRONG)
    assert_mean_is_not(MEANS, calm[:, 0])


def test_weights_stay_positive_and_sum_to_one_and_the_functions_to_zero():
    draws, x = exact_draws(seeded_rng("weights"), CLOSE, 2000)
    weights, found = weigh_rungs(draws, "mbar").weights, draws.calibration
    assert weights.min() > 0.0
    assert weights.sum() == pytest.approx(1.0)
    assert np.max(np.abs(found.factor @ found.controls)) < 1e-3 * np.sqrt(x.size)
    assert np.max(np.abs(np.sum(found.controls, axis=0))) > 0.1 * np.sqrt(x.size)  # and did not before


def test_few_draws_are_not_calibrated_by_many_functions():
    draws, _ = exact_draws(seeded_rng("few"), CLOSE, 160)
    assert draws.calibration is None or draws.calibration.controls.shape[1] <= 3
    draws, _ = exact_draws(seeded_rng("fewest"), CLOSE, 40)
    assert draws.calibration is None


def test_functions_that_cannot_sum_to_zero_change_nothing():
    one = Known(np.zeros(1000), lambda most: np.ones((1000, 1), np.float32))
    assert calibrated(np.zeros(1000), np.ones(1000, bool), one) is None
    nowhere = Known(np.full(1000, -np.inf), lambda most: np.ones((1000, 1), np.float32))
    assert calibrated(np.zeros(1000), np.ones(1000, bool), nowhere) is None


def test_functions_that_repeat_others_change_nothing():
    draws, x = exact_draws(seeded_rng("twice"), CLOSE, 4000)
    known, flat = draws.known(), x.reshape(-1, 1)
    twice = known._replace(functions=lambda most: np.repeat(scores(CLOSE, flat, most), 2, axis=1))
    fit = draws.fit
    once, again = (calibrated(fit.log_mixture, fit.possible, what).factor for what in (known, twice))
    np.testing.assert_allclose(once, again, atol=1e-4)
