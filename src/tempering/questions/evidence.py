"""The evidence by several methods that must agree."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.errors import EstimatorError
from tempering.estimators import (
    Estimate,
    log_evidence_stepping_stone,
    mbar,
    pareto_k_per_rung,
    thermodynamic_integration,
)

if TYPE_CHECKING:
    from tempering.draws import TemperedDraws

INTEGRATION = "thermodynamic integration"
TRUSTED_K_HAT = 0.7  # of a step's weights (Vehtari et al. 2024)
ENOUGH_OVERLAP = 0.03  # between neighbouring rungs (Klimovich, Shirts & Mobley 2015)
DISAGREEMENT = 4.0  # standard errors of the difference, added as if independent, from which methods disagree


@dataclass(frozen=True)
class Evidence:
    """Log Z(1) - log Z(k_m): MBAR's estimate, and the others beside it.

    Attributes
    ----------
    value, standard_error : float
        MBAR's.
    by_method : dict of str to Estimate
        The error of thermodynamic integration has that of its rule in it: the spacing of the rungs.
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


def evidence_of(draws: TemperedDraws) -> Evidence:
    """Estimate the evidence by every method; warn where they disagree."""
    k = draws.ladder.inverse_temperatures
    if len(k) == 1:
        raise EstimatorError("An evidence needs two rungs at least, but the ladder has one. Run with a ladder.")
    energy, rung, units = _in_units_of_error(draws)
    best = mbar(energy, k, rung).log_normaliser_ratio(**units)
    by_method = {"mbar": best}
    if np.all(draws.visits > 0):
        by_method |= {
            "stepping stone": log_evidence_stepping_stone(energy, k, rung, **units),
            "stepping stone, reversed": log_evidence_stepping_stone(energy, k, rung, reverse=True, **units),
        }
    if np.all(draws.visits > 0) and np.min(energy) > -np.inf:  # a mean energy there is
        by_method[INTEGRATION] = thermodynamic_integration(energy, k, rung, **units)
    disagreement = _disagreement(draws, by_method)
    if disagreement:
        warnings.warn(disagreement, stacklevel=3)
    if INTEGRATION in by_method:  # with few rungs the rule's own error is the larger one
        found = by_method[INTEGRATION]
        wide = float(np.hypot(float(found.standard_error), _own_error(draws, INTEGRATION)))
        by_method[INTEGRATION] = Estimate(found.value, wide)
    is_absolute = not draws.is_powered and draws.ladder.hottest == 0.0
    return Evidence(float(best.value), float(best.standard_error), by_method, is_absolute, disagreement)


def _in_units_of_error(draws: TemperedDraws) -> tuple[Any, Any, dict[str, Any]]:
    """Return energies, rungs and how to batch them; a population's replicates are one unit each, however long."""
    if draws.info is None or draws.info.method != "sequential":
        return draws.energy, draws.rung, {"chains_per_ensemble": draws.chains_per_ensemble}
    return draws.energy.T, draws.rung.T, {"chains_per_ensemble": draws.n_draws, "batch_length": 1}


def _disagreement(draws: TemperedDraws, by_method: dict[str, Estimate]) -> str:
    """Name the method furthest from MBAR, if it is too far, and the pair of rungs that overlaps least."""
    best = by_method["mbar"]
    for name, other in by_method.items():
        slack = _own_error(draws, name)
        error = float(np.hypot(float(best.standard_error), float(other.standard_error)))
        gap = abs(float(other.value) - float(best.value))
        if gap > DISAGREEMENT * error + slack + 1e-9:
            i = int(np.argmin(np.diag(draws.mbar.overlap, 1)))
            return (
                f"The evidence must not depend on the method, but {name} gives {float(other.value):.2f} and MBAR "
                f"{float(best.value):.2f}, {gap / max(error, 1e-300):.0f} standard errors apart. Rungs {i} and {i + 1} "
                f"overlap least: add rungs between k = {draws.ladder[i]:.3g} and {draws.ladder[i + 1]:.3g}, or run "
                "longer."
            )
    return ""


def _own_error(draws: TemperedDraws, name: str) -> float:
    """Return the error a method has by itself, which no standard error shows.

    Thermodynamic integration: of the spacing of the rungs, taken as large as its correction. Stepping stones: infinite
    where the weights of a step have too heavy a tail (Pareto k-hat) to be averaged. Reversed ones never see the part of
    a hot rung that a colder one leaves out: they speak only where MBAR itself is in doubt, for lack of overlap.
    """
    k, energy, rung = draws.ladder.inverse_temperatures, draws.energy, draws.rung
    if name == INTEGRATION:
        plain, corrected = (float(thermodynamic_integration(energy, k, rung, corrected=c).value) for c in (False, True))
        return abs(plain - corrected)
    if name == "mbar":
        return 0.0
    if name.endswith("reversed") and np.min(np.diag(draws.mbar.overlap, 1)) > ENOUGH_OVERLAP:
        return np.inf
    step = -np.diff(k)
    power = np.append(-step, 0.0) if name.endswith("reversed") else np.append(0.0, step)
    finite = np.where(energy > -np.inf, energy, np.min(energy[energy > -np.inf]))
    tail = pareto_k_per_rung(power[rung] * finite, rung, len(k))
    return np.inf if np.any(tail > TRUSTED_K_HAT) else 0.0
