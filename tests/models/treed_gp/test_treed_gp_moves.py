"""Tree moves: each log ratio against the twin's, from the two trees alone; trees by enumeration."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
import treed_gp_twin as twin
from numba import njit
from scipy import stats

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.treed_gp import layout, tree
from tempering.models.treed_gp.change_swap import change, swap_or_rotate
from tempering.models.treed_gp.grow_prune import grow, prune
from tempering.models.treed_gp.layout import N_LEAVES
from tempering.models.treed_gp.model import TreedGPModel, step
from tempering.models.treed_gp.settings import Prior, Proposals

grow_from_python, prune_from_python, interval_from_python = map(twin.from_python, (grow, prune, tree.interval))


# nuggets away from 0, where the dense twin loses digits
PRIOR = Prior(split_probability=0.9, split_decay=0.4, min_leaf=4, nugget=(1.0, 1.0, 1.0, 1.0), slope=0.7)


def build(rng, *, temper="likelihood", n=40, n_columns=2):
    x = rng.random((n, n_columns))
    z = np.sin(6 * x[:, 0]) + 0.3 * rng.standard_normal(n)
    return TreedGPModel(x, z, leaf="gp_linear", prior=PRIOR, temper=temper)


def triangular(low, high, values):
    """Return the proposal of section 7 for the cuts strictly between low and high, the obvious way."""
    middle = (values[max(low, 0)] + values[high]) / 2
    inside = sorted(range(low + 1, high), key=lambda c: (abs(values[c] - middle), values[c] >= middle))
    weight = {cut: 1 / (position + 1) for position, cut in enumerate(inside)}
    below = sum(w for c, w in weight.items() if values[c] < middle)
    above = sum(w for c, w in weight.items() if values[c] >= middle)
    half = 0.5 if below and above else 1.0
    return {c: half * w / (below if values[c] < middle else above) for c, w in weight.items()}


def test_split_proposal_agrees_with_its_twin():
    rng = seeded_rng("split proposal")
    state = build(rng).initial(rng)
    out = np.zeros(state.cuts.shape[1])
    split_probabilities = twin.from_python(tree.split_probabilities)
    for node, variable in itertools.product(state.lists[0, : state.meta[N_LEAVES]], range(2)):
        low, high = split_probabilities(state, node, variable, out)
        expected = triangular(low, high, state.cuts[variable])
        assert out[low + 1 : high] == pytest.approx([expected[c] for c in range(low + 1, high)])
        assert sum(expected.values()) == pytest.approx(1.0)


def log_grow_ratio(small, large, node, k, tempered):
    """Return the log ratio of growing ``node`` of the small tree into the large one, from the trees alone."""
    state = large.state
    variable, cut = (int(large.tree[node, c]) for c in (layout.VARIABLE, layout.CUT))
    low, high = interval_from_python(state, node, variable)
    forward = math.log(triangular(low, high, state.cuts[variable])[cut] / len(state.n_cuts) / len(small.leaves()))
    backward = -math.log(len(large.prunable()))
    prior = (k if tempered else 1.0) * (large.log_tree_prior() - small.log_tree_prior())
    prior += large.log_places_prior() - small.log_places_prior()
    prior += log_prior_over_proposal(small, large, node)
    return prior + large.log_marginal(k) - small.log_marginal(k) + backward - forward


def log_prior_over_proposal(small, large, node, share=0.5, nearness=0.7):
    """Return the log prior of the parameters that the small tree does not have, less that of how grow proposes them."""
    alone, children = small.parameters(node), [int(large.tree[node, c]) for c in (layout.LEFT, layout.RIGHT)]

    def of(snapshot, leaf):
        return np.append(
            snapshot.parameters(leaf)[0], snapshot.leaf[leaf, layout.NUGGET] - snapshot.state.real[layout.NUGGET_FLOOR]
        )

    heir, other = sorted(children, key=lambda c: not np.array_equal(large.parameters(c)[0], alone[0]))
    theirs, own = of(large, heir), of(large, other)
    assert np.array_equal(large.parameters(heir)[1], alone[1])
    assert np.array_equal(large.used(heir), small.used(node))
    is_on, is_alike = large.parameters(other)[1] != 0, large.parameters(other)[1] == alone[1]
    near = stats.lognorm.logpdf(own, nearness, scale=theirs).sum() + np.log(np.where(is_alike, 0.9, 0.1)).sum()
    used, is_same = (large.used(other) != 0)[1:], (large.used(other) == small.used(node))[1:]
    near += np.log(np.where(is_same, 0.9, 0.1)).sum()
    gammas = [PRIOR.range_] * (len(own) - 1) + [PRIOR.nugget]
    log_prior = sum(
        np.logaddexp(*(stats.gamma.logpdf(x, a, scale=1 / b) for a, b in (g[:2], g[2:]))) - math.log(2)
        for x, g in zip(own, gammas, strict=True)
    )
    slope, low, height = PRIOR.linear
    off = low + height / (1 + np.exp(-slope * (own[:-1] - 0.5)))
    log_prior += np.log(np.where(is_on, 1 - off, off)).sum()
    log_prior += np.log(np.where(used, PRIOR.slope, 1 - PRIOR.slope)).sum()
    return log_prior - np.logaddexp(math.log(1 - share) + log_prior, math.log(share) + near)


@pytest.mark.slow
@pytest.mark.parametrize("temper", ["likelihood", "likelihood_and_tree"])
@pytest.mark.parametrize("k", [0.0, 0.4, 1.0])
def test_grow_and_prune_ratios_agree_with_the_twin(k, temper):
    rng = seeded_rng(f"ratio {k} {temper}")
    model = build(rng, temper=temper)
    seen = {"grow": 0, "prune": 0, "three": 0}
    while min(seen.values()) < 8:
        state = model.initial(rng)
        for name, move in (("grow", grow_from_python), ("prune", prune_from_python)):
            before = twin.Snapshot(state)
            state.log_ratio[:] = 0.0
            move(rng, state, k)
            if state.log_ratio[1] == 0.0:
                continue
            after = twin.Snapshot(state)
            small, large = (before, after) if name == "grow" else (after, before)
            (node,) = {i for i, _, _ in large.internal()} - {i for i, _, _ in small.internal()}
            ratio = log_grow_ratio(small, large, node, k, temper != "likelihood")
            assert state.log_ratio[0] == pytest.approx(ratio if name == "grow" else -ratio, abs=1e-6)
            seen[name] += 1
            seen["three"] += len(large.leaves()) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["change", "swap_or_rotate"])
@pytest.mark.parametrize("k", [0.4, 1.0])
def test_change_and_swap_ratios_agree_with_the_twin(name, k):
    rng = seeded_rng(f"{name} {k}")
    move = twin.from_python({"change": change, "swap_or_rotate": swap_or_rotate}[name])
    model = build(rng, temper="likelihood_and_tree")
    seen = 0
    while seen < 15:
        state = model.initial(rng)
        before = twin.Snapshot(state)
        state.log_ratio[:] = 0.0
        move(rng, state, k)
        if state.log_ratio[1] == 1.0:
            after = twin.Snapshot(state)
            ratio = after.log_marginal(k) - before.log_marginal(k)
            ratio += k * (after.log_tree_prior() - before.log_tree_prior())
            assert state.log_ratio[0] == pytest.approx(ratio, abs=1e-6)
            seen += 1


def test_the_state_stays_consistent_through_all_moves():
    rng = seeded_rng("consistent")
    well_sized = twin.from_python(tree.well_sized)
    model = build(rng)
    state = model.initial(rng)
    for _ in range(400):
        step(rng, state, 0.3)
        shown = twin.Snapshot(state)
        assert state.meta[N_LEAVES] == len(shown.leaves())
        for node, depth, rows in shown.nodes():
            first, last = state.tree[node, layout.START], state.tree[node, layout.END]
            assert sorted(state.order[first:last]) == sorted(rows)
            assert state.tree[node, layout.DEPTH] == depth
        assert all(well_sized(state, node) for node, _, _ in shown.leaves())
        assert state.tree[:, layout.USED].sum() == len(list(shown.nodes()))


@lru_cache
def weight_of_trees(n, n_leaves, smallest, n_cuts, depth=0, alpha=None, beta=0.0):
    """Sum over all trees with this many leaves on n equally spaced points; alpha None leaves the process
    out.
    """
    split = 1.0 if alpha is None else alpha * (1 + depth) ** -beta
    leaf = 1.0 if alpha is None else 1 - alpha * (1 + depth) ** -beta
    if n_leaves == 1:
        return leaf
    total = 0.0
    for left in range(smallest, n - smallest + 1):
        for k in range(1, n_leaves):
            one = weight_of_trees(left, k, smallest, n_cuts, depth + 1, alpha, beta)
            total += one * weight_of_trees(n - left, n_leaves - k, smallest, n_cuts, depth + 1, alpha, beta)
    return split / n_cuts * total


def leaf_distribution(smallest=11, **process):
    weights = np.array([weight_of_trees(45, j, smallest, 45, **process) for j in range(1, 5)])
    return weights / weights.sum()


def test_enumeration_gives_the_published_distribution():
    assert leaf_distribution() == pytest.approx([0.6160, 0.3285, 0.0554, 0.0001], abs=6e-5)


def flat_model(temper):
    x = np.linspace(0, 1, 45)[:, None]
    proposals = Proposals(tree_moves=1.0, grow=0.3, prune=0.3)
    return TreedGPModel(x, x.ravel(), leaf="linear", temper=temper, proposals=proposals)


@njit
def occupancy(rng, state, k, n):
    out = np.zeros(4)
    for _ in range(n):
        u = rng.random()
        if u < 0.5:
            grow(rng, state, k) if rng.random() < 0.5 else prune(rng, state, k)
        elif u < 0.8:
            change(rng, state, k)
        else:
            swap_or_rotate(rng, state, k)
        out[min(state.meta[N_LEAVES], 4) - 1] += 1.0
    return out / n


@pytest.mark.slow
@pytest.mark.parametrize("temper", ["likelihood", "likelihood_and_tree"])
def test_tree_moves_with_a_flat_likelihood_visit_leaves_as_enumerated(temper):
    rng = seeded_rng(f"flat {temper}")
    model = flat_model(temper)
    # Tempered to the power 0, the tree process drops out: section 16, oracle 1.
    exact = leaf_distribution(alpha=0.5, beta=2.0) if temper == "likelihood" else leaf_distribution()
    runs = np.array([occupancy(rng, model.initial(rng), 0.0, 8_000) for _ in range(24)])
    assert_mean_is(exact[:3], runs[:, :3])  # four leaves have probability 1e-4 and less


def test_control_the_other_tree_prior_is_seen():
    rng = seeded_rng("flat control")
    model = flat_model("likelihood")
    runs = [occupancy(rng, model.initial(rng), 0.0, 8_000) for _ in range(24)]
    assert_mean_is_not(leaf_distribution(), runs)


def walk_with_prunable_counts(rng, n_rounds, swapped):
    """Run grow and prune on the flat likelihood in plain Python; ``swapped`` mistakes the reverse
    probability.
    """
    tree, counts = (0, 45), np.zeros(4)

    def leaves(t, path=()):
        if len(t) == 2:
            return [(path, t)]
        return leaves(t[0], (*path, 0)) + leaves(t[1], (*path, 1))

    def prunable(t, path=()):
        if len(t) == 2:
            return []
        own = [path] if len(t[0]) == 2 and len(t[1]) == 2 else []
        return own + prunable(t[0], (*path, 0)) + prunable(t[1], (*path, 1))

    def put(t, path, new):
        if not path:
            return new
        return (*(put(t[i], path[1:], new) if i == path[0] else t[i] for i in range(2)), "node")

    def get(t, path):
        return t if not path else get(t[path[0]], path[1:])

    def reverse_count(before, path):
        here = len(prunable(before))
        kept = len(path) > 0 and path[:-1] in prunable(before)
        return here + (1 if kept else 0) if swapped and path else here + (0 if kept else 1)

    for _ in range(n_rounds):
        if rng.random() < 0.5:
            all_leaves = leaves(tree)
            path, (a, b) = all_leaves[rng.integers(len(all_leaves))]
            cut = int(rng.integers(a + 1, b)) if b - a > 1 else a
            if min(cut - a, b - cut) >= 11:
                ratio = (b - a - 1) / 45 * len(all_leaves) / reverse_count(tree, path)
                if rng.random() < ratio:
                    tree = put(tree, path, ((a, cut), (cut, b), "node"))
        else:
            paths = prunable(tree)
            if paths:
                path = paths[rng.integers(len(paths))]
                (a, _), (_, b) = get(tree, path)[:2]
                smaller = put(tree, path, (a, b))
                ratio = 45 / (b - a - 1) / len(leaves(smaller)) * reverse_count(smaller, path)
                if rng.random() < ratio:
                    tree = smaller
        counts[min(len(leaves(tree)), 4) - 1] += 1
    return counts / n_rounds


def test_control_the_swapped_reverse_probability_of_grow_is_seen():
    rng = seeded_rng("swapped")
    right = [walk_with_prunable_counts(rng, 4000, swapped=False) for _ in range(24)]
    wrong = [walk_with_prunable_counts(rng, 4000, swapped=True) for _ in range(24)]
    assert_mean_is(leaf_distribution(), right)
    assert_mean_is_not(leaf_distribution(), wrong)


# Enumeration of the posterior over trees: constant leaves, every hyper-parameter fixed, n = 12.

N = 12
X = np.linspace(0, 1, N) ** 1.3
Z = np.array([0.1, 0.0, 0.2, 0.9, 1.1, 1.0, 0.8, 0.3, -0.9, -1.0, -0.8, -1.2])
FIXED = Prior(
    0.6,
    0.8,
    min_leaf=2,
    coefficients="fixed",
    tau2_start=3.0,
    sigma2=(5.0, 0.2),
    sigma2_rates=(0, 0),
    tau2_rates=(0, 0),
)


@lru_cache
def trees(first, last, depth):
    """List (rule tuple, log prior, leaf blocks) of all trees on points first to last - 1."""
    chance = FIXED.split_probability * (1 + depth) ** -FIXED.split_decay
    out = [((), math.log(1 - chance), ((first, last),))]
    for cut in range(first + 2, last - 1):
        for (r1, p1, b1), (r2, p2, b2) in itertools.product(trees(first, cut, depth + 1), trees(cut, last, depth + 1)):
            out.append((((cut,), r1, r2), math.log(chance / N) + p1 + p2, b1 + b2))
    return out


def exact_posterior(k):
    z = (Z - Z.mean()) / np.ptp(Z)

    @lru_cache
    def block(first, last):
        n = last - first
        return twin.log_marginal(z[first:last], np.ones((n, 1)), np.eye(n), np.eye(1), np.zeros(1), 3.0, 5.0, 0.2, k)

    everything = trees(0, N, 0)
    log_p = np.array([prior + sum(block(*b) for b in blocks) for _, prior, blocks in everything])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    sizes = np.array([len(blocks) for _, _, blocks in everything])
    root = np.array([rule[0][0] if rule else 0 for rule, _, _ in everything])
    return np.array([p[sizes == j].sum() for j in range(1, 6)] + [p[root == c].sum() for c in range(2, 11)])


@njit
def tree_statistics(rng, state, k, n):
    out = np.zeros(14)
    for _ in range(n):
        step(rng, state, k)
        leaves = state.meta[N_LEAVES]
        if leaves <= 5:
            out[leaves - 1] += 1.0
        if leaves > 1:
            out[5 + state.tree[state.meta[layout.ROOT], layout.CUT] + 1 - 2] += 1.0
    return out / n


@pytest.mark.parametrize("k", [0.3, 1.0])
def test_long_runs_agree_with_the_enumerated_posterior_of_trees(k):
    rng = seeded_rng(f"enumeration {k}")
    model = TreedGPModel(X[:, None], Z, leaf="constant", prior=FIXED, proposals=Proposals(tree_moves=1.0))
    tree_statistics(rng, model.initial(rng), k, 10)
    runs = [tree_statistics(rng, model.initial(rng), k, 10_000) for _ in range(24)]
    exact = exact_posterior(k)
    shown = exact > 1e-3  # rarer ones need longer runs
    assert shown.sum() >= 6
    assert_mean_is(exact[shown], np.array(runs)[:, shown])
    assert_mean_is_not(exact_posterior(0.65)[shown], np.array(runs)[:, shown])
