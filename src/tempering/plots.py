"""Pictures of a run: each takes draws, draws on ``ax`` (a new one by default) and returns it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import InputError
from tempering.estimators import DEFAULT_RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempering.draws import TemperedDraws

# Okabe and Ito's palette, which the colour-blind can tell apart; a rule has the same colour in every picture
COLOURS = {
    "cold_only": "#0072B2",
    "ess_optimal": "#D55E00",
    "screened": "#009E73",
    "pooled": "#CC79A7",
    "mbar": "#E69F00",
    "autocorrelation_adjusted": "#56B4E9",
    "equal": "#999999",
}
BLUE = COLOURS["cold_only"]
INK = "#444444"


def plot_density(
    draws: "TemperedDraws",
    name: str = "x",
    *,
    rules: Sequence[str] = (DEFAULT_RULE,),
    truth: Callable[[Any], Any] | None = None,
    n_bins: int = 120,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the weighted density of a number, one line a rule, against the truth where it is known.

    Parameters
    ----------
    draws : TemperedDraws
    name : str
        Which value; it must be one number a draw.
    rules : sequence of str
        Combination rules to draw.
    truth : callable, optional
        The true density, of an array of places.
    n_bins : int
        Bins of the histograms, over what the weights reach.
    ax : matplotlib Axes, optional
    """
    ax = _axes(ax)
    x = _one_number_a_draw(draws, name)
    weights = {rule: draws.weights(rule).ravel() for rule in rules}
    edges = np.linspace(*_reach(x, np.mean(list(weights.values()), axis=0)), n_bins + 1)
    if truth is not None:
        fine = np.linspace(edges[0], edges[-1], 2000)
        ax.fill_between(fine, truth(fine), color="#DDDDDD", label="truth", linewidth=0)
    for rule, w in weights.items():
        height, _ = np.histogram(x, edges, weights=w)
        ax.stairs(height / np.diff(edges), edges, color=COLOURS[rule], linewidth=1.2, label=rule)
    ax.set(xlabel=name, ylabel="density", ylim=(0, None), xlim=(edges[0], edges[-1]))
    ax.legend(frameon=False)
    return ax


def plot_visits(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw how often each rung was visited; even is what a good pseudo-prior brings."""
    ax = _axes(ax)
    visits = draws.visits
    ax.bar(np.arange(len(visits)), visits, width=0.8, color=BLUE)
    ax.axhline(visits.mean(), color=INK, linewidth=1, linestyle="--", label="even visits")
    ax.set(xlabel="rung (0 is cold)", ylabel="draws", xlim=(-0.7, len(visits) - 0.3))
    ax.set_ylim(0, 1.2 * visits.max())  # room for the legend
    ax.legend(frameon=False, loc="upper right")
    return ax


def plot_shares(
    draws: "TemperedDraws", rules: Sequence[str] = (DEFAULT_RULE,), ax: "Axes | None" = None
) -> "Axes":
    """Draw what each rung contributes to the combined estimate, one line a rule."""
    ax = _axes(ax)
    for rule in rules:
        shares = draws.shares(rule)
        ax.stairs(shares, np.arange(len(shares) + 1) - 0.5, color=COLOURS[rule], linewidth=1.5, label=rule)
    ax.set(xlabel="rung (0 is cold)", ylabel="share of the estimate", ylim=(0, None))
    ax.set_xlim(-0.7, len(draws.ladder) - 0.3)
    ax.legend(frameon=False)
    return ax


def plot_rung_path(
    draws: "TemperedDraws", chain: int = 0, n_draws: int = 20_000, ax: "Axes | None" = None
) -> "Axes":
    """Draw the rung of one chain over time: it should go up and down the whole ladder, many times."""
    ax = _axes(ax)
    path = draws.rung[chain, :n_draws]
    ax.plot(np.arange(len(path)), path, color=BLUE, linewidth=0.5)
    ax.set(xlabel="iteration", ylabel="rung (0 is cold)", xlim=(0, len(path)))
    ax.set_ylim(len(draws.ladder) - 0.5, -0.5)
    return ax


def _axes(ax: "Axes | None") -> "Axes":
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _one_number_a_draw(draws: "TemperedDraws", name: str) -> Any:
    if name not in draws.values:
        raise InputError(f"name must be one of {sorted(draws.values)}, but got {name!r}.")
    values = np.asarray(draws.values[name], dtype=float)
    if values.size != draws.rung.size:
        raise InputError(
            f"A density is drawn of one number a draw, but {name} has shape {values.shape[2:]}. "
            "Name a scalar value, or plot the coordinates one by one."
        )
    return values.ravel()


def _reach(x: Any, weights: Any) -> tuple[float, float]:
    """Return where all but a thousandth of the weight lies, with a margin."""
    order = np.argsort(x)
    cumulative = np.cumsum(weights[order])
    low, high = x[order][np.searchsorted(cumulative, np.array([5e-4, 1 - 5e-4]) * cumulative[-1])]
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)
