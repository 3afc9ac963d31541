"""Choose a ladder, its number of rungs too, for what it will do: the paper's future work.

Candidates are spaced evenly in a blend of two measures of the interval, the communication barrier (equal acceptance)
and the usefulness of each k for weighting (dense where ESS(w_i) is large). The density of states predicts all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tempering.arrays import Floats
from tempering.errors import SamplerError
from tempering.learning.density_of_states import DensityOfStates, round_trip_rate_of
from tempering.path.ladder import Ladder

OBJECTIVES = ("hybrid", "barrier", "ess")
LEAST_ACCEPTANCE = (
    0.4  # the predictions take energies to be forgotten at every move: with fewer rungs they promise too much
)
OCCUPANCIES = (0.7, 1.5)  # times 1/m, before they are made to add up: no rung is nearly left out
MOST_RUNGS = 96
MOST_SHORT_RUNGS = 8


def check_objective(objective: str) -> None:
    """Refuse a name that means no objective."""
    if objective not in OBJECTIVES:
        raise SamplerError(f"objective must be one of {OBJECTIVES}, but got {objective!r}.")


def choose_ladder(
    states: DensityOfStates, hottest: float, objective: str = "hybrid", method: str = "simulated"
) -> Ladder:
    """Return the best ladder between k = 1 and ``hottest``.

    Parameters
    ----------
    states : DensityOfStates
    hottest : float
        Where mixing is good; 0 for the base itself.
    objective : {"hybrid", "barrier", "ess"}
        Most ESS(w^lambda*) times round trips per model call (the hybrid of ESS and ESS_rho of the paper's
        discussion), most round trips alone with equal acceptances, or most ESS with every acceptance above 0.4.
    method : {"simulated", "parallel"}
    """
    check_objective(objective)
    if hottest >= 1.0:
        return Ladder([1.0])
    best, best_score = None, -np.inf
    for k in _candidates(states, hottest, objective, method):
        score = score_of(states, k, objective, method)
        if score > best_score:
            best, best_score = k, score
    return Ladder(best) if best is not None else evenly_spaced(states, hottest, MOST_RUNGS, method)


def evenly_spaced(states: DensityOfStates, hottest: float, rungs: int, method: str = "simulated") -> Ladder:
    """Return a ladder whose moves between rungs are all accepted about as often, as far as the draws tell."""
    k = states.grid(1.0, hottest)
    barrier = states.cumulative_barrier(k, method)
    steps = np.interp(np.linspace(0.0, barrier[-1], rungs), barrier, k)
    steps[0], steps[-1] = 1.0, hottest
    return Ladder(np.unique(steps)[::-1])


def aimed_occupancy(states: DensityOfStates, ladder: Ladder) -> Floats:
    """Return how often each rung is best visited, relative to 1/m: more where its draws count for more.

    As the root of its share of ESS(w^lambda*), as strata are sampled; but every rung is on the way of a round trip.
    """
    useful = states.ess_fraction(ladder.inverse_temperatures)
    aim = np.clip(np.sqrt(useful / np.mean(useful)), *OCCUPANCIES)
    return np.asarray(aim / np.mean(aim))


def score_of(states: DensityOfStates, ladder: Ladder | Floats, objective: str, method: str) -> float:
    """Return what a ladder is good for, per model call; minus infinity where a move between rungs is too rare."""
    acceptance = states.acceptance(ladder, method)
    if float(np.min(acceptance)) < LEAST_ACCEPTANCE:
        return -np.inf
    if objective == "ess":
        return states.ess_per_draw(ladder)
    rate = round_trip_rate_of(acceptance)
    return rate if objective == "barrier" else rate * states.ess_per_draw(ladder)


def _candidates(states: DensityOfStates, hottest: float, objective: str, method: str) -> Iterator[Floats]:
    k = states.grid(1.0, hottest)
    barrier = states.cumulative_barrier(k, method)
    useful = states.ess_fraction(k)
    usefulness = np.concatenate([[0.0], np.cumsum(-np.diff(k) * (useful[1:] + useful[:-1]) / 2)])
    blends = (0.0,) if objective == "barrier" else (0.0, 0.2, 0.4, 0.6)
    least = max(2, min(int(np.ceil(barrier[-1])), MOST_RUNGS))
    for rungs in _sizes(least, int(min(MOST_RUNGS, 4 * barrier[-1] + 8))):
        for blend in blends:
            measure = (1 - blend) * _shares(barrier) + blend * _shares(usefulness)
            steps = np.interp(np.linspace(0.0, 1.0, rungs), measure, k)
            steps[0], steps[-1] = 1.0, hottest
            if np.all(np.diff(steps) < 0):
                yield steps


def _shares(cumulated: Floats) -> Floats:
    """Return what of a measure of the interval lies above each k; none anywhere where the energy is constant."""
    return cumulated / cumulated[-1] if cumulated[-1] > 0 else np.zeros_like(cumulated)


def _sizes(least: int, most: int) -> list[int]:
    """Return numbers of rungs to try, finely at first, then by tenths."""
    sizes, n = [], least
    while n <= max(most, least):
        sizes.append(n)
        n = max(n + 1, int(n * 1.1))
    return sizes


def choose_quick_ladder(states: DensityOfStates, objective: str = "hybrid", method: str = "simulated") -> Ladder:
    """Return the best ladder from k = 1 to a mixture, which may be near the target or far from it.

    Near it a few evenly spaced rungs are best: the barrier says little of a base with heavy tails, whose energies lie
    far below any that matter. Far from it the leg is long, and is visited less.
    """
    even = [np.linspace(1.0, 0.0, rungs) for rungs in range(2, MOST_SHORT_RUNGS + 1)]
    best = max(even, key=lambda k: score_of(states, k, objective, method))
    if score_of(states, best, objective, method) > -np.inf:
        return Ladder(best)
    return choose_ladder(states, 0.0, objective, method)
