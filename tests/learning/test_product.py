"""Fits of products: who follows whom, how, and when one is better than a mixture of whole vectors."""

from itertools import pairwise

import numpy as np
import pytest

import tempering as tp
from statistical import seeded_rng
from tempering import problems
from tempering.learning import loop
from tempering.learning.limits import SAFE_REACH_OF_A_MODE
from tempering.learning.reference.from_draws import Split, best_of_clusters
from tempering.learning.reference.learnt import learnt_reference
from tempering.learning.reference.modes import Mode
from tempering.learning.reference.product import best_product
from tempering.learning.reference.spanned import with_broad
from tempering.learning.two_legs import safe_end_around
from tempering.path.factored import Factored
from tempering.path.reference import Reference

SUITE = problems.suite()


def split_of(name, n=1500):
    values = SUITE[name].sample(seeded_rng(name), 2 * n)
    return Split(values, np.zeros(len(values)))


def fitted(name):
    split = split_of(name)
    mixture = best_of_clusters(split, seeded_rng("mixture"))
    height = split.log_likelihood(mixture)
    product = best_product(split, mixture, height + 1.0)
    assert product is not None
    assert best_product(split, mixture, height + 100.0) is None
    return product


def nats_from(name, q):
    """Return how far a density is from the truth, by draws that it was not fitted to."""
    known = SUITE[name]
    x = known.sample(seeded_rng("fresh"), 2000)
    return float(np.mean(np.asarray(known.log_density(x)) - known.evidence.log_value - q.log_density(x)))


@pytest.mark.parametrize("name", ["funnel-10", "rosenbrock-pairs-10", "many-well-32"])
def test_a_product_is_nearer_than_a_mixture_where_coordinates_follow_few_others(name):
    product = fitted(name)
    assert nats_from(name, product) < 0.25
    assert nats_from(name, product.mixture) > 1.0


def test_in_a_funnel_all_follow_the_first_coordinate_by_half_of_its_way():
    bends = fitted("funnel-10").bends
    assert bends.parents.tolist() == [0] * 10
    np.testing.assert_allclose((bends.log_scales / bends.widths)[1:], 0.5, atol=0.05)
    assert not np.any([bends.slopes, bends.curvatures])  # what chance may be is left out


def test_of_rosenbrocks_pairs_the_second_follows_the_square_of_the_first():
    bends = fitted("rosenbrock-pairs-10").bends
    assert bends.parents.tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
    np.testing.assert_allclose((bends.curvatures / bends.widths**2)[1::2], 1.0, atol=0.1)
    assert not np.any(bends.log_scales)


def test_control_coordinates_that_are_independent_follow_none():
    values = seeded_rng("alone").normal(size=(2000, 8))
    split = Split(values, np.zeros(2000))
    product = best_product(split, best_of_clusters(split, seeded_rng("mixture")))
    assert product.bends.parents.tolist() == list(range(8))


def test_weights_count():
    """Draws of a wide distribution, weighted to be those of a narrow one."""
    values = 2.0 * seeded_rng("weights").normal(size=(8000, 3))
    log_weights = -0.5 * np.sum((values - 1.0) ** 2, axis=1) + 0.125 * np.sum(values**2, axis=1)
    product = best_product(Split(values, log_weights), Reference([1.0], [np.zeros(3)], [np.eye(3)], [8]))
    x = product.sample_many(seeded_rng("draws"), 20_000)
    np.testing.assert_allclose(x.mean(axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose(x.std(axis=0), 1.0, atol=0.1)


def learnt(name, modes=(), **options):
    split = split_of(name)
    old = best_of_clusters(split, seeded_rng("old"))
    return learnt_reference(split.values, split.log_weights, old, modes, 0.0, seeded_rng("learnt"), **options)


@pytest.mark.parametrize("values", [np.ones((100, 4)), np.repeat(np.arange(8.0)[:, None], 3, axis=1)])
def test_draws_that_hardly_differ_lead_to_one_that_is_finite(values):
    old = with_broad(Reference([1.0], values[:1], [np.eye(values.shape[1])], [8]))
    found = learnt_reference(values, np.zeros(len(values)), old, (), 0.0, seeded_rng("few"), may_be_product=True)
    assert np.isfinite(found.log_density(values[0]))


def test_the_likelier_one_is_learnt():
    assert isinstance(learnt("funnel-10", may_be_product=True), Factored)
    assert isinstance(learnt("twin-modes-8", may_be_product=True), Reference)
    assert isinstance(learnt("funnel-10"), Reference)


def test_one_that_is_known_is_kept_for_less(monkeypatch):
    monkeypatch.setattr("tempering.learning.reference.learnt.BETTER", 100.0)
    split, product = split_of("funnel-10"), fitted("funnel-10")
    for old, kind in ((product, Factored), (product.mixture, Reference)):
        found = learnt_reference(
            split.values, split.log_weights, old, (), 0.0, seeded_rng("learnt"), may_be_product=True
        )
        assert isinstance(found, kind)


@pytest.mark.slow
def test_rounds_know_what_the_last_one_learnt(monkeypatch):
    """A product is kept for less only if the fit is told that there was one."""
    fits = []

    def told(values, log_weights, old, *others, **options):
        fits.append((old, learnt_reference(values, log_weights, old, *others, **options)))
        return fits[-1][1]

    monkeypatch.setattr(loop, "learnt_reference", told)
    known = SUITE["funnel-10"]
    tp.sample(known.target(), initial=known.initial, draws=100, tuning=tp.Tuning(1000), rng=5, progress=False)
    assert any(isinstance(found, Factored) for _, found in fits[:-1])
    assert all(old is found for (_, found), (old, _) in pairwise(fits))


def test_a_product_that_misses_a_mode_is_not_taken():
    place = np.full(10, 100.0)
    modes = (Mode(place, 10.0, 0.5 * np.eye(10)),)
    found = learnt("funnel-10", modes, may_be_product=True)
    assert isinstance(found, Reference)
    assert np.any(np.all(found.means == place, axis=1))


def test_the_safe_end_around_a_product_is_wide_where_it_is_usual():
    safe = safe_end_around(learnt("funnel-10", may_be_product=True))
    widths = np.diagonal(safe.factors[0])
    assert safe.n_components == 1
    np.testing.assert_allclose(safe.means[0][1:], 0.0, atol=0.3)
    assert 20 < widths[0] < 60
    assert np.all((widths[1:] > 0.5 * SAFE_REACH_OF_A_MODE) & (widths[1:] < 2.0 * SAFE_REACH_OF_A_MODE))
