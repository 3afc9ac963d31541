"""The command line: each command calls one public function and prints what it returns.

Bad input ends with one line on standard error and exit status 2, never with a traceback.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tempering.cli.options import ChainOptions, PlaceOptions, ResultOptions, TuningOptions
from tempering.errors import InputError, TemperingError
from tempering.models.option_groups import with_groups

if TYPE_CHECKING:
    from rich.console import Console

    from tempering.experiments import Report
    from tempering.runs.draws import TemperedDraws

EXPERIMENTS = {
    "table1": "Table 1: the best single temperature for a Gaussian mean, exactly.",
    "table2": "Table 2: a mixture of two normals, 100 runs of 1e5 draws.",
    "motorcycle": "Section 3.2: a treed Gaussian process on the motorcycle accident data.",
    "exponential": "Section 3.2: a treed Gaussian process on the two-dimensional exponential data.",
    "shags": "Section 3.3: mark-recapture-recovery models of (synthetic) shags.",
}
MODELS = {
    "treed-gp": ("tempering.models.treed_gp.cli", "Fit a Bayesian treed Gaussian process."),
    "recapture": ("tempering.models.recapture.cli", "Fit integrated mark-recapture-recovery models."),
    "select": ("tempering.models.variable_selection.cli", "Say which columns explain a response."),
}
WIDE = 100  # columns of a terminal that take every column of a summary
NEEDS_SKLEARN = ("treed-gp", "select", "motorcycle", "exponential")  # commands and experiments


class LazyGroup(TyperGroup):
    """A group whose models are imported when one of their commands is called, not to list them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the commands, those of models which are installed among them."""
        return [*super().list_commands(ctx), *(name for name in MODELS if _is_installed(MODELS[name][0]))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, for a model one that only knows its help."""
        if cmd_name in MODELS:
            return TyperGroup(name=cmd_name, help=MODELS[cmd_name][1])
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the model whose command is called."""
        name = args[0]
        if name in MODELS and _is_installed(MODELS[name][0]):
            if not set(args) & {"--help", "-h"}:
                _check_needs(name)
            module = import_module(MODELS[name][0])
            return name, typer.main.get_command(module.app), args[1:]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Importance tempering: every draw of every temperature, combined into one answer.",
)
Quiet = Annotated[bool, typer.Option("--quiet", help="Print results only: no progress bars, no notes.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tempering {version('tempering')}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    quiet: Quiet = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    ctx.obj = quiet


@app.command()
def demo(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Run a small Table 2 in seconds, print it, and draw a picture of one run."""
    from tempering.experiments import demo as experiment

    quiet = quiet or ctx.obj
    _print(experiment.run(folder, progress=not quiet), quiet)


@app.command()
def reproduce(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")],
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the rows as JSON; - prints them.")] = None,
    runs: Annotated[int | None, typer.Option(help="Number of independent runs.")] = None,
    draws: Annotated[int | None, typer.Option(help="Draws of each run.")] = None,
    workers: Annotated[int | None, typer.Option(help="Share the work out to so many processes.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A folder to resume from after a kill.")] = None,
    quiet: Quiet = False,
) -> None:
    """Redo an experiment of the paper and set its figures beside ours."""
    from tempering.cli.user_files import check_page
    from tempering.execution.workers import processes_or_none

    quiet = quiet or ctx.obj
    run = _experiment(name)
    if json not in (None, "-"):
        check_page(Path(str(json)))
    with processes_or_none(workers) as executor:
        given = {"n_runs": runs, "n_draws": draws, "executor": executor, "checkpoint": checkpoint}
        report: Report = run(**_settings(run, name, progress=not quiet, **given))
    if json == "-":
        typer.echo(report.to_json())
        return
    if json is not None:
        report.write_json(json)
    _print(report, quiet)


@app.command()
def combine(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A CSV file with a header and one draw per row, in time order.")],
    energy: Annotated[str, typer.Option(help="Column of the energy: log pi, or log likelihood.")],
    inverse_temperature: Annotated[str, typer.Option(help="Column of the inverse temperature k.")],
    values: Annotated[str, typer.Option(help="Columns to estimate the means of, separated by commas.")],
    quiet: Quiet = False,
) -> None:
    """Combine the draws of all temperatures in a file into estimates for k = 1."""
    from tempering.doors.csv_draws import combine_csv

    quiet = quiet or ctx.obj
    with _waiting("Combining", quiet):
        answer = combine_csv(file, energy=energy, inverse_temperature=inverse_temperature, values=values.split(","))
    answer.print(_console(), notes=not quiet)


@app.command()
@with_groups
def sample(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A log density, or a function that returns a Target.")
    ],
    chains: ChainOptions,
    tuning: TuningOptions,
    place: PlaceOptions,
    results: ResultOptions,
    quiet: Quiet = False,
) -> None:
    """Sample the target of a file of yours; write the run and a page about it."""
    from tempering.cli.user_files import sample_file

    quiet, page = quiet or ctx.obj, results.page()
    how: dict[str, Any] = {"tuning": tuning.tuning(), "execution": place.execution(), "progress": not quiet}
    try:
        run = sample_file(target, results.output, page, workers=place.workers, **chains.given(), **how)
    except KeyboardInterrupt as stop:  # while tuning; later the run returns what there is
        typer.echo(f"tempering: {stop or 'Stopped.'}", err=True)
        raise typer.Exit(130) from None
    _print_run(run, quiet)
    if not quiet:
        typer.echo(f"The run is in {results.output}, a page about it in {page}.")


@app.command()
def report(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(help="A run written by sample, or by TemperedDraws.save.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("report.html"),
    quiet: Quiet = False,
) -> None:
    """Write one self-contained page about a run: the verdict, estimates and pictures."""
    from tempering.cli.user_files import check_page
    from tempering.report.page import write_report
    from tempering.runs.stored import load

    quiet = quiet or ctx.obj
    check_page(output)
    with _waiting("Drawing", quiet):
        write_report(load(run), output, title=run.name)
    if not quiet:
        typer.echo(f"The page is in {output}.")


@app.command(name="warm-up")
def warm_up(
    ctx: typer.Context,
    clear: Annotated[bool, typer.Option("--clear", help="Only remove the programs that are kept.")] = False,
    quiet: Quiet = False,
) -> None:
    """Compile ahead of need what models and the scalar engine compile on first use."""
    from tempering.cli.warming import kept_programs, warm_up

    quiet = quiet or ctx.obj
    if clear:
        kept = kept_programs()
        n = 0 if kept is None else kept.clear()
        if not quiet:
            typer.echo(f"Compiled programs removed: {n}.")
        return
    with _waiting("Compiling", quiet):
        for part in warm_up():
            typer.echo(f"{part.name:24}{part.seconds:6.1f} s")
    if not quiet:
        _print_where_programs_are()


def _print_where_programs_are() -> None:
    from tempering.cli.warming import kept_programs

    kept = kept_programs()
    if kept is None:
        typer.echo("Programs of the vector engine are not kept: TEMPERING_CACHE is off, or no safe folder was found.")
        return
    sizes = [size for _, size, _ in kept.files()]
    typer.echo(f"Programs of the vector engine: {len(sizes)}, {sum(sizes) / 2**20:.1f} MiB, in {kept.folder}")
    typer.echo("Code compiled by Numba: in NUMBA_CACHE_DIR if set, else beside the package or in Numba's own cache.")


def _experiment(name: str) -> "Callable[..., Report]":
    if name not in EXPERIMENTS:
        raise InputError(f"There is no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}.")
    module = f"tempering.experiments.{name}"
    if not _is_installed(module):
        raise InputError(f"The experiment {name!r} is not part of this installation: there is no {module}.")
    _check_needs(name)
    run: Callable[..., Report] = import_module(module).run
    return run


def _settings(run: Callable[..., Any], name: str, **given: Any) -> dict[str, Any]:
    """Return the settings that were given, or say which of them the experiment does not have."""
    from inspect import signature

    known = signature(run).parameters
    for setting, value in given.items():
        if value is not None and setting not in known and setting != "progress":
            option = "--workers" if setting == "executor" else f"--{setting.removeprefix('n_')}"
            raise InputError(f"The experiment {name!r} has no {option} to set. Leave the option out.")
    return {setting: value for setting, value in given.items() if value is not None and setting in known}


def _check_needs(name: str) -> None:
    """Say what a command needs and is not installed, before it reads or computes anything."""
    from tempering.requirements import require

    if name in NEEDS_SKLEARN:
        require("sklearn", what=f"{name!r}", install="tempering[models]")


def _is_installed(module: str) -> bool:
    """Say whether a module of the package is there, without importing anything."""
    return Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py").is_file()


def _console() -> "Console":
    from rich.console import Console

    # A file or a pipe has no width of its own: wide enough that no table is folded
    return Console(width=None if sys.stdout.isatty() else 160)


def _waiting(text: str, quiet: bool) -> Any:
    """Show that something is going on, on a terminal."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    return console.status(text) if console.is_terminal and not quiet else nullcontext()


def _print_run(run: "TemperedDraws", quiet: bool) -> None:
    """Print the estimates, and, unless only results are wanted, the verdict."""
    from rich import box
    from rich.table import Table

    summary, console = run.summary(), _console()
    if console.width < WIDE:
        summary = summary.drop(columns=["hdi_low", "hdi_high"])
    heads = (name.replace("_", "\n") for name in ("quantity", *summary.columns))
    table = Table(*heads, title=repr(run), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, row in zip(summary.index, summary.to_numpy().tolist(), strict=True):
        formats = {"ess": ",.0f", "r_hat": ".3f"}
        cells = (f"{value:{formats.get(column, '.4g')}}" for column, value in zip(summary.columns, row, strict=True))
        table.add_row(str(name), *cells)
    console.print(table)
    if not quiet:
        console.print(str(run.diagnose()), highlight=False)


def _print(report: "Report", quiet: bool) -> None:
    console = _console()
    if quiet:
        console.print(report.table())
    else:
        report.print(console)


def main() -> None:
    """Run the command line; turn an error that the package foresees into one line and exit status 2."""
    try:
        app()
    except TemperingError as error:
        _exit_with(str(error))
    except Exception as error:
        from tempering.cli.user_files import error_of_user

        theirs = error_of_user(error)
        if theirs is None:  # a bug of ours: everything that can be known is wanted
            raise
        _exit_with(theirs)


def _exit_with(sentence: str) -> None:
    sys.stderr.write(f"tempering: {' '.join(sentence.split())}\n")
    raise SystemExit(2) from None
