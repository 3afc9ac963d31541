"""Running sums against the draws they were made of, and their error bars against replicates."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tempered_draws import UNEVEN, correlated_draws

from statistical import assert_mean_is, assert_variance_is_one, seeded_rng
from tempering.errors import EstimatorError
from tempering.estimators import (
    RULES,
    RungSums,
    combine,
    log_evidence_mbar,
    log_evidence_stepping_stone,
    pareto_k_per_rung,
    thermodynamic_integration,
    weighted_quantile,
)
from tempering.estimators.running.answers import (
    combine_sums,
    log_evidence_by_integration,
    log_evidence_by_mbar,
    log_evidence_by_stepping_stones,
    mbar_of,
    pareto_k,
    quantile_of,
    rung_sums,
)
from tempering.estimators.running.batches import standard_error_of_batches
from tempering.estimators.running.bins import EnergyBins, middles, nodes_of, widths
from tempering.estimators.running.rungs import Quantities, RunningRungs, groups_of

BINS = EnergyBins(-0.5, 1.0)
EXACT = ("cold_only", "pooled", "equal", "ess_optimal", "screened", "mbar")


def gaussians(rng, dimension, k=UNEVEN, shape=(8, 2000)):
    """Draw N(1, I / k) at rungs chosen at random: values, energy, rung."""
    rung = rng.integers(0, k.size, shape)
    noise = rng.normal(size=(*shape, dimension)) / np.sqrt(k[rung])[..., None]
    return 1.0 + noise, -0.5 * np.sum(noise**2, axis=-1), rung


def in_stretches(energy, rung, values, k=UNEVEN, length=250, **options):
    """Sum up draws stretch by stretch, as a run does."""
    parts = []
    for start in range(0, rung.shape[1], length):
        part = slice(start, start + length)
        known = {"bins": parts[0].bins, "quantities": parts[0].quantities} if parts else {}
        h = {name: v[:, part] for name, v in values.items()}
        parts.append(RunningRungs.from_draws(energy[:, part], rung[:, part], h, k, **(known or options)))
    return reduce(RunningRungs.followed_by, parts)


def bound(sums, h):
    """Return how far a weighted mean can be off for the width of the bins.

    Two nodes with a bin's first two moments leave (a w)^3 / 24 e^(a w / 2) of its weight, and (a w)^2 / 8 of the
    spread of h within it.
    """
    filled = sums.totals.joint[..., 0].sum(axis=0) > 0
    filled[0] = False  # minus infinity
    step = (1 - sums.inverse_temperatures.min()) * widths(np, sums.bins)[filled]
    weight = sums.totals.joint[..., 0].sum(axis=0)[filled]
    wide = np.average(step**2, weights=weight) / 8 + np.average(step**3 * np.exp(step / 2), weights=weight) / 24
    return wide * np.std(h)


@pytest.mark.parametrize("dimension", [1, 5, 20])
def test_every_rule_gives_what_the_draws_give(dimension):
    x, energy, rung = gaussians(seeded_rng(f"running {dimension}"), dimension)
    values = {"x": x, "square": np.sum(x**2, axis=-1)}
    sums = in_stretches(energy, rung, values)
    for name, h in values.items():
        for rule in EXACT:
            drawn = combine(h, None, rung, rule, energy=energy, inverse_temperatures=UNEVEN)
            summed = combine_sums(sums, name, rule)
            off = np.max(np.abs(np.asarray(summed.estimate) - drawn.estimate))
            assert off < bound(sums, h), (rule, name, off)
            assert np.all(np.abs(summed.shares - drawn.shares) < 3e-4), rule  # a draw's share in its bin's
            assert np.isclose(summed.ess, drawn.ess, rtol=1e-3)
            assert np.allclose(summed.ess_per_rung, drawn.ess_per_rung, rtol=1e-3)
            ratio = np.asarray(summed.standard_error) / drawn.standard_error
            assert np.all((ratio > 0.6) & (ratio < 1.6)), (rule, ratio)  # 64 batches against overlapping ones


def test_control_bins_without_moments_are_seen_to_be_worse():
    x, energy, rung = gaussians(seeded_rng("running control"), 5)
    whole = RunningRungs.from_draws(energy, rung, {"x": x}, UNEVEN)
    exact = RungSums.from_log_weights((1 - UNEVEN)[rung] * energy, rung).log_sum

    def log_sum_of_weights(joint):
        nodes = nodes_of(np, joint, whole.bins)
        tilt = (1 - UNEVEN)[:, None, None]
        return np.log(np.sum(nodes.count * np.exp(tilt * nodes.energy), axis=(1, 2)))

    weight = whole.totals.joint[..., 0] * np.exp((1 - UNEVEN)[:, None] * np.minimum(middles(np, whole.bins), 0.0))
    step = np.minimum(np.multiply.outer(1 - UNEVEN, widths(np, whole.bins)), 50.0)
    limit = np.sum(weight * step**3 / 24 * np.exp(step / 2), axis=1) / np.sum(weight, axis=1) + 1e-12
    assert np.all(np.abs(log_sum_of_weights(whole.totals.joint) - exact) <= limit)
    assert np.allclose(rung_sums(whole).log_sum, exact, rtol=0, atol=limit.max())
    without = np.abs(log_sum_of_weights(whole.totals.joint * [1, 0, 0]) - exact)
    assert np.max(without[1:] / limit[1:]) > 1.3


def test_autocorrelation_counts_as_it_does_for_draws():
    x, energy, rung = correlated_draws(seeded_rng("running autocorrelation"), 16, 8000)
    sums = in_stretches(energy, rung, {"x": x})
    drawn = combine(x, None, rung, "autocorrelation_adjusted", energy=energy, inverse_temperatures=UNEVEN)
    summed = combine_sums(sums, "x", "autocorrelation_adjusted")
    # a time from 64 batches is good to 18 %, and so is the share it leads to; six of these for four rungs
    assert np.all(np.abs(np.log(summed.shares / drawn.shares)) < 6 * np.sqrt(2 / 63))
    assert abs(summed.estimate - drawn.estimate) < 2 * drawn.standard_error


def test_evidence_is_that_of_the_draws():
    _, energy, rung = gaussians(seeded_rng("running evidence"), 3)
    sums = in_stretches(energy, rung, {"e": energy})
    pairs = [
        (log_evidence_by_mbar(sums), log_evidence_mbar(energy, UNEVEN, rung)),
        (log_evidence_by_stepping_stones(sums), log_evidence_stepping_stone(energy, UNEVEN, rung)),
        (
            log_evidence_by_stepping_stones(sums, reverse=True),
            log_evidence_stepping_stone(energy, UNEVEN, rung, reverse=True),
        ),
        (log_evidence_by_integration(sums), thermodynamic_integration(energy, UNEVEN, rung)),
    ]
    for summed, drawn in pairs:
        assert abs(summed.value - drawn.value) < 1e-5
        assert 0.6 < summed.standard_error / drawn.standard_error < 1.6


@pytest.mark.parametrize("dimension", [5, 30])
def test_tails_are_those_of_the_draws(dimension):
    k = np.array([1.0, 0.7, 0.5, 0.3, 0.15])
    _, energy, rung = gaussians(seeded_rng(f"running tails {dimension}"), dimension, k, (4, 20_000))
    sums = RunningRungs.from_draws(energy, rung, {}, k)
    drawn = pareto_k_per_rung((1 - k)[rung] * energy, rung)
    summed = pareto_k(sums)
    assert summed[0] == drawn[0] == -np.inf
    heavy = np.isfinite(drawn) & (drawn > -0.3)  # a bounded tail may end anywhere in its last bin
    assert np.all(np.abs(summed[heavy] - drawn[heavy]) < 0.1), (summed, drawn)
    assert np.array_equal(summed < 0.7, drawn < 0.7)


def test_quantiles_are_right_to_a_bin_and_noise():
    x, energy, rung = gaussians(seeded_rng("running quantiles"), 3, shape=(8, 8000))
    sums = in_stretches(energy, rung, {"x": x[..., 0]})
    p = np.array([0.05, 0.25, 0.5, 0.9])
    for rule in RULES:
        drawn = combine(x[..., 0], None, rung, rule, energy=energy, inverse_temperatures=UNEVEN)
        expected = weighted_quantile(x[..., 0].ravel(), drawn.weights.ravel(), p)
        # a quantile's own error: sqrt(p (1 - p) / ess) over the normal density there
        density = np.exp(-0.5 * (expected - 1.0) ** 2) / np.sqrt(2 * np.pi)
        noise = np.sqrt(p * (1 - p) / drawn.ess) / density
        width = sums.quantities.scale[0] * 1.5 / 96
        assert np.all(np.abs(quantile_of(sums, "x", p, rule) - expected) < width + 5 * noise), rule


# --- merging --------------------------------------------------------------------------------------

small = st.integers(0, 2**31).map(np.random.default_rng)


def of_seed(rng, n_chains=4, n_draws=40, bins=BINS):
    x, energy, rung = gaussians(rng, 1, shape=(n_chains, n_draws))
    units = Quantities({"x": (1,)}, np.array([1.0]), np.array([1.0]))
    return RunningRungs.from_draws(energy, rung, {"x": x}, UNEVEN, bins=bins, quantities=units)


def parts_of(sums):
    whole = (*sums.totals, *(np.atleast_1d(p) for p in sums.batches if p is not sums.batches.weight))
    weight = sums.batches.weight * np.exp(sums.batches.log_reference)
    return [*whole[:4], sums.batches.count, sums.batches.plain, sums.batches.energy, weight, sums.batches.pooled]


def assert_alike(one, other):
    for a, b in zip(parts_of(one), parts_of(other), strict=True):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(small, st.tuples(*[st.integers(1, 5)] * 3))
def test_merging_is_associative_and_commutative(rng, sizes):
    a, b, c = (of_seed(rng, n_chains) for n_chains in sizes)
    assert_alike(a.merge(b), b.merge(a))
    assert_alike(a.merge(b).merge(c), a.merge(b.merge(c)))
    for rule in ("ess_optimal", "mbar"):
        one, other = combine_sums(a.merge(b).merge(c), "x", rule), combine_sums(c.merge(a.merge(b)), "x", rule)
        assert np.allclose(one.estimate, other.estimate, rtol=1e-9)
        assert np.allclose(one.standard_error, other.standard_error, rtol=1e-9, equal_nan=True)


def test_merging_in_one_order_is_exact():
    rng = seeded_rng("running order")
    parts = [of_seed(rng) for _ in range(4)]
    once, again = (parts[0].merge(parts[1]).merge(parts[2].merge(parts[3])) for _ in range(2))
    for a, b in zip(parts_of(once), parts_of(again), strict=True):
        assert np.array_equal(a, b)


def test_merged_sums_are_the_sums_of_all_draws():
    rng = seeded_rng("running all")
    one, two = gaussians(rng, 2), gaussians(rng, 2)
    sums = [RunningRungs.from_draws(e, r, {"x": x}, UNEVEN) for x, e, r in (one, two)]
    energy, rung, x = (np.concatenate([one[i], two[i]]) for i in (1, 2, 0))
    merged = sums[0].merge(sums[1])
    for rule in EXACT:
        drawn = combine(x, None, rung, rule, energy=energy, inverse_temperatures=UNEVEN)
        assert np.max(np.abs(combine_sums(merged, "x", rule).estimate - drawn.estimate)) < bound(merged, x)


@pytest.mark.parametrize("centre", [-3.0, 2.25])
def test_runs_in_other_bins_and_units_can_be_merged(centre):
    rng = seeded_rng(f"running regrid {centre}")
    one, two = gaussians(rng, 2), gaussians(rng, 2)
    first = RunningRungs.from_draws(one[1], one[2], {"x": one[0]}, UNEVEN)
    units = Quantities({"x": (2,)}, np.array([5.0, -3.0]), np.array([0.25, 4.0]))
    bins = EnergyBins(centre, 2.0)
    second = RunningRungs.from_draws(two[1], two[2], {"x": two[0]}, UNEVEN, bins=bins, quantities=units)
    same = RunningRungs.from_draws(two[1], two[2], {"x": two[0]}, UNEVEN, bins=first.bins, quantities=first.quantities)
    moved, direct = first.merge(second), first.merge(same)
    x = np.concatenate([one[0], two[0]])
    for rule in RULES:
        a, b = combine_sums(moved, "x", rule), combine_sums(direct, "x", rule)
        assert np.max(np.abs(a.estimate - b.estimate)) < 2 * bound(second, x), rule
        assert np.allclose(a.standard_error, b.standard_error, rtol=0.02), rule
    quantiles = [quantile_of(s, "x", 0.3, "mbar") for s in (moved, direct)]
    assert np.max(np.abs(quantiles[0] - quantiles[1])) < 0.1  # the old units were 4: a bin of 0.06
    assert np.array_equal(moved.n_draws, direct.n_draws)


def test_other_rungs_and_quantities_are_refused():
    rng = seeded_rng("running refused")
    sums = of_seed(rng)
    x, energy, rung = gaussians(rng, 1)
    with pytest.raises(EstimatorError, match="same rungs"):
        sums.merge(RunningRungs.from_draws(energy, rung, {"x": x}, UNEVEN * [1, 1, 1, 0.9]))
    with pytest.raises(EstimatorError, match="same quantities"):
        sums.merge(RunningRungs.from_draws(energy, rung, {"y": x}, UNEVEN))
    with pytest.raises(EstimatorError, match="same bins"):
        sums.followed_by(of_seed(rng, bins=EnergyBins(1.0, 1.0)))
    with pytest.raises(EstimatorError, match="fall from cold to hot"):
        RunningRungs.from_draws(energy, rung, {"x": x}, UNEVEN[::-1])
    with pytest.raises(EstimatorError, match="one that was summed, x"):
        combine_sums(sums, "z")
    with pytest.raises(EstimatorError, match="NaN or infinite"):
        combine_sums(RunningRungs.from_draws(energy, rung, {"x": np.where(x > 2.0, np.nan, x)}, UNEVEN), "x")


# --- error bars, memory, edges --------------------------------------------------------------------


def z_scores(rng, n_replicates, error=None, n_chains=4):
    z = np.empty((len(RULES), n_replicates))
    for replicate in range(n_replicates):
        x, energy, rung = correlated_draws(rng, n_chains, 4000)
        sums = in_stretches(energy, rung, {"x": x}, length=125, bins=BINS)
        fit = mbar_of(sums)
        for i, rule in enumerate(RULES):
            found = combine_sums(sums, "x", rule, fit)
            z[i, replicate] = (found.estimate - 1.0) / (found.standard_error if error is None else error(x, found))
    return z


@pytest.mark.long
def test_z_scores_of_every_rule_have_variance_one():
    for z in z_scores(seeded_rng("running z"), 60):
        assert_mean_is(0.0, z)
        assert_variance_is_one(z)


@pytest.mark.long
def test_control_errors_from_the_number_of_draws_are_seen_to_be_wrong():
    for z in z_scores(seeded_rng("running z control"), 40, lambda x, found: 1.0 / np.sqrt(found.ess)):
        with pytest.raises(AssertionError):
            assert_variance_is_one(z)


def test_few_batches_of_time_show_a_slow_chain():
    rng = seeded_rng("running slow")
    slow = np.cumsum(rng.normal(size=(1, 64 * 200)), axis=1).reshape(1, 64, 200).sum(axis=2)
    one = standard_error_of_batches(slow - slow.mean(), np.ones((1, 64), bool))
    naive = np.sqrt(np.sum((slow - slow.mean()) ** 2))
    assert one > naive


@pytest.mark.parametrize("n_chains", [1, 3, 64, 200])
def test_memory_does_not_grow_with_the_run(n_chains):
    rng = seeded_rng("running memory")
    x, energy, rung = gaussians(rng, 1, shape=(n_chains, 16))
    stretch = RunningRungs.from_draws(energy, rung, {"x": x}, UNEVEN, bins=BINS)
    sums, sizes = stretch, []
    for _ in range(600):
        sums = sums.followed_by(stretch)
        sizes.append(sums.nbytes)
    assert max(sizes) <= max(sizes[:256])
    assert sums.batches.count.shape[0] * sums.batches.count.shape[1] <= 256
    assert sums.lengths.sum() == 601 * 16
    assert np.array_equal(sums.n_draws, 601 * stretch.n_draws)


def test_energies_without_support_have_no_weight():
    k = np.array([1.0, 0.5, 0.0])
    x, energy, rung = gaussians(seeded_rng("running support"), 1, np.array([1.0, 0.5, 0.2]))
    energy = np.where((rung == 2) & (np.abs(x[..., 0] - 1) > 2), -np.inf, energy)
    sums = RunningRungs.from_draws(energy, rung, {"x": x}, k)
    for rule in ("ess_optimal", "mbar"):
        drawn = combine(x, None, rung, rule, energy=energy, inverse_temperatures=k)
        summed = combine_sums(sums, "x", rule)
        assert np.max(np.abs(summed.estimate - drawn.estimate)) < bound(sums, x)
        assert np.allclose(summed.shares, drawn.shares, atol=3e-4)
    with pytest.raises(EstimatorError, match="finite energies"):
        log_evidence_by_integration(sums)


def test_a_rung_without_draws_gets_no_share():
    k = np.array([1.0, 0.9, 0.5, 0.2])
    x, energy, rung = gaussians(seeded_rng("running empty"), 1, k)
    keep = np.where(rung == 2, 1, rung)
    sums = RunningRungs.from_draws(energy, keep, {"x": x}, k)
    for rule in RULES:
        assert combine_sums(sums, "x", rule).shares[2] == 0.0
    with pytest.raises(EstimatorError, match="every rung"):
        log_evidence_by_stepping_stones(sums)
    assert abs(log_evidence_by_mbar(sums).value - log_evidence_mbar(energy, k, keep).value) < 1e-5


def test_the_constant_in_the_energy_changes_nothing_for_invariant_rules():
    x, energy, rung = gaussians(seeded_rng("running shift"), 2)
    plain, shifted = (
        RunningRungs.from_draws(energy + c, rung, {"x": x}, UNEVEN, bins=EnergyBins(c - 1.0, 1.0)) for c in (0, 4096.0)
    )
    for rule in ("equal", "ess_optimal", "screened", "mbar"):
        a, b = combine_sums(plain, "x", rule), combine_sums(shifted, "x", rule)
        assert np.allclose(a.estimate, b.estimate, rtol=1e-6)
        assert np.allclose(a.standard_error, b.standard_error, rtol=1e-6)


def test_groups_divide_the_chains():
    assert [groups_of(n) for n in (1, 32, 100, 101, 1_000_000)] == [1, 32, 50, 1, 64]
