"""A verdict on a fit in words: what its predictions rest on, and what its leaf probabilities do.

A fit is called sound if its chains have made round trips and agree on the predictions. Leaf probabilities need more:
what is short for them alone is said too, and does not change the verdict.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.estimators import ess_of_autocorrelation, log_evidence_mbar, mbar, thermodynamic_integration
from tempering.learning.density_of_states import DensityOfStates
from tempering.models.treed_gp.combining import Posterior
from tempering.runs.diagnosis import FEW_EFFECTIVE, FEW_ROUND_TRIPS, LARGE_R_HAT, UNEVEN, Diagnosis
from tempering.runs.evidence import DISAGREEMENT

Floats = NDArray[np.float64]

FEWEST_ROUND_TRIPS = 3  # below, two chains may both be where they began


def diagnosis_of(posterior: Posterior) -> Diagnosis:
    """Look at a fit from every side."""
    ladder, traces = posterior.ladder, posterior.trace
    energy = np.concatenate([t.energy for t in traces])
    rung = np.concatenate([t.rung for t in traces])
    fit = mbar(energy, ladder.inverse_temperatures, rung)
    is_tempered = len(ladder) > 1
    states = DensityOfStates.from_draws(energy, ladder.inverse_temperatures, rung)
    leaves = [t.n_leaves.astype(np.float64) for t in traces]
    moving = [x for x in leaves if np.ptp(x) > 0]
    ess = float(sum(ess_of_autocorrelation(x) for x in moving)) if moving else float("nan")
    r_hat = _r_hat(posterior)
    disagreement = _about_evidence(posterior)
    serious = [
        *(_about_journeys(posterior) if is_tempered else []),
        *_about_predictions(posterior),
        *_about_weights(posterior),
        *disagreement,
    ]
    about_leaves = [
        *(_about_few_journeys(posterior) if is_tempered else []),
        *(_about_visits(posterior) if is_tempered else []),
        *_about_leaves(ess, r_hat),
    ]
    return Diagnosis(
        is_good=not serious,
        sentences=(*serious, *about_leaves),
        n_round_trips=posterior.n_round_trips,
        barrier=states.barrier(ladder) if is_tempered else 0.0,
        index_ess=float(sum(ess_of_autocorrelation(t.rung.astype(float)) for t in traces if np.ptp(t.rung) > 0)),
        ess_by_quantity={"leaves": ess},
        r_hat_by_quantity={"leaves": r_hat, "predictions": posterior.prediction_r_hat},
        overlap=fit.overlap,
        second_eigenvalue=fit.second_eigenvalue,
        evidence_agrees=not disagreement,
    )


def _about_journeys(posterior: Posterior) -> list[str]:
    trips = posterior.n_round_trips
    if trips >= FEWEST_ROUND_TRIPS:
        return []
    known = "never went" if trips == 0 else f"went only {trips} times in all"
    return [
        f"chains {known} from cold to hot and back: the fit rests on where the chains happened to be. Raise draws and "
        "tune, or tree_moves of the Proposals."
    ]


def _about_few_journeys(posterior: Posterior) -> list[str]:
    trips = posterior.n_round_trips
    if not FEWEST_ROUND_TRIPS <= trips < FEW_ROUND_TRIPS:
        return []
    return [f"leaf probabilities rest on {trips} round trips from cold to hot and back: raise draws for better ones."]


def _about_predictions(posterior: Posterior) -> list[str]:
    r_hat = posterior.prediction_r_hat
    if not r_hat > LARGE_R_HAT:
        return []
    gap = np.sqrt(2.0 * (r_hat**2 - 1.0))
    return [f"chains disagree about the predictions, by {gap:.2g} predictive deviations: raise draws and tune."]


def _about_visits(posterior: Posterior) -> list[str]:
    visits = posterior.sums.n_draws
    share = visits / visits.mean()
    odd = np.flatnonzero((share > UNEVEN) | (share < 1 / UNEVEN))
    if odd.size == 0:
        return []
    worst = odd[np.argmax(np.abs(np.log(np.maximum(share[odd], 1e-9))))]
    return [
        f"rung {worst} (k = {posterior.ladder[int(worst)]:.2g}) was visited {share[worst]:.2g} times as often as it "
        "should be: the pseudo-prior is not settled; raise tune."
    ]


def _about_weights(posterior: Posterior) -> list[str]:
    if posterior.combined_ess >= FEW_EFFECTIVE:
        return []
    ess = posterior.combined_ess
    return [f"all draws together are worth about {ess:.0f} independent cold draws: raise draws."]


def _about_leaves(ess: float, r_hat: float) -> list[str]:
    said = []
    if ess < FEW_EFFECTIVE:
        said.append(f"the number of leaves has only {ess:.0f} effective draws: raise draws for better probabilities.")
    if r_hat > LARGE_R_HAT:
        said.append(f"chains disagree about the number of leaves (R-hat {r_hat:.2f}): raise draws.")
    return said


def _about_evidence(posterior: Posterior) -> list[str]:
    """Compare log Z(1) - log Z(k_m) by MBAR and by thermodynamic integration, whose rule has an error of its own."""
    k = posterior.ladder.inverse_temperatures
    energy = np.stack([t.energy for t in posterior.trace])
    rung = np.stack([t.rung for t in posterior.trace])
    if len(k) == 1 or np.any(np.bincount(rung.ravel(), minlength=len(k)) == 0):
        return []
    best = log_evidence_mbar(energy, k, rung)
    plain, other = (thermodynamic_integration(energy, k, rung, corrected=c) for c in (False, True))
    gap = abs(float(other.value) - float(best.value))
    error = float(np.hypot(float(best.standard_error), float(other.standard_error)))
    if gap <= DISAGREEMENT * error + abs(float(other.value) - float(plain.value)) + 1e-9:
        return []
    return [
        f"log Z between the ends of the ladder must not depend on the method, but MBAR gives {float(best.value):.1f} "
        f"and thermodynamic integration {float(other.value):.1f}: the rungs' energies do not belong together; raise "
        "draws and tune."
    ]


def _r_hat(posterior: Posterior) -> float:
    """Return the split R-hat of the number of leaves on the cold rung; NaN where halves have too few cold draws."""
    halves = []
    for trace in posterior.trace:
        cold = trace.n_leaves[trace.rung == 0].astype(np.float64)
        halves += [part for part in np.array_split(cold, 2) if part.size >= 10]
    if len(halves) < 2:
        return float("nan")
    between = np.var([part.mean() for part in halves], ddof=1)
    within = np.mean([part.var() for part in halves])
    return float(np.sqrt(1.0 + between / within)) if within > 0 else (1.0 if between == 0 else float("inf"))
