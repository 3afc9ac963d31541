"""Weighted draws of informed chains, and the answers that the estimators of all tempered draws give for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import EstimatorError
from tempering.estimators import Estimate, Mbar, kish_ess, mbar_from_matrix, weighted_estimate
from tempering.informed.combining import Weighing, weigh
from tempering.informed.verdict import Verdict, verdict_of
from tempering.path.ladder import Ladder

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InformedRun:
    r"""Draws of all rungs, each with the weight :math:`\pi(x) / \{\pi_i(x) Z_i(x)\}`.

    Attributes
    ----------
    values : ndarray, shape (chain, draw, ...)
        What the model records.
    rung : ndarray of int, shape (chain, draw)
    energy : ndarray, shape (chain, draw)
    log_totals : ndarray, shape (chain, draw, n_rungs)
        log Z_i of every rung at every draw.
    inverse_temperatures : ndarray, shape (n_rungs,)
    chains_per_ensemble : int
        Chains that exchange states: the number of rungs under parallel tempering, else 1.
    """

    values: Any
    rung: NDArray[np.intp]
    energy: Floats
    log_totals: Floats
    inverse_temperatures: Floats
    chains_per_ensemble: int = 1

    def __post_init__(self) -> None:
        for array in (self.rung, self.energy, self.log_totals, self.inverse_temperatures):
            array.setflags(write=False)

    @property
    def ladder(self) -> Ladder:
        """The ladder, if its first rung is the cold one."""
        return Ladder(self.inverse_temperatures)

    @property
    def log_holding(self) -> Floats:
        """Log weight of the chain at its own rung, -log Z: how long the jump process stays, on average."""
        own = np.take_along_axis(self.log_totals, self.rung[..., np.newaxis], axis=-1)[..., 0]
        return np.asarray(-own)

    @property
    def log_weights(self) -> Floats:
        """Log weight of each draw towards the target: tempering weight times holding time."""
        return np.asarray((1.0 - self.inverse_temperatures[self.rung]) * self.energy + self.log_holding)

    @cached_property
    def mbar(self) -> Mbar:
        """The mixture of the laws that were sampled, pi_i Z_i (states 0 to m - 1), seen from the pi_i (m to 2m - 1)."""
        plain = self.inverse_temperatures[:, None, None] * self.energy
        return mbar_from_matrix(np.concatenate([plain + np.moveaxis(self.log_totals, -1, 0), plain]), self.rung)

    def weigh(self, rule: str = "screened") -> Weighing:
        """Weigh all draws by a rule of `tempering.estimators.RULES` other than ``mbar``.

        ``screened`` compares the rungs with the cold one, see `tempering.informed.combining`.
        """
        if rule == "screened" and not np.any(self.rung == 0):
            raise EstimatorError(
                "Rungs are compared with the cold one, but no draw is on it. Tune for longer (tune=...) or raise "
                "draws; rule='mbar' combines the other rungs unscreened."
            )
        n_rungs = self.inverse_temperatures.size
        return weigh(self.log_weights, self.rung, n_rungs, rule, self.chains_per_ensemble)

    def expect(self, f: Callable[[Any], ArrayLike] | None = None, rule: str = "screened") -> Estimate:
        """Estimate the expectation of ``f(values)`` under the target, with its standard error.

        Parameters
        ----------
        f : callable, optional
            Gets all values, leading axes (chain, draw); by default they are used as they are.
        rule : str
            One of `tempering.estimators.RULES`.
        """
        h = self.values if f is None else f(self.values)
        if rule == "mbar":
            return self.mbar.expectation(h, self.energy, chains_per_ensemble=self.chains_per_ensemble)
        return self.weigh(rule).expect(h)

    def weights(self, rule: str = "screened") -> Floats:
        """Return the weight of every draw, shape (chain, draw), summing to one."""
        return np.exp(self.mbar.log_weights(self.energy)) if rule == "mbar" else self.weigh(rule).weights

    def log_evidence(self) -> Estimate:
        """Return the log of Z(k = 1) over Z(k = 0), by MBAR: the log evidence if the base is a normalised prior."""
        k = self.inverse_temperatures
        if k[0] != 1.0 or k[-1] != 0.0:
            raise EstimatorError(
                f"The evidence needs a ladder from k = 1 to k = 0, but this one goes from {k[0]:g} to {k[-1]:g}. "
                "Let the last rung be 0."
            )
        return self.mbar.log_normaliser_ratio(k.size, 2 * k.size - 1, chains_per_ensemble=self.chains_per_ensemble)

    def diagnose(self, f: Callable[[Any], ArrayLike] | None = None, rule: str = "screened") -> Verdict:
        """Say in words whether the run can be trusted.

        Parameters
        ----------
        f : callable, optional
            Numbers between 0 and 1 of which every chain's mean is compared, indicators of modes say; by default
            whether the energy is above its median.
        rule : str
        """
        if not np.any(self.rung == 0):
            return Verdict(False, ("No draw is on the cold rung: tune for longer, or raise draws.",), 0, 0.0, np.inf)
        weights = self.weights(rule)
        values = self.energy > np.median(self.energy) if f is None else f(self.values)
        h = np.asarray(values, dtype=np.float64).reshape(*self.rung.shape, -1)
        ensembles = (-1, self.chains_per_ensemble * self.rung.shape[1])
        w = weights.reshape(ensembles)
        by_chain = np.einsum("cd,cdq->cq", w, h.reshape(*w.shape, -1)) / np.maximum(w.sum(axis=1), 1e-300)[:, None]
        n_rungs = 1 if self.chains_per_ensemble > 1 else self.inverse_temperatures.size
        mean = weighted_estimate(self.energy, weights, chains_per_ensemble=self.chains_per_ensemble)
        return verdict_of(self.energy, weights, self.rung, n_rungs, mean, by_chain)

    @property
    def ess(self) -> float:
        """Kish's sample size of the weights of the coldest rung's draws."""
        return kish_ess(self.log_holding[self.rung == 0])
