"""TwoLegSums: what a run along two legs leaves that keeps no draws.

Weights are those of the mixture that the run draws from (`tempering.estimators.running.mixed`): one rule, `mbar`'s,
since what one rung alone says of the target is not kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import EstimatorError
from tempering.estimators.rules import DEFAULT_RULE, check_rule
from tempering.estimators.running.answers import SummedCombination
from tempering.estimators.running.mixed import MixedSums
from tempering.path import Path
from tempering.runs.evidence import Evidence, evidence_of_legs
from tempering.runs.sums import Floats, TemperedSums

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class TwoLegSums(TemperedSums):
    """Sums over the draws of every rung of two legs; asked as `TemperedSums` is, by the rule ``mbar`` alone."""

    sums: MixedSums  # type: ignore[assignment]
    two_legs: Path | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """By which rules its rungs can be combined."""
        return (DEFAULT_RULE,)

    @property
    def path(self) -> Path:
        """The path of two legs that the chains ran along."""
        assert self.two_legs is not None
        return self.two_legs

    @property
    def mbar(self) -> MixedSums:  # type: ignore[override]
        """The mixture of all rungs: overlap and normalisers."""
        return self.sums

    def _combined(self, name: str, rule: str) -> SummedCombination:
        _check_only(rule)
        found = self.sums.expect(name)
        bounded = np.full(len(self.path), -np.inf)  # no weight is above 1
        return SummedCombination(
            found.value, found.standard_error, self.shares(), self.sums.ess, self.sums.ess_per_rung, bounded, rule
        )

    def quantile(self, probability: float | Floats, name: str, rule: str = DEFAULT_RULE) -> Any:
        """Return quantiles of a quantity from its sketch, one column a component."""
        _check_only(rule)
        return self.sums.quantile(name, probability)

    def shares(self, rule: str = DEFAULT_RULE) -> Floats:
        """Return lambda_i, what each rung contributes."""
        _check_only(rule)
        weights = self.sums.weights
        return np.asarray(weights / weights.sum())

    def ess(self, rule: str = DEFAULT_RULE) -> float:
        """Return the effective sample size of the weights."""
        _check_only(rule)
        return self.sums.ess

    def _estimate_evidence(self) -> Evidence:
        ratio = self.sums.log_normaliser_ratio
        return evidence_of_legs(self.path, ratio, self.visits, self.log_pseudo_prior, self.n_round_trips)

    def rungs(self) -> pd.DataFrame:
        """Tabulate the rungs: leg, k, visits, acceptance of moves and of exchanges, ESS of weights, share, k-hat."""
        found = self._table(self.path.inverse_temperatures, self.sums.ess_per_rung, np.full(len(self.path), -np.inf))
        found.insert(0, "leg", self.path.leg_names)
        return found


def _check_only(rule: str) -> None:
    if check_rule(rule) != DEFAULT_RULE:
        raise EstimatorError(
            f"Sums along two legs are combined by rule={DEFAULT_RULE!r} alone, but got {rule!r}: what each rung says "
            "by itself is not kept. Keep draws, or give a ladder."
        )
