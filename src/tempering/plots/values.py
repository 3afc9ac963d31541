"""Pictures of values: densities, traces, estimates and evidences."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.estimators.rules import DEFAULT_RULE
from tempering.plots.style import COLOURS, as_text, colour_of, new_axes, one_number_a_draw, rung_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempering.path import Path
    from tempering.runs.draws import TemperedDraws
    from tempering.runs.run import Run

FAR = 10.0  # times its size: an evidence as far off as that would flatten the picture
MOST_CURVES = 6  # rungs whose densities are drawn, evenly over the ladder


def plot_density(
    draws: "TemperedDraws",
    name: str = "x",
    *,
    rules: Sequence[str] = (DEFAULT_RULE,),
    truth: Callable[[Any], Any] | None = None,
    n_bins: int = 120,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the weighted density of a number, one line per rule, against the truth where it is known.

    Parameters
    ----------
    draws : TemperedDraws
    name : str
        Which value, one number per draw; a coordinate of an array is ``x[0]``.
    rules : sequence of str
        Combination rules to draw.
    truth : callable, optional
        The true density, of an array of places.
    n_bins : int
        Bins of the histograms, over what the weights reach.
    ax : matplotlib Axes, optional
    """
    ax = new_axes(ax, draws)
    x = one_number_a_draw(draws, name)
    weights = {rule: draws.weights(rule).ravel() for rule in rules}
    edges = np.linspace(*_reach(x, np.mean(list(weights.values()), axis=0)), n_bins + 1)
    if truth is not None:
        fine = np.linspace(edges[0], edges[-1], 2000)
        ax.fill_between(fine, truth(fine), color="#DDDDDD", label="truth", linewidth=0)
    for rule, w in weights.items():
        height, _ = np.histogram(x, edges, weights=w)
        ax.stairs(height / np.diff(edges), edges, color=colour_of(rule), linewidth=1.2, label=rule)
    ax.set(xlabel=as_text(name), ylabel="density", ylim=(0, None), xlim=(edges[0], edges[-1]))
    ax.legend(frameon=False)
    return ax


def plot_densities(draws: "TemperedDraws", name: str = "x", n_bins: int = 60, ax: "Axes | None" = None) -> "Axes":
    """Draw the density of a number on every rung, as it was sampled, in the colour of the rung: blue is cold."""
    ax = new_axes(ax, draws)
    x, colours = one_number_a_draw(draws, name).reshape(draws.rung.shape), rung_colours(draws.path)
    low, high = np.quantile(x[np.isfinite(x)], [0.005, 0.995]).tolist()
    edges = np.linspace(low, high, n_bins + 1) if high > low else np.linspace(low - 1, low + 1, n_bins + 1)
    visited = np.flatnonzero(draws.visits)
    shown = visited[np.unique(np.linspace(0, len(visited) - 1, min(len(visited), MOST_CURVES)).astype(int))]
    for i in shown.tolist():
        mine = x[draws.rung == i]
        height = np.histogram(mine, edges)[0] / len(mine) / np.diff(edges)
        ax.stairs(height, edges, color=colours[i], linewidth=1.2, label=_in_words(draws.path, i))
    ax.set(xlabel=as_text(name), ylabel="density of the rung", ylim=(0, None), xlim=(edges[0], edges[-1]))
    ax.legend(frameon=False)
    return ax


def plot_traces(draws: "TemperedDraws", name: str = "x", n_draws: int = 2000, ax: "Axes | None" = None) -> "Axes":
    """Draw the values of the first chain (or ensemble) over time, each in the colour of its rung: blue is cold.

    The picture reaches at the most three times as far as the target: hot draws may be anywhere.
    """
    ax = new_axes(ax, draws)
    rows = slice(0, draws.chains_per_ensemble)
    step = max(1, draws.n_draws // n_draws)
    whole = one_number_a_draw(draws, name)
    low, high = _reach(whole, draws.weights().ravel())
    values = whole.reshape(draws.rung.shape)[rows, ::step]
    rung = draws.rung[rows, ::step]
    time = np.broadcast_to(np.arange(0, draws.n_draws, step), rung.shape)
    order = np.argsort(-abs(rung - draws.path.target), axis=None, kind="stable")  # cold ones on top
    colours = rung_colours(draws.path)
    point = [colours[i] for i in rung.ravel()[order].tolist()]
    ax.scatter(time.ravel()[order], values.ravel()[order], s=3, c=point, linewidths=0)
    bottom, top = ax.get_ylim()
    shown = max(bottom, 2 * low - high), min(top, 2 * high - low)
    ax.set(xlabel="iteration", ylabel=as_text(name), xlim=(0, draws.n_draws), ylim=shown)
    return ax


def plot_estimates(
    draws: "TemperedDraws", name: str = "x", *, rules: Sequence[str] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the mean of a number by each rule, with two standard errors on both sides."""
    ax = new_axes(ax, draws)
    values = one_number_a_draw(draws, name).reshape(draws.rung.shape)
    shown = [rule for rule in rules or COLOURS if rule != "cold_only" or draws.visits[draws.path.target] > 0]
    for i, rule in enumerate(shown):
        found = draws.estimate(values, rule)
        error = 2 * float(found.standard_error)
        ax.errorbar(float(found.value), i, xerr=error, fmt="o", color=colour_of(rule), markersize=5, capsize=3)
    ax.set_yticks(range(len(shown)), shown)
    ax.set(xlabel=f"mean of {as_text(name)}, with two standard errors", ylim=(len(shown) - 0.5, -0.5))
    return ax


def plot_evidence(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw the log evidence by each method, with two standard errors on both sides."""
    ax = new_axes(ax, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a disagreement is seen, and said by diagnose()
        found = draws.log_evidence()
    near = {
        n: e for n, e in found.by_method.items() if abs(float(e.value) - found.value) < FAR * (1 + abs(found.value))
    }
    for i, (name, estimate) in enumerate(near.items()):
        colour = colour_of(name)
        error = 2 * float(estimate.standard_error)
        ax.errorbar(float(estimate.value), i, xerr=error, fmt="o", color=colour, markersize=5, capsize=3)
    left_out = [name for name in found.by_method if name not in near]
    note = f"\n(far off: {', '.join(left_out)})" if left_out else ""
    ax.set_yticks(range(len(near)), list(near))
    label = "log evidence" if found.is_absolute else "log Z(1) - log Z(hottest)"
    ax.set(xlabel=label + note, ylim=(len(near) - 0.5, -0.5))
    return ax


def _in_words(path: "Path", rung: int) -> str:
    """Name a rung: its k, and on which leg where there are two."""
    k = f"k = {path.inverse_temperatures[rung]:.2g}"
    if not path.has_two_legs:
        return k
    return "target" if rung == path.target else f"{'quick' if rung < path.target else 'safe'}, {k}"


def _reach(x: Any, weights: Any) -> tuple[float, float]:
    """Return where all but a thousandth of the weight lies, with a margin."""
    order = np.argsort(x)
    cumulative = np.cumsum(weights[order])
    low, high = x[order][np.searchsorted(cumulative, np.array([5e-4, 1 - 5e-4]) * cumulative[-1])]
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)
