"""A corner-style picture: the weighted density of every number, and of every pair of them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import InputError
from tempering.estimators import weighted_quantile
from tempering.estimators.rules import DEFAULT_RULE
from tempering.plots.style import BLUE, one_number_a_draw
from tempering.runs.draws import check_draws
from tempering.runs.summary import indices

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from tempering.runs.draws import TemperedDraws

MOST = 8  # numbers that one picture can hold
MASSES = (0.95, 0.68, 0.39)  # within the lines: two, about 1.5, and one deviation of a normal distribution
REACH = (0.001, 0.999)  # quantiles that the picture goes to, and a little further


def plot_pairs(
    draws: "TemperedDraws",
    names: Sequence[str] | None = None,
    *,
    rule: str = DEFAULT_RULE,
    n_bins: int = 40,
    figure: "Figure | SubFigure | None" = None,
) -> "Figure | SubFigure":
    """Draw weighted histograms on the diagonal, and below it the regions that hold most of the mass of each pair.

    Parameters
    ----------
    draws : TemperedDraws
    names : sequence of str, optional
        Numbers to draw, such as ``x[0]``; the first eight by default.
    rule : str
        How the rungs are combined.
    n_bins : int
        Bins of each histogram along an axis.
    figure : matplotlib Figure, optional
        A new one by default. What is returned.
    """
    check_draws(draws)
    if names is not None and not isinstance(names, Iterable):
        raise InputError(f"names must be a list of names, but got {names!r}. Write names=['x[0]', 'x[1]'].")
    given = [names] if isinstance(names, str) else names
    chosen = list(given) if given is not None else numbers_of(draws)[:MOST]
    if not 1 <= len(chosen) <= MOST:
        raise InputError(
            f"A picture of pairs holds 1 to {MOST} numbers, but got {len(chosen)}. Name fewer: names=[...]."
        )
    weights = draws.weights(rule).ravel()
    columns = [np.asarray(one_number_a_draw(draws, name), dtype=float) for name in chosen]
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(1.0 + 1.7 * len(chosen),) * 2, layout="constrained")
    n = len(chosen)
    axes = figure.subplots(n, n, squeeze=False)
    edges = [_edges(column, weights, n_bins) for column in columns]
    for i in range(n):
        for j in range(n):
            ax = axes[i, j]
            ax.spines[["top", "right"]].set_visible(False)
            if j > i:
                ax.set_visible(False)
            elif i == j:
                height, _ = np.histogram(columns[i], edges[i], weights=weights)
                ax.stairs(height / np.diff(edges[i]), edges[i], color=BLUE, fill=True, alpha=0.35)
                ax.set(yticks=[], xlim=(edges[i][0], edges[i][-1]), ylim=(0, None))
            else:
                _draw_pair(ax, columns[j], columns[i], weights, edges[j], edges[i])
            _label(ax, i, j, n, chosen)
    return figure


def numbers_of(draws: "TemperedDraws") -> list[str]:
    """Return the names of all numbers of a draw, as `TemperedDraws.summary` has them."""
    return [
        f"{name}[{index}]" if index else name for name, a in draws.values.items() for index in indices(np.shape(a)[2:])
    ]


def _edges(column: Any, weights: Any, n_bins: int) -> Any:
    low, high = np.ravel(weighted_quantile(column, weights, np.array(REACH)))
    if not high > low:
        low, high = low - 0.5, low + 0.5
    margin = 0.05 * (high - low)  # so that no region is cut off
    return np.linspace(low - margin, high + margin, n_bins + 1)


def _draw_pair(ax: Any, x: Any, y: Any, weights: Any, x_edges: Any, y_edges: Any) -> None:
    from scipy.ndimage import gaussian_filter

    mass, _, _ = np.histogram2d(x, y, (x_edges, y_edges), weights=weights)
    smooth = gaussian_filter(mass, 0.8)
    ordered = np.sort(smooth.ravel())[::-1]
    inside = np.cumsum(ordered) / ordered.sum()
    levels = [ordered[min(int(np.searchsorted(inside, m)), ordered.size - 1)] for m in MASSES]
    levels = [level for k, level in enumerate(levels) if k == 0 or level > levels[k - 1]]
    centres = (x_edges[1:] + x_edges[:-1]) / 2, (y_edges[1:] + y_edges[:-1]) / 2
    ax.contourf(*centres, smooth.T, [*levels, max(ordered[0], levels[-1]) * 1.01], cmap="Blues", alpha=0.8, vmin=0.0)
    ax.contour(*centres, smooth.T, levels, colors=BLUE, linewidths=0.7)
    ax.set(xlim=(x_edges[0], x_edges[-1]), ylim=(y_edges[0], y_edges[-1]))


def _label(ax: Any, i: int, j: int, n: int, names: list[str]) -> None:
    ax.tick_params(labelsize=7, labelbottom=i == n - 1, labelleft=j == 0 and i > 0)
    ax.xaxis.set_major_locator(_few_ticks())
    if i != j:
        ax.yaxis.set_major_locator(_few_ticks())
    if i == n - 1:
        ax.set_xlabel(names[j])
    if j == 0 and i > 0:
        ax.set_ylabel(names[i])


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)
