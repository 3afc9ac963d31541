"""Pictures of a fitted treed GP: each draws on ``ax`` (a new one by default) and returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import InputError
from tempering.models.treed_gp.settings import check_column
from tempering.plots import BLUE, INK

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

    from tempering.models.treed_gp.estimator import TreedGP
    from tempering.models.treed_gp.sensitivity import Sensitivity
    from tempering.models.treed_gp.trees import Leaf

ORANGE = "#D55E00"
N_SENSITIVITY = 256  # points of the design of a page's sensitivities: indices to .01 or so

Picture = tuple[str, str, "Callable[[Axes], Axes]"]  # title, what to look for, function of axes


def _new(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=(7, 4.2), layout="constrained").subplots()


def plot_curve(model: TreedGP, *, n: int = 200, ax: Axes | None = None) -> Axes:
    """Draw data, mean, 90 % band and split probabilities of a model with one input column."""
    if model.n_features_in_ != 1:
        raise InputError(f"A curve needs one input column, but there are {model.n_features_in_}. Use plot_surface.")
    ax = _new(ax)
    x, y = model._training
    grid = np.linspace(x.min(), x.max(), n)[:, None]
    mean, _, band = model._predict(grid, [0.05, 0.95])
    ax.fill_between(grid.ravel(), band[:, 0], band[:, 1], color=BLUE, alpha=0.2, lw=0, label="90 % band")
    ax.plot(grid.ravel(), mean, color=BLUE, label="mean")
    ax.plot(x.ravel(), y, "o", ms=3, color=INK, alpha=0.7, label="data")
    places, probability = model.cut_probabilities(0)
    right = ax.twinx()
    right.vlines(places, 0.0, probability, color=ORANGE, lw=2, label="splits")
    right.set_ylim(0.0, 4.0 * max(float(np.max(probability, initial=0.0)), 0.05))
    right.set_ylabel("expected splits at a value", color=ORANGE)
    right.tick_params(axis="y", colors=ORANGE)
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_surface(model: TreedGP, *, n: int = 50, ax: Axes | None = None) -> Axes:
    """Draw the mean over two input columns, the data's places, and the rectangles of the MAP tree."""
    if model.n_features_in_ != 2 or len(model.model_.data.columns) != 2:
        raise InputError(
            f"A surface needs two input columns that vary, but there are {model.n_features_in_}. "
            "Use plot_curve for one; fit two of them for a surface."
        )
    ax = _new(ax)
    x = model._training[0]
    sides = [np.linspace(x[:, j].min(), x[:, j].max(), n) for j in range(2)]
    first, second = np.meshgrid(*sides)
    mean = model._predict(np.column_stack([first.ravel(), second.ravel()]))[0].reshape(first.shape)
    colours = ax.pcolormesh(first, second, mean, cmap="viridis", shading="gouraud", rasterized=True)
    ax.figure.colorbar(colours, ax=ax, label="mean")
    ax.plot(x[:, 0], x[:, 1], ".", ms=3, color="white", alpha=0.7)
    for leaf in model.map_tree_:
        (a, b), (c, d) = leaf.low, leaf.high
        ax.plot([a, c, c, a, a], [b, b, d, d, b], color=ORANGE, lw=1.5)
    return ax


def plot_acceptance(model: TreedGP, *, ax: Axes | None = None) -> Axes:
    """Draw the acceptance of the tree moves against the inverse temperature."""
    ax = _new(ax)
    k = model.posterior_.ladder.inverse_temperatures
    for name in ("grow", "prune", "change", "swap", "rotate"):
        rate = model.posterior_.acceptance[name]
        rate = np.where(rate > 0, rate, np.nan)  # the axis is logarithmic
        if np.any(np.isfinite(rate)):
            ax.plot(k, rate, "o-", ms=3, label=name)
    ax.set(xscale="log", yscale="log", xlabel="inverse temperature k", ylabel="acceptance")
    ax.legend(frameon=False)
    return ax


def plot_leaves(model: TreedGP, *, ax: Axes | None = None) -> Axes:
    """Draw the posterior of the number of leaves, combined over all rungs and from the cold rung alone."""
    ax = _new(ax)
    combined = model.leaf_probabilities_
    cold = model.posterior_.leaf_probabilities_at(0)
    last = int(np.max(np.flatnonzero(np.maximum(combined, cold) > 1e-3), initial=1)) + 2
    leaves = np.arange(1, last + 1)
    padded = [np.pad(p, (0, max(0, last - len(p))))[:last] for p in (combined, cold)]
    ax.bar(leaves - 0.2, padded[0], width=0.4, color=BLUE, label="all rungs, weighted")
    ax.bar(leaves + 0.2, padded[1], width=0.4, color="#999999", label="cold rung alone")
    ax.set(xlabel="leaves", ylabel="probability", xticks=leaves, ylim=(0, 1.35 * max(map(np.max, padded))))
    ax.legend(frameon=False, loc="upper right")
    return ax


def plot_sensitivity(found: Sensitivity, *, ax: Axes | None = None) -> Axes:
    """Draw first-order and total Sobol indices of every input with their intervals."""
    ax = _new(ax)
    at = np.arange(len(found.names))
    pairs = (
        (found.first, found.first_interval, "first order", BLUE),
        (found.total, found.total_interval, "total", ORANGE),
    )
    for shift, (value, ends, label, colour) in zip((-0.2, 0.2), pairs, strict=True):
        reach = np.maximum(np.abs(ends - value), 0.0)
        ax.bar(at + shift, value, width=0.4, color=colour, alpha=0.6, label=label)
        ax.errorbar(at + shift, value, reach, fmt="none", ecolor=INK, capsize=3, lw=1)
    ax.set(xticks=at, ylabel="share of the variance", ylim=(0, None))
    ax.set_xticklabels(found.names, rotation=0 if len(found.names) < 7 else 60)
    ax.legend(frameon=False)
    return ax


def plot_main_effects(found: Sensitivity, *, ax: Axes | None = None) -> Axes:
    """Draw the mean of the surface as each input goes from its lowest value to its highest, the others averaged."""
    ax = _new(ax)
    for j, name in enumerate(found.names):
        low, width = found.grid[j].min(), np.ptp(found.grid[j]) or 1.0
        scaled = (found.grid[j] - low) / width
        (line,) = ax.plot(scaled, found.main_effects[j], label=f"{name}: {low:.3g} to {low + width:.3g}")
        ax.fill_between(scaled, *found.main_effects_interval[:, j], color=line.get_color(), alpha=0.15, lw=0)
    ax.set(xlabel="input, from its lowest value to its highest", ylabel="mean of the surface")
    ax.legend(frameon=False)
    return ax


def plot_slice(model: TreedGP, column: int, at: ArrayLike, *, n: int = 200, ax: Axes | None = None) -> Axes:
    """Draw mean and 90 % band along one input, the others held at ``at``, shape (d,)."""
    ax = _new(ax)
    x = model._training[0]
    check_column(column, x.shape[1])
    if np.shape(at) != x.shape[1:]:
        raise InputError(f"at must have one value for each of the {x.shape[1]} inputs, but got {at!r}. Add the others.")
    points = np.repeat(np.asarray(at, np.float64)[None], n, axis=0)
    points[:, column] = np.linspace(x[:, column].min(), x[:, column].max(), n)
    mean, _, band = model._predict(points, [0.05, 0.95])
    ax.fill_between(points[:, column], band[:, 0], band[:, 1], color=BLUE, alpha=0.2, lw=0, label="90 % band")
    ax.plot(points[:, column], mean, color=BLUE, label="mean")
    ax.set(xlabel=_names(model)[column], ylabel=getattr(model, "response_name_", "response"))
    ax.legend(frameon=False)
    return ax


def plot_tree(model: TreedGP, *, ax: Axes | None = None) -> Axes:
    """Draw the tree of `map_tree_`: its rules, and rows and noise of its leaves."""
    ax = _new(ax)
    ax.axis("off")
    names = _names(model)
    varying = model.model_.data.columns

    def visit(leaves: list[Leaf], left: float, right: float, depth: int) -> None:
        middle = (left + right) / 2
        split = _first_split(leaves)
        if split is None:
            leaf = leaves[0]
            text = f"{leaf.n_rows} rows\nnoise {leaf.noise:.3g}" + ("\nlinear" if leaf.is_linear else "")
            ax.text(middle, -depth, text, ha="center", va="top", fontsize=8, color=BLUE)
            return
        column, cut, low, high = split
        ax.text(middle, -depth + 0.05, f"{names[varying[column]]} <= {cut:.4g}", ha="center", va="bottom", fontsize=9)
        turn = left + (right - left) * len(low) / len(leaves)
        for part, ends in ((low, (left, turn)), (high, (turn, right))):
            ax.plot([middle, sum(ends) / 2], [-depth, -depth - 0.85], color=INK, lw=1)
            visit(part, *ends, depth + 1)

    visit(model.map_tree_, 0.0, 1.0, 0)
    ax.set(xlim=(0, 1))
    ax.margins(y=0.25)
    return ax


def pictures_of(model: TreedGP) -> list[Picture]:
    """Return what a page shows of a fitted model: its tree, leaves, surface, and which inputs matter."""
    found: list[Picture] = [
        ("Tree", "The best one with the most probable number of leaves.", lambda ax: plot_tree(model, ax=ax)),
        ("Leaves", "Grey stands for the cold rung by itself.", lambda ax: plot_leaves(model, ax=ax)),
    ]
    if model.n_features_in_ == 1:
        return [*found, ("Curve", "Bars: where the tree splits.", lambda ax: plot_curve(model, ax=ax))]
    if model.n_features_in_ == 2 and len(model.model_.data.columns) == 2:
        found.append(("Surface", "Lines: leaves of the tree.", lambda ax: plot_surface(model, ax=ax)))
    effects = model.sensitivity(N_SENSITIVITY, random_state=1)
    return [
        *found,
        ("Main effects", "The other inputs averaged out.", lambda ax: plot_main_effects(effects, ax=ax)),
        ("Sensitivity", "Shares of the variance.", lambda ax: plot_sensitivity(effects, ax=ax)),
    ]


def _first_split(leaves: list[Leaf]) -> tuple[int, float, list[Leaf], list[Leaf]] | None:
    """Find the cut of the whole rectangle: leaves stand left to right, so that one end of the list is below it."""
    for i in range(1, len(leaves)):
        low, high = leaves[:i], leaves[i:]
        for column in range(len(leaves[0].low)):
            cut = max(leaf.high[column] for leaf in low)
            if all(leaf.low[column] >= cut for leaf in high):
                return column, float(cut), low, high
    return None


def _names(model: TreedGP) -> list[str]:
    n = model.n_features_in_
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(n)])]
