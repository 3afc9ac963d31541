"""The command ``tempering select``: which columns of a CSV file explain the response."""

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempering.errors import InputError
from tempering.models.option_groups import option, with_groups

if TYPE_CHECKING:
    from pandas import DataFrame

    from tempering.models.variable_selection.estimator import VariableSelection
    from tempering.models.variable_selection.settings import Design, Family, Sampling, SelectionPrior

RESPONSE, COLUMNS, PRIORS, SAMPLING, OUTPUT = "Response", "Columns", "Priors", "Sampling", "Output"


@dataclass(frozen=True)
class ResponseOptions:
    """The column that is explained, and its distribution."""

    response: Annotated[str, option(RESPONSE, "Column of the response.")]
    family: Annotated[str, option(RESPONSE, "gaussian, logistic, probit, binomial, poisson or negative_binomial.")] = (
        "gaussian"
    )
    trials: Annotated[
        str | None, option(RESPONSE, "Number of trials of a binomial response, or the column that holds them.")
    ] = None
    noise: Annotated[float | None, option(RESPONSE, "Standard deviation of a normal response, if known.")] = None
    dispersion: Annotated[float, option(RESPONSE, "Of a negative binomial response.")] = 1.0

    def columns_used(self) -> set[str]:
        """Return the columns of the table that cannot be chosen from."""
        return {self.response} | ({self.trials} if self.trials is not None else set())

    def family_of(self, table: "DataFrame", file: Path) -> "Family":
        """Return the distribution, with the trials of every row."""
        from tempering.models.csv_tables import numeric_columns
        from tempering.models.variable_selection.settings import Family

        trials: Any = self.trials
        if trials is not None:
            trials = int(trials) if trials.isdigit() else numeric_columns(table, [trials], file).ravel()
        return Family(self.family, self.noise, trials=trials, dispersion=self.dispersion)


@dataclass(frozen=True)
class ColumnOptions:
    """The columns to choose from."""

    inputs: Annotated[str | None, option(COLUMNS, "Columns to choose from, by commas; default: all.")] = None
    forced: Annotated[str, option(COLUMNS, "Columns that are always in, by commas.")] = ""
    groups: Annotated[
        str | None, option(COLUMNS, "Columns that enter and leave together, such as age+sex,height+weight.")
    ] = None
    interactions: Annotated[str | None, option(COLUMNS, "Add products: pairs, or quadratic.")] = None
    heredity: Annotated[str, option(COLUMNS, "Products need their columns: strong, weak or none.")] = "strong"

    def names(self, table: "DataFrame", used: set[str]) -> list[str]:
        """Return the names of the columns: those given, or all that are not used otherwise."""
        if self.inputs is None:
            names = [str(name) for name in table.columns if name not in used]
        else:
            names = _names(self.inputs)
        if not names:
            raise InputError("There are no columns to choose from. Name them by --inputs, separated by commas.")
        for name in names:
            if name in used:
                raise InputError(f"--inputs names {name!r}, which is the response or its trials. Leave it out.")
            if names.count(name) > 1:
                raise InputError(f"--inputs names {name!r} {names.count(name)} times. Name every column once.")
        return names

    def design(self, names: Sequence[str]) -> "Design":
        """Return the columns to choose from, and what binds them."""
        from tempering.models.variable_selection.settings import Design

        return Design(tuple(_names(self.forced)), self._labels(names), self.interactions, self.heredity)

    def _labels(self, names: Sequence[str]) -> list[str] | None:
        """Return a label for each column: its group, or its own name."""
        if self.groups is None:
            return None
        label: dict[str, str] = {}
        for group in _names(self.groups):
            for column in map(str.strip, group.split("+")):
                if column not in names:
                    raise InputError(
                        f"--groups names {column!r}, which is not a column: there are {', '.join(names[:20])}."
                    )
                if column in label:
                    raise InputError(f"--groups names {column!r} twice. A column is in one group at most.")
                label[column] = group
        return [label.get(name, name) for name in names]


@dataclass(frozen=True)
class PriorOptions:
    """Priors of the number of columns and of their coefficients."""

    size: Annotated[float | None, option(PRIORS, "Expected number of columns; learnt from the data by default.")] = None
    slab: Annotated[str, option(PRIORS, "Prior precision of a coefficient, or g.")] = "1"

    def prior(self) -> "SelectionPrior":
        """Return the priors."""
        from tempering.models.variable_selection.settings import SelectionPrior

        try:
            slab: Any = "g" if self.slab == "g" else float(self.slab)
        except ValueError:
            raise InputError(
                f"--slab must be a positive number or g, but got {self.slab!r}. Leave it out for 1."
            ) from None
        return SelectionPrior(size=self.size, slab=slab)


@dataclass(frozen=True)
class SamplingOptions:
    """How long, and at which temperatures."""

    ladder: Annotated[str | None, option(SAMPLING, "Inverse temperatures, such as 1,0.7,0.4, or tuned.")] = None
    draws: Annotated[int, option(SAMPLING, "Jumps kept of each chain.")] = 5_000
    tune: Annotated[int, option(SAMPLING, "Jumps before that.")] = 1_000
    chains: Annotated[int, option(SAMPLING, "Number of chains.")] = 4
    seed: Annotated[int | None, option(SAMPLING, "Equal seeds give equal answers.")] = None

    def sampling(self) -> "Sampling":
        """Return how the chains run."""
        from tempering.models.variable_selection.settings import Sampling
        from tempering.path.ladder import parse_ladder

        ladder = self.ladder if self.ladder == "tuned" else parse_ladder(self.ladder)
        return Sampling(self.draws, self.tune, self.chains, ladder=ladder)


@dataclass(frozen=True)
class OutputOptions:
    """What is printed and written."""

    top: Annotated[int, option(OUTPUT, "Columns to print.")] = 20
    out: Annotated[Path | None, option(OUTPUT, "Write the table of all columns to this CSV file.")] = None
    plot: Annotated[Path | None, option(OUTPUT, "Draw the inclusion probabilities to this file.")] = None
    quiet: Annotated[bool, option(OUTPUT, "Print results only.", "--quiet")] = False

    def check(self) -> None:
        """Refuse, before anything is computed, files that cannot be written in the end, and a table without rows."""
        from tempering.models.csv_tables import check_picture, check_writable

        if self.top < 1:
            raise InputError(f"--top must be at least 1, but got {self.top}. --quiet leaves out everything but tables.")
        if self.out is not None:
            check_writable(self.out, "--out")
        if self.plot is not None:
            check_picture(self.plot, 1)


def _names(text: str) -> list[str]:
    """Return the names in a list by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


app = typer.Typer(add_completion=False, help="Bayesian variable selection.")


@app.command()
@with_groups
def select(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A CSV file with a header.", metavar="DATA.csv")],
    response: ResponseOptions,
    columns: ColumnOptions,
    priors: PriorOptions,
    sampling: SamplingOptions,
    output: OutputOptions,
) -> None:
    """Say which columns of a CSV file explain the response, and how surely."""
    import pandas as pd

    from tempering.models.csv_tables import numeric_columns, read_table
    from tempering.models.variable_selection.estimator import VariableSelection

    output.check()
    table = read_table(file)
    names = columns.names(table, response.columns_used())
    x = pd.DataFrame(numeric_columns(table, names, file), columns=names)
    y = numeric_columns(table, [response.response], file).ravel()
    model = VariableSelection(
        response.family_of(table, file),
        prior=priors.prior(),
        design=columns.design(names),
        sampling=sampling.sampling(),
        random_state=sampling.seed,
    )
    quiet, started = output.quiet or bool(ctx.obj), time.perf_counter()  # --quiet may stand before the command, too
    with _waiting(quiet), warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: typer.echo(f"Note: {message}", err=True)
        model.fit(x, y)
    _print(model, file, output.top, None if quiet else time.perf_counter() - started)
    if output.out is not None:
        model.summary().to_csv(output.out, index_label="column")
    if output.plot is not None:
        _draw(model, output.plot)


def _waiting(quiet: bool) -> Any:
    """Show that something is going on, on a terminal."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    text = "Sampling models (the first run after an installation compiles for some seconds)"
    return console.status(text) if console.is_terminal and not quiet else nullcontext()


def _print(model: "VariableSelection", file: Path, top: int, seconds: float | None) -> None:
    """Print the columns, then the models."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 100)
    title = f"{file.name}: {model.n_features_in_} columns, {len(model.term_names_)} terms, {len(model._response)} rows"
    table = Table(title=title, title_justify="left")
    table.add_column("column")
    for name in ("inclusion", "± error", "coefficient", "± sd"):
        table.add_column(name, justify="right")
    for label, row in model.summary(top).iterrows():
        table.add_row(
            str(label),
            f"{row['inclusion']:.3f}",
            f"{row['error']:.3f}",
            f"{row['coefficient']:.4g}",
            f"{row['sd']:.3g}",
        )
    console.print(table)
    models = Table(title="Most probable models", title_justify="left")
    models.add_column("probability", justify="right")
    models.add_column("columns", overflow="fold")
    for found in model.best_models(5):
        columns = ", ".join(model.term_names_[j] for j in found.columns) or "(none)"
        models.add_row(f"{found.probability:.3f}", columns)
    console.print(models)
    if seconds is not None:
        posterior = model.posterior_
        typer.echo(f"{posterior.rung.size} draws in {seconds:.1f} s; ESS of the weights {posterior.ess:.0f}.")
        typer.echo(str(model.diagnose()))


def _draw(model: "VariableSelection", path: Path) -> None:
    from tempering.models.variable_selection.plots import plot_inclusion

    figure = plot_inclusion(model).get_figure(root=True)
    assert figure is not None
    figure.savefig(path, dpi=150)
