"""The parameters of one tree given that tree: what is said of its leaves are posterior means, not one draw."""

from __future__ import annotations

import numpy as np

from tempering.arrays import Floats
from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.model import TreedGPModel, allocate
from tempering.models.treed_gp.records import HEAD, record, revive

N_KEPT = 100
EVERY = 4  # rounds at the posterior itself, the tree kept as it is, from one kept draw to the next
N_BEFORE = 100  # rounds


def draw_given_tree(model: TreedGPModel, row: Floats, rng: np.random.Generator) -> Floats:
    """Draw parameters from the posterior given a recorded tree, shape (N_KEPT, record length)."""
    real = model.real.copy()
    real[at.P_TREE] = 0.0
    state = allocate(model.data, real, model.integer)
    revive(state, row)
    kept = []
    for t in range(N_BEFORE + EVERY * N_KEPT):
        model.step(rng, state, 1.0)
        if t >= N_BEFORE and (t - N_BEFORE) % EVERY == 0:
            kept.append(record(state)[HEAD : HEAD + len(row)])
    return np.array(kept)
