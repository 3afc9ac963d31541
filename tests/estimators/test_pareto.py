import numpy as np
import pytest
from hypothesis import given
from tempered_draws import weighted_rungs

from statistical import assert_mean_is_not, seeded_rng, student_cut
from tempering.estimators import generalised_pareto_shape, pareto_k, pareto_k_per_rung


def generalised_pareto(rng, shape, n):
    return (rng.random(n) ** -shape - 1) / shape


@pytest.mark.parametrize("shape", [-0.4, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_the_shape_of_a_known_law_is_found(shape, scale):
    rng = seeded_rng(f"generalised pareto {shape}")
    found = [generalised_pareto_shape(scale * generalised_pareto(rng, shape, 3000)) for _ in range(24)]
    standard_error = np.std(found, ddof=1) / np.sqrt(24)
    # Zhang & Stephens (2009), table 2: a bias below 0.01 at n = 500
    assert abs(np.mean(found) - shape) < 0.01 + student_cut(24, 1) * standard_error


def test_control_a_heavier_tail_is_told_apart():
    rng = seeded_rng("heavier tail")
    found = [generalised_pareto_shape(generalised_pareto(rng, 0.7, 3000)) for _ in range(24)]
    assert_mean_is_not(0.5, found)


@pytest.mark.parametrize(("rate", "shape"), [(5.0, 0.2), (2.0, 0.5), (1.0, 1.0)])
def test_weights_with_a_pareto_tail_show_it(rate, shape):
    rng = seeded_rng(f"pareto tail {rate}")
    found = [pareto_k(rng.exponential(1 / rate, 20_000)) for _ in range(24)]
    standard_error = np.std(found, ddof=1) / np.sqrt(24)
    prior_pull = 10 * abs(0.5 - shape) / (3 * np.sqrt(20_000))
    assert abs(np.mean(found) - shape) < 0.01 + prior_pull + student_cut(24, 1) * standard_error


@given(weighted_rungs())
def test_every_rung_gets_the_shape_of_its_own_weights(draws):
    log_weights, rung, n_rungs = draws
    shapes = pareto_k_per_rung(log_weights, rung, n_rungs)
    assert not np.any(np.isnan(shapes))
    for i in range(n_rungs):
        assert shapes[i] == pareto_k(log_weights[rung == i])


def test_the_shape_does_not_depend_on_the_constant_or_the_order():
    log_weights = seeded_rng("shape constant").normal(0, 3, 2000)
    assert pareto_k(log_weights + 4000.0) == pytest.approx(pareto_k(log_weights), abs=1e-6)
    assert pareto_k(log_weights[::-1]) == pareto_k(log_weights)


def test_edges():
    assert pareto_k(np.zeros(1000)) == -np.inf
    assert pareto_k([0.0]) == -np.inf
    assert pareto_k(np.linspace(0, 1, 24)) == np.inf  # too few to tell
    assert pareto_k(np.full(100, -np.inf)) == np.inf
    assert pareto_k(np.linspace(0, 5000, 1000)) > 1.0
    assert pareto_k(np.append(np.full(999, -5000.0), 0.0)) > 0.7


def weights_of_two_models(rng, n, ratio):
    """A chain between two models, one of them rarer when it is hot: two values with a little noise."""
    return np.where(rng.random(n) < 0.995, 0.0, np.log(ratio)) + rng.normal(0, 0.01, n)


def test_weights_that_are_bounded_are_trusted_whatever_their_steps_look_like():
    log_weights = weights_of_two_models(seeded_rng("two models"), 20_000, 1.4)
    relative = np.exp(log_weights)
    assert relative.max() / relative.mean() < 1.5
    tail = np.sort(relative)[-425:]
    assert generalised_pareto_shape(tail[1:] - tail[0]) > 0.7  # the false alarm
    assert pareto_k(log_weights) == -np.inf


def test_control_weights_that_tower_over_the_mean_are_still_seen():
    log_weights = weights_of_two_models(seeded_rng("two models"), 20_000, 40.0)
    log_weights[:3] += 4.0  # three draws hold the mean
    assert pareto_k(log_weights) > 0.5
