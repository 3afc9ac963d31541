"""A verdict in words on chains without rejections: journeys between rungs, weights, and whether chains agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.estimators import Estimate, weighted_variance

Floats = NDArray[np.float64]
FEW_ROUND_TRIPS = 20
FEW_EFFECTIVE = 100.0
LARGE_R_HAT = 1.05
HEAVIEST_DRAW = 0.05  # of all weight


@dataclass(frozen=True)
class Verdict:
    """What a run looks like, and sentences that say what is wrong and what to do.

    Attributes
    ----------
    is_good : bool
        Whether no sentence was needed. Chains that all sit in one of several modes look good: nothing in them
        tells of the others.
    sentences : tuple of str
    n_round_trips : int
        Journeys from the coldest rung to the hottest and back, of all chains.
    effective_draws : float
        Independent draws that would know the mean energy as well.
    r_hat : float
        Spread of the chains' weighted means against the spread within, worst of all quantities; near 1 if chains agree.
    """

    is_good: bool
    sentences: tuple[str, ...]
    n_round_trips: int
    effective_draws: float
    r_hat: float

    def __str__(self) -> str:
        head = "The run looks sound." if self.is_good else "The run needs attention:"
        return "\n".join([head, *(f"- {sentence}" for sentence in self.sentences)])


def verdict_of(
    energy: Floats, weights: Floats, rung: NDArray[np.intp], n_rungs: int, mean_energy: Estimate, by_chain: Floats
) -> Verdict:
    """Look at a run.

    Parameters
    ----------
    energy, weights, rung : ndarray, shape (chain, draw)
        Weights sum to one.
    n_rungs : int
    mean_energy : Estimate
    by_chain : ndarray, shape (chain, quantity)
        Probabilities estimated by each chain alone; they are compared.
    """
    trips = count_round_trips(rung, n_rungs)
    variance = float(weighted_variance(energy, weights))
    error = float(mean_energy.standard_error)
    effective = variance / error**2 if error > 0 else float(weights.size)
    r_hat = largest_r_hat(by_chain)
    return _spell_out(trips, n_rungs, effective, r_hat, float(weights.max()))


def _spell_out(trips: int, n_rungs: int, effective: float, r_hat: float, heaviest: float) -> Verdict:
    said = []
    if n_rungs > 1 and trips < FEW_ROUND_TRIPS:
        known = "never" if trips == 0 else f"only {trips} times"
        said.append(f"Chains went from cold to hot and back {known}: raise draws, or put rungs closer together.")
    if effective < FEW_EFFECTIVE:
        said.append(f"All draws together are worth about {effective:.0f} independent ones: raise draws.")
    if r_hat > LARGE_R_HAT:
        said.append(f"Chains disagree (R-hat {r_hat:.2f}): raise draws, or temper with a ladder if they stay apart.")
    if heaviest > HEAVIEST_DRAW:
        said.append(
            f"One draw has {100 * heaviest:.0f} % of all weight: raise draws, or choose another balancing function."
        )
    return Verdict(not said, tuple(said), trips, effective, r_hat)


def count_round_trips(rung: ArrayLike, n_rungs: int) -> int:
    """Count journeys from rung 0 to the last rung and back to 0, of all chains, shape (chain, draw).

    Examples
    --------
    >>> count_round_trips([[0, 1, 2, 1, 0, 1, 2]], 3)
    1
    """
    if n_rungs < 2:
        return 0
    trips = 0
    for chain in np.asarray(rung):
        ends = chain[(chain == 0) | (chain == n_rungs - 1)]
        turns = ends[np.flatnonzero(np.diff(ends)) + 1] if ends.size else ends
        arrivals = int(np.sum(turns == 0))
        trips += arrivals - int(bool(ends.size) and ends[0] != 0 and arrivals > 0)
    return trips


def largest_r_hat(by_chain: Floats) -> float:
    """Return the worst R-hat of probabilities, between chains against p (1 - p).

    Examples
    --------
    >>> largest_r_hat(np.array([[0.5, 0.0], [0.5, 0.0]]))
    1.0
    >>> largest_r_hat(np.array([[0.0], [1.0]])) > 1.5
    True
    """
    mean = by_chain.mean(axis=0)
    within = mean * (1.0 - mean)
    is_open = within > 0.01  # nearly sure either way: no decision rests on it
    if len(by_chain) < 2 or not is_open.any():
        return 1.0
    return float(np.sqrt(1.0 + (by_chain.var(axis=0, ddof=1)[is_open] / within[is_open]).max()))
