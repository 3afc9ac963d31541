"""The command ``tempering treed-gp``: fit a CSV file, predict at the rows of another."""

import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempering.models.option_groups import option, with_groups

if TYPE_CHECKING:
    from tempering.models.treed_gp.estimator import TreedGP

MODEL, SAMPLING = "Model", "Sampling"


@dataclass(frozen=True)
class Model:
    """What is fitted."""

    leaf: Annotated[str, option(MODEL, "gp_linear, gp, linear or constant.")] = "gp_linear"
    tree: Annotated[bool, option(MODEL, "Partition the input space.")] = True
    correlation: Annotated[str, option(MODEL, "separable, isotropic, matern12, matern32 or matern52.")] = "separable"

    def estimator(self, **sampling: Any) -> "TreedGP":
        """Return the regressor."""
        from tempering.models.treed_gp.estimator import TreedGP
        from tempering.models.treed_gp.settings import Prior

        return TreedGP(leaf=self.leaf, prior=Prior(tree=self.tree, correlation=self.correlation), **sampling)


@dataclass(frozen=True)
class Sampling:
    """How long, where, and at which temperatures."""

    draws: Annotated[int | None, option(SAMPLING, "Rounds kept of each chain; by default until chains agree.")] = None
    tune: Annotated[int | None, option(SAMPLING, "Rounds before that; 500, or as many; 2000 above 400 rows.")] = None
    chains: Annotated[int, option(SAMPLING, "Number of chains.")] = 2
    hottest: Annotated[float, option(SAMPLING, "Smallest inverse temperature; 1 does not temper.")] = 0.2
    rule: Annotated[str, option(SAMPLING, "How the temperatures are combined.")] = "mbar"
    seed: Annotated[int | None, option(SAMPLING, "Equal seeds give equal fits.")] = None
    workers: Annotated[int | None, option(SAMPLING, "Share the chains out to so many processes.")] = None
    checkpoint: Annotated[Path | None, option(SAMPLING, "A folder to resume from after a kill.")] = None

    @property
    def settings(self) -> dict[str, Any]:
        """The regressor's settings."""
        from tempering.models.treed_gp.settings import Tempering

        tempering = Tempering(hottest=self.hottest, rule=self.rule)
        lengths = {"draws": self.draws, "tune": self.tune, "chains": self.chains}
        return lengths | {"tempering": tempering, "random_state": self.seed}

    def executor(self) -> AbstractContextManager[Any]:
        """Return the processes asked for, or None."""
        from tempering.execution.workers import processes_or_none

        return processes_or_none(self.workers)


app = typer.Typer(no_args_is_help=True, add_completion=False, help="Bayesian treed Gaussian processes.")
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results only.")]


@app.callback()
def _group() -> None:
    """Fit a Bayesian treed Gaussian process, and predict with it."""


@app.command()
@with_groups
def fit(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header.", metavar="DATA.csv")],
    response: Annotated[str, typer.Option(help="Column of the response.")],
    out: Annotated[Path, typer.Option(help="Where the fitted model goes.", metavar="MODEL")],
    model: Model,
    sampling: Sampling,
    inputs: Annotated[str | None, typer.Option(help="Input columns, by commas; all others by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the fit to this file (one or two inputs).")] = None,
    quiet: Quiet = False,
) -> None:
    """Fit a treed Gaussian process to a CSV file; columns of text are categories."""
    from tempering.models.csv_tables import (
        check_picture,
        check_writable,
        input_columns,
        numeric_columns,
        read_table,
    )

    check_writable(out, "--out")
    table = read_table(file)
    names = [name.strip() for name in inputs.split(",")] if inputs else [str(c) for c in table.columns if c != response]
    if plot is not None:
        check_picture(plot, len(names))
    y = numeric_columns(table, [response], file).ravel()
    x = input_columns(table, names, file)
    fitted = model.estimator(progress=not quiet, **sampling.settings)
    with warnings.catch_warnings(), sampling.executor() as executor:
        warnings.showwarning = lambda message, *_: typer.echo(f"Note: {message}", err=True)
        fitted.fit(x, y, executor=executor, checkpoint=sampling.checkpoint)
    fitted.response_name_ = response
    fitted.save(out)
    _summarise(fitted, file, out, quiet)
    if plot is not None:
        _draw(fitted, plot)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model written by fit.", metavar="MODEL")],
    file: Annotated[Path, typer.Argument(help="A CSV file with the model's input columns.", metavar="NEW.csv")],
    out: Annotated[Path | None, typer.Option(help="Write the predictions here; printed by default.")] = None,
    quantiles: Annotated[str, typer.Option(help="Quantiles, by commas.")] = "0.05,0.5,0.95",
    quiet: Quiet = False,
) -> None:
    """Predict at the rows of a CSV file: mean, standard deviation and quantiles of a new response."""
    from tempering.errors import InputError
    from tempering.models.csv_tables import check_writable, input_columns, read_table
    from tempering.models.treed_gp.estimator import TreedGP

    if out is not None:
        check_writable(out, "--out")
    fitted = TreedGP.load(model)
    x = input_columns(read_table(file), fitted.input_names_, file)
    try:
        levels = [float(level) for level in quantiles.split(",")]
    except ValueError:
        raise InputError(
            f"--quantiles must be numbers by commas, but got {quantiles!r}. Write for example 0.05,0.95."
        ) from None
    started = time.perf_counter()
    mean, deviation, found = fitted.predict(x, return_std=True, quantiles=levels)
    table = x.assign(mean=mean, sd=deviation)
    for level, column in zip(levels, found.T, strict=True):
        table[f"q{level:g}"] = column
    if out is None:
        typer.echo(table.to_csv(index=False, float_format="%.6g"), nl=False)
        return
    try:
        table.to_csv(out, index=False)
    except OSError as error:
        raise InputError(f"The predictions cannot be written to {out}: {error.strerror}. Name another file.") from error
    if not quiet:
        typer.echo(f"{len(table)} predictions in {time.perf_counter() - started:.1f} s: {out}")


def _summarise(model: "TreedGP", file: Path, out: Path, quiet: bool) -> None:
    """Print what was found."""
    import sys

    from rich.console import Console
    from rich.table import Table

    posterior = model.posterior_
    table = Table(title=f"Treed GP of {file.name}", title_justify="left", show_header=False)
    rows = len(model._training[1])
    table.add_row("rows, input columns", f"{rows}, {model.n_features_in_}")
    leaves = model.leaf_probabilities_
    shown = [f"{i + 1}: {p:.3f}" for i, p in enumerate(leaves) if p >= 5e-4]
    table.add_row("P(leaves)", "  ".join(shown))
    importance = zip(model.feature_names_in_, model.feature_importances_, strict=True)
    table.add_row("share of splits", "  ".join(f"{name}: {share:.2f}" for name, share in importance))
    for i, leaf in enumerate(model.map_tree_):
        box = ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(leaf.low, leaf.high, strict=True))
        kind = "linear, " if leaf.is_linear else ""
        table.add_row("MAP tree" if i == 0 else "", f"{box}: {leaf.n_rows} rows, {kind}noise sd {leaf.noise:.4g}")
    draws = posterior.draws.rung.size
    table.add_row("draws, rungs, round trips", f"{draws}, {len(posterior.ladder)}, {posterior.n_round_trips}")
    table.add_row(f"ESS of weights ({posterior.rule})", f"{posterior.combined_ess:.0f}")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if not quiet:
        for sentence in model.diagnose().sentences:
            typer.echo(f"Note: {sentence}", err=True)
        typer.echo(f"{posterior.seconds:.1f} s. Model: {out}")


def _draw(model: "TreedGP", path: Path) -> None:
    """Draw the curve or the surface to a file."""
    from tempering.models.treed_gp import plots

    one = model.n_features_in_ == 1
    ax = plots.plot_curve(model) if one else plots.plot_surface(model)
    names = [str(name) for name in model.feature_names_in_]
    ax.set(xlabel=names[0], ylabel=model.response_name_ if one else names[1])
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(path, dpi=150)
