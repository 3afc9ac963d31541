"""The marginal likelihood of the data, where the ladder reaches the prior."""

import numpy as np

from tempering.errors import InputError
from tempering.estimators import Estimate, log_evidence_mbar
from tempering.models.treed_gp.combining import Posterior
from tempering.models.treed_gp.training import TrainingData


def log_evidence(posterior: Posterior, data: TrainingData) -> Estimate:
    """Return log Z(1) - log Z(0) by MBAR, for the response in its own units."""
    if posterior.ladder.hottest > 0.0:
        raise InputError(
            f"The evidence needs a ladder that ends at k = 0, the prior, but this one ends at "
            f"k = {posterior.ladder.hottest:g}. Pass tempering=Tempering(hottest=0), or a ladder that ends in 0."
        )
    energy = np.stack([t.energy for t in posterior.trace])
    rung = np.stack([t.rung for t in posterior.trace])
    scaled = log_evidence_mbar(energy, posterior.ladder.inverse_temperatures, rung)
    return Estimate(scaled.value - data.n_rows * np.log(data.spread), scaled.standard_error)
