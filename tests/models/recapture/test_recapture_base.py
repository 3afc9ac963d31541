"""A path from fitted laws: moves at k keep base^(1 - k) (prior x likelihood)^k.

Draws of the base are exact at k = 0. Weighted by exp(k energy) they are draws of the rung at k, so that the weighted
change of anything under its moves has mean 0. Controls break the base that the moves see, and the energy.
"""

import numpy as np
import pytest
from recapture_cases import advance, evaluate, moved_to, simulate, statistics_of, study_of, with_constant

from statistical import assert_mean_is, assert_mean_is_not, seeded_rng
from tempering.models.recapture import layout as at
from tempering.models.recapture.kernel import energy
from tempering.models.recapture.spaces import ModelSpace
from tempering.models.recapture.times import time_structures

N_INTERVALS, K = 4, 0.4
YEARS = np.arange(N_INTERVALS)
BASE = (2.0, 0.2)  # laws worth a dozen birds, which fit nothing well
INFORMED = {"phi": (2.0, 3.0), "p": (0.7, 1.5), "lambda": (1.3, 0.8)}
SPACES = {
    "years": (ModelSpace(1), time_structures(YEARS)),
    "ages": (ModelSpace(2), time_structures(YEARS)),
    "informed": (ModelSpace(2, model_prior="structures", beta=INFORMED), time_structures(YEARS)),
    "trend": (
        ModelSpace(1, "~ time + ice", "~ time", "~ 1", times=("ice",)),
        time_structures(YEARS, covariates={"ice": [0.3, 2.0, 1.1, 0.4]}),
    ),
}


def weighted_changes(case, *, broken=lambda study: study, energy_of=energy, n_steps=3, n_replicates=4000):
    """Draw from the base, weigh for k, move; return weight times change."""
    space, times = SPACES[case]
    rng = seeded_rng(f"fitted base {case}")
    values = np.full((4, N_INTERVALS, space.n_columns), 0.6)
    study = study_of(simulate(rng, values, 3, space.n_classes), space, times, base=BASE)
    log_weights, changes = [], []
    for _ in range(n_replicates):
        state = moved_to(study, study)
        advance(rng, state, 0.0, 1)
        before, log_weight = statistics_of(state), K * energy_of(state)
        moving = moved_to(state, broken(study))
        advance(rng, moving, K, n_steps)
        end = moved_to(moving, study)
        evaluate(end)
        log_weights.append(log_weight)
        changes.append(statistics_of(end) - before)
    weights = np.exp(np.array(log_weights) - np.mean(log_weights))
    assert weights.sum() ** 2 / (weights @ weights) > 300  # Student's t needs many draws that count
    return weights[:, None] * np.array(changes)


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.long] * (c != "years")) for c in SPACES])
def test_moves_keep_every_rung_of_the_path_from_fitted_laws(case):
    assert_mean_is(0.0, weighted_changes(case))


CONTROLS = {
    "moves that doubt the base": {"broken": lambda s: with_constant(s, at.BASE_DOUBT, 0.9)},
    "moves that take the base for the prior": {"broken": lambda s: with_constant(s, at.BASE_POWER, 0.0)},
    "an energy without the base": {"energy_of": lambda s: float(s.energy[0])},
}


@pytest.mark.parametrize("control", [pytest.param(c, marks=[pytest.mark.long] * ("prior" not in c)) for c in CONTROLS])
def test_what_is_broken_on_purpose_is_seen(control):
    assert_mean_is_not(0.0, weighted_changes("years", n_steps=8, n_replicates=10_000, **CONTROLS[control]))
