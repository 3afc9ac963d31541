"""How good a reference is: judged by fresh draws of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.estimators.pareto import pareto_k
from tempering.learning.reference.surface import Surface
from tempering.path.reference import Reference

GOOD_SHARE, GOOD_PARETO_K = 0.02, 1.0  # rungs bridge what is left; but above 1 weights have no mean at all
DRAWS_PER_DIMENSION = 80  # that judge, at the least
DRAWS_ASKED = 2000  # of chains, at the most
MISSED = 100.0  # times thinner than the target: there the reference hardly ever draws from


@dataclass(frozen=True, eq=False)
class FittedReference:
    """A reference and how well it fits, judged by fresh draws of it.

    Attributes
    ----------
    reference : Reference
        One component or more for each mode, in order, and the broad one last.
    masses : ndarray, shape (mode,)
        Share of the target's mass in each mode; in each component, where the reference was fitted to draws.
    ess_fraction : float
        Effective sample size of the importance weights of a draw from the reference.
    pareto_k : float
        Shape of the tail of the weights.
    log_normaliser : float
        Log of the integral of the density.
    n_calls : int
        Evaluations of the log density, gradients counted as one each.
    log_weights : ndarray, shape (draw,)
        Of independent draws of the reference: their energies at k = 0 of the path to the target.
    missed : float
        Share of the target's mass where the reference is a hundred times thinner than it, as far as chains have been
        there; its own draws cannot tell. NaN where there were no chains to ask.
    """

    reference: Reference
    masses: Floats
    ess_fraction: float
    pareto_k: float
    log_normaliser: float
    n_calls: int
    log_weights: Floats
    missed: float = np.nan

    @property
    def n_modes(self) -> int:
        """Number of modes found."""
        return len(self.masses)

    @property
    def is_good(self) -> bool:
        """Whether a few rungs lead from the reference to the target; if not, the plain path is the safer one.

        With a single mode the plain path is no worse, and on curved targets better.
        """
        return self.ess_fraction >= GOOD_SHARE and self.pareto_k < GOOD_PARETO_K

    def log_normalisers(self, inverse_temperatures: ArrayLike) -> Floats:
        """Return log of E_q (pi / q)^k at each k: minus these, a pseudo-prior to start from."""
        k = np.atleast_1d(np.asarray(inverse_temperatures, dtype=float))
        energy = self.log_weights[self.log_weights > -np.inf]
        inside = logsumexp(np.multiply.outer(k, energy), axis=1) - np.log(len(self.log_weights))
        return np.where(k == 0.0, 0.0, inside)

    def __repr__(self) -> str:
        return (
            f"FittedReference({self.n_modes} modes, masses {np.round(self.masses, 3).tolist()}, ESS "
            f"{self.ess_fraction:.2f} a draw, Pareto k {self.pareto_k:.2f}, {self.n_calls} calls)"
        )


def judged(
    surface: Surface, reference: Reference, n_modes: int, draws: int, rng: np.random.Generator
) -> FittedReference:
    """Judge a reference by fresh draws of it."""
    n = max(draws, DRAWS_PER_DIMENSION * reference.dimension)
    values = reference.sample_many(rng, n)
    log_w = surface.values(values) - reference.log_density(values)
    if not np.any(log_w > -np.inf):
        masses = np.full(n_modes, np.nan)
        return FittedReference(reference, masses, 0.0, np.inf, -np.inf, surface.n_calls, log_w)
    log_total = logsumexp(log_w)
    log_parts = reference.log_parts(values)[:, :-1]
    owned = np.exp(log_w - log_total) @ np.exp(log_parts - logsumexp(log_parts, axis=1, keepdims=True))
    return FittedReference(
        reference,
        owned.reshape(n_modes, -1).sum(axis=1) / owned.sum(),
        float(np.exp(2 * log_total - logsumexp(2 * log_w)) / n),
        pareto_k(log_w),
        float(log_total - np.log(n)),
        surface.n_calls,
        log_w,
    )


def missed_share(surface: Surface, fitted: FittedReference, values: Floats, log_weights: Floats | None = None) -> float:
    """Return the share of draws of the target, weighted if need be, that lie where the reference misses them."""
    weights = np.zeros(len(values)) if log_weights is None else log_weights
    rows = np.linspace(0, len(values) - 1, min(DRAWS_ASKED, len(values))).astype(int)
    log_ratio = surface.values(values[rows]) - fitted.reference.log_density(values[rows]) - fitted.log_normaliser
    share = np.exp(weights[rows] - logsumexp(weights[rows]))
    return float(np.sum(share[log_ratio > np.log(MISSED)]))
