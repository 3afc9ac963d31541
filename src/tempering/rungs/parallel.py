"""Swaps of Metropolis-coupled MCMC (parallel tempering): rung indices are exchanged, never states.

Three schemes: one random adjacent pair; all even or all odd pairs, by a coin (reversible); even and odd in turn
(non-reversible: Okabe et al. 2001, Syed et al. 2022).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tempering.randomness import accept, choose
from tempering.rungs.simulated import log_ratio_of_rungs

Rungs = NDArray[np.int64]
Terms = NDArray[np.float64]  # (replica, term)


def swap_pair(
    rng: np.random.Generator, lower: int, rung: Rungs, replica: Rungs, terms: Terms, coefficients: NDArray[np.float64]
) -> bool:
    """Try to exchange the rungs ``lower`` and ``lower + 1``; change ``rung`` and ``replica`` in place.

    ``rung[r]`` is where replica r sits, ``replica[i]`` who sits on rung i. Accepted with probability
    min(1, exp{(c_i - c_j) . (t_j - t_i)}), which for powers is exp{(k_i - k_j)(E_j - E_i)}.
    """
    cold, hot = replica[lower], replica[lower + 1]
    log_ratio = log_ratio_of_rungs(coefficients, lower, lower + 1, terms[cold])
    log_ratio += log_ratio_of_rungs(coefficients, lower + 1, lower, terms[hot])
    accepted = accept(rng, log_ratio)
    if accepted:
        rung[cold], rung[hot] = lower + 1, lower
        replica[lower], replica[lower + 1] = hot, cold
    return accepted


def swap_random(
    rng: np.random.Generator,
    iteration: int,
    rung: Rungs,
    replica: Rungs,
    terms: Terms,
    coefficients: NDArray[np.float64],
    proposed: Rungs,
) -> None:
    """Try one adjacent pair chosen at random."""
    if len(coefficients) > 1:
        lower = choose(rng, len(coefficients) - 1)
        proposed[replica[lower]], proposed[replica[lower + 1]] = lower + 1, lower
        swap_pair(rng, lower, rung, replica, terms, coefficients)


def swap_even_odd(
    rng: np.random.Generator,
    iteration: int,
    rung: Rungs,
    replica: Rungs,
    terms: Terms,
    coefficients: NDArray[np.float64],
    proposed: Rungs,
) -> None:
    """Try all even or all odd pairs, whichever a coin says."""
    _swap_all(rng, choose(rng, 2), rung, replica, terms, coefficients, proposed)


def swap_non_reversible(
    rng: np.random.Generator,
    iteration: int,
    rung: Rungs,
    replica: Rungs,
    terms: Terms,
    coefficients: NDArray[np.float64],
    proposed: Rungs,
) -> None:
    """Try the even pairs at even iterations and the odd pairs at odd ones."""
    _swap_all(rng, iteration % 2, rung, replica, terms, coefficients, proposed)


def _swap_all(
    rng: np.random.Generator,
    parity: int,
    rung: Rungs,
    replica: Rungs,
    terms: Terms,
    coefficients: NDArray[np.float64],
    proposed: Rungs,
) -> None:
    for lower in range(parity, len(coefficients) - 1, 2):
        proposed[replica[lower]], proposed[replica[lower + 1]] = lower + 1, lower
        swap_pair(rng, lower, rung, replica, terms, coefficients)
