"""TemperedDraws: what a sampler returns and what a user asks questions of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import EstimatorError
from tempering.estimators import Combination, Estimate, combine, mbar, weighted_hdi, weighted_quantile
from tempering.ladder import Ladder
from tempering.layout import Layout
from tempering.quantities import apply
from tempering.questions.diagnosis import Diagnosis, diagnosis_of
from tempering.questions.evidence import Evidence, evidence_of
from tempering.questions.summary import summary_of
from tempering.questions.tours import Tours, tours_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from tempering.estimators import Mbar
    from tempering.tuning.rounds import Round

Floats = NDArray[np.float64]

DEFAULT_RULE = "mbar"  # the smallest worst case of all rules, and it needs nothing that draws do not have


@dataclass(frozen=True)
class RunInfo:
    """How the draws came about."""

    method: str
    engine: str
    kernel: str
    rung_moves: str
    seed: int
    seconds: float
    rounds: tuple[Round, ...] = ()
    n_iterations: int = 0  # of each chain, tuning included
    redraws: bool = False  # at k = 0 the state is drawn afresh: runs split into tours


@dataclass(frozen=True, eq=False)
class TemperedDraws:
    """Draws of every rung, with their energies.

    Attributes
    ----------
    values : mapping of str to ndarray, shape (chain, draw, ...)
        Positions by name; a position that is one array is called ``x``.
    rung : ndarray of int, shape (chain, draw)
        0 is the cold rung.
    energy : ndarray, shape (chain, draw)
        What is tempered: log pi_k = base + k * energy.
    ladder : Ladder
    log_pseudo_prior : ndarray, shape (rung,)
        Used by simulated tempering while these draws were made.
    chains_per_ensemble : int
        Neighbouring chains that exchanged rungs (parallel tempering); 1 otherwise.
    rounds : tuple of TemperedDraws
        Of the tuning, where they were kept (``keep="rounds"``); they are not saved.
    """

    values: Mapping[str, NDArray[Any]]
    rung: NDArray[np.int32]
    energy: Floats
    ladder: Ladder
    log_pseudo_prior: Floats
    proposed: NDArray[np.int32]
    acceptance: NDArray[np.float32]
    chains_per_ensemble: int = 1
    layout: Layout | None = None
    settings: tuple[Any, ...] = ()
    is_powered: bool = True
    info: RunInfo | None = None
    rounds: tuple[TemperedDraws, ...] = ()
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def n_chains(self) -> int:
        """Number of rows: chains, or replicas of all ensembles."""
        return int(self.rung.shape[0])

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return int(self.rung.shape[1])

    @property
    def visits(self) -> NDArray[np.int64]:
        """Number of draws on each rung, T_i."""
        return np.bincount(self.rung.ravel(), minlength=len(self.ladder))

    @cached_property
    def log_weights(self) -> Floats:
        """Log importance weight of every draw towards the cold distribution, (1 - k) * energy."""
        one_minus_k = 1.0 - self.ladder.inverse_temperatures[self.rung]
        return np.where(one_minus_k == 0.0, 0.0, one_minus_k * np.where(one_minus_k == 0.0, 0.0, self.energy))

    def combination(self, values: Any, rule: str = DEFAULT_RULE) -> Combination:
        """Combine given values, with leading axes (chain, draw), by a rule."""
        k = self.ladder.inverse_temperatures
        if self.info is None or self.info.method != "sequential":
            return combine(
                values, self.log_weights, self.rung, rule, energy=self.energy, inverse_temperatures=k,
                chains_per_ensemble=self.chains_per_ensemble,
            )  # fmt: skip
        # populations share ancestors for ever: one replicate is one unit, however long
        swapped = (np.swapaxes(np.asarray(a), 0, 1) for a in (values, self.log_weights, self.rung, self.energy))
        h, log_weights, rung, energy = swapped
        result = combine(
            h, log_weights, rung, rule, energy=energy, inverse_temperatures=k, chains_per_ensemble=self.n_draws,
            batch_length=1,
        )  # fmt: skip
        return replace(result, weights=np.swapaxes(result.weights, 0, 1))

    def expect(self, function: Callable[..., Any], rule: str = DEFAULT_RULE) -> Estimate:
        """Estimate the cold expectation of a function of the position.

        Parameters
        ----------
        function : callable
            Called once with arrays whose leading axes are (chain, draw): by keyword where positions are named,
            otherwise with the position itself.
        rule : str
            How the rungs are combined; see `tempering.estimators.RULES`.

        Returns
        -------
        Estimate
            With ``.value`` and ``.standard_error``, each of the shape the function gives a draw.
        """
        values = np.asarray(apply(function, self.values, self.layout), dtype=float)
        if values.shape[:2] != self.rung.shape:
            raise EstimatorError(
                f"The function must return one value (or array) a draw, leading axes {self.rung.shape}, but it "
                f"returned shape {values.shape}. Write it for arrays with leading axes (chain, draw); sum over axis=-1."
            )
        result = self.combination(values, rule)
        return Estimate(result.estimate, result.standard_error)

    def weights(self, rule: str = DEFAULT_RULE) -> Floats:
        """Return the weight of every draw, (chain, draw), summing to one."""
        return self._by_rule(rule).weights

    def shares(self, rule: str = DEFAULT_RULE) -> Floats:
        """Return lambda_i, what each rung contributes."""
        return self._by_rule(rule).shares

    def ess(self, rule: str = DEFAULT_RULE) -> float:
        """Return the effective sample size of the weights, ESS(w^lambda)."""
        return self._by_rule(rule).ess

    def _by_rule(self, rule: str) -> Combination:
        """Combine the energies once per rule: weights do not depend on the function (but for one rule's shares)."""
        if rule not in self._kept:
            self._kept[rule] = self.combination(np.where(np.isfinite(self.energy), self.energy, 0.0), rule)
        return self._kept[rule]  # type: ignore[no-any-return]

    def quantile(self, probability: float | Floats, name: str = "x", rule: str = DEFAULT_RULE) -> Any:
        """Return weighted quantiles of a named value, one column a coordinate."""
        return weighted_quantile(self._named(name), self.weights(rule), probability)

    def _named(self, name: str) -> NDArray[Any]:
        if name not in self.values:
            raise EstimatorError(f"name must be one of {list(self.values)}, but got {name!r}. Name one of the values.")
        return self.values[name]

    def hdi(self, probability: float = 0.9, name: str = "x", rule: str = DEFAULT_RULE) -> Floats:
        """Return the shortest interval that holds a probability, (2, ...), one column a coordinate."""
        return weighted_hdi(self._named(name), self.weights(rule), probability)

    def summary(self, rule: str = DEFAULT_RULE, *, hdi: float = 0.9) -> pd.DataFrame:
        """Tabulate every coordinate under the weights.

        Columns: mean, its Monte Carlo standard error, standard deviation, quantiles, the ends of the shortest interval
        that holds the probability ``hdi``, the effective number of draws (variance over squared standard error:
        weights and correlation both count), and split R-hat.
        """
        return summary_of(self, rule, hdi)

    @cached_property
    def mbar(self) -> Mbar:
        """The mixture of all rungs, with the normalisers estimated."""
        return mbar(self.energy, self.ladder.inverse_temperatures, self.rung)

    def log_evidence(self) -> Evidence:
        """Estimate log Z(1) - log Z(k_m): the log evidence where k_m = 0 is a normalised prior.

        By MBAR, with stepping stones both ways and thermodynamic integration beside it; a disagreement beyond their
        errors is a warning that names the rungs. For a powered-up density it is a ratio of normalisers.
        """
        return evidence_of(self)

    def tours(self) -> Tours:
        """Split the run at its regenerations: a visit to k = 0, where the base is drawn from, starts a new tour."""
        return tours_of(self)

    def diagnose(self) -> Diagnosis:
        """Say in words whether the run can be trusted, and what to change."""
        return diagnosis_of(self)

    def to_arviz(self, rule: str = DEFAULT_RULE, rng: np.random.Generator | int | None = 0) -> Any:
        """Return an ArviZ data tree: draws of equal weight, and all rungs with their weights."""
        from tempering.io.arviz import to_arviz

        return to_arviz(self, rule=rule, rng=rng)

    def save(self, path: str | Path) -> None:
        """Write the run as a Zarr store; `tempering.load` reads it."""
        from tempering.io.zarr_store import save

        save(self, path)

    def rungs(self) -> pd.DataFrame:
        """Tabulate the rungs: k, visits, acceptance of moves and of exchanges, ESS of weights, share, k-hat."""
        import pandas as pd

        from tempering.engines.trace import Trace
        from tempering.tuning.kernel_settings import acceptance_by_rung
        from tempering.tuning.rounds import swap_acceptance

        trace = Trace(None, self.energy, self.rung, self.proposed, self.acceptance)
        m = len(self.ladder)
        later = trace._replace(acceptance=self.acceptance[:, 1:])  # nobody knows on which rung the first was made
        moves, _ = acceptance_by_rung(later, self.rung[:, :-1], m)
        combined = self._by_rule(DEFAULT_RULE)
        return pd.DataFrame(
            {
                "k": self.ladder.inverse_temperatures,
                "visits": self.visits,
                "move_acceptance": _mean_of_known(moves),
                "exchange_acceptance": np.append(swap_acceptance(trace, m), np.nan),
                "ess_of_weights": combined.ess_per_rung,
                "share": combined.shares,
                "pareto_k": combined.pareto_k,
            }
        ).rename_axis("rung")

    @cached_property
    def n_round_trips(self) -> int:
        """Journeys from the cold rung to the hottest and back."""
        from tempering.tuning.rounds import n_round_trips

        return n_round_trips(self.rung, len(self.ladder))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of a draw of each value."""
        return {name: np.shape(array)[2:] for name, array in self.values.items()}

    def __repr__(self) -> str:
        names = ", ".join(f"{name}{list(shape)}" for name, shape in self._shapes().items())
        how = f", {self.info.method} on the {self.info.engine} engine" if self.info else ""
        return f"TemperedDraws({self.n_chains} chains x {self.n_draws} draws of {names}; {self.ladder}{how})"


def _mean_of_known(moves: Floats) -> Floats:
    known = ~np.isnan(moves)
    n = known.sum(axis=1)
    return np.where(n > 0, np.where(known, moves, 0.0).sum(axis=1) / np.maximum(n, 1), np.nan)
