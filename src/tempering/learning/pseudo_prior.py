"""Pseudo-priors p(k_i): the weights that make simulated tempering visit its rungs evenly; ideally 1 / Z_i.

Each way of learning one is a function from the old log pseudo-prior and what a run with it showed to a new one.
Nothing adapts while draws are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tempering.arrays import Floats
from tempering.errors import SamplerError
from tempering.path.ladder import Ladder

LARGEST_CHANGE = 1.5  # nats a round: a rung seldom seen says that it is off, not how far


@dataclass(frozen=True)
class Seen:
    """What one frozen round showed: every draw's rung and energy, and the round's number (from 0)."""

    ladder: Ladder
    rung: NDArray[np.int32]
    energy: Floats
    round: int

    @property
    def visits(self) -> Floats:
        """Number of draws on each rung."""
        return np.bincount(self.rung.ravel(), minlength=len(self.ladder)).astype(float)


def from_mean_energies(ladder: Ladder, mean_energy: Floats) -> Floats:
    """Start by thermodynamic integration: d log Z / dk is the mean energy at k.

    The trapezium rule over short runs at fixed rungs, cold to hot. A flat start would leave rungs unvisited where
    log Z spans thousands of nats.

    Examples
    --------
    >>> from_mean_energies(Ladder([1.0, 0.5]), np.array([-10.0, -20.0]))
    array([ 0. , -7.5])
    """
    k = ladder.inverse_temperatures
    steps = -np.diff(k) * (mean_energy[1:] + mean_energy[:-1]) / 2
    return np.concatenate([[0.0], np.cumsum(steps)])


def visit_counts(log_pseudo_prior: Floats, seen: Seen) -> Floats:
    """Divide by the visits of a pilot run (Geyer & Thompson 1995); an unvisited rung counts half a visit."""
    return _changed(log_pseudo_prior, -np.log(np.maximum(seen.visits, 0.5)))


def stochastic_approximation(log_pseudo_prior: Floats, seen: Seen) -> Floats:
    """Lower the rungs visited too often, by steps that shrink as 1 / round (Kushner & Yin 1997)."""
    share = seen.visits / seen.visits.sum() * len(seen.ladder)
    return _changed(log_pseudo_prior, -(20.0 / (20.0 + seen.round)) * (share - 1.0))


def wang_landau(log_pseudo_prior: Floats, seen: Seen) -> Floats:
    """Lower every rung by its visits, in steps that shrink once the rungs are visited evenly (Atchade & Liu 2010).

    Here the step is halved every ten rounds, which needs no test of flatness.
    """
    share = seen.visits / seen.visits.sum() * len(seen.ladder)
    return _changed(log_pseudo_prior, -(0.5 ** (seen.round // 10)) * share)


def rao_blackwellised(log_pseudo_prior: Floats, seen: Seen) -> Floats:
    """Divide by every rung's mean conditional probability given the draws, instead of its visits.

    As in self-adjusted mixture sampling (Tan 2017): each draw tells of all rungs, not of its own alone. What it tells
    of far rungs is an extrapolation, hence the bound on the change.
    """
    return _changed(log_pseudo_prior, -log_conditional_occupancy(log_pseudo_prior, seen))


def log_conditional_occupancy(log_pseudo_prior: Floats, seen: Seen) -> Floats:
    """Return the log of the mean over draws of p(rung | energy)."""
    energy = seen.energy.ravel()
    energy = energy[energy > -np.inf]
    log_joint = np.multiply.outer(seen.ladder.inverse_temperatures, energy) + log_pseudo_prior[:, None]
    log_joint -= logsumexp(log_joint, axis=0)
    return np.asarray(logsumexp(log_joint, axis=1) - np.log(max(energy.size, 1)))


Method = Callable[[Floats, Seen], Floats]

METHODS: dict[str, Method] = {
    "rao_blackwellised": rao_blackwellised,
    "stochastic_approximation": stochastic_approximation,
    "visit_counts": visit_counts,
    "wang_landau": wang_landau,
}


def two_stages(log_pseudo_prior: Floats, seen: Seen, *, n_rounds: int) -> Floats:
    """Learn as the paper does: stochastic approximation in the first half of the rounds, then visit counts."""
    method = stochastic_approximation if seen.round < n_rounds // 2 else visit_counts
    return method(log_pseudo_prior, seen)


def method_named(name: str, n_rounds: int) -> Method:
    """Look up a way of learning the pseudo-prior."""
    check_method(name)
    if name == "two_stages":
        return lambda log_p, seen: two_stages(log_p, seen, n_rounds=n_rounds)
    return METHODS[name]


def check_method(name: str) -> None:
    """Refuse a name that means no way of learning the pseudo-prior."""
    if name not in (*METHODS, "mbar", "two_stages"):
        raise SamplerError(
            f"pseudo_prior must be one of {sorted([*METHODS, 'mbar', 'two_stages'])} or an array with one log value "
            f"per rung, but got {name!r}."
        )


def _changed(log_pseudo_prior: Floats, change: Floats) -> Floats:
    change = change - np.median(change)
    updated = log_pseudo_prior + np.clip(change, -LARGEST_CHANGE, LARGEST_CHANGE)
    return np.asarray(updated - updated[0])
