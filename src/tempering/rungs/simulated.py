"""Rung moves of simulated tempering: the paper's neighbour proposal, and its lifted form.

Plain functions of plain numbers: the scalar engine compiles them, tests enumerate them. The joint law of
(theta, rung) is proportional to pi_rung(theta) p(rung), where log pi_rung = coefficients[rung] . terms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.randomness import accept, choose

LOG_2 = float(np.log(2.0))


def propose_neighbour(rng: np.random.Generator, here: int, n_rungs: int) -> tuple[int, float]:
    """Propose a neighbouring rung; return it and the log Hastings factor.

    End rungs have one neighbour, so the proposal is not symmetric there: leaving an end costs log 2, entering it
    gains log 2 (nothing when both rungs are ends).
    """
    if n_rungs == 1:
        return here, 0.0
    if here == 0:
        there = 1
    elif here == n_rungs - 1:
        there = here - 1
    else:
        there = here + 1 - 2 * choose(rng, 2)
    log_hastings = 0.0
    if here == 0 or here == n_rungs - 1:
        log_hastings -= LOG_2
    if there == 0 or there == n_rungs - 1:
        log_hastings += LOG_2
    return there, log_hastings


def log_ratio_of_rungs(coefficients: NDArray[np.float64], here: int, there: int, terms: NDArray[np.float64]) -> float:
    """Return log pi_there - log pi_here; a term that does not count in either may be minus infinity."""
    total = 0.0
    for i in range(terms.size):
        change = coefficients[there, i] - coefficients[here, i]
        if change != 0.0:
            total += change * terms[i]
    return total


def move_to_neighbour(
    rng: np.random.Generator,
    rung: int,
    direction: int,
    terms: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    log_pseudo_prior: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Move as the paper does: Metropolis-Hastings with a neighbour proposal.

    Returns
    -------
    rung, direction, proposed : int
        The direction is not used and comes back unchanged.
    """
    there, log_hastings = propose_neighbour(rng, rung, len(coefficients))
    log_ratio = log_ratio_of_rungs(coefficients, rung, there, terms)
    log_ratio += log_pseudo_prior[there] - log_pseudo_prior[rung] + log_hastings
    if accept(rng, log_ratio):
        return there, direction, there
    return rung, direction, there


def move_lifted(
    rng: np.random.Generator,
    rung: int,
    direction: int,
    terms: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    log_pseudo_prior: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Go on in the same direction until a proposal is rejected, then turn round.

    Non-reversible, with invariant law pi_rung(theta) p(rung) times 1/2 for each direction (skewed detailed balance); a
    proposal beyond an end counts as rejected. No Hastings factor: each (rung, direction) has one proposal.
    """
    there = rung + direction
    if there < 0 or there >= len(coefficients):
        return rung, -direction, rung
    log_ratio = log_ratio_of_rungs(coefficients, rung, there, terms)
    log_ratio += log_pseudo_prior[there] - log_pseudo_prior[rung]
    if accept(rng, log_ratio):
        return there, direction, there
    return rung, -direction, there
