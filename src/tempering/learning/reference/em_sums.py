"""What a step of EM sums over weighted draws: all moments of all components of a mixture of t distributions.

Few components in many dimensions are summed over one by one, each over the draws that speak for it. Many components in
few dimensions are summed over together, by products of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tempering.arrays import Floats
from tempering.path.reference import Reference

ENTRIES_AT_ONCE = 2**16  # of the monomials of draws: half a megabyte
MOST_ENTRIES_KEPT = 2**23  # likewise, from one step to the next: 64 megabytes
LEAST_AT_ONCE = 512  # draws, for products of matrices that are worth it
COUNTS = 1e-9  # of the largest weight: a draw that weighs less in one of few components is passed over
LEAST = 1e-300


class Sums(NamedTuple):
    """What the draws say of each component but the broad one, which is the last and is not fitted."""

    masses: Floats  # (component,): weights of the draws, shared out
    n_effective: Floats  # (component,)
    totals: Floats  # (component,): masses, with draws far out counting less, as a t distribution has them
    means: Floats  # (component, d): with those weights
    products: Floats  # (component, d, d): squares and products about the means, summed with them
    height: float  # mean log density of the draws


def prepared(values: Floats, weights: Floats, n_components: int) -> FewComponents | ManyComponents:
    """Return the draws in the form in which that many components are summed over soonest."""
    if n_components <= values.shape[1]:
        return FewComponents(values, weights)
    return ManyComponents.of(values, weights)


def _shared_out(reference: Reference, distance: Floats, weights: Floats) -> tuple[Floats, float]:
    """Share the weight of every draw out among all components but the broad one; return the sum of log densities too.

    Shares have seven digits, which is enough, and six times as quick.
    """
    log_parts = reference.log_parts_at(distance)
    largest = log_parts.max(axis=1, keepdims=True)
    own = np.exp((log_parts - largest).astype(np.float32)).astype(np.float64)
    total = own.sum(axis=1)
    return own[:, :-1] * (weights / total)[:, None], float(weights @ (np.log(total) + largest[:, 0]))


@dataclass(frozen=True)
class FewComponents:
    """Draws and weights as they are."""

    values: Floats
    weights: Floats

    def sums(self, reference: Reference, freedom: int) -> Sums:
        """Sum over the draws that count, component by component."""
        n, d = reference.n_components - 1, reference.dimension
        distance = reference.squared_distances(self.values)
        own, height = _shared_out(reference, distance, self.weights)
        size = self.values.shape[1]
        totals, means, products = np.zeros(n), np.zeros((n, size)), np.zeros((n, size, size))
        for c in range(n):
            mine = np.flatnonzero(own[:, c] > COUNTS * own[:, c].max())
            pull = own[mine, c] * (freedom + d) / (freedom + distance[mine, c])
            totals[c] = max(pull.sum(), LEAST)
            means[c] = pull @ self.values[mine] / totals[c]
            residual = self.values[mine] - means[c]
            products[c] = (pull * residual.T) @ residual
        masses = own.sum(axis=0)
        n_effective = masses**2 / np.maximum(np.sum(own**2, axis=0), LEAST)
        return Sums(masses, n_effective, totals, means, products, height / float(self.weights.sum()))


@dataclass(frozen=True)
class ManyComponents:
    """Draws as the monomials of their coordinates up to the second degree, and their weights.

    Squared distances to all components, and sums over draws of all of a component's moments, are then one product of
    matrices each. Coordinates are centred and scaled, which leaves enough digits for components up to a million times
    narrower than the whole.
    """

    values: Floats
    weights: Floats
    centre: Floats
    spread: Floats

    @classmethod
    def of(cls, values: Floats, weights: Floats) -> ManyComponents:
        """Centre and scale the draws."""
        centre = weights @ values / weights.sum()
        spread = np.sqrt(weights @ (values - centre) ** 2 / weights.sum())
        return cls(values, weights, centre, np.where(spread > 0, spread, 1.0))

    def sums(self, reference: Reference, freedom: int) -> Sums:
        """Sum over the draws, block by block."""
        n, d = reference.n_components - 1, reference.dimension
        quadratics = self._quadratics(reference)
        masses, squares, moments = np.zeros(n), np.zeros(n), np.zeros((n, quadratics.shape[1]))
        height = 0.0
        for monomials, weights in self._blocks():
            distance = np.maximum(monomials @ quadratics.T, 0.0)
            own, log_density = _shared_out(reference, distance, weights)
            height += log_density
            masses += own.sum(axis=0)
            squares += np.sum(own**2, axis=0)
            moments += (own * ((freedom + d) / (freedom + distance[:, :n]))).T @ monomials
        n_effective = masses**2 / np.maximum(squares, LEAST)
        return Sums(masses, n_effective, *self._centred(moments), height / float(self.weights.sum()))

    def _blocks(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield monomials (draw, entry) and weights, made once unless they are large."""
        is_small = len(self.values) * _n_monomials(self.values.shape[1]) <= MOST_ENTRIES_KEPT
        return iter(self._kept) if is_small else self._made()

    @cached_property
    def _kept(self) -> list[tuple[Floats, Floats]]:
        return list(self._made())

    def _made(self) -> Iterator[tuple[Floats, Floats]]:
        d = self.values.shape[1]
        size = max(LEAST_AT_ONCE, ENTRIES_AT_ONCE // _n_monomials(d))
        for first in range(0, len(self.values), size):
            x = (self.values[first : first + size] - self.centre) / self.spread
            products = [x[:, i:] * x[:, i : i + 1] for i in range(d)]  # in the order of numpy.triu_indices
            yield np.hstack([*products, x, np.ones((len(x), 1))]), self.weights[first : first + size]

    def _quadratics(self, reference: Reference) -> Floats:
        """Return the squared distance to every component as coefficients of the monomials."""
        inverse = np.linalg.inv(reference.factors) * self.spread
        precision = inverse.transpose(0, 2, 1) @ inverse
        means = (reference.means - self.centre) / self.spread
        slopes = np.einsum("cij,cj->ci", precision, means)
        i, j = np.triu_indices(reference.means.shape[1])
        squares = precision[:, i, j] * np.where(i == j, 1.0, 2.0)
        return np.hstack([squares, -2.0 * slopes, np.sum(slopes * means, axis=1)[:, None]])

    def _centred(self, moments: Floats) -> tuple[Floats, Floats, Floats]:
        """Return weights, means, and sums of squares and products about them, from sums over monomials."""
        d = len(self.centre)
        i, j = np.triu_indices(d)
        totals = np.maximum(moments[:, -1], LEAST)
        means = moments[:, -1 - d : -1] / totals[:, None]
        products = np.zeros((len(moments), d, d))
        products[:, i, j] = products[:, j, i] = moments[:, : len(i)]
        products -= totals[:, None, None] * means[:, :, None] * means[:, None, :]
        return totals, self.centre + self.spread * means, products * np.outer(self.spread, self.spread)


def _n_monomials(d: int) -> int:
    return (d + 1) * (d + 2) // 2
