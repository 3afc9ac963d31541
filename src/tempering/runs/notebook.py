"""How runs, verdicts and evidences show themselves in a notebook: a few lines of HTML."""

from __future__ import annotations

import html
import math
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempering.estimators import Estimate
    from tempering.runs.diagnosis import Diagnosis
    from tempering.runs.draws import TemperedDraws
    from tempering.runs.evidence import Evidence

MOST_ROWS = 12  # of a table


def run_html(draws: TemperedDraws) -> str:
    """Show a run: what it is, the verdict, the estimates, the evidence, and the rungs folded away."""
    parts = [f"<p><b>{html.escape(repr(draws))}</b></p>", diagnosis_html(draws.diagnose()), _table(draws.summary())]
    if len(draws.path) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a disagreement is part of the verdict
            parts.append(evidence_html(draws.log_evidence()))
    parts.append(f"<details><summary>{len(draws.path)} rungs</summary>{_table(draws.rungs())}</details>")
    return "".join(parts)


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Show a verdict: one line, or a list of what to change."""
    if diagnosis.is_good:
        return '<p style="border-left:4px solid #009E73;padding-left:.6em">The run looks sound.</p>'
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in diagnosis.sentences)
    return (
        f'<div style="border-left:4px solid #D55E00;padding-left:.6em">The run needs attention:<ul>{items}</ul></div>'
    )


def evidence_html(evidence: Evidence) -> str:
    """Show an evidence: the value, and what each method says."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{_log(float(e.value))}</td><td>{_error(e)}</td></tr>"
        for name, e in evidence.by_method.items()
    )
    warning = f"<p>{html.escape(evidence.disagreement)}</p>" if evidence.disagreement else ""
    return (
        f"<p>{evidence.label}: <b>{evidence.value:.4f}</b> &plusmn; {evidence.standard_error:.2g}</p>{warning}"
        f"<details><summary>by method</summary><table><tr><th>method</th><th>value</th><th>standard error</th></tr>"
        f"{rows}</table></details>"
    )


def _number(x: float) -> str:
    return f"{x:,.0f}" if 1e3 <= abs(x) < 1e9 else f"{x:.4g}"


def _log(x: float) -> str:
    """Write a log evidence; far off, as integration over two rungs can be, in few digits."""
    return f"{x:.4f}" if abs(x) < 1e6 else f"{x:.1e}"


def _error(estimate: Estimate) -> str:
    return "unknown" if math.isnan(estimate.standard_error) else f"{float(estimate.standard_error):.2g}"


def _table(frame: Any) -> str:
    shown = frame.head(MOST_ROWS).to_html(float_format=_number, border=0, index_names=False, justify="right")
    rest = len(frame) - MOST_ROWS
    shown = shown.replace("<table", '<table style="text-align:right"', 1)  # which some pages do not hand down to it
    return f'<div style="overflow-x:auto">{shown}</div>' + (f"<p>and {rest} more rows</p>" if rest > 0 else "")
