"""Pictures of a fit: each takes a result, draws on ``ax`` (a new one by default) and returns it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.estimators.rules import DEFAULT_RULE
from tempering.plots.style import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tempering.models.recapture.predictive import PredictiveCheck
    from tempering.models.recapture.results import RecaptureResult

# Okabe and Ito's palette, which the colour-blind can tell apart
CLASS_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
STROKES = ("-", "--", ":", "-.")
FEWEST_BARS = 4  # room is left for as many, so that a single bar does not fill the picture
MOST_LABELS = 12  # of years along an axis
NAMES = {
    "phi": "survival",
    "p": "recapture",
    "lambda": "recovery",
    "F": "fidelity",
    "gamma": "seniority",
    "psi": "movement",
    "to": "destination",
}


def plot_averages(
    result: "RecaptureResult", parameter: str = "phi", *, rule: str = DEFAULT_RULE, ax: "Axes | None" = None
) -> "Axes":
    """Draw a parameter by year, a line for each age class (and group), with 95 % intervals."""
    ax = new_axes(ax)
    table = result.averages(rule).query("parameter == @parameter").copy()
    table["group"] = table["group"].replace("", "class") if result.has_groups else "class"
    lines = list(dict.fromkeys(zip(table["group"], table["age_class"], strict=True)))
    groups, ages = (list(dict.fromkeys(line[which] for line in lines)) for which in (0, 1))
    many = table["year"].nunique() > 20
    for i, (group, age) in enumerate(lines):
        rows, label = table[(table["group"] == group) & (table["age_class"] == age)], f"{group} {age}"
        one_age = len(ages) == 1  # colours tell ages apart, strokes the groups
        colour = CLASS_COLOURS[(groups.index(group) if one_age else ages.index(age)) % len(CLASS_COLOURS)]
        style = STROKES[groups.index(group) % len(STROKES)]
        if many:  # bars would overlap: bands do not
            ax.fill_between(rows["year"], rows["lower"], rows["upper"], color=colour, alpha=0.12, linewidth=0)
            ax.plot(rows["year"], rows["mean"], color=colour, label=label, linewidth=1.4, linestyle=style)
            continue
        year = rows["year"] + (i - (len(lines) - 1) / 2) * 0.08
        spread = np.abs(rows[["lower", "upper"]].to_numpy().T - rows["mean"].to_numpy())
        ax.errorbar(
            year, rows["mean"], yerr=spread, color=colour, label=label, marker="o", linestyle=style,
            markersize=4, linewidth=1.2, elinewidth=0.8, capsize=2,
        )  # fmt: skip
    ax.set_ylim(0, min(1.0, 1.05 * float(table["upper"].max())))
    ax.set_xlabel("occasion" if parameter == "p" else "year in which the interval starts")
    ax.set_ylabel(f"{NAMES[parameter]}, averaged over models")
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False, ncols=min(4, len(lines)), loc="upper center", bbox_to_anchor=(0.5, 1.14))
    return ax


def plot_abundance(result: "RecaptureResult", *, rule: str = DEFAULT_RULE, ax: "Axes | None" = None) -> "Axes":
    """Draw the number of birds at each occasion, a line for each group, with 95 % intervals."""
    ax = new_axes(ax)
    table = result.abundance(rule).query("occasion != 'ever'")
    groups = list(dict.fromkeys(table["group"])) if result.has_groups else [""]
    for i, group in enumerate(groups):
        rows = table[table["group"] == group] if result.has_groups else table
        years, colour = rows["occasion"].astype(int), CLASS_COLOURS[i % len(CLASS_COLOURS)]
        ax.fill_between(years, rows["lower"], rows["upper"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(years, rows["mean"], color=colour, label=group, marker="o", markersize=4, linewidth=1.4)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("occasion")
    ax.set_ylabel("number of birds, averaged over models")
    ax.locator_params(axis="x", integer=True)
    if result.has_groups:
        ax.legend(frameon=False)
    return ax


def plot_means(result: "RecaptureResult", *, rule: str = DEFAULT_RULE, ax: "Axes | None" = None) -> "Axes":
    """Draw every parameter by age class (and group), averaged over years and models, with 95 % intervals."""
    ax = new_axes(ax)
    table = result.means(rule)
    labels = table["group"] + " " + table["age_class"] if result.has_groups else table["age_class"]
    place = np.arange(len(table))[::-1]
    for i, name in enumerate(result.parameters):
        mine = (table["parameter"] == name).to_numpy()
        rows = table[mine]
        spread = np.abs(rows[["lower", "upper"]].to_numpy().T - rows["mean"].to_numpy())
        ax.errorbar(
            rows["mean"], place[mine], xerr=spread, fmt="o", color=CLASS_COLOURS[i], capsize=3, label=NAMES[name]
        )
    ax.set_yticks(place, labels=[f"{p} {label}" for p, label in zip(table["parameter"], labels, strict=True)])
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.6, len(table) - 0.4)
    ax.set_xlabel("mean over years, averaged over models")
    ax.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.12))
    return ax


def plot_structures(
    result: "RecaptureResult",
    parameter: str = "phi",
    *,
    rule: str = DEFAULT_RULE,
    top: int = 8,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the probabilities of a parameter's structures, the most probable on top."""
    table = result.structure_probabilities(parameter, rule).head(top)
    title = f"structures of {NAMES[parameter]}"
    return _bars(ax, table[parameter], table["probability"], table["standard_error"], title)


def plot_models(
    result: "RecaptureResult", *, rule: str = DEFAULT_RULE, top: int = 8, ax: "Axes | None" = None
) -> "Axes":
    """Draw the probabilities of the most probable models."""
    table = result.model_probabilities(rule, top)
    in_doubt = [name for name in result.parameters if result.space.space(name).count > 1] or result.parameters
    labels = ["\n".join(f"{name}: {row[name]}" for name in in_doubt) for _, row in table.iterrows()]
    return _bars(ax, labels, table["probability"], table["standard_error"], "models")


def plot_overlap(result: "RecaptureResult", *, rule: str = DEFAULT_RULE, ax: "Axes | None" = None) -> "Axes":
    """Draw how much of each cell's posterior is its prior: dark cells say little."""
    ax = new_axes(ax)
    table = result.averages(rule)
    years = sorted({int(y) for y in table["year"]})
    names = ["parameter", "group", "age_class"] if result.has_groups else ["parameter", "age_class"]
    keys = [" ".join(row) for row in table[names].to_numpy(str).tolist()]
    labels = list(dict.fromkeys(keys))
    grid = np.full((len(labels), len(years)), np.nan)
    for key, year, overlap in zip(keys, table["year"], table["overlap"], strict=True):
        grid[labels.index(key), years.index(int(year))] = overlap
    image = ax.imshow(grid, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    every = -(-len(years) // MOST_LABELS)
    ax.set_xticks(range(0, len(years), every), labels=[str(y) for y in years[::every]], rotation=45)
    ax.set_yticks(range(len(labels)), labels=labels)
    ax.set_title("overlap of prior and posterior", fontsize=10)
    ax.figure.colorbar(image, ax=ax)
    return ax


def plot_predictive(check: "PredictiveCheck", part: str = "all", *, ax: "Axes | None" = None) -> "Axes":
    """Draw replicated discrepancies against observed ones; half of the points above the line is a good fit."""
    ax = new_axes(ax)
    observed, replicated = check.observed[part], check.replicated[part]
    ends = [min(observed.min(), replicated.min()), max(observed.max(), replicated.max())]
    ax.plot(ends, ends, color="#444444", linewidth=0.8)
    ax.scatter(observed, replicated, s=9, color=CLASS_COLOURS[0], alpha=0.6, linewidths=0)
    ax.set_xlabel("discrepancy of the data")
    ax.set_ylabel("discrepancy of replicated data")
    ax.set_title(f"{part}: p = {check.p_value(part):.2f}", fontsize=10)
    return ax


def draw_all(result: "RecaptureResult", folder: Path, *, rule: str = DEFAULT_RULE) -> list[Path]:
    """Draw every picture into a folder."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Callable[..., Any]] = {
        "means": partial(plot_means, result, rule=rule),
        "models": partial(plot_models, result, rule=rule),
        "overlap": partial(plot_overlap, result, rule=rule),
    }
    for name in result.parameters:
        pictures[f"averages_{name}"] = partial(plot_averages, result, name, rule=rule)
        pictures[f"structures_{name}"] = partial(plot_structures, result, name, rule=rule)
    if result.counts.entered is not None:
        pictures["abundance"] = partial(plot_abundance, result, rule=rule)
    if result.can_be_checked:
        pictures["predictive"] = partial(plot_predictive, result.predictive_check(rule=rule, rng=0))
    for name, draw in pictures.items():
        figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
        draw(ax=ax)
        figure.savefig(folder / f"{name}.png", dpi=120)
        plt.close(figure)
    return [folder / f"{name}.png" for name in pictures]


def _bars(ax: "Axes | None", labels: Any, values: Any, errors: Any, title: str) -> "Axes":
    ax = new_axes(ax)
    place = np.arange(len(values))[::-1]
    ax.barh(place, values, xerr=np.nan_to_num(errors), color=CLASS_COLOURS[0], height=0.7, ecolor="#444444")
    ax.set_yticks(place, labels=list(labels))
    ax.tick_params(axis="y", labelsize=8)
    ax.set_xlim(left=0)
    ax.set_ylim(len(values) - max(len(values), FEWEST_BARS) - 0.6, len(values) - 0.4)
    ax.set_xlabel("posterior probability")
    ax.set_title(title, fontsize=10)
    return ax
