r"""The mixture of all states that MBAR samples from, and its fit by Newton's method.

With counts :math:`n_j` and offsets :math:`\eta_j = \log n_j - \log Z_j`, the share of state j in the mixture
at a draw is
:math:`p_j(t) = \exp(\eta_j + \log q_j(t) - L_t)`, :math:`L_t = \log \sum_r \exp(\eta_r + \log q_r(t))`.
MBAR's equations (Shirts & Chodera 2008), which are those of reverse logistic regression (Geyer 1994), say
:math:`\sum_t p_j(t) = n_j`: the minimum of the convex :math:`\sum_t L_t - \sum_j n_j \eta_j`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, slices, temper

ROWS = 1 << 13  # rows of (draw, state) matrices held at once
NULL = 1e-13  # scaled curvature below which two groups of states share no draw that a double can see
MAXIMUM_STEPS = 200


class LogDensities(Protocol):
    """Log densities, not normalised, of some states at some draws or nodes."""

    def rows(self, part: slice) -> Floats:
        """Return shape (rows of part, n_states)."""


@dataclass(frozen=True, eq=False)
class TemperedDensities:
    """log q_j = k_j * energy."""

    inverse_temperatures: Floats
    energy: Floats

    def rows(self, part: slice) -> Floats:
        """Return k * energy for the energies of ``part``."""
        return temper(self.inverse_temperatures, self.energy[part, np.newaxis])


@dataclass(frozen=True, eq=False)
class GivenDensities:
    """log q_j given as a matrix."""

    log_density_kn: Floats

    def rows(self, part: slice) -> Floats:
        """Return the transposed columns of ``part``."""
        return self.log_density_kn[:, part].T


def log_mixture(densities: LogDensities, log_offsets: Floats, n: int) -> Floats:
    """Return L at each of n draws or nodes."""
    out = np.empty(n)
    for part in slices(n, ROWS):
        out[part] = log_sum(densities.rows(part) + log_offsets)[0]
    return out


def log_sum(terms: Floats) -> tuple[Floats, Floats]:
    """Return the log of the summed exponentials of each row, and the terms' shares in it."""
    largest = terms.max(axis=1)
    parts = np.exp(terms - largest[:, np.newaxis])
    total = parts.sum(axis=1)
    parts /= total[:, np.newaxis]
    return largest + np.log(total), parts


def _moments(
    densities: LogDensities, node_weights: Floats, log_offsets: Floats
) -> tuple[float, Floats, Floats]:
    """Return sum L, sum p and sum p p' over the weighted nodes."""
    m = log_offsets.size
    total, first, second = 0.0, np.zeros(m), np.zeros((m, m))
    for part in slices(node_weights.size, ROWS):
        log_total, p = log_sum(densities.rows(part) + log_offsets)
        weighted = p * node_weights[part, np.newaxis]
        total += float(node_weights[part] @ log_total)
        first += weighted.sum(axis=0)
        second += weighted.T @ p
    return total, first, second


def scaled_inverse(curvature: Floats, n_draws: Floats) -> Floats:
    """Return a generalised inverse of the curvature diag(n) - sum p p', whose null vector is the constant."""
    scale = 1.0 / np.sqrt(n_draws)
    value, vector = np.linalg.eigh(curvature * scale[:, np.newaxis] * scale)
    inverse = np.where(value > NULL, 1.0 / np.where(value > NULL, value, 1.0), 0.0)
    result: Floats = (vector * inverse) @ vector.T * scale[:, np.newaxis] * scale
    return result


def fit_offsets(densities: LogDensities, node_weights: Floats, n_draws: Floats, start: Floats) -> Floats:
    """Solve sum p = n by Newton's method with step halving.

    Parameters
    ----------
    densities : LogDensities
        Of the visited states, at the nodes.
    node_weights : ndarray, shape (n_nodes,)
        How many draws a node stands for.
    n_draws : ndarray, shape (n_states,)
        Number of draws of each state, all positive.
    start : ndarray, shape (n_states,)
        Offsets to start from.

    Returns
    -------
    ndarray, shape (n_states,)
        The offsets, of which only differences mean anything.
    """
    offsets = start
    total, first, second = _moments(densities, node_weights, offsets)
    previous = np.inf
    for _ in range(MAXIMUM_STEPS):
        step = scaled_inverse(np.diag(first) - second, n_draws) @ (n_draws - first)
        size = float(np.ptp(step))
        if size < 1e-9:  # the error after this step is its square, or rounding
            return offsets + step
        offsets, (total, first, second) = _descend(densities, node_weights, n_draws, offsets, step, total)
        if size < 1e-6 and size >= previous:
            return offsets
        previous = size
    raise EstimatorError(
        f"The normalisers must settle within {MAXIMUM_STEPS} Newton steps, but the last step was {size:.1e}. "
        f"Check that each draw's state is the one it was drawn from."
    )


def _descend(
    densities: LogDensities,
    node_weights: Floats,
    n_draws: Floats,
    offsets: Floats,
    step: Floats,
    total: float,
) -> tuple[Floats, tuple[float, Floats, Floats]]:
    """Take the longest of the halved steps that lowers the convex objective, up to its rounding."""
    objective = total - float(n_draws @ offsets)
    slack = 1e-13 * (abs(total) + float(n_draws @ np.abs(offsets)))
    for _ in range(60):
        trial = offsets + step
        moments = _moments(densities, node_weights, trial)
        if moments[0] - float(n_draws @ trial) <= objective + slack:
            break
        step = step / 2
    return trial, moments


def bridge_states(
    difference: Callable[[int, int, Ints], Floats], draws_of_state: Sequence[Ints], n_draws: Floats
) -> Floats:
    """Return offsets to start from: normalisers by bridging each state to the next one (Bennett 1976).

    Parameters
    ----------
    difference : callable
        ``difference(a, b, draws)``: log q_b - log q_a at the draws of those indices.
    draws_of_state : sequence of ndarray
        Some draws of each state, at least one.
    n_draws : ndarray, shape (n_states,)
        Number of draws of each state.
    """
    log_normaliser = np.zeros(n_draws.size)
    for b in range(1, n_draws.size):
        draws = np.concatenate([draws_of_state[b - 1], draws_of_state[b]])
        n_a, n_b = draws_of_state[b - 1].size, draws_of_state[b].size
        offset = _bridge(difference(b - 1, b, draws), n_b)
        log_normaliser[b] = log_normaliser[b - 1] + np.log(n_b / n_a) - offset
    return np.log(n_draws) - log_normaliser


def _bridge(log_ratio: Floats, n_second: int) -> float:
    """Return the offset at which the second state's shares sum to its number of draws."""
    finite = log_ratio[np.isfinite(log_ratio)]
    if finite.size == 0:
        return 0.0

    def excess(offset: float) -> float:
        return float(np.sum(expit(log_ratio + offset))) - n_second

    low, high = -float(finite.max()) - 60.0, -float(finite.min()) + 60.0
    if excess(low) >= 0 or excess(high) <= 0:  # draws at infinity leave nothing to balance
        return (low + high) / 2
    return float(brentq(excess, low, high, xtol=1e-3))
