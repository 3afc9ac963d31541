"""Make the page of benchmarks from the results that are stored.

    python docs/make_benchmarks.py

A result is a file ``benchmarks/results/NAME.json``, as ``python -m benchmarks.NAME --json`` writes it: a list of rows,
or an object whose lists of rows become tables, whose ``about`` says on what it was measured, and whose other entries
are facts. What was made of it, ``docs/measured/NAME.md`` where there is one, stands before the tables.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "benchmarks.md"
MEASURED = ROOT / "docs" / "measured"
# Others by the alphabet.
FIRST = ("calibration", "sweep", "limits", "peers", "suite", "tuning", "estimators", "engines", "gpu", "gpu_suite")
TITLES = {
    "calibration": "Does the default call keep its word?",
    "suite": "The suite of hard targets",
    "limits": "Where the default call does not work",
    "sweep": "What the numbers that steer it are worth",
    "posteriordb": "Reference draws for posteriordb",
    "peers": "Against other samplers",
    "tuning": "Tuned against given ladders",
    "estimators": "Estimators",
    "engines": "Engines",
    "gpu": "On a GPU",
    "gpu_suite": "The suite on a GPU",
    "reference": "Fitted references",
    "default_rule": "Which rule is the default",
    "recapture": "Mark-recapture models",
    "treed_gp": "Treed Gaussian processes",
    "treed_gp_accuracy": "Predictions of treed Gaussian processes",
    "memory": "Memory of runs in sums",
    "start_up": "Time to the first answer",
    "one_hump": "One mode, beside NUTS",
    "variable_selection": "Variable selection",
    "informed_price": "Informed jumps between structures",
    "narrow": "Narrow modes that nothing leads to",
}
OPENING = """# Benchmarks

<!-- Made by docs/make_benchmarks.py from benchmarks/results: change those, not this page. -->

Both sides of a comparison run in one process, one after the other, and what counts is their ratio: seconds on one
machine say little about another. Each section is a stored result. Its command measures it again, on your machine, and
`python docs/make_benchmarks.py` makes this page anew.
"""


def page(results: Path = RESULTS) -> str:
    """Return the page, a section a file."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in results.glob("*.json")}
    order = sorted(found, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return "\n".join([OPENING, *(section(name, found[name]) for name in order)])


def section(name: str, result: Any) -> str:
    """Return one stored result as text, facts and tables."""
    parts = result if isinstance(result, Mapping) else {"rows": result}
    about = parts.get("about", {})
    facts = dict(about) if isinstance(about, Mapping) else {"about": about}
    facts |= {key: value for key, value in parts.items() if key != "about" and not is_table(value)}
    tables = {key: value for key, value in parts.items() if is_table(value)}
    lines = [f"## {TITLES.get(name, name.replace('_', ' ').capitalize())}", "", *described(name)]
    lines += [f"```sh\npython -m benchmarks.{name} --json benchmarks/results/{name}.json\n```", ""]
    if facts:
        lines += ["Measured on: " + "; ".join(f"{words(key)} {cell(value)}" for key, value in facts.items()) + ".", ""]
    if (MEASURED / f"{name}.md").is_file():
        lines += [f'--8<-- "docs/measured/{name}.md"', ""]
    for key, rows in tables.items():
        if len(tables) > 1:
            lines += [f"### {words(key).capitalize()}", ""]
        lines += [table(rows), ""]
    return "\n".join(lines)


def described(name: str) -> list[str]:
    """Return what the benchmark's module says about itself, without its command line."""
    module = ROOT / "benchmarks" / f"{name}.py"
    source = module if module.is_file() else ROOT / "benchmarks" / name / "__init__.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) if source.is_file() else None
    paragraphs = [part for part in (text or "").split("\n\n") if part and not part.startswith("    ")]
    return [line for part in paragraphs for line in (" ".join(part.split()), "")]


def is_table(value: Any) -> bool:
    """Whether a value is a list of rows."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table in Markdown, a column for every key there is."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numeric = [all(is_number(row.get(column)) for row in rows) for column in columns]
    head = [words(column) for column in columns]
    rule = ["---:" if right else "---" for right in numeric]
    body = [[cell(row.get(column)) for column in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *body))


def is_number(value: Any) -> bool:
    """Whether a cell belongs to the right."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def cell(value: Any) -> str:
    """Return a value as a person reads it: three digits, yes and no, lists by commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{words(key)} {cell(inner)}" for key, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(cell(inner) for inner in value)
    return str(value).replace("|", "\\|")


def words(key: str) -> str:
    """Return a key as words."""
    return str(key).replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
