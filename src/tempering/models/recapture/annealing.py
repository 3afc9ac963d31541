"""From the prior to the data: a population that starts at k = 0, where it can be drawn, and is cooled step by step.

It is how a fit starts. Its last population is where the chains begin, so that none begins in a model that only a draw
from the prior would choose; its energies tell how many temperatures the data need, and which.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tempering.estimators.resampling import next_inverse_temperature, systematic
from tempering.learning.density_of_states import Energies
from tempering.learning.ladder_choice import choose_ladder
from tempering.models.recapture.kernel import advance
from tempering.models.recapture.layout import State
from tempering.models.recapture.model import RecaptureModel, copied
from tempering.path.ladder import Ladder

N_PARTICLES = 96
SHARE_KEPT = 0.5  # effective share of the population after a step in k (Del Moral et al. 2012: 1/2 and above)
MOVES = 12  # iterations of every particle at every temperature
MOVES_AT_END = 60
MOST_STEPS = 1000


@dataclass(frozen=True, eq=False)
class Annealed:
    """What a cooled population leaves behind: its last states, and energies with the k each was drawn at."""

    states: tuple[State, ...]
    energies: Energies

    def ladder(self, method: str) -> Ladder:
        """Return the ladder from k = 1 to the prior that these energies ask for."""
        return choose_ladder(self.energies.density_of_states(), 0.0, "hybrid", method)


def anneal(model: RecaptureModel, rng: np.random.Generator, n_particles: int = N_PARTICLES) -> Annealed:
    """Cool a population from the prior to k = 1, resampling it at every step (Neal 2001; Del Moral et al. 2006)."""
    states = [model.initial(rng) for _ in range(n_particles)]
    k, seen = 0.0, [(0.0, _energies(model, states))]
    while k < 1.0 and len(seen) < MOST_STEPS:
        energy = seen[-1][1]
        before, k = k, next_inverse_temperature(energy, k, SHARE_KEPT)
        states = [copied(states[j]) for j in systematic(rng, (k - before) * energy, n_particles)]
        for state in states:
            advance(rng, state, k, MOVES if k < 1.0 else MOVES_AT_END)
        seen.append((k, _energies(model, states)))
    energies = Energies(np.repeat([k for k, _ in seen], n_particles), np.concatenate([e for _, e in seen]))
    return Annealed(tuple(states), energies)


def _energies(model: RecaptureModel, states: list[State]) -> Any:
    return np.array([model.energy(state) for state in states])
