"""A recorded tree as a person reads it: leaves with their rectangles and parameters, in the data's units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempering.arrays import Floats
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.records import load_record


@dataclass(frozen=True)
class Leaf:
    """One leaf: rows in it have ``low < x <= high`` in every column (``low`` itself at the edge of the
    data).
    """

    low: Floats
    high: Floats
    n_rows: int
    noise: float
    """Standard deviation of the noise, a mean over the draws."""
    ranges: Floats
    """Ranges of the correlation, for inputs scaled to [0, 1]; geometric means over the draws."""
    active: Floats
    """The probability of each dimension to enter the correlation."""
    is_linear: bool
    """Whether the leaf is linear in most draws."""


def describe_tree(model: TreedGPModel, rows: Floats) -> list[Leaf]:
    """Return the leaves of a recorded tree, left to right; ``rows`` are draws of its parameters, of one tree all."""
    draws = [_leaves(model, row) for row in rows]
    return [_mean(leaves) for leaves in zip(*draws, strict=True)]


def _mean(draws: tuple[Leaf, ...]) -> Leaf:
    return replace(
        draws[0],
        noise=float(np.mean([leaf.noise for leaf in draws])),
        ranges=np.exp(np.mean([np.log(leaf.ranges) for leaf in draws], axis=0)),
        active=np.mean([leaf.active for leaf in draws], axis=0),
        is_linear=bool(np.mean([leaf.is_linear for leaf in draws]) > 0.5),
    )


def _leaves(model: TreedGPModel, row: Floats) -> list[Leaf]:
    state = model.allocate()
    load_record(state, row)
    data = model.data
    leaves = []

    def visit(node: int, low: Floats, high: Floats) -> None:
        left = int(state.tree[node, layout.LEFT])
        if left < 0:
            leaves.append(_leaf(model, state, node, low, high))
            return
        column = int(state.tree[node, layout.VARIABLE])
        between = int(state.tree[node, layout.CUT])
        cut = state.cuts[column, between : between + 2].mean()  # anywhere between two inputs: their middle
        nearer, further = high.copy(), low.copy()
        nearer[column] = further[column] = cut
        visit(left, low, nearer)
        visit(int(state.tree[node, layout.RIGHT]), further, high)

    visit(int(state.meta[layout.ROOT]), np.zeros(len(data.low)), np.ones(len(data.low)))
    return leaves


def _leaf(model: TreedGPModel, state: layout.State, node: int, low: Floats, high: Floats) -> Leaf:
    data = model.data
    inside = state.order[state.tree[node, layout.START] : state.tree[node, layout.END]]
    n_ranges = int(state.integer[layout.N_RANGES])
    ranges, active = np.split(state.leaf[node, layout.RANGES : layout.RANGES + 2 * n_ranges], 2)
    linear = state.integer[layout.LINEAR] != layout.NEVER_LINEAR and not active.any()
    nugget = state.leaf[node, layout.NUGGET] + (1.0 if state.integer[layout.LINEAR] == layout.ALWAYS_LINEAR else 0.0)
    return Leaf(
        low=data.low + data.width * low,
        high=data.low + data.width * high,
        n_rows=int(state.y[inside, layout.COUNT].sum()),
        noise=float(data.spread * np.sqrt(state.leaf[node, layout.SIGMA2] * nugget)),
        ranges=ranges.copy(),
        active=active.copy(),
        is_linear=bool(linear),
    )
