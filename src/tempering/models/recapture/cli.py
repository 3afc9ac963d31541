"""The command ``tempering recapture``: fit a study's data, print and write what was found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tempering.models.recapture.estimator import MarkRecapture
    from tempering.models.recapture.results import RecaptureResult

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Integrated mark-recapture-recovery models.")

File = Annotated[Path, typer.Argument(help="The data.")]
Format = Annotated[
    str,
    typer.Option(
        help="auto, mark, mark-live, mark-ldld, mark-recovery, mark-states, rmark, headed, histories, arrays or "
        "counts; auto tells it from the file."
    ),
]
READING, MODELS, SAMPLING = "Reading the file", "Models", "Sampling"
FrequencyColumns = Annotated[
    int | None,
    typer.Option(
        "--frequencies", "--groups", help="How many columns of a MARK file are frequencies.", rich_help_panel=READING
    ),
]
Ages = Annotated[
    str | None,
    typer.Option(
        help="Completed years at marking by group, as 0,99 (99: adult); chicks by default.", rich_help_panel=READING
    ),
]
FirstYear = Annotated[int, typer.Option(help="Year of the first occasion of a MARK file.", rich_help_panel=READING)]
Tail = Annotated[
    bool | None,
    typer.Option(help="Recoveries run past the last occasion (LDLD: yes by default).", rich_help_panel=READING),
]
Intervals = Annotated[
    str | None, typer.Option(help="Lengths of the intervals of a MARK file, as 1,1,2.", rich_help_panel=READING)
]
Ldld = Annotated[
    bool | None,
    typer.Option("--ldld/--no-ldld", help="Whether an rmark table has LDLD histories.", rich_help_panel=READING),
]
AgeClasses = Annotated[int, typer.Option(help="Years of life told apart, 1 to 8.", rich_help_panel=MODELS)]
By = Annotated[
    str | None,
    typer.Option(help="Column that tells groups apart; 'group' for MARK's groups.", rich_help_panel=MODELS),
]
Phi = Annotated[
    str,
    typer.Option(
        help="contiguous, free, a formula '~ age + time', or a structure '{1}(t) {2,3} {4+}'.", rich_help_panel=MODELS
    ),
]
P = Annotated[str, typer.Option(help="As --phi, for recapture; '~ trap' for trap dependence.", rich_help_panel=MODELS)]
Recovery = Annotated[str, typer.Option(help="As --phi, for recovery.", rich_help_panel=MODELS)]
Entry = Annotated[
    str | None,
    typer.Option(
        help="As --phi, for seniority: growth and abundance, too (needs --age-classes 1).", rich_help_panel=MODELS
    ),
]
Movement = Annotated[
    str, typer.Option(help="As --phi, for moves between states; '~ state + time'.", rich_help_panel=MODELS)
]
YearGroup = Annotated[
    list[str] | None,
    typer.Option(help="A grouping of years that formulas may name, as flood=1982,1983.", rich_help_panel=MODELS),
]
Seed = Annotated[int | None, typer.Option(help="Equal seeds give equal results.", rich_help_panel=SAMPLING)]
SAMPLER = {"tune": int, "chains": int, "method": str, "rungs": int, "hottest": float, "rule": str}


@app.callback()
def _group() -> None:
    """Fit integrated mark-recapture-recovery models."""


@app.command()
def describe(
    file: File, format: Format = "auto", frequencies: FrequencyColumns = None, ages: Ages = None,
    first_year: FirstYear = 1, tail: Tail = None, intervals: Intervals = None, ldld: Ldld = None,
) -> None:  # fmt: skip
    """Say what a file holds, and test live encounters by TEST 2 and 3, without fitting anything."""
    from tempering.models.recapture import reading
    from tempering.models.recapture.goodness import goodness_of_fit
    from tempering.models.recapture.histories import Histories

    data = _read(file, format, frequencies, ages, first_year, tail, intervals, ldld)
    typer.echo(reading.describe(data))
    if isinstance(data, Histories):
        typer.echo(str(goodness_of_fit(data)))


@app.command()
def fit(
    ctx: typer.Context,
    file: File,
    format: Format = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for tables, pictures and the report.")] = None,
    age_classes: AgeClasses = 4,
    phi: Phi = "contiguous",
    p: P = "free",
    recovery: Recovery = "free",
    fidelity: Annotated[
        str | None, typer.Option(help="As --phi, for fidelity; F = 1 if left out.", rich_help_panel=MODELS)
    ] = None,
    entry: Entry = None,
    movement: Movement = "~ state",
    by: By = None,
    year_group: YearGroup = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="What birds get that lack a covariate, as mass=mean or mass=51.5.", rich_help_panel=MODELS),
    ] = None,
    model_prior: Annotated[str, typer.Option(help="models or structures.", rich_help_panel=MODELS)] = "models",
    frequencies: FrequencyColumns = None,
    group: Annotated[
        str | None, typer.Option(help="Analyse this group of histories only.", rich_help_panel=READING)
    ] = None,
    ages: Ages = None,
    first_year: FirstYear = 1,
    tail: Tail = None,
    intervals: Intervals = None,
    ldld: Ldld = None,
    draws: Annotated[int, typer.Option(help="Iterations kept of each chain.", rich_help_panel=SAMPLING)] = 1500,
    sampler: Annotated[
        str,
        typer.Option(
            help="More of the sampler, as tune=400,chains=4,method=simulated,rungs=40,hottest=0.1,rule=mbar.",
            rich_help_panel=SAMPLING,
        ),
    ] = "",
    by_year: Annotated[bool | None, typer.Option(help="Print estimates by year (by default up to 15 years).")] = None,
    aic: Annotated[bool, typer.Option("--aic", help="Print AICc of the most probable models, too.")] = False,
    seed: Seed = None,
    workers: Annotated[
        int | None, typer.Option(help="Share the chains out to so many processes.", rich_help_panel=SAMPLING)
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder to resume from after a kill.", rich_help_panel=SAMPLING)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print results only.")] = False,
) -> None:
    """Average over all structures of survival, recapture and recovery."""
    from tempering.execution.workers import processes_or_none
    from tempering.models.recapture.estimator import MarkRecapture
    from tempering.models.recapture.output import show

    quiet = quiet or bool(ctx.obj)  # --quiet may stand before the command, too
    how = _sampler(sampler)
    rule = _checked_rule(how.pop("rule", "mbar"))
    data = _selected(_read(file, format, frequencies, ages, first_year, tail, intervals, ldld), group)
    study = MarkRecapture(
        age_classes, phi, p, recovery, fidelity, entry, movement, by, _year_groups(year_group or []),
        missing=_missing(missing or []), model_prior=model_prior,
        ladder=_ladder(how.pop("rungs", None), how.pop("hottest", 0.1)), draws=draws, **how,
    )  # fmt: skip
    if not quiet:
        _introduce(data, study, ages)
    with processes_or_none(workers) as executor:
        result = study.fit(data, rng=seed, executor=executor, checkpoint=checkpoint, progress=not quiet)
    show(result, _console(), rule, by_year=by_year, aic=aic)
    if out is not None:
        _write(result, out, rule, file.name)


@app.command()
def report(
    file: File,
    page: Annotated[Path, typer.Argument(help="The page to write.")] = Path("recapture.html"),
    format: Format = "auto",
    age_classes: AgeClasses = 4,
    phi: Phi = "contiguous",
    p: P = "free",
    recovery: Recovery = "free",
    entry: Entry = None,
    movement: Movement = "~ state",
    by: By = None,
    year_group: YearGroup = None,
    frequencies: FrequencyColumns = None,
    ages: Ages = None,
    first_year: FirstYear = 1,
    seed: Seed = None,
) -> None:
    """Fit and write one HTML page: estimates, models, goodness of fit, assumptions."""
    from tempering.models.recapture.estimator import MarkRecapture
    from tempering.models.recapture.page import write_page

    data = _read(file, format, frequencies, ages, first_year, None, None, None)
    study = MarkRecapture(
        age_classes,
        phi,
        p,
        recovery,
        entry=entry,
        movement=movement,
        groups=by,
        year_groups=_year_groups(year_group or []),
    )
    _introduce(data, study, ages)
    path = write_page(study.fit(data, rng=seed), page, title=file.name)
    typer.echo(f"Wrote {path}.")


def draw_pictures(result: "RecaptureResult", folder: Path, rule: str) -> list[Path]:
    """Draw every picture into a folder."""
    import matplotlib.pyplot as plt

    from tempering.models.recapture import plots

    folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, Any] = {
        "means": lambda ax: plots.plot_means(result, rule=rule, ax=ax),
        "models": lambda ax: plots.plot_models(result, rule=rule, ax=ax),
    }
    for name in result.parameters:
        pictures[f"averages_{name}"] = lambda ax, name=name: plots.plot_averages(result, name, rule=rule, ax=ax)
        pictures[f"structures_{name}"] = lambda ax, name=name: plots.plot_structures(result, name, rule=rule, ax=ax)
    pictures["overlap"] = lambda ax: plots.plot_overlap(result, rule=rule, ax=ax)
    if result.can_be_checked:
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


def _read(
    file: Path, format: str, frequencies: int | None, ages: str | None, first_year: int, tail: bool | None,
    intervals: str | None, ldld: bool | None,
) -> Any:  # fmt: skip
    from tempering.models.recapture.reading import read

    lengths = None if intervals is None else [float(x) for x in _split(intervals, float, "Intervals")]
    return read(
        file, format, groups=frequencies, ages=tuple(int(x) for x in _split(ages or "0", int, "Ages")),
        first_year=first_year, tail=tail, lengths=lengths, ldld=ldld,
    )  # fmt: skip


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
    n_groups = len(counts.groups) // (len(counts.stages) or 1)
    typer.echo(
        f"{counts.n_intervals - (counts.entered is not None)} intervals, {counts.n_age_classes} age classes"
        + (f", {n_groups} groups" if n_groups > 1 else "")
        + (f", birds told apart after a capture: {', '.join(counts.stages)}" if counts.stages else "")
        + (f", individual covariates {', '.join(space.individual)}" if space.individual else "")
        + f", {space.count:,} models of {', '.join(space.present)}."
    )


def _write(result: "RecaptureResult", folder: Path, rule: str, title: str) -> None:
    from tempering.models.recapture.page import write_page

    paths = [*result.write(folder, rule), *draw_pictures(result, folder, rule)]
    paths.append(write_page(result, folder / "report.html", title=title, rule=rule))
    typer.echo(f"Wrote {len(paths)} files to {folder}; begin with report.html.")


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if Console().is_terminal else 140)


def _ladder(rungs: int | None, hottest: float) -> Any:
    from tempering.path.ladder import Ladder

    return None if rungs is None else Ladder.geometric(rungs, hottest)


def _split(text: str, kind: type, name: str) -> list[Any]:
    from tempering.errors import InputError

    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{name} must be {'whole ' if kind is int else ''}numbers separated by commas, but got {text!r}. "
            "Write for example 1,2,3."
        ) from None


def _year_groups(given: list[str]) -> dict[str, list[int]]:
    from tempering.errors import InputError

    found = {}
    for text in given:
        name, sign, years = text.partition("=")
        if not sign:
            raise InputError(f"A grouping of years must read like flood=1982,1983, but got {text!r}.")
        found[name.strip()] = [int(x) for x in _split(years, int, "Years")]
    return found


def _selected(data: Any, group: str | None) -> Any:
    from tempering.errors import InputError
    from tempering.models.recapture.histories import Histories

    if group is None:
        return data
    if not isinstance(data, Histories):
        raise InputError("A group can be chosen among encounter histories only. Leave --group out.")
    return data.select(group)


def _missing(given: list[str]) -> dict[str, Any]:
    """Read what birds get that lack a covariate: mass=mean, or mass=51.5."""
    from tempering.errors import InputError

    found: dict[str, Any] = {}
    for text in given:
        name, _, value = (part.strip() for part in text.partition("="))
        try:
            found[name] = value if value == "mean" else float(value)
        except ValueError:
            raise InputError(f"--missing must read like mass=mean or mass=51.5, but got {text!r}.") from None
    return found


def _sampler(text: str) -> dict[str, Any]:
    """Read the options of the sampler: names and values, separated by commas."""
    from tempering.errors import InputError

    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            found[name] = SAMPLER[name](value)
        except (KeyError, ValueError):
            raise InputError(
                f"--sampler does not understand {part!r}. It takes {', '.join(SAMPLER)}, as tune=400,chains=8."
            ) from None
    return found


def _checked_rule(rule: str) -> str:
    from tempering.errors import InputError
    from tempering.estimators import RULES

    if rule not in RULES:
        raise InputError(f"The rule must be one of {', '.join(RULES)}, but got {rule!r}.")
    return rule
