"""The parameters of one tree given that tree: what is said of its leaves are posterior means, not one draw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.learning.rounds import flat_schedule
from tempering.models.treed_gp import layout
from tempering.models.treed_gp.engine import Chain
from tempering.models.treed_gp.model import TreedGPModel, allocate
from tempering.models.treed_gp.records import revive
from tempering.models.treed_gp.sums import empty_sums
from tempering.path.ladder import Ladder

Floats = NDArray[np.float64]

N_KEPT = 100
N_ROUNDS = 400  # at the posterior itself, the tree kept as it is; a quarter before that


def draw_given_tree(model: TreedGPModel, row: Floats, rng: np.random.Generator) -> Floats:
    """Draw parameters from the posterior given a recorded tree, shape (N_KEPT, record length)."""
    real = model.real.copy()
    real[layout.P_TREE] = 0.0
    state = allocate(model.data, real, model.integer, 1)
    revive(state, row)
    chain = Chain(rng, state, np.array([0, 1]), empty_sums(state, 1, 1, N_KEPT, 0))
    cold = flat_schedule(Ladder([1.0]), ())
    chain.run(cold, N_ROUNDS // 4, moving=False)
    chain.run(cold, N_ROUNDS, moving=False, thin=1)
    return np.array(chain.sums.kept[0])
