"""A verdict on a fit in words: what its predictions rest on, and what its leaf probabilities do.

A fit is called sound if its chains agree on the predictions, and have either made round trips or agree closely: chains
are cooled one by one, and those that are stuck in places of their own do not. Leaf probabilities need more: what the
run's own verdict says is said of them, and does not change that of the fit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempering.models.treed_gp.posterior import Posterior
from tempering.runs.diagnosis import FEW_EFFECTIVE, LARGE_R_HAT, Diagnosis

FEWEST_ROUND_TRIPS = 3  # below, chains may all be where they began
CLOSE_R_HAT = 1.01  # Vehtari et al. 2021, section 5: what chains that have forgotten their start stay below


def diagnosis_of(posterior: Posterior) -> Diagnosis:
    """Look at a fit from every side."""
    found = posterior.draws.diagnose()
    trips, r_hat = posterior.n_round_trips, posterior.prediction_r_hat
    serious = []
    if len(posterior.ladder) > 1 and trips < FEWEST_ROUND_TRIPS and not r_hat <= CLOSE_R_HAT:
        known = "never went" if trips == 0 else f"went only {trips} times in all"
        serious.append(
            f"chains {known} from cold to hot and back: the fit rests on where the chains happened to be. Raise draws "
            "and tune, or tree_moves of the Proposals."
        )
    if r_hat > LARGE_R_HAT:
        gap = np.sqrt(2.0 * (r_hat**2 - 1.0))
        serious.append(
            f"chains disagree about the predictions, by {gap:.2g} predictive deviations: raise draws and tune."
        )
    is_good = not serious and posterior.combined_ess >= FEW_EFFECTIVE and found.evidence_agrees
    of = "for leaf probabilities: " if is_good else ""
    return replace(
        found,
        is_good=is_good,
        sentences=(*serious, *(f"{of}{sentence}" for sentence in found.sentences)),
        r_hat_by_quantity=found.r_hat_by_quantity | {"predictions": r_hat},
    )
