r"""Tempered Gibbs sampling (Zanella & Roberts 2019), and its weighted form, for finite and for normal conditionals.

Coordinate i is chosen with probability proportional to :math:`p_i(x) = \eta_i(x_{-i}) g_i(x_i) / f_i(x_i)`, f the full
conditional and g a wider one, and is drawn anew from g. The weight is :math:`1 / \sum_i p_i(x)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tempering.arrays import Floats
from tempering.errors import SamplerError
from tempering.informed.decisions import pick
from tempering.informed.mover import Point
from tempering.informed.neighbourhood import log_total


class FiniteConditionals(Protocol):
    """Coordinates with values 0 ... n_values - 1."""

    def initial(self, rng: np.random.Generator) -> Any:
        """Return the state to start from, an array of whole numbers."""

    def energy(self, state: Any) -> float:
        """Return the energy of a state."""

    def log_conditionals(self, state: Any, k: float) -> Floats:
        """Return log f_i(value) at rung k, normalised, shape (n_coordinates, n_values); -inf for values not there."""


class NormalConditionals(Protocol):
    """Coordinates with normal full conditionals at every k, as conjugate models have them."""

    def initial(self, rng: np.random.Generator) -> Any:
        """Return the state to start from, an array."""

    def energy(self, state: Any) -> float:
        """Return the energy of a state."""

    def normal_conditionals(self, state: Any, k: float) -> tuple[Floats, Floats]:
        """Return mean and variance of every coordinate given the others, at rung k."""


@dataclass(frozen=True, eq=False)
class TemperedGibbs:
    """A mover for `tempering.informed.sample_informed`.

    Parameters
    ----------
    model : FiniteConditionals or NormalConditionals
        With ``log_importance(state, k)``, shape (n_coordinates,), each entry a function of the *other* coordinates, it
        is weighted tempered Gibbs.
    inverse_temperatures : ndarray, shape (n_rungs,)
    power : float
        g is f to this power. 0, finite values only: uniform.
    share : float
        Share of f itself mixed into g, g = share f + (1 - share) f^power; it bounds the weights. Normal conditionals
        need it: without, p_i grows without bound far out.
    """

    model: Any
    inverse_temperatures: Floats
    power: float = 0.0
    share: float = 0.0

    def __post_init__(self) -> None:
        lowest = "[0, 1]" if self._is_finite else "(0, 1]"
        if not (0.0 <= self.power <= 1.0 and (self._is_finite or self.power > 0.0)):
            raise SamplerError(
                f"power must lie in {lowest} for these conditionals, but got {self.power}. 1 is plain Gibbs."
            )
        if not 0.0 <= self.share < 1.0:
            raise SamplerError(f"share must lie in [0, 1), but got {self.share}. 1 would be plain Gibbs.")

    @property
    def _is_finite(self) -> bool:
        return hasattr(self.model, "log_conditionals")

    def initial(self, rng: np.random.Generator) -> Any:
        """Return the model's initial state."""
        return self.model.initial(rng)

    def record(self, state: Any) -> Any:
        """Keep the state itself."""
        return np.array(state)

    def arrive(self, rng: np.random.Generator, state: Any, hint: int = -1) -> Point:
        """Evaluate the conditionals of all coordinates at every rung."""
        rows = [self._log_p(state, float(k)) for k in self.inverse_temperatures]
        totals = np.array([log_total(row) for row in rows])
        return Point(state, float(self.model.energy(state)), totals, rows)

    def leave(self, rng: np.random.Generator, point: Point, rung: int) -> tuple[Any, int]:
        """Choose a coordinate and draw it from the wider conditional."""
        i = pick(rng, point.kept[rung])
        state = np.array(point.state)
        state[i] = self._draw(rng, point.state, i, float(self.inverse_temperatures[rung]))
        return state, -1

    def _log_p(self, state: Any, k: float) -> Floats:
        if self._is_finite:
            f = self.model.log_conditionals(state, k)
            at = np.arange(len(f)), np.asarray(state, dtype=np.intp)
            log_p = self._wider(f)[at] - f[at]
        else:
            mean, variance = self.model.normal_conditionals(state, k)
            square = 0.5 * (np.asarray(state) - mean) ** 2 / variance
            log_p = 0.5 * np.log(self.power) + (1.0 - self.power) * square  # f^power over f
            if self.share > 0.0:
                log_p = np.logaddexp(np.log(self.share), np.log1p(-self.share) + log_p)
        if hasattr(self.model, "log_importance"):
            log_p = log_p + self.model.log_importance(state, k)
        return np.asarray(log_p)

    def _wider(self, f: Floats) -> Floats:
        """Return log g for each row of log f."""
        g = np.where(f > -np.inf, self.power * np.where(f > -np.inf, f, 0.0), -np.inf)
        g = g - np.log(np.exp(g).sum(axis=1, keepdims=True))  # the largest is near 0: f is normalised
        if self.share == 0.0:
            return np.asarray(g)
        return np.asarray(np.logaddexp(np.log(self.share) + f, np.log1p(-self.share) + g))

    def _draw(self, rng: np.random.Generator, state: Any, i: int, k: float) -> Any:
        if self._is_finite:
            return pick(rng, self._wider(self.model.log_conditionals(state, k))[i])
        mean, variance = self.model.normal_conditionals(state, k)
        narrow = self.share > 0.0 and rng.random() < self.share
        deviation = np.sqrt(variance[i] / (1.0 if narrow else self.power))
        return mean[i] + deviation * rng.standard_normal()


__all__ = ["FiniteConditionals", "NormalConditionals", "TemperedGibbs"]
