"""TemperedDraws: what a sampler returns and what a user asks questions of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.errors import EstimatorError, InputError, SamplerError, check_count
from tempering.estimators import (
    Combination,
    Estimate,
    varies,
    weighted_hdi,
    weighted_mean,
    weighted_quantile,
    weighted_variance,
)
from tempering.estimators.combine import Weighting, combine_rungs, estimate_rungs, weigh_rungs
from tempering.estimators.regeneration import round_trips
from tempering.estimators.rules import DEFAULT_RULE, RULES, check_rule
from tempering.estimators.rung_draws import RungDraws
from tempering.learning.rounds import rung_draws_of
from tempering.path import Ladder, Path
from tempering.recorders.quantities import evaluated
from tempering.runs.diagnosis import Diagnosis, diagnosis_of, has_one_mode
from tempering.runs.evidence import Evidence, evidence_of, told
from tempering.runs.positions import Positions, known_of_mixture
from tempering.runs.run import write_report
from tempering.runs.summary import summary_of
from tempering.runs.tours import ThinPlaces, Tours, effective_pieces, thinly_covered, tours_of, with_doubt
from tempering.target.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    import pandas as pd

    from tempering.estimators import Mbar
    from tempering.learning.rounds import Round


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
    redraws: bool = False  # at the ends of the path the state is drawn afresh: runs split into tours
    n_invalid: int = 0  # evaluations that gave NaN or +inf, and were taken as outside the support
    share_of_search: float = 0.0  # of the evaluations of the tuning: those that went into looking for modes
    is_log_concave: bool = False  # the target, proven: there is one mode


@dataclass(frozen=True, eq=False)
class TemperedDraws:
    """Draws of every rung, with their terms.

    Attributes
    ----------
    values : mapping of str to ndarray, shape (chain, draw, ...)
        Positions by name; a position that is one array is called ``x``.
    rung : ndarray of int, shape (chain, draw)
        Where on the path; ``path.target`` is the target's, 0 on a path of one leg.
    terms : ndarray, shape (chain, draw, term)
        The log densities that the path is made of; every rung is coefficients . terms.
    path : Path
    log_pseudo_prior : ndarray, shape (rung,)
        Used by simulated tempering while these draws were made.
    chains_per_ensemble : int
        Neighbouring chains that exchanged rungs (parallel tempering); 1 otherwise.
    positions : Positions, optional
        The flat vectors that chains moved in, where values are functions of them. Not saved.
    rounds : tuple of TemperedDraws
        Of the tuning, where they were kept (``keep="rounds"``); they are not saved.
    go_on : callable, optional
        What `more` calls: the run of a larger number of draws. Not saved.
    """

    values: Mapping[str, NDArray[Any]]
    rung: NDArray[np.int32]
    terms: Floats
    path: Path
    log_pseudo_prior: Floats
    proposed: NDArray[np.int32]
    acceptance: NDArray[np.float32]
    chains_per_ensemble: int = 1
    layout: Layout | None = None
    settings: tuple[Any, ...] = ()
    info: RunInfo | None = None
    positions: Positions | None = field(default=None, repr=False)
    rounds: tuple[TemperedDraws, ...] = ()
    model: Any = field(default=None, repr=False)  # of another package: names of dimensions, pointwise likelihoods
    go_on: Callable[[int], TemperedDraws] | None = field(default=None, repr=False, compare=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of_energies(
        cls, values: Mapping[str, NDArray[Any]], rung: NDArray[np.int32], energy: Floats, ladder: Ladder, **others: Any
    ) -> TemperedDraws:
        """Take draws of powers of one density, whose energies and ladder are all that is known of them."""
        shapes = {name: np.shape(array)[:2] for name, array in {"energy": energy, **values}.items()}
        for name, shape in shapes.items():
            if shape != rung.shape:
                raise EstimatorError(
                    f"The array {name!r} must begin with the axes of rung, {rung.shape}, but it has {shape}."
                )
        if rung.size and not 0 <= rung.min() <= rung.max() < len(ladder):
            raise EstimatorError(
                f"rung must lie between 0 and {len(ladder) - 1}, as the ladder has {len(ladder)} rungs, but is "
                f"{rung.min()} to {rung.max()}."
            )
        known: dict[str, Any] = {
            "log_pseudo_prior": np.zeros(len(ladder)),
            "proposed": rung,
            "acceptance": np.full((*rung.shape, 1), np.nan, np.float32),
        }
        path = Path.of_energy(ladder, is_powered=others.pop("is_powered", True))
        return cls(values, rung, np.asarray(energy, dtype=float)[..., np.newaxis], path, **(known | others))

    @property
    def rules(self) -> tuple[str, ...]:
        """By which rules its rungs can be combined."""
        return tuple(RULES)

    @property
    def ladder(self) -> Ladder:
        """The ladder of the path's first leg: the only one, or the safe one."""
        return self.path.ladder

    @cached_property
    def energy(self) -> Floats:
        """What is tempered along the path's first leg, (chain, draw): log pi_k = base + k * energy."""
        return self.path.energy(self.terms)

    @property
    def is_powered(self) -> bool:
        """Whether the whole density was raised to powers."""
        return self.path.is_powered

    @property
    def n_chains(self) -> int:
        """Number of rows: chains, or replicas of all ensembles."""
        return int(self.rung.shape[0])

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return int(self.rung.shape[1])

    @cached_property
    def visits(self) -> NDArray[np.int64]:
        """Number of draws on each rung, T_i."""
        visits = np.bincount(self.rung.ravel("K"), minlength=len(self.path))
        visits.setflags(write=False)
        return visits

    @cached_property
    def log_weights(self) -> Floats:
        """Log importance weight of every draw towards the target, (c_target - c_rung) . t."""
        return self.path.log_weights(self.terms, self.rung)

    def combination(self, values: Any, rule: str = DEFAULT_RULE) -> Combination:
        """Combine given values, with leading axes (chain, draw), by a rule."""
        h = self._in_units(values)
        result = combine_rungs(self.in_units_of_error, h, self._weighting(rule, h))
        return replace(result, weights=self._in_units(result.weights))

    @cached_property
    def in_units_of_error(self) -> RungDraws:
        """The draws as the estimators see them, rows that err independently: all questions ask this one object."""
        units: Any = {"chains_per_ensemble": self.chains_per_ensemble}
        if self._is_population:  # they share ancestors for ever: one replicate is one unit, however long
            units = {"chains_per_ensemble": self.n_draws, "batch_length": 1}
        found = rung_draws_of(self.path, self._in_units(self.terms), self._in_units(self.rung), **units)
        return replace(found, known=partial(known_of_mixture, self))

    @property
    def _is_population(self) -> bool:
        return self.info is not None and self.info.method == "sequential"

    def _in_units(self, array: Any) -> Any:
        """Turn (chain, draw, ...) into rows that err independently, or back: populations lie the other way."""
        return np.swapaxes(np.asarray(array), 0, 1) if self._is_population else np.asarray(array)

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
        values = evaluated(function, self.values, self.layout)
        if values.shape[:2] != self.rung.shape:
            raise EstimatorError(
                f"The function must return one value (or array) per draw, leading axes {self.rung.shape}, but it "
                f"returned shape {values.shape}. Write it for arrays with leading axes (chain, draw); sum over axis=-1."
            )
        return self.estimate(values, rule).checked()

    @on_one_blas_thread
    def estimate(self, values: Any, rule: str = DEFAULT_RULE) -> Estimate:
        """Estimate the cold expectation of given values, with leading axes (chain, draw); NaN of what is not finite."""
        h = self._in_units(values)
        found = estimate_rungs(self.in_units_of_error, h, self._weighting(rule, h))
        if has_one_mode(self):  # local moves come everywhere: there is nothing that no tour has seen
            return found
        return with_doubt(found, h, self._in_units(self.weights(rule)), self.n_crossings, self._thin)

    @property
    def thin_mass(self) -> float:
        """Share of the target in places that only a few tours have come to, where the mixture is far too low."""
        return 0.0 if self._thin is None else float(np.sum(self.weights()[self._thin.is_thin]))

    @property
    def missing_mass(self) -> float:
        """How much may lie deeper than such places, and be missing, as a share of the target."""
        return 0.0 if self._thin is None else self._thin.deeper * self.thin_mass

    @cached_property
    def _thin(self) -> ThinPlaces | None:
        """None of a concave density, too: it has no narrow places."""
        is_open = self.info is not None and self.info.redraws and not has_one_mode(self)
        return thinly_covered(self) if is_open else None

    @cached_property
    def n_crossings(self) -> float | None:
        """How many independent pieces the run is worth, by their weights; None where nothing is known of them.

        Tours between the ends of the path, where states are drawn afresh; where nothing is, round trips.
        """
        if self.info is None or self._is_population or len(self.path) == 1:
            return None
        if self.info.redraws:
            return effective_pieces(self, np.asarray(self.weights()))
        return float(max(self.n_round_trips, 1))

    def mean(self, values: Any, rule: str = DEFAULT_RULE) -> Floats:
        """Return the value of `estimate` alone: a standard error costs several times as much."""
        h = self._in_units(values)
        return weighted_mean(h, self._weighting(rule, h).weights)

    def variance(self, values: Any, rule: str = DEFAULT_RULE) -> Floats:
        """Return the variance of given values, with leading axes (chain, draw), under the weights."""
        h = self._in_units(values)
        return weighted_variance(h, self._weighting(rule, h).weights)

    def weights(self, rule: str = DEFAULT_RULE) -> Floats:
        """Return the weight of every draw, (chain, draw), summing to one."""
        return self._in_units(self._weighting(rule).weights)  # type: ignore[no-any-return]

    def shares(self, rule: str = DEFAULT_RULE) -> Floats:
        """Return lambda_i, what each rung contributes."""
        return self._weighting(rule).shares

    def ess(self, rule: str = DEFAULT_RULE) -> float:
        """Return the effective sample size of the weights, ESS(w^lambda)."""
        return self._weighting(rule).ess

    @on_one_blas_thread
    def _weighting(self, rule: str, values: Any = None) -> Weighting:
        """Weigh the draws once per rule, but for the one that looks at the values; without any it sees the energies."""
        looks = RULES[check_rule(rule)].looks_at_values
        if looks and values is not None:
            return weigh_rungs(self.in_units_of_error, rule, np.asarray(values, dtype=float))
        if rule not in self._kept:
            energy = self._in_units(self.path.log_target(self.terms))
            series = np.where(np.isfinite(energy), energy, 0.0) if looks else None
            self._kept[rule] = weigh_rungs(self.in_units_of_error, rule, series)
        return self._kept[rule]  # type: ignore[no-any-return]

    def effective_draws(self, rule: str = DEFAULT_RULE) -> float:
        """Return how many independent draws of the target the run is worth: of the worst coordinate.

        Variance over squared standard error, in which weights and correlation both count; no more than the weights are
        worth, even where a mean is known better by what is known of the mixture.
        """
        worst = self.ess(rule)
        for array in self.values.values():
            flat = np.asarray(array, dtype=float).reshape(*self.rung.shape, -1)
            found = self.estimate(flat, rule)
            variance = self.variance(flat, rule)
            error = np.ravel(found.standard_error)
            moving = (error > 0) & varies(np.ravel(found.value), variance)
            if moving.any():
                worst = min(worst, float(np.min(variance[moving] / error[moving] ** 2)))
        return worst

    def more(self, draws: int) -> TemperedDraws:
        """Return the run gone on with for ``draws`` more of every chain: the longer run it would have been, to the bit.

        For runs that were made in this process, in memory or in a checkpoint, on an executor too as long as it is open.
        In another process call sample again with the same checkpoint and more draws.
        """
        if self.go_on is None:
            raise SamplerError(
                "A run can be continued by more() in the process that made it, but this one was read from a file, "
                "joined or made elsewhere. Give sample a checkpoint, and call it again with more draws."
            )
        check_count("draws", draws, error=SamplerError)
        return self.go_on(self.n_draws + int(draws))

    def quantile(self, probability: float | Floats, name: str = "x", rule: str = DEFAULT_RULE) -> Any:
        """Return weighted quantiles of a named value, one column per coordinate."""
        return weighted_quantile(self._named(name), self.weights(rule), probability)

    def _named(self, name: str) -> NDArray[Any]:
        if name not in self.values:
            raise EstimatorError(f"name must be one of {list(self.values)}, but got {name!r}. Name one of the values.")
        return self.values[name]

    def hdi(self, probability: float = 0.9, name: str = "x", rule: str = DEFAULT_RULE) -> Floats:
        """Return the shortest interval that holds a probability, (2, ...), one column per coordinate."""
        return weighted_hdi(self._named(name), self.weights(rule), probability)

    def summary(self, rule: str = DEFAULT_RULE, *, hdi: float = 0.9) -> pd.DataFrame:
        """Tabulate every coordinate under the weights.

        Columns: mean, its Monte Carlo standard error, standard deviation, quantiles, the ends of the shortest interval
        that holds the probability ``hdi``, the effective number of draws (variance over squared standard error:
        weights and correlation both count; more than there are draws where the mixture tells much of a mean), and split
        R-hat.
        """
        return summary_of(self, rule, hdi)

    @cached_property
    def mbar(self) -> Mbar:
        """The mixture of all rungs, with the normalisers estimated."""
        if self._is_population:
            return rung_draws_of(self.path, self.terms, self.rung).fit
        return self.in_units_of_error.fit

    def log_evidence(self) -> Evidence:
        """Estimate log Z(1) - log Z(k_m): the log evidence where k_m = 0 is a normalised prior.

        By MBAR, with stepping stones both ways and thermodynamic integration beside it; a disagreement beyond their
        errors is a warning that names the rungs. For a powered-up density it is a ratio of normalisers.
        """
        return told(self._evidence)

    @cached_property
    def _evidence(self) -> Evidence:
        return evidence_of(self)

    def tours(self) -> Tours:
        """Split the run at its regenerations: a visit to k = 0, where the base is drawn from, starts a new tour."""
        return tours_of(self)

    def diagnose(self) -> Diagnosis:
        """Say in words whether the run can be trusted, and what to change."""
        return self._diagnosis

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        return diagnosis_of(self)

    def to_arviz(self, rule: str = DEFAULT_RULE, rng: np.random.Generator | int | None = 0) -> Any:
        """Return an ArviZ data tree: draws of equal weight, and all rungs with their weights."""
        from tempering.doors.arviz import to_arviz

        return to_arviz(self, rule=rule, rng=rng)

    def save(self, path: str | FilePath) -> None:
        """Write the run as a Zarr store; `tempering.load` reads it."""
        from tempering.runs.stored import save

        save(self, path)

    def report(self, path: str | FilePath, *, title: str = "Tempered run") -> None:
        """Write one self-contained page about the run: the verdict, estimates and pictures."""
        write_report(self, path, title)

    def rungs(self) -> pd.DataFrame:
        """Tabulate the rungs: k, visits, acceptance of moves and of exchanges, ESS of weights, share, k-hat."""
        import pandas as pd

        from tempering.engines.trace import Trace
        from tempering.learning.kernel_settings import acceptance_by_rung
        from tempering.learning.rounds import swap_acceptance

        trace = Trace(None, self.terms, self.rung, self.proposed, self.acceptance)
        m = len(self.path)
        later = trace._replace(acceptance=self.acceptance[:, 1:])  # nobody knows on which rung the first was made
        moves, _ = acceptance_by_rung(later, self.rung[:, :-1], m)
        units = self.in_units_of_error
        legs = {"leg": self.path.leg_names} if self.path.has_two_legs else {}
        return pd.DataFrame(
            {
                **legs,
                "k": self.path.inverse_temperatures,
                "visits": self.visits,
                "move_acceptance": _mean_of_known(moves),
                "exchange_acceptance": np.append(swap_acceptance(trace, m), np.nan),
                "ess_of_weights": units.sums.ess_of_weights,
                "share": self.shares(),
                "pareto_k": units.pareto_k,
            }
        ).rename_axis("rung")

    @cached_property
    def n_round_trips(self) -> int:
        """Journeys from the target to the far end of the path, the hottest rung, and back."""
        return round_trips(self.rung, self.path.target, self.path.far_end)[0]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of a draw of each value."""
        return {name: np.shape(array)[2:] for name, array in self.values.items()}

    def _repr_html_(self) -> str:
        from tempering.runs.notebook import run_html

        return run_html(self)

    def __repr__(self) -> str:
        names = ", ".join(f"{name}{list(shape)}" for name, shape in self._shapes().items())
        how = f", {self.info.method} on the {self.info.engine} engine" if self.info else ""
        return f"TemperedDraws({self.n_chains} chains x {self.n_draws} draws of {names}; {self.path}{how})"


def check_draws(run: Any) -> None:
    """Refuse what holds no draws, wherever a run is handed over."""
    if not isinstance(run, TemperedDraws):
        raise InputError(
            f"The draws of a run are needed, but got {type(run).__name__}. Pass what tempering.sample returned, "
            "without keep=Sums."
        )


def _mean_of_known(moves: Floats) -> Floats:
    known = ~np.isnan(moves)
    n = known.sum(axis=1)
    return np.where(n > 0, np.where(known, moves, 0.0).sum(axis=1) / np.maximum(n, 1), np.nan)
