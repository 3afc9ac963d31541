"""Pictures of fitted models: the tree of a treed Gaussian process, survival by year and age."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.plots.style import BLUE, INK, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempering.models.recapture.results import RecaptureResult
    from tempering.models.treed_gp.estimator import TreedGP


def plot_survival(result: "RecaptureResult", *, ax: "Axes | None" = None) -> "Axes":
    """Draw survival by year, a line for each age class, averaged over models, with 95 % intervals.

    `tempering.models.recapture.plots` draws the other parameters, the models and the predictive check.
    """
    drawn: Axes = result.plot_averages("phi", ax=new_axes(ax))
    return drawn


def plot_trees(model: "TreedGP", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the most probable tree of a treed Gaussian process: where it splits, and the rows and noise of its leaves.

    `tempering.models.treed_gp.plots` draws curves, surfaces, and the probabilities of the number of leaves.
    """
    ax = new_axes(ax)
    names = list(getattr(model, "feature_names_in_", [])) or [f"x{j}" for j in range(model.n_features_in_)]
    columns = [names[j] for j in model.model_.data.columns]
    leaves = list(model.map_tree_)
    depth = _draw_tree(ax, leaves, columns, 0, 0)[1]
    ax.set(xlim=(-0.6, len(leaves) - 0.4), ylim=(-depth - 0.75, 0.45))
    ax.set_axis_off()
    return ax


def _draw_tree(ax: "Axes", leaves: list[Any], names: list[str], first: int, depth: int) -> tuple[float, int]:
    """Draw the subtree of some neighbouring leaves; return where its root stands, and how deep it goes."""
    if len(leaves) == 1:
        leaf = leaves[0]
        kind = "linear" if leaf.is_linear else "GP"
        text = f"{leaf.n_rows} rows\n{kind}\nnoise {leaf.noise:.2g}"
        box = {"boxstyle": "round,pad=0.35", "facecolor": "#E6F0F7", "edgecolor": BLUE}
        ax.text(first, -depth, text, ha="center", va="center", fontsize=9, bbox=box, color="#1b1d21")
        return float(first), depth
    split, column, cut = split_of(leaves)
    below = [
        _draw_tree(ax, leaves[:split], names, first, depth + 1),
        _draw_tree(ax, leaves[split:], names, first + split, depth + 1),
    ]
    place = (below[0][0] + below[1][0]) / 2
    for x, _ in below:
        ax.plot([place, x], [-depth, -depth - 1], color=INK, linewidth=1.2, zorder=0)
    box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": INK}
    ax.text(place, -depth, f"{names[column]} \u2264 {cut:.3g}", ha="center", va="center", bbox=box, color="#1b1d21")
    return place, max(deep for _, deep in below)


def split_of(leaves: list[Any]) -> tuple[int, int, float]:
    """Return where neighbouring leaves, left to right, part: how many lie left, by which column, at which value."""
    low, high = (np.array([getattr(leaf, end) for leaf in leaves]) for end in ("low", "high"))
    for split in range(1, len(leaves)):
        edge = high[:split].max(axis=0)
        columns = np.flatnonzero(edge <= low[split:].min(axis=0))
        if columns.size:
            return split, int(columns[0]), float(edge[columns[0]])
    raise AssertionError("the leaves of a tree can always be parted")
