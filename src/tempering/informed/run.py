"""Weighted draws of chains without rejections, and the answers that the estimators of all tempered draws give for them.

A jump of rung i leaves pi_i Z_i invariant, so that a run is draws along a path like any other: its terms are the energy
and the log Z of every rung, and the coefficients of rung i are k_i and a 1 for its own. Weights vary on the cold rung
too, and on a discrete space they have ties, which a Pareto fit takes for a heavy tail. So the rule ``screened``
compares rungs with the cold one here: a rung takes part if its draws are worth at least a fifth as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.arrays import Floats
from tempering.errors import EstimatorError
from tempering.estimators import (
    Estimate,
    Mbar,
    RungSums,
    kish_ess,
    mbar_from_terms,
    weighted_estimate,
    weighted_variance,
)
from tempering.estimators.combine import Weighting, estimate_rungs, weigh_by_shares, weigh_rungs
from tempering.estimators.regeneration import round_trips
from tempering.estimators.rung_draws import RungDraws
from tempering.path.ladder import Ladder
from tempering.runs import diagnosis
from tempering.runs.diagnosis import FEW_EFFECTIVE, LARGE_R_HAT
from tempering.runs.tours import FEW_ROUND_TRIPS

HEAVIEST_DRAW = 0.05  # of all weight
WORTH_OF_COLD = 0.2


@dataclass(frozen=True)
class Verdict(diagnosis.Verdict):
    """What a run looks like, and sentences that say what is wrong and what to do.

    Attributes
    ----------
    effective_draws : float
        Independent draws that would know the mean energy as well.
    r_hat : float
        Spread of the chains' weighted means against the spread within, worst of all quantities; near 1 if chains agree.
        Chains that all sit in one of several modes look good: nothing in them tells of the others.
    """

    effective_draws: float
    r_hat: float


def verdict_of(draws: RungDraws, energy: Floats, weights: Floats, by_chain: Floats) -> Verdict:
    """Look at a run; ``by_chain`` (chain, quantity) are probabilities estimated by each chain alone, to be compared."""
    n_rungs = 1 if draws.chains_per_ensemble > 1 else draws.n_rungs
    trips, _ = round_trips(draws.rung, 0, n_rungs - 1)
    error = float(weighted_estimate(energy, weights, **draws.units).standard_error)
    effective = float(weighted_variance(energy, weights)) / error**2 if error > 0 else float(weights.size)
    r_hat, heaviest = largest_r_hat(by_chain), float(weights.max())
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


def mean_of_each_chain(values: Floats, weights: Floats) -> Floats:
    """Return the weighted means (chain, quantity) of values (chain, draw, quantity)."""
    own = np.maximum(weights.sum(axis=1), 1e-300)[:, None]
    return np.asarray(np.einsum("cd,cdq->cq", weights, values) / own)


def weigh(draws: RungDraws, rule: str) -> Weighting:
    """Weigh draws of chains without rejections by a rule.

    Examples
    --------
    >>> weigh(RungDraws.of(np.zeros((1, 4)), np.array([[0, 0, 1, 1]])), "screened").shares
    array([0.5, 0.5])
    """
    if rule == "screened":
        return weigh_by_shares(draws, rule, screened_by_cold(draws.sums))
    return weigh_rungs(draws, rule, draws.log_weights)


def screened_by_cold(sums: RungSums) -> Floats:
    """Share by effective sample size among the rungs whose draws are worth a fifth of a cold one or more."""
    worth = np.where(sums.n_draws > 0, sums.kish_ess / np.maximum(sums.n_draws, 1), 0.0)
    visited = np.flatnonzero(worth > 0)
    used = worth >= WORTH_OF_COLD * worth[visited[0]]  # the coldest that was visited
    ell = np.where(used, sums.kish_ess, 0.0)
    return np.asarray(ell / ell.sum())


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

    @cached_property
    def seen(self) -> RungDraws:
        """The draws as the estimators see them, along the path of the laws that were sampled."""
        return RungDraws.along(
            self._terms, self._coefficients(1.0), self.rung, 0, target=np.eye(1, 1 + self.inverse_temperatures.size)[0],
            chains_per_ensemble=self.chains_per_ensemble,
        )  # fmt: skip

    @property
    def _terms(self) -> Floats:
        return np.concatenate([self.energy[..., np.newaxis], self.log_totals], axis=-1)

    def _coefficients(self, own: float) -> Floats:
        k = self.inverse_temperatures
        return np.column_stack([k, own * np.eye(k.size)])

    @property
    def log_holding(self) -> Floats:
        """Log weight of the chain at its own rung, -log Z: how long the jump process stays, on average."""
        own = np.take_along_axis(self.log_totals, self.rung[..., np.newaxis], axis=-1)[..., 0]
        return np.asarray(-own)

    @property
    def log_weights(self) -> Floats:
        """Log weight of each draw towards the target: tempering weight times holding time."""
        return self.seen.log_weights

    @cached_property
    def mbar(self) -> Mbar:
        """The mixture of the laws that were sampled, pi_i Z_i (states 0 to m - 1), seen from the pi_i (m to 2m - 1)."""
        states = np.concatenate([self._coefficients(1.0), self._coefficients(0.0)])
        assert self.seen.target is not None
        return mbar_from_terms(self._terms, states, self.rung, self.seen.target)

    def weigh(self, rule: str = "screened") -> Weighting:
        """Weigh all draws by a rule of `tempering.estimators.RULES`; ``screened`` compares rungs with the cold one."""
        if rule == "screened" and not np.any(self.rung == 0):
            raise EstimatorError(
                "Rungs are compared with the cold one, but no draw is on it. Tune for longer (tune=...) or raise "
                "draws; rule='mbar' combines the other rungs unscreened."
            )
        return weigh(self.seen, rule)

    def expect(self, f: Callable[[Any], ArrayLike] | None = None, rule: str = "screened") -> Estimate:
        """Estimate the expectation of ``f(values)`` under the target, with its standard error.

        Parameters
        ----------
        f : callable, optional
            Gets all values, leading axes (chain, draw); by default they are used as they are.
        rule : str
            One of `tempering.estimators.RULES`.
        """
        return estimate_rungs(self.seen, self.values if f is None else f(self.values), self.weigh(rule))

    def weights(self, rule: str = "screened") -> Floats:
        """Return the weight of every draw, shape (chain, draw), summing to one."""
        return self.weigh(rule).weights

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
        by_ensemble = (-1, self.chains_per_ensemble * self.rung.shape[1])
        by_chain = mean_of_each_chain(h.reshape(*by_ensemble, h.shape[-1]), weights.reshape(by_ensemble))
        return verdict_of(self.seen, self.energy, weights, by_chain)

    @property
    def ess(self) -> float:
        """Kish's sample size of the weights of the coldest rung's draws."""
        return kish_ess(self.log_holding[self.rung == 0])
