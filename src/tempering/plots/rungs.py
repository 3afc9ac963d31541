"""Pictures of rungs: the ladder, visits, shares, journeys between rungs, acceptance, overlap, barrier, energies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.estimators.rules import DEFAULT_RULE, PARETO_K_LIMIT
from tempering.plots.style import BLUE, COLOURS, INK, colour_of, new_axes, rung_colours, rung_label, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempering.runs.draws import TemperedDraws
    from tempering.runs.run import Run

LEG_COLOURS = (BLUE, COLOURS["screened"])  # of the safe (or only) leg, and of the quick one
LEAST_K = 1e-4  # drawn on a logarithmic scale


def plot_ladder(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw the inverse temperatures, rung by rung, of both legs if there are two; k = 0 sits on the axis."""
    ax = new_axes(ax, draws)
    path = draws.path
    for i in path.legs_with_rungs:
        k = path.legs[i].ladder.inverse_temperatures
        label = f"{path.legs[i].name} leg" if path.has_two_legs else None
        ax.plot(path.rungs_of(i), k, color=LEG_COLOURS[i], marker="o", markersize=4, linewidth=1, label=label)
    k = path.inverse_temperatures
    least = k[k > 0].min()
    if least < 0.1:
        ax.set_yscale("symlog", linthresh=least, linscale=0.3)
        ax.set_yticks([*([0.0] if k.min() == 0 else []), *(10.0 ** np.arange(np.floor(np.log10(least)), 1))])
    ax.set(xlabel=rung_label(path), ylabel="inverse temperature k", ylim=(0, 1.3))
    if path.has_two_legs:
        ax.legend(frameon=False, loc="lower center")
    whole_numbers(ax.xaxis)
    return ax


def plot_rungs(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw the draws of every rung, and within them those they are worth towards k = 1: the ESS of their weights.

    A hatched rung has weights with too heavy a tail to be believed.
    """
    ax = new_axes(ax, draws)
    table = draws.rungs()
    rung = np.arange(len(table))
    ax.bar(rung, table["visits"], width=0.8, color="#C9D8E4", label="draws")
    bars = ax.bar(rung, table["ess_of_weights"], width=0.8, color=BLUE, label="worth (ESS of weights)")
    heavy = (table["pareto_k"] >= PARETO_K_LIMIT).to_numpy()
    for bar, is_heavy in zip(bars, heavy, strict=True):
        if is_heavy:
            bar.set(facecolor="none", edgecolor=BLUE, hatch="////", linewidth=0)
    if heavy.any():
        ax.bar(0, 0, facecolor="none", edgecolor=BLUE, hatch="////", label=f"k-hat of {PARETO_K_LIMIT} or more")
    ax.set(xlabel=rung_label(draws.path), ylabel="number of draws", xlim=(-0.7, len(table) - 0.3))
    ax.set_ylim(0, 1.45 * table["visits"].max())  # room for the legend
    ax.legend(frameon=False, loc="upper right")
    whole_numbers(ax.xaxis)
    return ax


def plot_visits(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw how often each rung was visited; even is what a good pseudo-prior brings."""
    ax = new_axes(ax, draws)
    visits = draws.visits
    ax.bar(np.arange(len(visits)), visits, width=0.8, color=BLUE)
    ax.axhline(visits.mean(), color=INK, linewidth=1, linestyle="--", label="even visits")
    ax.set(xlabel=rung_label(draws.path), ylabel="draws", xlim=(-0.7, len(visits) - 0.3))
    ax.set_ylim(0, 1.2 * visits.max())  # room for the legend
    ax.legend(frameon=False, loc="upper right")
    whole_numbers(ax.xaxis)
    return ax


def plot_shares(draws: "Run", rules: Sequence[str] = (DEFAULT_RULE,), ax: "Axes | None" = None) -> "Axes":
    """Draw what each rung contributes to the combined estimate, one line per rule."""
    ax = new_axes(ax, draws)
    for rule in rules:
        shares = draws.shares(rule)
        ax.stairs(shares, np.arange(len(shares) + 1) - 0.5, color=colour_of(rule), linewidth=1.5, label=rule)
    ax.set(xlabel=rung_label(draws.path), ylabel="share of the estimate", ylim=(0, None))
    ax.set_xlim(-0.7, len(draws.path) - 0.3)
    ax.legend(frameon=False)
    whole_numbers(ax.xaxis)
    return ax


def plot_index_process(
    draws: "TemperedDraws", chain: int = 0, n_draws: int = 20_000, ax: "Axes | None" = None
) -> "Axes":
    """Draw the rung of one chain over time: it should go up and down the whole ladder, many times."""
    ax = new_axes(ax, draws)
    path = draws.rung[chain, :n_draws]
    ax.plot(np.arange(len(path)), path, color=BLUE, linewidth=0.5)
    ax.set(xlabel="iteration", ylabel=rung_label(draws.path), xlim=(0, len(path)))
    ax.set_ylim(len(draws.path) - 0.5, -0.5)
    if draws.path.has_two_legs:
        ax.axhline(draws.path.target, color=INK, linewidth=1, linestyle="--")
    whole_numbers(ax.yaxis)
    return ax


def plot_acceptance(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw how often moves on each rung, and exchanges with the next, are accepted."""
    ax = new_axes(ax, draws)
    table = draws.rungs()
    rung = np.arange(len(table))
    ax.plot(rung, table["move_acceptance"], color=BLUE, marker="o", markersize=4, linewidth=1, label="moves")
    exchange = table["exchange_acceptance"].to_numpy()[:-1]
    style: dict[str, Any] = {"color": COLOURS["ess_optimal"], "marker": "s", "markersize": 4, "linewidth": 1}
    ax.plot(rung[:-1] + 0.5, exchange, label="exchanges", **style)
    ax.set(xlabel=rung_label(draws.path), ylabel="accepted", ylim=(0, 1.05), xlim=(-0.7, len(table) - 0.3))
    ax.legend(frameon=False)
    whole_numbers(ax.xaxis)
    return ax


def plot_trust(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw each rung's effective sample size over its draws, hollow where its weights have too heavy a tail."""
    ax = new_axes(ax, draws)
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
    ax.set(xlabel=rung_label(draws.path), ylabel="ESS of weights / draws", ylim=(0, 1.2), xlim=(-0.7, len(table) - 0.3))
    ax.legend(frameon=False, loc="upper right")
    whole_numbers(ax.xaxis)
    return ax


def plot_barrier(draws: "TemperedDraws", ax: "Axes | None" = None) -> "Axes":
    """Draw the communication barrier from k = 1 down to each k, along each leg, and where the rungs are.

    Even steps in height make an even ladder; a steep stretch without rungs is where chains get stuck.
    """
    ax = new_axes(ax, draws)
    path = draws.path
    for leg in path.legs_with_rungs:
        k, grid, height = _barrier_of_leg(draws, leg)
        label = f"{path.legs[leg].name} leg" if path.has_two_legs else None
        ax.plot(grid, height, color=LEG_COLOURS[leg], linewidth=1.5, label=label)
        rungs = "rungs" if leg == path.legs_with_rungs[0] else None
        ax.plot(k, np.interp(-k, -grid, height), "o", color=COLOURS["ess_optimal"], markersize=4, label=rungs)
    k = path.inverse_temperatures
    if k.min() < 0.1:
        ax.set_xscale("symlog", linthresh=max(k[k > 0].min(), LEAST_K), linscale=0.3)
    ax.set(xlabel="inverse temperature k", ylabel="barrier from k = 1", ylim=(0, None))
    ax.set_xlim(1.0, k.min())
    ax.legend(frameon=False, loc="upper left")
    return ax


def _barrier_of_leg(draws: "TemperedDraws", leg: int) -> tuple[Any, Any, Any]:
    """Return the rungs of a leg, a fine grid of k that has them in it, and the barrier down to each k of it."""
    from tempering.runs.diagnosis import density_of_states

    ladder = draws.path.legs[leg].ladder
    k = ladder.inverse_temperatures
    method = "parallel" if draws.chains_per_ensemble > 1 else "simulated"
    near_zero = np.geomspace(1.0, max(ladder.hottest, LEAST_K), 200)
    grid = np.unique(np.concatenate([np.linspace(1.0, k[-1], 200), near_zero, k]))[::-1]
    return k, grid, density_of_states(draws, leg).cumulative_barrier(grid, method)


def plot_overlap(draws: "Run", ax: "Axes | None" = None) -> "Axes":
    """Draw the overlap of rungs as a heat map: how much of rung j a draw of rung i might as well be of."""
    ax = new_axes(ax, draws)
    image = ax.imshow(draws.mbar.overlap, cmap="Blues", vmin=0, interpolation="nearest")
    ax.set(xlabel=rung_label(draws.path), ylabel=rung_label(draws.path))
    ax.figure.colorbar(image, ax=ax, label="overlap", shrink=0.85)
    whole_numbers(ax.xaxis, ax.yaxis)
    return ax


def plot_energies(draws: "TemperedDraws", n_bins: int = 60, ax: "Axes | None" = None) -> "Axes":
    """Draw how far the energies of every rung lie below the highest, a row for each rung: neighbours overlap."""
    ax = new_axes(ax, draws)
    finite = np.isfinite(draws.energy)
    depth = draws.energy[finite].max() - draws.energy
    below = depth[finite & (depth > 0)]
    low, high = np.quantile(below, [0.001, 1.0]) if below.size else (0.1, 1.0)  # a flat density has one energy
    edges = np.geomspace(low, high, n_bins + 1)
    m, colours = len(draws.path), rung_colours(draws.path)
    for i in range(m):
        height, _ = np.histogram(depth[finite & (draws.rung == i)], edges)
        top = -i + 0.9 * height / max(height.max(), 1)
        ax.fill_between(edges.repeat(2)[1:-1], -i, top.repeat(2), color=colours[i], alpha=0.7, linewidth=0)
    shown = np.unique(np.linspace(0, m - 1, min(m, 12)).astype(int))
    ax.set_yticks(-shown, [f"{i}  (k = {draws.path.inverse_temperatures[i]:.2g})" for i in shown.tolist()])
    ax.set(xscale="log", xlabel="energy below the highest", ylabel="rung", xlim=(high, low), ylim=(-m + 0.9, 1.05))
    return ax
