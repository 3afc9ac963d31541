"""The command ``tempering recapture``: fit a study's data, print and write what was found."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tempering.errors import InputError
from tempering.models.option_groups import option, with_groups

if TYPE_CHECKING:
    from tempering.models.recapture.estimator import MarkRecapture
    from tempering.models.recapture.results import RecaptureResult

READING, MODELS, SAMPLING, OUTPUT = "Reading the file", "Models", "Sampling", "Options"
SAMPLER = {"tune": int, "chains": int, "method": str, "rungs": int, "hottest": float, "rule": str}


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    format: Annotated[
        str,
        option(
            READING,
            "auto, mark, mark-live, mark-ldld, mark-recovery, mark-states, rmark, headed, histories, arrays or "
            "counts; auto tells it from the file.",
        ),
    ] = "auto"
    frequencies: Annotated[
        int | None, option(READING, "How many columns of a MARK file are frequencies.", "--frequencies", "--groups")
    ] = None
    group: Annotated[str | None, option(READING, "Analyse this group of histories only.")] = None
    ages: Annotated[
        str | None, option(READING, "Completed years at marking by group, as 0,99 (99: adult); chicks by default.")
    ] = None
    first_year: Annotated[int, option(READING, "Year of the first occasion of a MARK file.")] = 1
    tail: Annotated[bool | None, option(READING, "Recoveries run past the last occasion (LDLD: yes by default).")] = (
        None
    )
    intervals: Annotated[str | None, option(READING, "Lengths of the intervals of a MARK file, as 1,1,2.")] = None
    ldld: Annotated[
        bool | None, option(READING, "Whether histories of rmark or mark-states are LDLD.", "--ldld/--no-ldld")
    ] = None

    def read(self, file: Path) -> Any:
        """Return the data of a file."""
        from tempering.models.recapture.histories import Histories
        from tempering.models.recapture.reading import read

        data = read(
            file, self.format, groups=self.frequencies, ages=tuple(_numbers(self.ages or "0", int, "--ages")),
            first_year=self.first_year, tail=self.tail, ldld=self.ldld,
            lengths=None if self.intervals is None else _numbers(self.intervals, float, "--intervals"),
        )  # fmt: skip
        if self.group is None:
            return data
        if not isinstance(data, Histories):
            raise InputError("A group can be chosen among encounter histories only. Leave --group out.")
        return data.select(self.group)


@dataclass(frozen=True)
class Models:
    """Which models are searched."""

    age_classes: Annotated[int, option(MODELS, "Years of life told apart, 1 to 8.")] = 4
    phi: Annotated[
        str, option(MODELS, "contiguous, free, a formula '~ age + time', or a structure '{1}(t) {2,3} {4+}'.")
    ] = "contiguous"
    p: Annotated[str, option(MODELS, "As --phi, for recapture; '~ trap' for trap dependence.")] = "free"
    recovery: Annotated[str, option(MODELS, "As --phi, for recovery.")] = "free"
    fidelity: Annotated[str | None, option(MODELS, "As --phi, for fidelity; F = 1 if left out.")] = None
    entry: Annotated[
        str | None, option(MODELS, "As --phi, for seniority: growth and abundance, too (needs --age-classes 1).")
    ] = None
    movement: Annotated[str, option(MODELS, "As --phi, for moves between states; '~ state + time'.")] = "~ state"
    by: Annotated[str | None, option(MODELS, "Column that tells groups apart; 'group' for MARK's groups.")] = None
    year_group: Annotated[
        list[str] | None, option(MODELS, "A grouping of years that formulas may name, as flood=1982,1983.")
    ] = None
    yearly_covariate: Annotated[
        list[str] | None,
        option(MODELS, "A covariate that formulas may name, one number for each interval, as ice=0.3,1.2,0.7."),
    ] = None
    missing: Annotated[
        list[str] | None, option(MODELS, "What birds get that lack a covariate, as mass=mean or mass=51.5.")
    ] = None
    model_prior: Annotated[str, option(MODELS, "models or structures.")] = "models"

    def study(self, **how: Any) -> "MarkRecapture":
        """Return the study of these models."""
        from tempering.models.recapture.estimator import MarkRecapture

        return MarkRecapture(
            self.age_classes, self.phi, self.p, self.recovery, self.fidelity, self.entry, self.movement, self.by,
            _named(self.year_group, int, "--year-group", "flood=1982,1983"),
            _named(self.yearly_covariate, float, "--yearly-covariate", "ice=0.3,1.2,0.7"),
            _fillings(self.missing), model_prior=self.model_prior, **how,
        )  # fmt: skip


@dataclass(frozen=True)
class Sampling:
    """How models are sampled."""

    draws: Annotated[int, option(SAMPLING, "Iterations kept of each chain.")] = 2500
    sampler: Annotated[
        str, option(SAMPLING, "More of the sampler, as tune=400,chains=4 (also method, rungs, hottest, rule).")
    ] = ""
    seed: Annotated[int | None, option(SAMPLING, "Equal seeds give equal results.")] = None
    workers: Annotated[int | None, option(SAMPLING, "Share the chains out to so many processes.")] = None
    checkpoint: Annotated[Path | None, option(SAMPLING, "A folder to resume from after a kill.")] = None

    @property
    def rule(self) -> str:
        """The rule that combines the temperatures."""
        from tempering.estimators import RULES

        rule = self._sampler.get("rule", "mbar")
        if rule not in RULES:
            raise InputError(f"The rule must be one of {', '.join(RULES)}, but got {rule!r}.")
        return str(rule)

    @property
    def study(self) -> dict[str, Any]:
        """What a study is told."""
        from tempering.path.ladder import Ladder

        how = {name: value for name, value in self._sampler.items() if name not in ("rungs", "hottest", "rule")}
        rungs, hottest = self._sampler.get("rungs"), self._sampler.get("hottest", 0.1)
        return {"draws": self.draws, "ladder": None if rungs is None else Ladder.geometric(rungs, hottest), **how}

    def executor(self) -> AbstractContextManager[Any]:
        """Return the processes that chains run in, if any."""
        from tempering.execution.workers import processes_or_none

        return processes_or_none(self.workers)

    @property
    def _sampler(self) -> dict[str, Any]:
        """Names and values, separated by commas."""
        found: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in self.sampler.split(","))):
            name, _, value = (piece.strip() for piece in part.partition("="))
            try:
                found[name] = SAMPLER[name](value)
            except (KeyError, ValueError):
                raise InputError(
                    f"--sampler does not understand {part!r}. It takes {', '.join(SAMPLER)}, as tune=400,chains=8."
                ) from None
        return found


@dataclass(frozen=True)
class Output:
    """What is printed, and written."""

    out: Annotated[Path | None, option(OUTPUT, "Folder for tables, pictures and the report.")] = None
    by_year: Annotated[bool | None, option(OUTPUT, "Print estimates by year (by default up to 15 years).")] = None
    aic: Annotated[bool, option(OUTPUT, "Print AICc of the most probable models, too.", "--aic")] = False
    quiet: Annotated[bool, option(OUTPUT, "Print results only.", "--quiet")] = False


def _numbers(text: str, kind: type, option: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} must have {'whole ' if kind is int else ''}numbers separated by commas, but got {text!r}. "
            "Write for example 1,2,3."
        ) from None


def _named(given: list[str] | None, kind: type, option: str, example: str) -> dict[str, list[Any]]:
    """Read names with numbers."""
    found = {}
    for text in given or []:
        name, sign, numbers = text.partition("=")
        if not sign:
            raise InputError(f"{option} must read like {example}, but got {text!r}.")
        found[name.strip()] = _numbers(numbers, kind, option)
    return found


def _fillings(given: list[str] | None) -> dict[str, Any]:
    """Read what birds get that lack a covariate."""
    found: dict[str, Any] = {}
    for text in given or []:
        name, _, value = (part.strip() for part in text.partition("="))
        try:
            found[name] = value if value == "mean" else float(value)
        except ValueError:
            raise InputError(f"--missing must read like mass=mean or mass=51.5, but got {text!r}.") from None
    return found


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
