"""The command ``tempering select``: which columns of a CSV file explain the response."""

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempering.models.option_groups import with_groups
from tempering.models.variable_selection.options import (
    ColumnOptions,
    OutputOptions,
    PriorOptions,
    ResponseOptions,
    SamplingOptions,
)

if TYPE_CHECKING:
    from tempering.models.variable_selection.estimator import VariableSelection

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

    from tempering.models.treed_gp.tables import numeric_columns, read_table
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
