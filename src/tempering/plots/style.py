"""What the pictures share: colours, axes, and the numbers drawn."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from tempering.path import Path
    from tempering.runs.draws import TemperedDraws

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


def colour_of(rule: str) -> str:
    """Return the colour of a rule; a rule without one is drawn in ink."""
    return COLOURS.get(rule, INK)


def new_axes(ax: "Axes | None", run: Any = None, *, size: tuple[float, float] | None = None) -> "Axes":
    """Return the axes given, or new ones, without the frame's upper and right lines; refuse what is not a run."""
    if run is not None and not hasattr(run, "rungs"):
        raise InputError(f"A picture is one of a run, but got {type(run).__name__}. Pass what sample returned.")
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=size, layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def whole_numbers(*axes: "Axis") -> None:
    """Put ticks at whole numbers only, as rungs are."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))


def one_number_a_draw(draws: "TemperedDraws", name: str) -> Any:
    """Return the flat draws of a number, by its name or by that of a coordinate, such as ``x[0]`` or ``a[1,2]``."""
    found = re.fullmatch(r"(.+?)(?:\[([\d, ]+)\])?", name)
    whole = name if name in draws.values or found is None else found[1]
    if whole not in draws.values:
        raise InputError(f"name must be one of {sorted(draws.values)}, but got {name!r}. Name one of them.")
    values = np.asarray(draws.values[whole], dtype=float)
    if whole != name and found is not None:
        where: Any = (..., *_index(found[2], values.shape[2:], name))
        values = values[where]
    if values.size != draws.rung.size:
        raise InputError(
            f"A picture shows one number per draw, but {name} has shape {values.shape[2:]}. Name a coordinate: "
            f"'{name}[{','.join('0' * (values.ndim - 2))}]'."
        )
    return values.ravel()


def _index(text: str, shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    index = tuple(int(part) for part in text.split(","))
    if len(index) != len(shape) or any(i >= n for i, n in zip(index, shape, strict=True)):
        raise InputError(f"A coordinate must lie within the shape {shape}, but got {name!r}. Count from 0.")
    return index


def shade(rung: int, n_rungs: int) -> Any:
    """Return a colour from blue, the cold rung, to orange, the hottest; both are seen on light and on dark."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("rungs", [BLUE, COLOURS["pooled"], COLOURS["mbar"]])
    return colours(rung / max(n_rungs - 1, 1))


def rung_colours(path: "Path") -> list[Any]:
    """Return the colour of every rung: blue is the target, orange the safe (or only) end, green the quick one."""
    from matplotlib.colors import LinearSegmentedColormap

    t, m = path.target, len(path)
    quick = LinearSegmentedColormap.from_list("quick", [BLUE, COLOURS["screened"]])
    return [*(quick((t - i) / t) for i in range(t)), *(shade(i, m - t) for i in range(m - t))]


def rung_label(path: "Path") -> str:
    """Name an axis of rungs: where the target is on it."""
    return f"rung ({path.target} is the target)" if path.has_two_legs else "rung (0 is cold)"


def as_text(name: str) -> str:
    r"""Write a name as it is: matplotlib takes what is between two dollars for a formula, and fails on half of one.

    Examples
    --------
    >>> print(as_text("$x"))
    \$x
    """
    return name.replace("$", r"\$")
