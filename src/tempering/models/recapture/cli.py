"""The command ``tempering recapture``: fit a study's data, print and write what was found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Integrated mark-recapture-recovery models.")


@app.callback()
def _group() -> None:
    """Fit integrated mark-recapture-recovery models."""


@app.command()
def fit(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The data.")],
    format: Annotated[
        str, typer.Option(help="mark, mark-ldld, mark-recovery, histories, arrays or counts.")
    ] = "histories",
    out: Annotated[Path | None, typer.Option(help="Folder for tables and pictures.")] = None,
    age_classes: Annotated[int, typer.Option(help="Years of life told apart, 1 to 8.")] = 4,
    phi: Annotated[str, typer.Option(help="contiguous, free, or a structure: '{1}(t) {2,3} {4+}'.")] = "contiguous",
    p: Annotated[str, typer.Option(help="As --phi, for recapture.")] = "free",
    recovery: Annotated[str, typer.Option(help="As --phi, for recovery.")] = "free",
    model_prior: Annotated[str, typer.Option(help="models or structures.")] = "models",
    groups: Annotated[int | None, typer.Option(help="Frequency columns of a MARK file.")] = None,
    group: Annotated[int | None, typer.Option(help="Analyse this group of histories only.")] = None,
    ages: Annotated[str, typer.Option(help="Completed years at marking by group, as 0,99 (99: adult).")] = "0",
    first_year: Annotated[int, typer.Option(help="Year of the first occasion of a MARK file.")] = 1,
    tail: Annotated[
        bool | None, typer.Option(help="Recoveries run past the last occasion (LDLD: yes by default).")
    ] = None,
    method: Annotated[str, typer.Option(help="parallel or simulated.")] = "parallel",
    draws: Annotated[int, typer.Option(help="Iterations kept of each chain.")] = 3000,
    tune: Annotated[int, typer.Option(help="Iterations before that.")] = 1000,
    chains: Annotated[int, typer.Option(help="Ensembles (parallel) or chains (simulated).")] = 8,
    rungs: Annotated[int, typer.Option(help="Temperatures, in a geometric ladder.")] = 10,
    hottest: Annotated[float, typer.Option(help="The least inverse temperature.")] = 0.5,
    rule: Annotated[str, typer.Option(help="How the temperatures are combined.")] = "screened",
    seed: Annotated[int | None, typer.Option(help="Equal seeds give equal results.")] = None,
    workers: Annotated[int | None, typer.Option(help="Share the chains out to so many processes.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A folder to go on from after a kill.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print results only.")] = False,
) -> None:
    """Average over all structures of survival, recapture and recovery."""
    from tempering.execution.workers import processes_or_none
    from tempering.models.recapture.estimator import MarkRecapture
    from tempering.models.recapture.reading import read
    from tempering.path.ladder import Ladder

    quiet = quiet or bool(ctx.obj)  # --quiet may stand before the command, too
    data = read(file, format, groups=groups, ages=_numbers(ages), first_year=first_year, tail=tail)
    data = _selected(data, group)
    study = MarkRecapture(
        age_classes, phi, p, recovery, model_prior, ladder=Ladder.geometric(rungs, hottest), method=method,
        draws=draws, tune=tune, chains=chains,
    )  # fmt: skip
    _check_rule(rule)
    if not quiet:
        _introduce(data, study)
    with processes_or_none(workers) as executor:
        result = study.fit(data, rng=seed, executor=executor, checkpoint=checkpoint, progress=not quiet)
    _print(result, rule)
    if out is not None:
        paths = [*result.write(out, rule), *draw_pictures(result, out, rule)]
        typer.echo(f"Wrote {len(paths)} files to {out}.")


def draw_pictures(result: "RecaptureResult", folder: Path, rule: str) -> list[Path]:
    """Draw every picture into a folder."""
    import matplotlib.pyplot as plt

    from tempering.models.recapture import plots
    from tempering.models.recapture.counts import Counts

    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Any] = {"models": lambda ax: plots.plot_models(result, rule=rule, ax=ax)}
    for name in result.parameters:
        pictures[f"averages_{name}"] = lambda ax, name=name: plots.plot_averages(result, name, rule=rule, ax=ax)
        pictures[f"structures_{name}"] = lambda ax, name=name: plots.plot_structures(result, name, rule=rule, ax=ax)
    pictures["overlap"] = lambda ax: plots.plot_overlap(result, rule=rule, ax=ax)
    if not isinstance(result.data, Counts):
        check = result.predictive_check(rule=rule, rng=0)
        pictures["predictive"] = lambda ax: plots.plot_predictive(check, ax=ax)
    paths = []
    for name, draw in pictures.items():
        figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
        draw(ax)
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths


def _introduce(data: Any, study: Any) -> None:
    from tempering.models.recapture.reading import as_counts

    counts = as_counts(data, study.age_classes)
    for note in data.notes:
        typer.echo(f"Note: {note}.")
    space = study.space(counts.parameters)
    typer.echo(f"{counts.n_intervals} intervals, {counts.n_age_classes} age classes, {space.count:,} models.")


def _print(result: "RecaptureResult", rule: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from tempering.models.recapture.counts import Counts

    console = Console(width=None if Console().is_terminal else 140)
    tables = {"Most probable models": result.model_probabilities(rule, 5)}
    for name in result.parameters:
        tables[f"Structures of {name}"] = result.structure_probabilities(name, rule).head(5)
    if not isinstance(result.data, Counts):
        tables["Posterior predictive check"] = result.predictive_check(rule=rule, rng=0).table()
    for title, frame in tables.items():
        table = Table(title=title, title_justify="left")
        for column in frame.columns:
            table.add_column(str(column))
        for row in frame.itertuples(index=False):
            table.add_row(*(f"{x:.3f}" if isinstance(x, float) else str(x) for x in row))
        console.print(table)
    console.print(str(result.mixing(rule)), highlight=False, soft_wrap=True)
    poor = result.poorly_known(rule)
    if len(poor):
        cells = ", ".join(f"{r.parameter} {r.age_class} {r.year}" for r in poor.itertuples())
        console.print(f"The data say little about: {cells}.", highlight=False)


def _numbers(text: str) -> tuple[int, ...]:
    from tempering.errors import InputError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"Ages must be whole numbers separated by commas, but got {text!r}. Write for example 1,2,3."
        ) from None


def _selected(data: Any, group: int | None) -> Any:
    from tempering.errors import InputError
    from tempering.models.recapture.histories import Histories

    if group is None:
        return data
    if not isinstance(data, Histories):
        raise InputError("A group can be chosen among encounter histories only. Leave --group out.")
    return data.select(group)


def _check_rule(rule: str) -> None:
    from tempering.errors import InputError
    from tempering.estimators import RULES

    if rule not in RULES:
        raise InputError(f"The rule must be one of {', '.join(RULES)}, but got {rule!r}.")
