"""Correlations that are kept while only the nugget moves: those of the leaf, whatever the tree has done since."""

import numpy as np
import pytest
import treed_gp_twin as twin

from statistical import seeded_rng
from tempering.compiling.states import StateType
from tempering.models.treed_gp import layout, state_type, summary, system
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.model import TreedGPModel, step
from tempering.models.treed_gp.settings import Prior, Proposals

summarise = twin.from_python(summary.summarise)


def build(rng, n=40, **arguments):
    x = np.round(rng.random((n, 2)), 1)  # with replicates
    prior = Prior(split_probability=0.9, split_decay=0.4, min_leaf=5)
    proposals = Proposals(nugget_move=0.7, change_reach=3)
    return TreedGPModel(x, rng.standard_normal(n) + x[:, 0], prior=prior, proposals=proposals, **arguments)


def parameters_of(state, node):
    n_ranges = state.integer[layout.N_RANGES]
    return state.leaf[node, layout.RANGES : layout.RANGES + 2 * n_ranges]


def key_of(state, node):
    """Return what the correlations of a leaf depend on: exponent, ranges and Booleans, a view."""
    return state.leaf[node, layout.EXPONENT : layout.RANGES + 2 * state.integer[layout.N_RANGES]]


def kept_leaves(state):
    """Return the leaves whose correlations are kept, by the marks, with what is kept of them."""
    out = []
    for node in state.lists[0, : state.meta[layout.N_LEAVES]]:
        first, last = state.tree[node, layout.START], state.tree[node, layout.END]
        n, marks = last - first, state.marks[first:last]
        same = marks[0, system.COUNT] == n and np.all(marks[:, system.BEGIN] == first)
        same = same and np.array_equal(marks[:, system.INPUT], state.order[first:last])
        if same and np.array_equal(state.keys[first], key_of(state, node)):
            begin, width = first * (len(state.kept) // len(state.order)), -(-n // 8) * 8
            out.append((node, state.kept[begin : begin + n * width].reshape(n, width)[:, :n]))
    return out


def largest_error(state, node, kept):
    """Return the largest difference between kept correlations and the leaf's, worked out one by one."""
    rows = state.order[state.tree[node, layout.START] : state.tree[node, layout.END]]
    ranges, active = np.split(parameters_of(state, node), 2)
    exact = twin.correlation_matrix(state.x[rows], ranges, active, "separable")
    return np.max(np.abs(np.triu(kept - exact, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("leaf", ["gp", "gp_linear"])
def test_what_is_kept_is_what_the_leaf_has(leaf):
    rng = seeded_rng(f"kept {leaf}")
    state = build(rng, leaf=leaf).initial(rng)
    n_seen, sizes = 0, set()
    for _ in range(400):
        step(rng, state, 0.3)
        for node, kept in kept_leaves(state):
            assert largest_error(state, node, kept) < 1e-13
            n_seen += 1
            sizes.add(len(kept))
    assert n_seen > 200
    assert len(sizes) > 5


def test_control_correlations_of_other_ranges_are_seen():
    rng = seeded_rng("kept control")
    state = build(rng).initial(rng)
    while not kept_leaves(state):
        step(rng, state, 0.3)
    node, _ = kept_leaves(state)[0]
    parameters_of(state, node)[0] *= 1.1
    assert node not in [found for found, _ in kept_leaves(state)]
    state.keys[state.tree[node, layout.START]] = key_of(state, node)  # a mark that lies
    (kept,) = (kept for found, kept in kept_leaves(state) if found == node)
    assert largest_error(state, node, kept) > 1e-3


def test_summaries_are_the_same_to_the_bit_with_and_without_what_was_kept():
    rng = seeded_rng("kept summaries")
    state = build(rng).initial(rng)
    n_seen = 0
    for _ in range(200):
        step(rng, state, 0.3)
        for node, _ in kept_leaves(state):
            twins = [State(*(array.copy() for array in state)) for _ in range(2)]
            twins[1].marks[:] = 0
            for each in twins:
                summarise(each, node)
            np.testing.assert_array_equal(twins[0].leaf[node], twins[1].leaf[node])
            n_seen += 1
    assert n_seen > 100


@pytest.mark.parametrize("n", [*range(1, 70), 200, 256, 257, 400])
def test_four_rows_at_a_time_fit_into_the_place_of_a_leaf(n):
    for size in range(1, min(n, system.MOST_KEPT) + 1):
        assert -(-size // 4) * 4 * (-(-size // 8) * 8) <= size * system.kept_width(n)


def test_code_kept_on_disk_is_not_found_for_states_of_other_fields():
    fields = state_type.FIELDS
    assert StateType(State, fields, "") == state_type.STATE
    others = {name: kind for name, kind in fields.items() if name != "y"}
    assert StateType(State, others, "") != state_type.STATE
