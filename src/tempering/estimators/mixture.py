r"""The mixture of all states that MBAR samples from, and its fit by Newton's method.

With counts :math:`n_j` and offsets :math:`\eta_j = \log n_j - \log Z_j`, the share of state j in the mixture
at a draw is
:math:`p_j(t) = \exp(\eta_j + \log q_j(t) - L_t)`, :math:`L_t = \log \sum_r \exp(\eta_r + \log q_r(t))`.
MBAR's equations (Shirts & Chodera 2008), which are those of reverse logistic regression (Geyer 1994), say
:math:`\sum_t p_j(t) = n_j`: the minimum of the convex :math:`\sum_t L_t - \sum_j n_j \eta_j`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from tempering.errors import EstimatorError
from tempering.estimators.arrays import DRAWS_AT_ONCE, Floats, Ints, slices, temper

NULL = 1e-13  # scaled curvature below which two groups of states share no draw that a double can see
ROUNDING = 1e-14  # of a sum of shares, relative to the number of draws
SETTLED = 1e-9
MAXIMUM_STEPS = 40  # from a fair start five suffice
ROUGH_STEPS = 15
ROUGHLY_SETTLED = 1e-6
FAR = 60.0  # nats: beyond, a share in a mixture of two is 0 or 1


class LogDensities(Protocol):
    """Log densities, not normalised, of some states at some draws or nodes."""

    def columns(self, part: slice) -> Floats:
        """Return shape (n_states, length of part)."""


@dataclass(frozen=True, eq=False)
class TemperedDensities:
    """log q_j = k_j * energy."""

    inverse_temperatures: Floats
    energy: Floats

    def columns(self, part: slice) -> Floats:
        """Return k * energy for the energies of ``part``."""
        return temper(self.inverse_temperatures[:, np.newaxis], self.energy[part])


LOWEST = -1e300  # stands for minus infinity where it is multiplied by coefficients, some of which are zero


@dataclass(frozen=True, eq=False)
class TermDensities:
    """log q_j = c_j . t, from the terms of every draw; terms are above minus infinity, see `finite_terms`."""

    coefficients: Floats  # (state, term)
    terms: Floats  # (draw, term)
    target: Floats  # (term,): coefficients of the target

    def columns(self, part: slice) -> Floats:
        """Return the log densities of all states at the draws of ``part``."""
        return np.asarray(self.coefficients @ self.terms[part].T)


def finite_terms(terms: Floats) -> Floats:
    """Return terms with minus infinity replaced by a number that weighs nothing and may be multiplied by zero."""
    return np.maximum(terms, LOWEST) if np.min(terms, initial=0.0) < LOWEST else terms


@dataclass(frozen=True, eq=False)
class FlattenedDensities:
    """All log densities of others, times a factor below one."""

    densities: LogDensities
    factor: float

    def columns(self, part: slice) -> Floats:
        """Return those of the others, flattened."""
        return self.factor * self.densities.columns(part)


def column_slices(n: int, n_states: int) -> Iterator[slice]:
    """Cut the n columns of a (state, draw) matrix so that a few parts of it stay in the cache."""
    return slices(n, max(64, DRAWS_AT_ONCE // n_states))


def log_mixture(densities: LogDensities, log_offsets: Floats, n: int) -> Floats:
    """Return L at each of n draws or nodes."""
    out = np.empty(n)
    for part in column_slices(n, log_offsets.size):
        out[part] = log_sum(densities.columns(part) + log_offsets[:, np.newaxis])[0]
    return out


def log_sum(terms: Floats) -> tuple[Floats, Floats]:
    """Return the log of the summed exponentials of each column, and the terms' shares in it."""
    largest = terms.max(axis=0)
    shares = np.exp(terms - largest)
    total = shares.sum(axis=0)
    shares /= total
    return largest + np.log(total), shares


def _moments(densities: LogDensities, node_weights: Floats, log_offsets: Floats) -> tuple[Floats, Floats]:
    """Return sum p and sum p p' over the weighted nodes."""
    m = log_offsets.size
    first, second = np.zeros(m), np.zeros((m, m))
    for part in column_slices(node_weights.size, m):
        p = log_sum(densities.columns(part) + log_offsets[:, np.newaxis])[1]
        weighted = p * node_weights[part]
        first += weighted.sum(axis=1)
        second += weighted @ p.T
    return first, second


def _scaled_modes(curvature: Floats, n_draws: Floats) -> tuple[Floats, Floats, Floats]:
    """Return scale, eigenvalues and eigenvectors of the curvature diag(n) - sum p p', scaled to lie in [0,
    1].

    Its known null vector, the constant, is moved to 1; what else is zero stands for states without overlap.
    """
    scale = 1.0 / np.sqrt(n_draws)
    constant = np.sqrt(n_draws / n_draws.sum())
    value, vector = np.linalg.eigh(curvature * scale[:, np.newaxis] * scale + np.outer(constant, constant))
    return scale, value, vector


def second_eigenvalue(gram: Floats, n_draws: Floats) -> float:
    """Return the second largest eigenvalue of the overlap matrix: at 1 rungs fall apart into groups without overlap."""
    visited = np.flatnonzero(n_draws)
    root = np.sqrt(n_draws[visited])
    values = np.linalg.eigvalsh(gram[np.ix_(visited, visited)] * root[:, np.newaxis] * root)
    return float(np.clip(values[-2], 0.0, 1.0)) if values.size > 1 else 0.0


def scaled_inverse(curvature: Floats, n_draws: Floats) -> Floats:
    """Return a generalised inverse of the curvature, orthogonal to the constant and to states without
    overlap.
    """
    scale, value, vector = _scaled_modes(curvature, n_draws)
    inverse = np.where(value > NULL, 1.0 / np.where(value > NULL, value, 1.0), 0.0)
    constant = np.sqrt(n_draws / n_draws.sum())
    result = (vector * inverse) @ vector.T - np.outer(constant, constant)
    return np.asarray(result * scale[:, np.newaxis] * scale)


def _newton_step(curvature: Floats, n_draws: Floats, missing: Floats) -> tuple[Floats, float]:
    """Return the step for what is missing of the draws of each state, and how much that is, between 0 and 1.

    Without overlap the objective is linear but for a bend far away: go far, and let the line search find it.
    Where nothing is missing there either, stay.
    """
    scale, value, vector = _scaled_modes(curvature, n_draws)
    part = vector.T @ (missing * scale)
    share = np.abs(part) / np.sqrt(n_draws.sum())
    far = np.where(share > 1e-9, part / NULL, 0.0)
    step = scale * (vector @ np.where(value > NULL, part / np.maximum(value, NULL), far))
    return step, float(share.max())


def fit_offsets(
    densities: LogDensities, node_weights: Floats, n_draws: Floats, start: Floats, *, is_rough: bool = False
) -> Floats:
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
    is_rough : bool
        Take what a few steps lead to: enough where the next round will know more.

    Returns
    -------
    ndarray, shape (n_states,)
        The offsets, of which only differences mean anything.
    """
    if is_rough:
        return _newton(densities, node_weights, n_draws, start, ROUGH_STEPS, ROUGHLY_SETTLED)[0]
    offsets, missing = _newton(densities, node_weights, n_draws, start)
    if missing < SETTLED:
        return offsets
    # states that hardly overlap, from a bad start: flatten all densities and sharpen them step by step
    offsets = np.log(n_draws)
    for doublings in range(-15, 1):
        flattened = FlattenedDensities(densities, 2.0**doublings)
        offsets, missing = _newton(flattened, node_weights, n_draws, offsets * (1.0 if doublings == -15 else 2.0))
    if missing < SETTLED:
        return offsets
    raise EstimatorError(
        f"The shares of all states must sum to their numbers of draws, but a part {missing:.1e} of the draws "
        f"is off. Check that each draw's state is the one it was drawn from."
    )


def _newton(
    densities: LogDensities,
    node_weights: Floats,
    n_draws: Floats,
    start: Floats,
    n_steps: int = MAXIMUM_STEPS,
    settled: float = ROUNDING,
) -> tuple[Floats, float]:
    """Return offsets after Newton's method, and what is still missing of the draws, between 0 and 1."""
    offsets = start
    first, second = _moments(densities, node_weights, offsets)
    for _ in range(n_steps):
        step, missing = _newton_step(np.diag(first) - second, n_draws, n_draws - first)
        if np.ptp(step) < 1e-9:  # the error after this step is its square, or rounding
            return offsets + step, missing
        if missing < settled:  # at ROUNDING, a longer step is rounding blown up by a want of overlap
            return offsets, missing
        offsets, first, second = _descend(densities, node_weights, n_draws, offsets, step, first)
    return offsets, missing


def _descend(
    densities: LogDensities,
    node_weights: Floats,
    n_draws: Floats,
    offsets: Floats,
    step: Floats,
    first: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Take the longest of the halved steps that ends where the objective does not climb as it fell before."""
    descent = float(step @ (n_draws - first))
    for _ in range(100):
        first, second = _moments(densities, node_weights, offsets + step)
        if float(step @ (first - n_draws)) <= 0.5 * descent:
            break
        step, descent = step / 2, descent / 2
    return offsets + step, first, second


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
    """Return the offset at which the second state's shares sum to its number of draws.

    It lies about where as many ratios are above it as the state has draws, however far away the others are.
    """
    ordered = np.sort(log_ratio)[::-1]
    above, below = float(ordered[n_second - 1]), float(ordered[n_second])

    def excess(offset: float) -> float:
        return float(np.sum(expit(log_ratio + offset))) - n_second

    low, high = -above - FAR, -below + FAR
    if not (np.isfinite(low) and np.isfinite(high)):  # draws at infinity leave nothing to balance
        finite = ordered[np.isfinite(ordered)]
        return -float(np.median(finite)) if finite.size else 0.0
    if excess(low) >= 0 or excess(high) <= 0:
        return (low + high) / 2
    return float(brentq(excess, low, high, xtol=1e-3))
