"""The command ``tempering select``: which columns of a CSV file explain the response."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tempering.models.variable_selection.estimator import VariableSelection

app = typer.Typer(add_completion=False, help="Bayesian variable selection.")
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results only.")]


@app.command()
def select(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header.", metavar="DATA.csv")],
    response: Annotated[str, typer.Option(help="Column of the response.")],
    inputs: Annotated[str | None, typer.Option(help="Columns to choose from, by commas; default: all.")] = None,
    family: Annotated[
        str, typer.Option(help="gaussian, logistic, probit, binomial, poisson or negative_binomial.")
    ] = "gaussian",
    trials: Annotated[
        str | None, typer.Option(help="Number of trials of a binomial response, or the column that holds them.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="Standard deviation of a normal response, if known.")] = None,
    dispersion: Annotated[float, typer.Option(help="Of a negative binomial response.")] = 1.0,
    size: Annotated[
        float | None, typer.Option(help="Expected number of columns; learnt from the data by default.")
    ] = None,
    slab: Annotated[str, typer.Option(help="Prior precision of a coefficient, or g.")] = "1",
    forced: Annotated[str, typer.Option(help="Columns that are always in, by commas.")] = "",
    groups: Annotated[
        str | None, typer.Option(help="Columns that enter and leave together, such as age+sex,height+weight.")
    ] = None,
    interactions: Annotated[str | None, typer.Option(help="Add products: pairs, or quadratic.")] = None,
    heredity: Annotated[str, typer.Option(help="Products need their columns: strong, weak or none.")] = "strong",
    ladder: Annotated[str | None, typer.Option(help="Inverse temperatures, such as 1,0.7,0.4, or tuned.")] = None,
    draws: Annotated[int, typer.Option(help="Jumps kept of each chain.")] = 5_000,
    tune: Annotated[int, typer.Option(help="Jumps before that.")] = 1_000,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    top: Annotated[int, typer.Option(help="Columns to print.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Write the table of all columns to this CSV file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the inclusion probabilities to this file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds give equal answers.")] = None,
    quiet: Quiet = False,
) -> None:
    """Say which columns of a CSV file explain the response, and how surely."""
    import pandas as pd

    from tempering.models.treed_gp.tables import check_picture, check_writable, numeric_columns, read_table
    from tempering.models.variable_selection.estimator import VariableSelection
    from tempering.models.variable_selection.settings import Design, Family, Sampling, SelectionPrior
    from tempering.path.ladder import parse_ladder

    if out is not None:
        check_writable(out, "--out")
    if plot is not None:
        check_picture(plot, 1)
    table = read_table(file)
    left_out = (response, trials)
    names = inputs.split(",") if inputs is not None else [str(c) for c in table.columns if c not in left_out]
    y = numeric_columns(table, [response], file).ravel()
    x = pd.DataFrame(numeric_columns(table, names, file), columns=names)
    counts = None
    if trials is not None:
        counts = int(trials) if trials.isdigit() else numeric_columns(table, [trials], file).ravel()
    model = VariableSelection(
        Family(family, noise, trials=counts, dispersion=dispersion),
        prior=SelectionPrior(size=size, slab=_slab(slab)),
        design=Design(tuple(filter(None, forced.split(","))), _labels(groups, names), interactions, heredity),
        sampling=Sampling(draws, tune, chains, ladder=ladder if ladder == "tuned" else parse_ladder(ladder)),
        random_state=seed,
    )
    started = time.perf_counter()
    with _waiting(quiet):
        model.fit(x, y)
    _print(model, file, top, None if quiet else time.perf_counter() - started)
    if out is not None:
        model.summary().to_csv(out, index_label="column")
    if plot is not None:
        _draw(model, plot)


def _waiting(quiet: bool) -> Any:
    """Show that something is going on, on a terminal."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    text = "Sampling models (the first run after an installation compiles for some seconds)"
    return console.status(text) if console.is_terminal and not quiet else nullcontext()


def _labels(groups: str | None, names: list[str]) -> list[str] | None:
    """Return a label for each column: its group, or its own name."""
    from tempering.errors import InputError

    if groups is None:
        return None
    label = {column: group for group in groups.split(",") for column in group.split("+")}
    unknown = [column for column in label if column not in names]
    if unknown:
        raise InputError(f"--groups names no such column as {unknown[0]!r}: there are {', '.join(names[:20])}.")
    return [label.get(name, name) for name in names]


def _slab(text: str) -> Any:
    from tempering.errors import InputError

    if text == "g":
        return "g"
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--slab must be a positive number or g, but got {text!r}. Leave it out for 1.") from None


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
