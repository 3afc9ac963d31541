"""The options of ``tempering recapture`` in groups that its commands share: reading, models, sampling."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tempering.errors import InputError
from tempering.models.option_groups import option

if TYPE_CHECKING:
    from tempering.models.recapture.estimator import MarkRecapture

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
