"""The density of states: from a pilot run's energies, what any ladder at all would do.

Every rung move, swap and importance weight depends on a draw through its energy alone. MBAR gives each energy of a
pilot run its share g; then the energies at any k have weights proportional to g exp(k E), with no further model call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.arrays import Floats
from tempering.estimators import Mbar, mbar
from tempering.path.ladder import Ladder

BINS = 2000  # energies kept; beyond, neighbours are merged
DRAWS_KEPT = 6000  # energies of one round that are kept for the next ones


@dataclass(frozen=True, eq=False)
class Energies:
    """Energies with the inverse temperature each was drawn at, whatever the ladder."""

    k: Floats
    energy: Floats

    @classmethod
    def of_trace(cls, energy: Floats, rung: NDArray[np.int32], ladder: Ladder) -> Energies:
        """Take the energies of a round, thinned if they are many."""
        thin = max(1, energy.size // DRAWS_KEPT)
        return cls(ladder.inverse_temperatures[rung.ravel()[::thin]], energy.ravel()[::thin])

    def with_newer(self, newer: Energies) -> Energies:
        """Add a newer round; of what was there every other energy is forgotten, since older is less in equilibrium."""
        return Energies(np.append(self.k[::2], newer.k), np.append(self.energy[::2], newer.energy))

    def density_of_states(self) -> DensityOfStates:
        """Estimate the density of states from all of them."""
        k, rung = np.unique(-self.k, return_inverse=True)
        return DensityOfStates.from_draws(self.energy, -k, rung)


@dataclass(frozen=True, eq=False)
class DensityOfStates:
    """Energies in increasing order and the log of their shares.

    Examples
    --------
    >>> states = DensityOfStates(np.array([-2.0, -1.0]), np.log([0.5, 0.5]))
    >>> states.log_normaliser(np.array([0.0])).round(3)
    array([0.])
    """

    energy: Floats
    log_share: Floats

    @classmethod
    def from_draws(
        cls, energy: ArrayLike, inverse_temperatures: ArrayLike, rung: ArrayLike, fit: Mbar | None = None
    ) -> DensityOfStates:
        """Estimate it by MBAR from draws of several rungs, whose fit may be known already.

        The mixture only grows with the energy, so that both can be sorted by themselves.
        """
        e = np.asarray(energy, dtype=float)
        if fit is None or np.min(e) == -np.inf:
            kept = e > -np.inf
            e = e[kept]
            fit = mbar(e, inverse_temperatures, np.asarray(rung)[kept])
        return cls(*_merged(np.sort(e, axis=None), -np.sort(fit.log_mixture, axis=None)))

    @classmethod
    def weighted(cls, energy: Floats, log_share: Floats) -> DensityOfStates:
        """Take energies with the logs of their shares at k = 0, in any order."""
        order = np.argsort(energy, kind="stable")
        return cls(*_merged(energy[order], log_share[order] - np.max(log_share)))

    def log_normaliser(self, k: ArrayLike) -> Floats:
        """Return log Z(k), up to one constant."""
        log_z, _ = _normalised(self._log_terms(k))
        return log_z

    def probabilities(self, k: ArrayLike) -> Floats:
        """Return the law of the energy at each k, last axis."""
        _, p = _normalised(self._log_terms(k))
        return p

    def _log_terms(self, k: ArrayLike) -> Floats:
        return np.asarray(self.log_share + np.multiply.outer(np.asarray(k, dtype=float), self.energy))

    def local_barrier(self, k: ArrayLike, method: str = "simulated") -> Floats:
        """Return the rate at which rejection grows with a small gap in k.

        Half of E|E - mean| for simulated tempering (the total variation between neighbours), half of E|E - E'| for
        swaps (Syed et al. 2022, Section 4).
        """
        p = self.probabilities(k)
        mean = p @ self.energy
        if method == "simulated":
            return np.asarray(0.5 * np.sum(p * np.abs(self.energy - mean[..., None]), axis=-1))
        below = np.cumsum(p, axis=-1)
        gaps = np.diff(self.energy)
        return np.asarray(np.sum(below[..., :-1] * (1 - below[..., :-1]) * gaps, axis=-1))

    def acceptance(self, ladder: Ladder | Floats, method: str = "simulated") -> Floats:
        """Return the acceptance of moves between rungs i and i + 1, with the pseudo-prior at its best, 1 / Z."""
        p = self.probabilities(_inverse_temperatures(ladder))
        if method == "simulated":
            return np.asarray(np.sum(np.minimum(p[1:], p[:-1]), axis=1))
        return _acceptance_of_swaps(p[:-1], p[1:])

    def acceptance_of_fresh(self, ladder: Ladder) -> Floats:
        """Return the acceptance, on each rung, of draws of the base: a swap's with k = 0, for the base cancels."""
        p = self.probabilities(np.append(ladder.inverse_temperatures, 0.0))
        return _acceptance_of_swaps(p[:-1], p[-1])

    def barrier(self, ladder: Ladder, method: str = "simulated") -> float:
        """Return the communication barrier, the sum of the rejections of a very fine ladder with the same ends."""
        return float(self.cumulative_barrier(self.grid(ladder[0], ladder.hottest), method)[-1])

    def cumulative_barrier(self, k: Floats, method: str = "simulated") -> Floats:
        """Add up the rejections of moves between neighbouring ks, from the first downwards.

        Of a fine grid that is the integral of the local barrier; but a rejection is never more than 1, even where
        energies have no mean, as those of a base with heavy tails may not.
        """
        local = self.local_barrier(k, method)
        rejected = 1.0 - self.acceptance(k, method)
        steps = np.minimum(-np.diff(k) * (local[1:] + local[:-1]) / 2, np.maximum(rejected, 0.0))
        return np.concatenate([[0.0], np.cumsum(steps)])

    def grid(self, cold: float, hot: float, n: int = 400) -> Floats:
        """Return ks from cold to hot, even in k and even in log k, down to where the lowest energies matter no more."""
        least = max(hot, min(1e-6, 0.1 / max(float(np.ptp(self.energy)), 1e-300)) * cold)
        grid = np.concatenate([np.linspace(cold, hot, n // 2), np.geomspace(cold, least, n // 2)])
        return np.unique(np.append(grid, hot))[::-1]

    def round_trip_rate(self, ladder: Ladder, method: str = "simulated") -> float:
        """Return round trips per model call of lifted ST, or of non-reversible MC3.

        1 / (2 m (1 + sum r / (1 - r))): a chain's rung does the same lifted walk in both (Syed et al. 2022, Theorem 1).
        """
        return round_trip_rate_of(self.acceptance(ladder, method))

    def ess_fraction(self, k: ArrayLike) -> Floats:
        """Return ESS(w_i) / T_i at each k for large T: Z(1)^2 / (Z(k) Z(2 - k))."""
        k = np.asarray(k, dtype=float)
        log_fraction = 2 * self.log_normaliser(1.0) - self.log_normaliser(k) - self.log_normaliser(2 - k)
        return np.asarray(np.exp(np.minimum(log_fraction, 0.0)))

    def ess_per_draw(self, ladder: Ladder | Floats) -> float:
        """Return ESS(w^lambda*) / T with equal occupancies."""
        return float(np.mean(self.ess_fraction(_inverse_temperatures(ladder))))

    def log_pseudo_prior(self, ladder: Ladder) -> Floats:
        """Return the log pseudo-prior 1 / Z, under which all rungs are visited evenly."""
        log_z = self.log_normaliser(ladder.inverse_temperatures)
        return np.asarray(log_z[0] - log_z)


def _inverse_temperatures(ladder: Ladder | Floats) -> Floats:
    return ladder.inverse_temperatures if isinstance(ladder, Ladder) else ladder


def round_trip_rate_of(acceptance: Floats) -> float:
    """Return round trips per model call where moves between neighbouring rungs are accepted so often."""
    if np.any(acceptance <= 0):
        return 0.0
    return float(0.5 / ((acceptance.size + 1) * (1 + np.sum((1 - acceptance) / acceptance))))


def _normalised(log_terms: Floats) -> tuple[Floats, Floats]:
    """Return the log of the sum over the last axis, and the terms over their sum."""
    largest = log_terms.max(axis=-1, keepdims=True)
    terms = np.exp(log_terms - largest)
    total = terms.sum(axis=-1, keepdims=True)
    return np.asarray((np.log(total) + largest)[..., 0]), terms / total


def _acceptance_of_swaps(cold: Floats, hot: Floats) -> Floats:
    """Return the acceptance of exchanging energies of two laws, those of the hotter one above half of the time."""
    below_cold = np.cumsum(cold, axis=1) - cold
    return np.asarray(2 * np.sum(hot * below_cold, axis=1) + np.sum(hot * cold, axis=1))


def _merged(energy: Floats, log_share: Floats) -> tuple[Floats, Floats]:
    """Merge neighbouring energies until few enough are left; shares add up."""
    if energy.size <= BINS:
        return energy, log_share
    starts = np.unique(np.linspace(0, energy.size, BINS + 1).astype(int)[:-1])
    peak = np.maximum.reduceat(log_share, starts)
    group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, energy.size)))
    share = np.exp(log_share - peak[group])
    total = np.add.reduceat(share, starts)
    return np.add.reduceat(share * energy, starts) / total, peak + np.log(total)
