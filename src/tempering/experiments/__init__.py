"""One module per table or claim of the paper: the paper's figure and ours, side by side.

Each module has ``run(...) -> Report``. A report is printed as a table or written as JSON.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tempering.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper prints, what we get, and how much ours varies from run to run.

    ``paper`` is None where the paper has no figure, ``spread`` where nothing is random.
    """

    quantity: str
    paper: float | None
    ours: float
    spread: float | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of an experiment.

    Examples
    --------
    >>> report = Report("Table 1", (Row("k* 1", 0.70, 0.697),))
    >>> print(report.to_json(indent=None))
    [{"quantity": "k* 1", "paper": 0.7, "ours": 0.697, "spread": null}]
    """

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    figure: Path | None = None

    def __getitem__(self, quantity: str) -> Row:
        """Return the row of a quantity by its name."""
        for row in self.rows:
            if row.quantity == quantity:
                return row
        raise KeyError(quantity)

    def to_json(self, indent: int | None = 2) -> str:
        """Return the rows as a JSON list; what is no finite number becomes null."""
        return json.dumps([_as_object(row) for row in self.rows], indent=indent, allow_nan=False)

    def write_json(self, path: str | Path) -> None:
        """Write the rows to a file as a JSON list."""
        try:
            Path(path).write_text(self.to_json() + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"The JSON file must be writable, but {path} is not: {error.strerror}. Name another file."
            ) from error

    def table(self) -> "Table":
        """Return a table with the paper's figures beside ours."""
        from rich.table import Table

        table = Table(title=self.title, title_justify="left")
        for heading in ("quantity", "paper", "ours", "spread over runs"):
            table.add_column(heading, justify="left" if heading == "quantity" else "right")
        for row in self.rows:
            table.add_row(row.quantity, *map(format_number, (row.paper, row.ours, row.spread)))
        return table

    def print(self, console: "Console") -> None:
        """Print the table, the notes and where the picture is."""
        console.print(self.table())
        for note in self.notes:
            console.print(note, highlight=False)
        if self.figure is not None:
            console.print(f"Picture: {self.figure}", highlight=False, soft_wrap=True)


def format_number(value: float | None) -> str:
    """Write a number with about four figures, the way a table of the paper would.

    Examples
    --------
    >>> [format_number(x) for x in (None, 22913.4, 0.0938, 5.2e-5, 0.7)]
    ['', '22913', '0.0938', '5.20e-05', '0.7000']
    """
    if value is None or math.isnan(value):
        return "" if value is None else "nan"
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:.4f}"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.2e}"


def summarise(quantity: str, paper: float | None, runs: Iterable[float]) -> Row:
    """Make a row of a quantity's mean and standard deviation over independent runs.

    Examples
    --------
    >>> summarise("ESS", 2535, [2400.0, 2600.0])
    Row(quantity='ESS', paper=2535, ours=2500.0, spread=141.4213562373095)
    """
    values = list(runs)
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Row(quantity, paper, mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Row(quantity, paper, mean, math.sqrt(variance))


def _as_object(row: Row) -> dict[str, str | float | None]:
    numbers = {"paper": row.paper, "ours": row.ours, "spread": row.spread}
    finite = {name: None if x is None or not math.isfinite(x) else float(x) for name, x in numbers.items()}
    return {"quantity": row.quantity, **finite}
