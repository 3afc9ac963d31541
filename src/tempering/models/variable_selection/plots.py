"""Pictures of a fitted variable selection: each draws on ``ax`` (a new one by default) and returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tempering.plots import BLUE, INK
from tempering.plots.style import new_axes, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempering.models.variable_selection.estimator import VariableSelection


def plot_inclusion(model: VariableSelection, *, n: int = 25, ax: Axes | None = None) -> Axes:
    """Draw the inclusion probabilities of the n most probable columns, with 95 % intervals of the Monte Carlo error."""
    table = model.summary(n)[::-1]
    ax = new_axes(ax, size=(7, 0.8 + 0.22 * len(table)))
    place = np.arange(len(table))
    chosen = table["inclusion"].to_numpy() >= model.threshold
    error = 1.96 * table["error"].to_numpy()
    colours = np.where(chosen, BLUE, "#999999")
    ax.barh(place, table["inclusion"], color=list(colours), height=0.7)
    ax.errorbar(table["inclusion"], place, xerr=error, fmt="none", ecolor=INK, lw=1, capsize=2)
    ax.axvline(model.threshold, color=INK, lw=0.8, ls=":")
    ax.set(xlabel="inclusion probability", xlim=(0, 1.02), yticks=place, ylim=(-0.6, len(table) - 0.4))
    ax.set_yticklabels([str(name) for name in table.index])
    return ax


def plot_size(model: VariableSelection, *, ax: Axes | None = None) -> Axes:
    """Draw the posterior probabilities of the number of columns in the model."""
    ax = new_axes(ax, size=(7, 3.2))
    probability = model.posterior_.size_probabilities
    shown = np.flatnonzero(probability > 1e-4)
    ax.bar(shown, probability[shown], color=BLUE, width=0.8)
    ax.set(xlabel="columns in the model", ylabel="probability")
    whole_numbers(ax.xaxis)
    return ax
