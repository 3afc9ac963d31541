"""What every result of `tempering.sample` answers, draws or sums: code that asks only this works with both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tempering.estimators.rules import DEFAULT_RULE
from tempering.estimators.standard_error import Estimate
from tempering.path import Ladder
from tempering.path import Path as TemperingPath

if TYPE_CHECKING:
    import pandas as pd

    from tempering.runs.diagnosis import Diagnosis
    from tempering.runs.draws import RunInfo
    from tempering.runs.evidence import Evidence


@runtime_checkable
class Run(Protocol):
    """A finished run: `TemperedDraws`, or `TemperedSums` if only sums were kept.

    The one difference is what is asked of `expect`: draws take a function of the position, sums the name of one of the
    quantities that were summed.
    """

    @property
    def info(self) -> RunInfo | None:
        """How the run came about."""

    @property
    def ladder(self) -> Ladder:
        """Inverse temperatures, cold first."""

    @property
    def path(self) -> TemperingPath:
        """What the rungs are made of."""

    @property
    def n_chains(self) -> int:
        """Number of chains."""

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""

    @property
    def n_round_trips(self) -> int:
        """Journeys from the target to the hottest rung and back."""

    @property
    def rules(self) -> tuple[str, ...]:
        """By which rules its rungs can be combined."""

    @property
    def visits(self) -> Any:
        """Number of draws on each rung, T_i."""

    @property
    def mbar(self) -> Any:
        """The mixture of all rungs, with normalisers, overlap and weights."""

    def expect(self, quantity: Any, rule: str = DEFAULT_RULE, /) -> Estimate:
        """Estimate the cold expectation of a quantity."""

    def shares(self, rule: str = DEFAULT_RULE) -> Any:
        """Return what each rung contributes."""

    def ess(self, rule: str = DEFAULT_RULE) -> float:
        """Return the effective sample size of the weights."""

    def summary(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate every quantity."""

    def rungs(self) -> pd.DataFrame:
        """Tabulate the rungs."""

    def log_evidence(self) -> Evidence:
        """Estimate log Z(1) - log Z(k_m) by several methods."""

    def diagnose(self) -> Diagnosis:
        """Say in words whether the run can be trusted, and what to change."""

    def report(self, path: str | Path, *, title: str = "Tempered run") -> None:
        """Write one self-contained page about the run."""

    def save(self, path: str | Path) -> None:
        """Write the run to disk."""


def write_report(run: Run, path: str | Path, title: str) -> None:
    """Write the page about a run; what `Run.report` calls."""
    from tempering.report.page import write_report as write

    write(run, path, title=title)
