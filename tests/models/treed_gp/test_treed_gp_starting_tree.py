"""The tree that a chain of many leaves starts from is cut where the response steps, and every leaf can be one."""

import numpy as np
import pytest

from statistical import seeded_rng
from tempering.models.treed_gp import Prior, TreedGPModel, layout
from tempering.models.treed_gp.starting_tree import (
    LEAF,
    StartingTree,
    squares_left_by_cubic,
    squares_left_by_lines,
)


def starting_tree(x, y, max_rows=100):
    model = TreedGPModel(x, y, prior=Prior(max_rows=max_rows))
    return StartingTree(model.data, model.integer)


def leaves_of(tree, rules):
    """Return the rows of each leaf of rules in pre-order."""
    rows, leaves = [np.arange(len(tree.data.x))], []
    for column, cut in rules:
        here = rows.pop()
        if (column, cut) == LEAF:
            leaves.append(here)
            continue
        goes_left = tree.data.rank[here, column] <= cut
        rows += [here[~goes_left], here[goes_left]]
    assert rows == []
    return leaves


def test_leaves_are_small_and_large_enough():
    rng = seeded_rng("starting tree, sizes")
    x = np.column_stack([rng.random(1500), rng.integers(0, 3, 1500)])
    tree = starting_tree(x, np.sin(9 * x[:, 0]) + x[:, 1] + 0.1 * rng.standard_normal(1500))
    leaves = leaves_of(tree, tree.rules())
    assert sorted(np.concatenate(leaves)) == list(range(len(tree.data.x)))
    assert max(map(len, leaves)) <= 100
    assert min(map(len, leaves)) >= tree.integer[layout.MIN_LEAF]
    assert len(leaves) <= tree.integer[layout.MAX_LEAVES]
    assert all(np.ptp(tree.data.x[leaf], axis=0).min() > 0 for leaf in leaves)


@pytest.mark.parametrize("height", [1.0, pytest.param(0.0, id="control")])
def test_a_step_is_cut_where_it_is(height):
    rng = seeded_rng("starting tree, step")
    x = rng.random((1500, 2))
    y = np.sin(3 * x[:, 0]) * x[:, 1] + height * (x[:, 1] > 0.3) + 0.05 * rng.standard_normal(1500)
    tree = starting_tree(x, y)
    column, cut = tree.rules()[0]
    below = tree.data.x[:, column][tree.data.rank[:, column] == cut]
    step = (0.3 - x[:, 1].min()) / np.ptp(x[:, 1])
    is_there = column == 1 and np.sum((tree.data.x[:, 1] > below) & (tree.data.x[:, 1] < step)) == 0
    assert is_there == (height > 0)


def test_lines_leave_what_separate_fits_leave():
    rng = seeded_rng("starting tree, lines")
    x, z, weight = np.sort(rng.random(40)), rng.standard_normal(40), rng.integers(1, 4, 40).astype(float)
    z[25:] += 3.0

    def left(part, degree):
        fit = np.polynomial.Polynomial.fit(x[part], z[part], degree, w=np.sqrt(weight[part]))
        return np.sum(weight[part] * (z[part] - fit(x[part])) ** 2)

    separate = {end: left(slice(end + 1), 1) + left(slice(end + 1, None), 1) for end in range(5, 35)}
    found, end = squares_left_by_lines(x, z, weight, np.arange(5, 35))
    assert end == min(separate, key=separate.get) == 24
    assert found == pytest.approx(separate[end])
    assert squares_left_by_cubic(x, z, weight) == pytest.approx(left(slice(None), 3))


@pytest.mark.parametrize("height", [0.0, 1.0])
def test_noise_and_smooth_surfaces_are_halved_at_the_middle_of_the_widest_column(height):
    rng = seeded_rng("starting tree, noise")
    x = rng.random((1500, 2))
    y = height * np.sin(9 * x[:, 0]) * np.cos(4 * x[:, 1]) + 0.1 * rng.standard_normal(1500)
    tree = starting_tree(x, y)
    assert [len(leaf) for leaf in leaves_of(tree, tree.rules())] == pytest.approx([1500 / 16] * 16, abs=1)
