"""The evidence by several methods that must agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.arrays import Floats
from tempering.compiling.blas_threads import on_one_blas_thread
from tempering.errors import EstimatorError
from tempering.estimators import Estimate, log_evidence_stepping_stone, pareto_k_per_rung
from tempering.estimators.evidence import integration_and_correction
from tempering.estimators.passages import lag, n_passages, origins
from tempering.estimators.running import answers
from tempering.estimators.running.bins import COLDER, HOTTER
from tempering.path import Ladder, Path, weighted_terms
from tempering.runs.tours import FEW_ROUND_TRIPS, FEW_TOURS

if TYPE_CHECKING:
    from tempering.runs.draws import TemperedDraws
    from tempering.runs.run import Run
    from tempering.runs.sums import TemperedSums

INTEGRATION = "thermodynamic integration"
TRUSTED_K_HAT = 0.7  # of a step's weights (Vehtari et al. 2024)
ENOUGH_OVERLAP = 0.03  # between neighbouring rungs (Klimovich, Shirts & Mobley 2015)
DISAGREEMENT = 4.0  # standard errors of the difference, added as if independent, from which methods disagree
BEYOND_CHANCE = 2.0 * DISAGREEMENT  # of the two legs; a prior that is not normalised is off by as much or more


@dataclass(frozen=True)
class Evidence:
    """Log Z(1) - log Z(k_m): MBAR's estimate, and the others beside it.

    Attributes
    ----------
    value, standard_error : float
        MBAR's.
    by_method : dict of str to Estimate
        The error of thermodynamic integration has that of its rule in it: the spacing of the rungs. That of a method
        which cannot know its own error, for rungs too far apart, is NaN.
    is_absolute : bool
        Whether k_m = 0 and the base is a prior, so that this is the log marginal likelihood (of a normalised prior).
    disagreement : str
        What disagrees, and on which rungs to look; empty if nothing does.
    """

    value: float
    standard_error: float
    by_method: dict[str, Estimate]
    is_absolute: bool
    disagreement: str = ""

    def __str__(self) -> str:
        methods = (f"  {name}: {estimate}" for name, estimate in self.by_method.items())
        best = Estimate(self.value, self.standard_error)
        return "\n".join([f"{self.label}: {best}", *methods, *filter(None, [self.disagreement])])

    @property
    def label(self) -> str:
        """What the value is."""
        return "Log evidence" if self.is_absolute else "Log ratio of normalisers"

    def _repr_html_(self) -> str:
        from tempering.runs.notebook import evidence_html

        return evidence_html(self)


@on_one_blas_thread
def evidence_of(draws: TemperedDraws) -> Evidence:
    """Estimate the evidence by every method, and say where they disagree."""
    k = draws.ladder.inverse_temperatures
    if len(draws.path) == 1:
        raise EstimatorError("The evidence needs at least two rungs, but the ladder has one. Run with a longer ladder.")
    if draws.path.has_two_legs:
        return _evidence_of_two_legs(draws)
    seen = draws.in_units_of_error
    assert seen.energy is not None
    units = seen.units
    found = Methods({"mbar": seen.fit.log_normaliser_ratio(**units)}, draws.ladder, seen.fit.overlap)
    if not np.all(draws.visits > 0):
        return found.evidence(is_powered=draws.is_powered)
    by_method = found.by_method | {
        "stepping stone": log_evidence_stepping_stone(seen.energy, k, seen.rung, **units),
        "stepping stone, reversed": log_evidence_stepping_stone(seen.energy, k, seen.rung, reverse=True, **units),
    }
    correction = 0.0
    if np.min(seen.energy) > -np.inf:  # a mean energy there is
        by_method[INTEGRATION], correction = integration_and_correction(seen.energy, k, seen.rung, **units)
    found = replace(found, by_method=by_method, correction=correction, tail_of_steps=partial(_tail_of_steps, draws))
    return found.evidence(is_powered=draws.is_powered)


def evidence_of_sums(run: TemperedSums) -> Evidence:
    """Estimate the evidence from sums by every method, and say where they disagree."""
    if len(run.ladder) == 1:
        raise EstimatorError("The evidence needs at least two rungs, but the ladder has one. Run with a longer ladder.")
    sums = run.sums
    found = Methods({"mbar": answers.log_evidence_by_mbar(sums, run.mbar)}, run.ladder, run.mbar.overlap)
    if not np.all(run.visits > 0):
        return found.evidence(is_powered=run.is_powered)
    by_method = found.by_method | {
        "stepping stone": answers.log_evidence_by_stepping_stones(sums),
        "stepping stone, reversed": answers.log_evidence_by_stepping_stones(sums, reverse=True),
    }
    correction = 0.0
    if not sums.totals.joint[:, 0, 0].any():  # no energy is minus infinity
        by_method[INTEGRATION] = answers.log_evidence_by_integration(sums)
        plain = answers.log_evidence_by_integration(sums, corrected=False)
        correction = float(by_method[INTEGRATION].value) - float(plain.value)

    def tail_of_steps(is_reversed: bool) -> Floats:
        return answers.pareto_k(sums, HOTTER if is_reversed else COLDER)

    found = replace(found, by_method=by_method, correction=correction, tail_of_steps=tail_of_steps)
    return found.evidence(is_powered=run.is_powered)


def told(evidence: Evidence) -> Evidence:
    """Return an evidence to whoever asked a run for it, with a warning if methods disagree."""
    if evidence.disagreement:
        warnings.warn(evidence.disagreement, stacklevel=3)
    return evidence


def disagreement_of(run: Run) -> str:
    """Return what the methods disagree about, without a warning; nothing if there is only one rung."""
    if np.size(run.visits) == 1:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the disagreement is one of the verdict's sentences
        return run.log_evidence().disagreement


@dataclass(frozen=True, eq=False)
class Methods:
    """The evidence along one leg by several methods, from draws or from sums, and what tells whether they agree.

    Attributes
    ----------
    by_method : dict of str to Estimate
    ladder : Ladder
    overlap : ndarray, shape (rung, rung)
    correction : float
        What the second term of thermodynamic integration adds: as large as the error of its rule.
    tail_of_steps : callable, optional
        Pareto k-hat of the weights of each step between neighbours, given whether it is reversed.
    """

    by_method: dict[str, Estimate]
    ladder: Ladder
    overlap: Floats
    correction: float = 0.0
    tail_of_steps: Callable[[bool], Floats] | None = None

    def evidence(self, *, is_powered: bool) -> Evidence:
        """Return MBAR's estimate beside the others, and what disagrees.

        A method that is off by more than its standard error tells, for a reason of its own, has none: it is NaN.
        """
        best, by_method, disagreement = self.by_method["mbar"], dict(self.by_method), ""
        for name, found in self.by_method.items():
            error = float(np.hypot(float(best.standard_error), float(found.standard_error)))
            gap = abs(float(found.value) - float(best.value))
            beyond = gap - DISAGREEMENT * error - 1e-9
            own = self._own_error(name) if beyond > 0 else 0.0
            if beyond > own:
                disagreement = disagreement or self._sentence(name, gap / max(error, 1e-300))
            if name == INTEGRATION:  # with few rungs the rule's own error is the larger one
                by_method[name] = Estimate(found.value, float(np.hypot(found.standard_error, self.correction)))
            elif own == np.inf:
                by_method[name] = Estimate(found.value, float("nan"))
        is_absolute = not is_powered and self.ladder.hottest == 0.0
        return Evidence(float(best.value), float(best.standard_error), by_method, is_absolute, disagreement)

    def _sentence(self, name: str, n_errors: float) -> str:
        """Say how far a method is from MBAR, and name the pair of rungs that overlaps least."""
        i = int(np.argmin(np.diag(self.overlap, 1)))
        return (
            f"The evidence must not depend on the method, but {name} gives {float(self.by_method[name].value):.2f} and "
            f"MBAR {float(self.by_method['mbar'].value):.2f}, {n_errors:.0f} standard errors apart. Rungs {i} and "
            f"{i + 1} overlap least: add rungs between k = {self.ladder[i]:.3g} and {self.ladder[i + 1]:.3g}, or run "
            "longer."
        )

    def _own_error(self, name: str) -> float:
        """Return the error that a method has by itself, which no standard error shows.

        That of stepping stones is infinite if the weights of a step have too heavy a tail (Pareto k-hat) to be
        averaged. Reversed ones never see the part of a hot rung that a colder one leaves out: they speak only where
        MBAR itself is in doubt, for lack of overlap. That of thermodynamic integration is taken as large as its
        correction.
        """
        if name == INTEGRATION:
            return abs(self.correction)
        is_reversed = name.endswith("reversed")
        if self.tail_of_steps is None or (is_reversed and np.min(np.diag(self.overlap, 1)) > ENOUGH_OVERLAP):
            return np.inf
        return np.inf if np.any(self.tail_of_steps(is_reversed) > TRUSTED_K_HAT) else 0.0


def _evidence_of_two_legs(draws: TemperedDraws) -> Evidence:
    path, seen = draws.path, draws.in_units_of_error

    is_simulated = draws.info is not None and draws.info.method == "simulated"
    is_slow = is_simulated and len(draws.ladder) > 1 and draws.n_round_trips < FEW_TOURS
    error_of_lag = _error_of_lag(draws) if is_slow else 0.0

    def ratio(rung: int) -> Estimate:
        found = seen.fit.log_normaliser_ratio(path.target, rung, **seen.units)
        if rung < path.target:
            return found
        return Estimate(found.value, float(np.hypot(found.standard_error, error_of_lag)))

    log_p = draws.log_pseudo_prior if is_simulated else None
    found = evidence_of_legs(path, ratio, draws.visits, log_p, draws.n_round_trips)
    return replace(found, standard_error=float(np.hypot(found.standard_error, draws.missing_mass)))


def _error_of_lag(draws: TemperedDraws) -> float:
    """Return the error that few passages along the safe leg leave: half of what the two directions differ by.

    It falls as the share of either direction settles: with the root of their number.
    """
    path, leg = draws.path, draws.path.rungs_of(0)
    origin = origins(draws.rung, path.target, int(leg[-1]))
    steps = (path.coefficients[b] - path.coefficients[a] for a, b in pairwise(leg))
    difference = lag((weighted_terms(step, draws.terms) for step in steps), draws.rung, origin, leg)
    return 0.5 * abs(difference) / float(np.sqrt(max(n_passages(origin), 1)))


def evidence_of_legs(
    path: Path, ratio: Callable[[int], Estimate], visits: Any, log_p: Floats | None, n_round_trips: int
) -> Evidence:
    """Estimate log Z of the target relative to both ends, which are normalised unless the prior is not.

    The safe end is what the evidence is defined by; where both agree, the more precise one is taken. A gap between
    them counts as error where round trips are few, and where it is one of few errors. A leg may have no rungs.
    ``ratio(rung)`` estimates log Z of the target less that of a rung; ``log_p`` is the log pseudo-prior, if the run had
    one.
    """
    ends = {path.legs[i].name: int(path.rungs_of(i)[-1]) for i in path.legs_with_rungs}
    by_method = {f"mbar, {name} leg": ratio(end) for name, end in ends.items()}
    name = next(iter(ends))
    best = by_method[f"mbar, {name} leg"]
    if len(ends) > 1:
        safe, quick = by_method.values()
        gap = abs(float(quick.value) - float(safe.value))
        error = float(np.hypot(float(safe.standard_error), float(quick.standard_error)))
        is_agreed = gap < DISAGREEMENT * error + 1e-9
        if is_agreed and float(quick.standard_error) < float(safe.standard_error):
            best, name = quick, "quick"
        elif not is_agreed and (n_round_trips < FEW_ROUND_TRIPS or gap < BEYOND_CHANCE * error):  # whose error, then?
            best = Estimate(safe.value, float(np.hypot(safe.standard_error, gap)))
    if log_p is not None and np.all(visits > 0):
        by_visits = np.log(visits[path.target] / visits[ends[name]]) - (log_p[path.target] - log_p[ends[name]])
        by_method["visits"] = Estimate(float(by_visits), float("nan"))
    disagreement = _between_legs(path.legs[0].end.size > 0 and "log prior" in path.terms, by_method)
    return Evidence(float(best.value), float(best.standard_error), by_method, True, disagreement)


def _between_legs(has_prior: bool, by_method: dict[str, Estimate]) -> str:
    """Say where two legs from normalised densities disagree; a prior may not be normalised, which is no fault."""
    if has_prior or not {"mbar, safe leg", "mbar, quick leg"} <= by_method.keys():
        return ""
    safe, quick = by_method["mbar, safe leg"], by_method["mbar, quick leg"]
    error = float(np.hypot(float(safe.standard_error), float(quick.standard_error)))
    gap = abs(float(safe.value) - float(quick.value))
    if gap <= DISAGREEMENT * error + 1e-9:
        return ""
    return (
        f"the two legs disagree about the evidence: {float(safe.value):.2f} by the safe leg, {float(quick.value):.2f} "
        f"by the quick one, {gap / max(error, 1e-300):.0f} standard errors apart; draw more."
    )


def _tail_of_steps(draws: TemperedDraws, is_reversed: bool) -> Floats:
    """Return Pareto k-hat of the weights by which stepping stones step from each rung."""
    seen = draws.in_units_of_error
    assert seen.energy is not None
    step = -np.diff(draws.ladder.inverse_temperatures)
    power = np.append(-step, 0.0) if is_reversed else np.append(0.0, step)
    energy, lowest = seen.energy, np.min(seen.energy)
    if lowest == -np.inf:
        energy = np.where(energy > -np.inf, energy, np.min(energy[energy > -np.inf]))
    return pareto_k_per_rung(power.take(seen.rung) * energy, seen.rung, power.size)
