"""Pictures of a run: each takes draws, draws on ``ax`` (a new one by default) and returns it."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.draws import DEFAULT_RULE
from tempering.errors import InputError
from tempering.estimators.rules import PARETO_K_LIMIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

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
FAR = 10.0  # times its size: an evidence as far off as that would flatten the picture


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
    _whole_numbers(ax.xaxis)
    return ax


def plot_shares(draws: "TemperedDraws", rules: Sequence[str] = (DEFAULT_RULE,), ax: "Axes | None" = None) -> "Axes":
    """Draw what each rung contributes to the combined estimate, one line a rule."""
    ax = _axes(ax)
    for rule in rules:
        shares = draws.shares(rule)
        ax.stairs(shares, np.arange(len(shares) + 1) - 0.5, color=COLOURS[rule], linewidth=1.5, label=rule)
    ax.set(xlabel="rung (0 is cold)", ylabel="share of the estimate", ylim=(0, None))
    ax.set_xlim(-0.7, len(draws.ladder) - 0.3)
    ax.legend(frameon=False)
    _whole_numbers(ax.xaxis)
    return ax


def plot_rung_path(draws: "TemperedDraws", chain: int = 0, n_draws: int = 20_000, ax: "Axes | None" = None) -> "Axes":
    """Draw the rung of one chain over time: it should go up and down the whole ladder, many times."""
    ax = _axes(ax)
    path = draws.rung[chain, :n_draws]
    ax.plot(np.arange(len(path)), path, color=BLUE, linewidth=0.5)
    ax.set(xlabel="iteration", ylabel="rung (0 is cold)", xlim=(0, len(path)))
    ax.set_ylim(len(draws.ladder) - 0.5, -0.5)
    _whole_numbers(ax.yaxis)
    return ax


def plot_ladder(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw the inverse temperatures, rung by rung; k = 0 sits on the axis."""
    ax = _axes(ax)
    k = draws.ladder.inverse_temperatures
    ax.plot(np.arange(len(k)), k, color=BLUE, marker="o", markersize=4, linewidth=1)
    positive = k[k > 0]
    if positive[-1] < 0.1:
        ax.set_yscale("symlog", linthresh=positive[-1], linscale=0.3)
        ax.set_yticks([*([0.0] if k[-1] == 0 else []), *(10.0 ** np.arange(np.floor(np.log10(positive[-1])), 1))])
    ax.set(xlabel="rung (0 is cold)", ylabel="inverse temperature k", ylim=(0, 1.3))
    _whole_numbers(ax.xaxis)
    return ax


def plot_acceptance(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw how often moves on each rung, and exchanges with the next, are accepted."""
    ax = _axes(ax)
    table = draws.rungs()
    rung = np.arange(len(table))
    ax.plot(rung, table["move_acceptance"], color=BLUE, marker="o", markersize=4, linewidth=1, label="moves")
    exchange = table["exchange_acceptance"].to_numpy()[:-1]
    style: dict[str, Any] = {"color": COLOURS["ess_optimal"], "marker": "s", "markersize": 4, "linewidth": 1}
    ax.plot(rung[:-1] + 0.5, exchange, label="exchanges", **style)
    ax.set(xlabel="rung (0 is cold)", ylabel="accepted", ylim=(0, 1.05), xlim=(-0.7, len(table) - 0.3))
    ax.legend(frameon=False)
    _whole_numbers(ax.xaxis)
    return ax


def plot_trust(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw each rung's effective sample size over its draws, hollow where its weights have too heavy a tail."""
    ax = _axes(ax)
    table = draws.rungs()
    share = (table["ess_of_weights"] / table["visits"].clip(lower=1)).to_numpy()
    heavy = (table["pareto_k"] >= PARETO_K_LIMIT).to_numpy()
    rung = np.arange(len(table))
    for chosen, fill, label in (
        (~heavy, BLUE, "tail sound"),
        (heavy, "none", f"Pareto k-hat of {PARETO_K_LIMIT} or more"),
    ):
        if chosen.any():
            ax.bar(rung[chosen], share[chosen], width=0.8, facecolor=fill, edgecolor=BLUE, label=label)
    ax.set(xlabel="rung (0 is cold)", ylabel="ESS of weights / draws", ylim=(0, 1.2), xlim=(-0.7, len(table) - 0.3))
    ax.legend(frameon=False, loc="upper right")
    _whole_numbers(ax.xaxis)
    return ax


def plot_barrier(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw the communication barrier from k = 1 down to each k, and where the rungs are.

    Even steps in height make an even ladder; a steep stretch without rungs is where chains get stuck.
    """
    from tempering.tuning.density_of_states import DensityOfStates

    ax = _axes(ax)
    k = draws.ladder.inverse_temperatures
    method = "parallel" if draws.chains_per_ensemble > 1 else "simulated"
    least = max(draws.ladder.hottest, 1e-4)
    grid = np.unique(np.concatenate([np.linspace(1.0, k[-1], 200), np.geomspace(1.0, least, 200), k]))[::-1]
    height = DensityOfStates.from_draws(draws.energy, k, draws.rung).cumulative_barrier(grid, method)
    ax.plot(grid, height, color=BLUE, linewidth=1.5)
    ax.plot(k, np.interp(-k, -grid, height), "o", color=COLOURS["ess_optimal"], markersize=4, label="rungs")
    if least < 0.1:
        ax.set_xscale("symlog", linthresh=max(k[k > 0][-1], least), linscale=0.3)
    ax.set(xlabel="inverse temperature k", ylabel="barrier from k = 1", ylim=(0, None))
    ax.set_xlim(1.0, k[-1])
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_overlap(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw the overlap of rungs as a heat map: how much of rung j a draw of rung i might as well be of."""
    ax = _axes(ax)
    image = ax.imshow(draws.mbar.overlap, cmap="Blues", vmin=0, interpolation="nearest")
    ax.set(xlabel="rung (0 is cold)", ylabel="rung (0 is cold)")
    ax.figure.colorbar(image, ax=ax, label="overlap", shrink=0.85)
    _whole_numbers(ax.xaxis, ax.yaxis)
    return ax


def plot_energies(draws: "TemperedDraws", n_bins: int = 60, ax: "Axes | None" = None) -> "Axes":
    """Draw how far the energies of every rung lie below the highest, a row a rung, cold on top: neighbours overlap."""
    ax = _axes(ax)
    finite = np.isfinite(draws.energy)
    depth = draws.energy[finite].max() - draws.energy
    low, high = np.quantile(depth[finite & (depth > 0)], [0.001, 1.0])
    edges = np.geomspace(low, high, n_bins + 1)
    m = len(draws.ladder)
    for i in range(m):
        height, _ = np.histogram(depth[finite & (draws.rung == i)], edges)
        top = -i + 0.9 * height / max(height.max(), 1)
        ax.fill_between(edges.repeat(2)[1:-1], -i, top.repeat(2), color=_shade(i, m), alpha=0.7, linewidth=0)
    shown = np.unique(np.linspace(0, m - 1, min(m, 12)).astype(int))
    ax.set_yticks(-shown, [f"{i}  (k = {draws.ladder[i]:.2g})" for i in shown.tolist()])
    ax.set(xscale="log", xlabel="energy below the highest", ylabel="rung", xlim=(high, low), ylim=(-m + 0.9, 1.05))
    return ax


def plot_traces(draws: "TemperedDraws", name: str = "x", n_draws: int = 2000, ax: "Axes | None" = None) -> "Axes":
    """Draw the values of the first chain (or ensemble) over time, each in the colour of its rung: blue is cold."""
    ax = _axes(ax)
    _one_number_a_draw(draws, name)
    rows = slice(0, draws.chains_per_ensemble)
    step = max(1, draws.n_draws // n_draws)
    values = np.asarray(draws.values[name], dtype=float).reshape(draws.rung.shape)[rows, ::step]
    rung = draws.rung[rows, ::step]
    time = np.broadcast_to(np.arange(0, draws.n_draws, step), rung.shape)
    order = np.argsort(-rung, axis=None, kind="stable")  # cold ones on top
    colours = [_shade(i, len(draws.ladder)) for i in range(len(draws.ladder))]
    point = [colours[i] for i in rung.ravel()[order].tolist()]
    ax.scatter(time.ravel()[order], values.ravel()[order], s=3, c=point, linewidths=0)
    ax.set(xlabel="iteration", ylabel=name, xlim=(0, draws.n_draws))
    return ax


def plot_estimates(
    draws: "TemperedDraws", name: str = "x", *, rules: Sequence[str] | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the mean of a number by each rule, with two standard errors on both sides."""
    ax = _axes(ax)
    values = _one_number_a_draw(draws, name).reshape(draws.rung.shape)
    shown = [rule for rule in rules or COLOURS if rule != "cold_only" or draws.visits[0] > 0]
    for i, rule in enumerate(shown):
        found = draws.combination(values, rule)
        error = 2 * float(found.standard_error)
        ax.errorbar(float(found.estimate), i, xerr=error, fmt="o", color=COLOURS[rule], markersize=5, capsize=3)
    ax.set_yticks(range(len(shown)), shown)
    ax.set(xlabel=f"mean of {name}, with two standard errors", ylim=(len(shown) - 0.5, -0.5))
    return ax


def plot_evidence(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw the log evidence by each method, with two standard errors on both sides."""
    ax = _axes(ax)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a disagreement is seen, and said by diagnose()
        found = draws.log_evidence()
    near = {
        n: e for n, e in found.by_method.items() if abs(float(e.value) - found.value) < FAR * (1 + abs(found.value))
    }
    for i, (name, estimate) in enumerate(near.items()):
        colour = COLOURS["mbar"] if name == "mbar" else INK
        error = 2 * float(estimate.standard_error)
        ax.errorbar(float(estimate.value), i, xerr=error, fmt="o", color=colour, markersize=5, capsize=3)
    left_out = [name for name in found.by_method if name not in near]
    note = f"\n(far off: {', '.join(left_out)})" if left_out else ""
    ax.set_yticks(range(len(near)), list(near))
    label = "log evidence" if found.is_absolute else "log Z(1) - log Z(hottest)"
    ax.set(xlabel=label + note, ylim=(len(near) - 0.5, -0.5))
    return ax


def _axes(ax: "Axes | None") -> "Axes":
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _whole_numbers(*axes: "Axis") -> None:
    """Put ticks at whole numbers only, as rungs are."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))


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


def _shade(rung: int, n_rungs: int) -> Any:
    """Return a colour from blue, the cold rung, to orange, the hottest; both are seen on light and on dark."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("rungs", [BLUE, COLOURS["pooled"], COLOURS["mbar"]])
    return colours(rung / max(n_rungs - 1, 1))
