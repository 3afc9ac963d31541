"""One self-contained HTML page about a fit: estimates first, then models, then whether it can be trusted."""

import base64
import html
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tempering.errors import InputError
from tempering.estimators.rules import DEFAULT_RULE
from tempering.models.recapture import plots
from tempering.models.recapture.output import by_year_table, figure, means_table, trust_of
from tempering.models.recapture.reading import describe
from tempering.models.recapture.results import RecaptureResult

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1f;
  background: #fff } table { border-collapse: collapse; margin: .5rem 0 } th, td { text-align: left;
  padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto } figure { margin: 1rem 0 } img { max-width: 100% } pre { white-space: pre-wrap }
.poor { border-left: 4px solid #D55E00; padding-left: .8rem } figcaption { font-weight: 600 }
"""


def write_page(
    result: RecaptureResult, path: str | Path, *, title: str = "Mark-recapture", rule: str = DEFAULT_RULE
) -> Path:
    """Write the page; a file there is replaced."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(result, title=title, rule=rule), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} must be writable, but: {error.strerror}. Choose another place.") from error
    return path


def render(result: RecaptureResult, *, title: str = "Mark-recapture", rule: str = DEFAULT_RULE) -> str:
    """Return the page as text."""
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f"<pre>{html.escape(describe(result.data))}</pre>",
        *_estimates(result, rule),
        *_models(result, rule),
        "<h2>Can it be trusted?</h2>",
        *(_sentence(s) for s in trust_of(result, rule)),
        *_trust_pictures(result, rule),
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def _estimates(result: RecaptureResult, rule: str) -> list[str]:
    out = ["<h2>Estimates</h2><p>Averaged over models and years, with 95 % intervals.</p>"]
    out.append(_table(means_table(result, rule)))
    out.append(_figure("By age class", lambda ax: plots.plot_means(result, rule=rule, ax=ax)))
    for name in result.parameters:
        heading = f"{plots.NAMES[name].capitalize()} {name} " + ("by occasion" if name == "p" else "by year")
        out.append(_figure(heading, partial(_averages, result, name, rule)))
        out.append(
            f"<details><summary>{heading}, as a table</summary>{_table(by_year_table(result, name, rule))}</details>"
        )
    if result.has_states:
        out.append("<h3>Movement of survivors between states</h3>" + _table(result.transitions(rule)))
    if result.counts.entered is not None:
        out.append("<h3>Growth of the population, N[t + 1] / N[t]</h3>" + _table(result.growth(rule)))
        out.append("<h3>Number of birds at each occasion, and ever</h3>" + _table(result.abundance(rule)))
        out.append(_figure("Number of birds", lambda ax: plots.plot_abundance(result, rule=rule, ax=ax)))
    differences = result.differences(rule)
    if len(differences):
        out.append("<h3>Differences of the means over years</h3>" + _table(differences))
    return out


def _averages(result: RecaptureResult, name: str, rule: str, ax: Any) -> Any:
    return plots.plot_averages(result, name, rule=rule, ax=ax)


def _models(result: RecaptureResult, rule: str) -> list[str]:
    out = [f"<h2>Models</h2><p>{result.space.count:,} models were searched.</p>"]
    effects = result.effects(rule)
    if len(effects):
        out.append("<h3>Probability that an effect is in the model</h3>" + _table(effects))
    if result.space.times and len(result.coefficients(rule)):
        out.append("<h3>Coefficients on the logit scale, where they are in the model</h3>")
        out.append(_table(result.coefficients(rule)))
    out.append("<h3>Most probable models</h3>" + _table(result.model_probabilities(rule, 10)))
    for name in result.parameters:
        out.append(f"<h3>Structures of {name}</h3>" + _table(result.structure_probabilities(name, rule).head(8)))
    return out


def _trust_pictures(result: RecaptureResult, rule: str) -> list[str]:
    out = [_figure("What the data say little about", lambda ax: plots.plot_overlap(result, rule=rule, ax=ax))]
    if result.can_be_checked:
        check = result.predictive_check(rule=rule, rng=0)
        out.append(_figure("Predictive check", lambda ax: plots.plot_predictive(check, ax=ax)))
    return out


def _sentence(text: str) -> str:
    poor = "DO NOT FIT" in text or "Warning" in text or "fails" in text
    return f"<p{' class=poor' if poor else ''}>{html.escape(text).replace(chr(10), '<br>')}</p>"


def _figure(title: str, draw: Callable[[Any], Any]) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    encoded = base64.b64encode(data.getvalue()).decode()
    label = html.escape(title, quote=True)
    return f'<figure><figcaption>{label}</figcaption><img alt="{label}" src="data:image/png;base64,{encoded}"></figure>'


def _table(frame: pd.DataFrame) -> str:
    head = "".join(f"<th>{html.escape(str(name).replace('_', ' '))}</th>" for name in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in frame.itertuples(index=False)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "&ndash;" if value != value else html.escape(figure(value))
    return html.escape(str(value))
