"""From the prior to the data: a population that starts at k = 0, where it can be drawn, and is cooled step by step.

It is how a fit starts. Its last population is where the chains begin, so that none begins in a model that only a draw
from the prior would choose; its energies tell how many temperatures the data need, and which.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    @property
    def n_temperatures(self) -> int:
        """Number of temperatures on the way."""
        return len(np.unique(self.energies.k))

    def ladder(self, method: str) -> Ladder:
        """Return the ladder from k = 1 to the prior that these energies ask for."""
        return choose_ladder(self.energies.density_of_states(), 0.0, "hybrid", method)


def anneal(model: RecaptureModel, rng: np.random.Generator, n_particles: int = N_PARTICLES) -> Annealed:
    """Cool a population from the prior to k = 1, resampling it at every step (Neal 2001; Del Moral et al. 2006)."""
    states = [model.initial(rng) for _ in range(n_particles)]
    k, seen = 0.0, [(0.0, _energies(model, states))]
    while k < 1.0 and len(seen) < MOST_STEPS:
        energy = seen[-1][1]
        before, k = k, next_k(energy, k)
        states = [copied(states[j]) for j in resampled(rng, (k - before) * energy)]
        for state in states:
            advance(rng, state, k, MOVES if k < 1.0 else MOVES_AT_END)
        seen.append((k, _energies(model, states)))
    energies = Energies(np.repeat([k for k, _ in seen], n_particles), np.concatenate([e for _, e in seen]))
    return Annealed(tuple(states), energies)


def next_k(energy: NDArray[np.float64], k: float) -> float:
    """Return the next inverse temperature, to which the weights keep their share of the population."""

    def share(step: float) -> float:
        w = np.exp(step * (energy - energy.max()))
        return float(w.sum() ** 2 / (w @ w) / len(w))

    if share(1.0 - k) >= SHARE_KEPT:
        return 1.0
    low, high = 0.0, 1.0 - k
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) >= SHARE_KEPT else (low, middle)
    return float(min(1.0, k + max(low, 1e-12)))


def resampled(rng: np.random.Generator, log_weights: NDArray[np.float64]) -> NDArray[np.intp]:
    """Choose survivors by systematic resampling."""
    w = np.exp(log_weights - log_weights.max())
    edges = np.cumsum(w / w.sum())
    points = (rng.random() + np.arange(len(w))) / len(w)
    return np.minimum(np.searchsorted(edges, points), len(w) - 1)


def _energies(model: RecaptureModel, states: list[State]) -> Any:
    return np.array([model.energy(state) for state in states])
