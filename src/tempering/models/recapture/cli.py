"""The command ``tempering recapture``: fit a study's data, print and write what was found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempering.models.option_groups import with_groups
from tempering.models.recapture.options import Models, Output, Reading, Sampling

if TYPE_CHECKING:
    from tempering.models.recapture.estimator import MarkRecapture
    from tempering.models.recapture.results import RecaptureResult

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Integrated mark-recapture-recovery models.")

File = Annotated[Path, typer.Argument(help="The data.")]


@app.callback()
def _group() -> None:
    """Fit integrated mark-recapture-recovery models."""


@app.command()
@with_groups
def describe(file: File, reading: Reading) -> None:
    """Say what a file holds, and test live encounters by TEST 2 and 3, without fitting anything."""
    from tempering.models.recapture import reading as files
    from tempering.models.recapture.goodness import goodness_of_fit
    from tempering.models.recapture.histories import Histories

    data = reading.read(file)
    typer.echo(files.describe(data))
    if isinstance(data, Histories) and not data.states:
        typer.echo(str(goodness_of_fit(data)))


@app.command()
@with_groups
def fit(ctx: typer.Context, file: File, reading: Reading, models: Models, sampling: Sampling, output: Output) -> None:
    """Average over all structures of survival, recapture and recovery."""
    from tempering.models.recapture.output import show

    quiet = output.quiet or bool(ctx.obj)  # --quiet may stand before the command, too
    rule, result = sampling.rule, _fitted(file, reading, models, sampling, quiet)
    show(result, _console(), rule, by_year=output.by_year, aic=output.aic)
    if output.out is not None:
        _write(result, output.out, rule, file.name)


@app.command()
@with_groups
def report(
    ctx: typer.Context,
    file: File,
    reading: Reading,
    models: Models,
    sampling: Sampling,
    page: Annotated[Path, typer.Argument(help="The page to write.")] = Path("recapture.html"),
) -> None:
    """Fit and write one HTML page: estimates, models, goodness of fit, assumptions."""
    from tempering.models.recapture.page import write_page

    rule, result = sampling.rule, _fitted(file, reading, models, sampling, bool(ctx.obj))
    typer.echo(f"Wrote {write_page(result, page, title=file.name, rule=rule)}.")


def _fitted(file: Path, reading: Reading, models: Models, sampling: Sampling, quiet: bool) -> "RecaptureResult":
    data, study = reading.read(file), models.study(**sampling.study)
    if not quiet:
        _introduce(data, study, reading.ages)
    with sampling.executor() as executor:
        return study.fit(data, rng=sampling.seed, executor=executor, checkpoint=sampling.checkpoint, progress=not quiet)


def _introduce(data: Any, study: "MarkRecapture", ages: str | None) -> None:
    """Say what was read, before anything runs."""
    from tempering.models.recapture.histories import Histories
    from tempering.models.recapture.reading import describe

    typer.echo(describe(data))
    used, counts, space = study.prepared(data)
    if ages is None and isinstance(data, Histories) and counts.n_age_classes > 1 and not data.age.any():
        typer.echo("Note: all birds are taken to have been marked as chicks; --ages 99 if they were adults.")
    for note in used.notes:
        if note not in data.notes:
            typer.echo(f"Note: {note}.")
    n_groups, states = len(counts.groups) // (len(counts.stages) or 1), ", ".join(counts.stages)
    stages = (
        ""
        if not states
        else f", birds told apart after a capture: {states}"
        if counts.moves is None
        else f", states {states}"
    )
    typer.echo(
        f"{counts.n_intervals - (counts.entered is not None)} intervals, {counts.n_age_classes} age class"
        + ("es" if counts.n_age_classes > 1 else "")
        + (f", {n_groups} groups" if n_groups > 1 else "")
        + stages
        + (f", individual covariates {', '.join(space.individual)}" if space.individual else "")
        + f", {space.count:,} models of {', '.join(space.present)}."
    )


def _write(result: "RecaptureResult", folder: Path, rule: str, title: str) -> None:
    from tempering.models.recapture.page import write_page
    from tempering.models.recapture.plots import draw_all

    paths = [*result.write(folder, rule), *draw_all(result, folder, rule=rule)]
    paths.append(write_page(result, folder / "report.html", title=title, rule=rule))
    typer.echo(f"Wrote {len(paths)} files to {folder}; begin with report.html.")


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if Console().is_terminal else 140)
