"""What EM sums over draws, for few components and for many: the same, and what the textbook says."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.learning.reference.em_sums import FewComponents, ManyComponents, prepared
from tempering.learning.reference.refit import assemble, fitted_to

FREEDOM = 5


def mixture(rng, n, d, narrow=1.0):
    """Return a reference of ``n`` components and the broad one, and draws of it with uneven weights."""
    factors = np.linalg.cholesky([np.cov(rng.standard_normal((d, 3 * d + 3))).reshape(d, d) for _ in range(n)])
    factors[0] *= narrow
    reference = assemble(np.log(rng.uniform(0.5, 2.0, n)), 4.0 * rng.standard_normal((n, d)), factors, FREEDOM)
    values, weights = reference.sample_many(rng, 3000), rng.exponential(size=3000)
    return reference, values, weights / weights.sum()


def by_the_textbook(reference, values, weights):
    """Sum draw by draw: responsibilities, and the weights of a t distribution's EM (Peel & McLachlan 2000)."""
    d = reference.dimension
    parts = np.exp(reference.log_parts(values))
    own = weights[:, None] * parts / parts.sum(axis=1, keepdims=True)
    totals, means, products = [], [], []
    for c in range(reference.n_components - 1):
        z = np.linalg.solve(reference.factors[c], (values - reference.means[c]).T)
        pull = own[:, c] * (FREEDOM + d) / (FREEDOM + np.sum(z**2, axis=0))
        totals.append(pull.sum())
        means.append(pull @ values / pull.sum())
        products.append(sum(p * np.outer(x - means[-1], x - means[-1]) for p, x in zip(pull, values, strict=True)))
    own = own[:, :-1]
    masses = own.sum(axis=0)
    n_effective = masses**2 / np.sum(own**2, axis=0)
    return masses, n_effective, totals, means, products, weights @ reference.log_density(values)


def assert_sums(sums, expected, rel=2e-5):
    """Shares have seven digits; means and products of light components lose one or two of them."""
    for mine, theirs in zip(sums, expected, strict=True):
        theirs = np.asarray(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=rel, atol=rel * np.max(np.abs(theirs)))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (2, 5), (12, 3)])
def test_both_ways_of_summing_are_the_textbooks(n, d):
    reference, values, weights = mixture(seeded_rng(f"em sums {n} {d}"), n, d)
    expected = by_the_textbook(reference, values, weights)
    few, many = FewComponents(values, weights), ManyComponents.of(values, weights)
    assert_sums(few.sums(reference, FREEDOM), expected)
    assert_sums(many.sums(reference, FREEDOM), expected)
    with pytest.raises(AssertionError):  # control: other weights
        assert_sums(many.sums(reference, FREEDOM), by_the_textbook(reference, values, np.full(3000, 1 / 3000)))


def test_a_component_a_million_times_narrower_than_the_whole_keeps_its_shape():
    reference, values, weights = mixture(seeded_rng("narrow"), 4, 2, narrow=1e-6)
    few = FewComponents(values, weights).sums(reference, FREEDOM)
    many = ManyComponents.of(values, weights).sums(reference, FREEDOM)
    assert few.masses[0] > 0.05
    np.testing.assert_allclose(many.products[0], few.products[0], rtol=0.02, atol=0.02 * few.products[0].max())
    reference, values, weights = mixture(seeded_rng("narrow"), 4, 2, narrow=1e-9)  # control: digits do run out
    few, many = (way(values, weights).sums(reference, FREEDOM) for way in (FewComponents, ManyComponents.of))
    assert not np.allclose(many.products[0], few.products[0], rtol=0.02, atol=0.02 * few.products[0].max())


def test_blocks_that_are_made_anew_give_the_same_sums(monkeypatch):
    reference, values, weights = mixture(seeded_rng("blocks"), 6, 3)
    kept = ManyComponents.of(values, weights).sums(reference, FREEDOM)
    monkeypatch.setattr("tempering.learning.reference.em_sums.MOST_ENTRIES_KEPT", 0)
    for mine, theirs in zip(ManyComponents.of(values, weights).sums(reference, FREEDOM), kept, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_many_components_are_summed_over_together():
    values, weights = np.zeros((10, 3)), np.full(10, 0.1)
    assert isinstance(prepared(values, weights, 3), FewComponents)
    assert isinstance(prepared(values, weights, 4), ManyComponents)


@pytest.mark.parametrize("d", [1, 4])
def test_steps_climb(d):
    """EM never lowers the likelihood; shrinking towards the start does, but not by much."""
    rng = seeded_rng(f"steps climb {d}")
    truth, values, weights = mixture(rng, 3, d)
    moved = assemble(np.zeros(3), truth.means[:-1] + 0.5, truth.factors[:-1], FREEDOM)
    heights = [fitted_to(moved, moved, values, weights, FREEDOM, n, held=d)[1] for n in (1, 2, 4, 8, 16)]
    assert np.all(np.diff(heights) > -1e-3)
    assert heights[-1] > heights[0] + 0.01
    assert heights[0] == pytest.approx(float(weights @ moved.log_density(values)), abs=1e-6)  # before the last step
    astray = fitted_to(moved, moved, values + 3.0, weights, FREEDOM, 16, held=d)[0]  # control: of other draws
    assert float(weights @ astray.log_density(values)) < heights[0]
