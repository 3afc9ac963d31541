"""TemperedSums: what a run leaves that keeps no draws, and what a user asks questions of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.estimators.rules import DEFAULT_RULE, RULES, check_rule
from tempering.estimators.running import answers as answers
from tempering.estimators.running.answers import SummedCombination
from tempering.estimators.running.mbar import RunningMbar
from tempering.estimators.running.mixed import MixedSums
from tempering.estimators.running.quantiles import are_indicators
from tempering.estimators.running.rungs import RunningRungs
from tempering.estimators.standard_error import Estimate
from tempering.path import Ladder, Path
from tempering.recorders.index_sums import IndexSums
from tempering.runs.diagnosis import Diagnosis, has_one_mode
from tempering.runs.draws import RunInfo
from tempering.runs.evidence import Evidence, evidence_of_legs, evidence_of_sums, told
from tempering.runs.run import write_report
from tempering.runs.sum_diagnosis import diagnosis_of_sums
from tempering.runs.tours import widened

if TYPE_CHECKING:
    import pandas as pd

PROBABILITIES = (np.arange(400) + 0.5) / 400  # quantiles whose variance is that of a quantity, up to its extremes


@dataclass(frozen=True, eq=False)
class TemperedSums:
    """Sums over the draws of every rung; the draws themselves were not kept.

    Its size depends on the ladder and on the quantities, not on the length of the run.

    Attributes
    ----------
    sums : RunningRungs
    index : IndexSums
        Exchanges, acceptances and round trips.
    ladder : Ladder
    log_pseudo_prior : ndarray, shape (rung,)
    n_chains : int
    is_powered : bool
        Whether the whole density is raised to the power k.
    info : RunInfo
    """

    sums: RunningRungs
    index: IndexSums
    ladder: Ladder
    log_pseudo_prior: Floats
    n_chains: int
    is_powered: bool = True
    info: RunInfo | None = None
    _kept: dict[tuple[str, str], SummedCombination] = field(default_factory=dict, repr=False)

    @property
    def rules(self) -> tuple[str, ...]:
        """By which rules its rungs can be combined."""
        return tuple(RULES)

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities that were summed."""
        return tuple(self.sums.quantities.shapes)

    @property
    def n_draws(self) -> int:
        """Draws of each chain (of the longest run, after a merge)."""
        return self.index.n_iterations

    @property
    def visits(self) -> NDArray[np.intp]:
        """Number of draws summed on each rung, T_i."""
        return self.sums.n_draws

    @property
    def n_summed(self) -> int:
        """Draws that were summed, of all chains: fewer than there were if ``Sums.every`` is more than one."""
        return int(self.visits.sum())

    @property
    def n_round_trips(self) -> int:
        """Journeys from the cold rung to the hottest and back."""
        return self.index.n_round_trips

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.sums.nbytes

    @cached_property
    def mbar(self) -> RunningMbar:
        """The mixture of all rungs, with the normalisers estimated."""
        return answers.mbar_of(self.sums)

    def combination(self, name: str, rule: str = DEFAULT_RULE) -> SummedCombination:
        """Combine the rungs by a rule: estimate, standard error, shares and sample sizes."""
        key = (name, rule)
        if key not in self._kept:
            self._kept[key] = self._with_doubt(name, self._combined(name, rule))
        return self._kept[key]

    def _combined(self, name: str, rule: str) -> SummedCombination:
        return answers.combine_sums(self.sums, name, rule, self.mbar if rule == "mbar" else None)

    def _with_doubt(self, name: str, found: SummedCombination) -> SummedCombination:
        """Widen standard errors by what no piece of the run can have seen, as those of draws are."""
        if self.n_crossings is None or has_one_mode(self):
            return found
        units, columns = self.sums.quantities, self.sums.quantities.columns(name)
        is_indicator = are_indicators(self.sums.sketch[columns], units.centre[columns], units.scale[columns])
        spread = np.where(is_indicator, 1.0, np.sqrt(self.variance(name)))
        wide = widened(Estimate(found.estimate, found.standard_error), spread, self.n_crossings)
        return replace(found, standard_error=wide.standard_error)

    @cached_property
    def n_crossings(self) -> float | None:
        """How many independent pieces the run is worth; None where nothing is known of them.

        Along two legs tours between their ends, by their weights, as in `TemperedDraws`; round trips elsewhere.
        """
        if self.info is None or len(self.path) == 1:
            return None
        tours = getattr(self.sums, "tours", None)
        return float(max(self.n_round_trips, 1)) if tours is None else tours.effective_number

    def variance(self, name: str) -> Floats:
        """Return the variance of each component of a quantity, from its sketch."""
        found = np.asarray(self.quantile(PROBABILITIES, name), dtype=float)
        return np.asarray(found.reshape(PROBABILITIES.size, -1).var(axis=0))

    def expect(self, name: str, rule: str = DEFAULT_RULE) -> Estimate:
        """Estimate the cold expectation of a quantity.

        Parameters
        ----------
        name : str
            One of ``names``.
        rule : str
            How the rungs are combined; see `tempering.estimators.RULES`.

        Returns
        -------
        Estimate
            With ``.value`` and ``.standard_error``.
        """
        result = self.combination(name, rule)
        return Estimate(result.estimate, result.standard_error)

    def quantile(self, probability: float | Floats, name: str, rule: str = DEFAULT_RULE) -> Any:
        """Return quantiles of a quantity from its sketch, one column per component.

        Right to the width of a bin: about 1 % of the quantity's spread, and of the distance from its centre beyond.
        """
        return answers.quantile_of(self.sums, name, probability, rule, self.mbar if rule == "mbar" else None)

    def shares(self, rule: str = DEFAULT_RULE) -> Floats:
        """Return lambda_i, what each rung contributes."""
        return answers.shares_of(self.sums, rule, None, self.mbar if rule == "mbar" else None)

    def ess(self, rule: str = DEFAULT_RULE) -> float:
        """Return the effective sample size of the weights, ESS(w^lambda)."""
        return answers.ess_of(self.sums, rule, self.mbar if rule == "mbar" else None)

    @property
    def path(self) -> Path:
        """The path of one leg that the chains ran along."""
        return Path.of_energy(self.ladder, is_powered=self.is_powered)

    @property
    def chains_per_ensemble(self) -> int:
        """Neighbouring chains that exchanged rungs (parallel tempering); 1 otherwise."""
        return len(self.ladder) if self.info is not None and self.info.method == "parallel" else 1

    def log_evidence(self) -> Evidence:
        """Estimate log Z(1) - log Z(k_m), as `TemperedDraws.log_evidence`."""
        return told(self._evidence)

    @cached_property
    def _evidence(self) -> Evidence:
        return self._estimate_evidence()

    def _estimate_evidence(self) -> Evidence:
        return evidence_of_sums(self)

    def diagnose(self) -> Diagnosis:
        """Say in words whether the run can be trusted, and what to change."""
        return diagnosis_of_sums(self)

    def report(self, path: str | FilePath, *, title: str = "Tempered run") -> None:
        """Write one self-contained page about the run: the verdict, estimates and pictures of the rungs."""
        write_report(self, path, title)

    def save(self, path: str | FilePath) -> None:
        """Write the sums to a file; `TemperedSums.load` reads it."""
        from tempering.runs.stored_sums import save_sums

        save_sums(self, FilePath(path))

    def summary(self, rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Tabulate mean, standard error and quantiles of every quantity."""
        import pandas as pd

        rows = []
        for name in self.names:
            result = self.combination(name, rule)
            quantiles = np.reshape(self.quantile(np.array([0.05, 0.5, 0.95]), name, rule), (3, -1))
            shape = self.sums.quantities.shapes[name]
            for i, (mean, error) in enumerate(
                zip(np.ravel(result.estimate), np.ravel(result.standard_error), strict=True)
            ):
                index = ",".join(str(j) for j in np.unravel_index(i, shape)) if shape else ""
                rows.append((f"{name}[{index}]" if shape else name, mean, error, *quantiles[:, i]))
        columns = ["quantity", "mean", "standard_error", "5%", "50%", "95%"]
        return pd.DataFrame(rows, columns=columns).set_index("quantity")

    def rungs(self) -> pd.DataFrame:
        """Tabulate the rungs: k, visits, acceptance of moves and of exchanges, ESS of weights, share, k-hat."""
        k, ess = self.ladder.inverse_temperatures, answers.rung_sums(self.sums).ess_of_weights
        return self._table(k, ess, answers.pareto_k(self.sums))

    def _table(self, k: Floats, ess_of_weights: Floats, pareto_k: Floats) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            {
                "k": k,
                "visits": self.visits,
                "move_acceptance": self.index.move_acceptance,
                "exchange_acceptance": np.append(self.index.exchange_acceptance, np.nan),
                "ess_of_weights": ess_of_weights,
                "share": self.shares(),
                "pareto_k": pareto_k,
            }
        ).rename_axis("rung")

    def merge(self, other: TemperedSums) -> TemperedSums:
        """Add the sums of another run, of another seed, over the same ladder and quantities."""
        if self.info is not None and other.info is not None and self.info.seed == other.info.seed:
            raise EstimatorError(
                f"Runs to be merged must be independent, but both have the seed {self.info.seed}. Run one of them with "
                "another rng=..."
            )
        merged: Any = self.sums.merge(other.sums)
        index = self.index.added(other.index, in_time=False)
        info = None if self.info is None else replace(self.info, seed=-1)  # of several seeds
        return replace(self, sums=merged, index=index, n_chains=self.n_chains + other.n_chains, info=info, _kept={})

    @classmethod
    def load(cls, path: str | FilePath) -> TemperedSums:
        """Read the sums that `save` has written, or those a checkpoint has so far: of the whole run when it is done."""
        from tempering.runs.stored_sums import load_sums

        return load_sums(path)

    def __repr__(self) -> str:
        summed = "" if self.n_summed == self.n_chains * self.n_draws else f", {self.n_summed} of them summed"
        how = f", {self.info.method} on the {self.info.engine} engine" if self.info else ""
        return (
            f"TemperedSums({', '.join(self.names)} over {self.n_chains} chains x {self.n_draws} draws{summed}; "
            f"{self.path if self.path.has_two_legs else self.ladder}{how}; {self.nbytes / 1e6:.1f} MB)"
        )


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
        """Return quantiles of a quantity from its sketch, one column per component."""
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
