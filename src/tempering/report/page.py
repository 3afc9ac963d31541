"""One self-contained page about a run: the verdict first, then pictures and tables.

Pictures are inline SVG whose ink is the page's own, so that one page serves light and dark screens.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering import plots
from tempering.errors import InputError
from tempering.estimators.rules import DEFAULT_RULE
from tempering.runs.draws import TemperedDraws
from tempering.runs.summary import indices

if TYPE_CHECKING:
    import pandas as pd

    from tempering.runs.diagnosis import Diagnosis
    from tempering.runs.run import Run

MOST_QUANTITIES = 6  # shown with pictures of their own; all are in the table
BLACK = "#0b0b0c"  # drawn by matplotlib, then replaced by the page's ink

MOST_POINTS = 500
LONG = 22  # letters that fit one cell of the facts
RULES_SHOWN = ("screened", "mbar")  # the two that can be trusted, beside those they are set against

Picture = tuple[str, str, Callable[[Any], Any]]  # title, what to look for, function of axes


def write_report(
    draws: Run,
    path: str | Path,
    *,
    title: str = "Tempered run",
    verdict: Diagnosis | None = None,
    model: Sequence[Picture] = (),
) -> None:
    """Write one HTML page about a run, with nothing outside itself.

    Parameters
    ----------
    draws : TemperedDraws or TemperedSums
        Sums have no pictures of single draws.
    path : path
        Where the page goes; a file there is replaced.
    title : str
    verdict : Diagnosis, optional
        What a fitted model says of itself, in place of the run's own verdict.
    model : sequence of (title, note, function of axes)
        Pictures of a model that was fitted, which come before those of the run.
    """
    if not isinstance(path, str | PathLike):
        raise InputError(f"A page has its place, but got {type(path).__name__}. Pass a path, as 'report.html'.")
    page = render(draws, title=title, verdict=verdict, model=model)
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Choose another place.") from error


def render(
    draws: Run, *, title: str = "Tempered run", verdict: Diagnosis | None = None, model: Sequence[Picture] = ()
) -> str:
    """Return the page as text."""
    template = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(title),
        "verdict": verdict_of(draws.diagnose() if verdict is None else verdict),
        "facts": _facts(draws),
        "model": _model(model),
        "estimates": _table(draws.summary()),
        "evidence": _evidence(draws),
        "quantities": _quantities(draws) if isinstance(draws, TemperedDraws) else "",
        "rung_pictures": "".join(_figure(*picture) for picture in _rung_pictures(draws)),
        "rungs": _table(draws.rungs()),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], template)


def verdict_of(found: Diagnosis) -> str:
    """Return the section that says whether the run looks sound, and what to change if not."""
    if found.is_good:
        return '<section class="verdict good"><h2>The run looks sound</h2></section>'
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in found.sentences)
    return f'<section class="verdict poor"><h2>The run needs attention</h2><ul>{items}</ul></section>'


def _model(pictures: Sequence[Picture]) -> str:
    if not pictures:
        return ""
    return (
        f"<section><h2>Model</h2><div class='grid'>{''.join(_figure(*picture) for picture in pictures)}</div></section>"
    )


def _facts(draws: Run) -> str:
    facts = {
        "Chains": f"{draws.n_chains}",
        "Draws of each": f"{draws.n_draws:,}",
        "Rungs": _rungs_in_words(draws),
        "Hottest k": f"{draws.ladder.hottest:.3g}",
        "Round trips": f"{draws.n_round_trips:,}",
        "ESS of weights": f"{draws.ess(DEFAULT_RULE):,.0f}",
        "Rule": DEFAULT_RULE,
    }
    if draws.info is not None:
        facts |= {
            "Method": draws.info.method,
            "Engine": draws.info.engine,
            "Kernel": draws.info.kernel,
            "Seed": f"{draws.info.seed}",
            "Seconds": f"{draws.info.seconds:.1f}",
        }
    cells = (
        f"<div{' class=long' * (len(value) > LONG)}><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    return f'<dl class="facts">{"".join(cells)}</dl>'


def _rungs_in_words(draws: Run) -> str:
    path = draws.path
    if not path.has_two_legs:
        return f"{len(path)}"
    n_safe = len(path) - 1 - path.target
    return f"{path.target} quick, the target" + (f", {n_safe} safe" if n_safe else "")


def _evidence(draws: Run) -> str:
    if len(draws.path) == 1:
        return ""
    note = (
        "From both ends of the path, which must agree."
        if len(draws.path.legs_with_rungs) > 1
        else "From the mixture at the end of the path."
        if draws.path.has_two_legs
        else "Thermodynamic integration is rough where rungs are few."
    )
    picture = _figure("Evidence by method", note, lambda ax: plots.plot_evidence(draws, ax))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a disagreement is part of the verdict
        found = draws.log_evidence()
    label = "Log evidence" if found.is_absolute else "Log ratio of normalisers, log Z(1) - log Z(hottest)"
    text = f"<p>{label}: <strong>{found.value:.3f}</strong> &plusmn; {found.standard_error:.3f}</p>"
    return f"<section><h2>Evidence</h2>{text}<div class='grid'>{picture}</div></section>"


def _quantities(draws: TemperedDraws) -> str:
    return _pairs(draws) + "".join(_quantity(draws, name) for name in _shown(draws))


def _shown(draws: TemperedDraws) -> list[str]:
    """Return the quantities that get pictures, the first few."""
    found = [
        f"{name}[{index}]" if index else name for name, a in draws.values.items() for index in indices(a.shape[2:])
    ]
    return found[:MOST_QUANTITIES]


def _pairs(draws: TemperedDraws) -> str:
    """Draw the weighted densities of the first few numbers and of their pairs."""
    names = _shown(draws)
    if len(names) < 2:
        return ""
    note = "Weighted draws of all rungs; 39, 68 and 95 % of the mass lie within the lines."
    heading = f"<figcaption><b>Pairs</b> {note}</figcaption>"
    size = 1.0 + 1.3 * len(names)
    picture = _svg_of("Pairs", (size, size), lambda figure: plots.plot_pairs(draws, names, figure=figure))
    return f"<figure>{heading}{picture}</figure>"


def _quantity(draws: TemperedDraws, name: str) -> str:
    rules = [rule for rule in ("cold_only", *RULES_SHOWN) if rule != "cold_only" or draws.visits[draws.path.target] > 0]
    pictures: list[Picture] = [
        (f"Density of {name}", "By rule.", lambda ax: plots.plot_density(draws, name, rules=rules, n_bins=60, ax=ax)),
        (f"{name} by rung", "As sampled; blue is cold.", lambda ax: plots.plot_densities(draws, name, ax=ax)),
        (f"{name} over time", "Blue is cold.", lambda ax: plots.plot_traces(draws, name, ax=ax)),
        (f"Mean of {name} by rule", "Two standard errors.", lambda ax: plots.plot_estimates(draws, name, ax=ax)),
    ]
    return "".join(_figure(*picture) for picture in pictures)


def _rung_pictures(draws: Run) -> list[Picture]:
    rules = [rule for rule in (*RULES_SHOWN, "ess_optimal") if rule in draws.rules]
    occupancy = "The more useful a rung, the more often." if draws.path.has_two_legs else "Even is best."
    always: list[Picture] = [
        ("Ladder", "Inverse temperatures of every leg.", lambda ax: plots.plot_ladder(draws, ax)),
        ("Occupancy", occupancy, lambda ax: plots.plot_visits(draws, ax)),
        ("Acceptance", "Above a tenth everywhere.", lambda ax: plots.plot_acceptance(draws, ax)),
        ("Trust in the weights", "How much a draw of each rung is worth.", lambda ax: plots.plot_trust(draws, ax)),
        ("Shares", "What each rung contributes.", lambda ax: plots.plot_shares(draws, rules, ax)),
    ]
    if len(draws.visits) == 1:
        return always
    overlap = ("Overlap", "Neighbours should share.", lambda ax: plots.plot_overlap(draws, ax))
    if not isinstance(draws, TemperedDraws):
        return [*always, overlap]
    return [
        *always,
        (
            "Index process",
            f"{draws.n_round_trips} round trips.",
            lambda ax: plots.plot_index_process(draws, 0, 2000, ax),
        ),
        overlap,
        ("Barrier", "Rungs at even heights are best.", lambda ax: plots.plot_barrier(draws, ax)),
        ("Energies", "Neighbours should overlap.", lambda ax: plots.plot_energies(draws, ax=ax)),
    ]


def _figure(title: str, note: str, draw: Callable[[Any], Any]) -> str:
    heading = f"<figcaption><b>{html.escape(title)}</b> {html.escape(note)}</figcaption>"
    return f"<figure>{heading}{_svg(title, draw)}</figure>"


def _svg(title: str, draw: Callable[[Any], Any]) -> str:
    """Draw on axes of their own and return the SVG."""
    return _svg_of(title, (5.2, 3.7), lambda figure: draw(figure.add_subplot()))


def _svg_of(title: str, size: tuple[float, float], draw: Callable[[Any], Any]) -> str:
    """Draw on a figure of its own and return the SVG, ink replaced by the page's colour."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    style: Any = dict.fromkeys(ink, BLACK) | {"svg.fonttype": "none", "font.size": 11, "svg.hashsalt": title}
    with mpl.rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        for ax in figure.axes:
            ax.patch.set_alpha(0.0)
            for line in ax.lines:  # thousands of points are a picture, not a drawing
                line.set_rasterized(np.size(line.get_xdata()) > MOST_POINTS)
            for points in ax.collections:
                points.set_rasterized(points.get_rasterized() or np.size(points.get_offsets()) > MOST_POINTS)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, dpi=150, metadata={"Date": None, "Creator": None})
    body = text.getvalue()
    body = body[body.index("<svg") :].replace(BLACK, "currentColor").replace(plots.INK, "currentColor")
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"| height="[^"]*"(?=[^>]*viewBox)', r"\1", body, count=2)
    prefix = re.sub(r"\W+", "-", title.lower())
    body = re.sub(r'(id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}-", body)  # ids must differ between pictures
    label = html.escape(title, quote=True)
    return body.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _table(frame: pd.DataFrame) -> str:
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in (frame.index.name or "", *frame.columns))
    rows = "".join(
        f"<tr><th>{html.escape(str(index))}</th>{''.join(f'<td>{_number(value)}</td>' for value in row)}</tr>"
        for index, row in zip(frame.index, frame.to_numpy().tolist(), strict=True)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _number(value: float | str) -> str:
    if isinstance(value, str):  # the leg of a rung
        return html.escape(value)
    if not np.isfinite(value):
        return "&ndash;"
    is_whole = float(value).is_integer() and abs(value) >= 10
    return f"{value:,.0f}" if is_whole or 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
