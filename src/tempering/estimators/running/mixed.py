r"""Sums under the mixture that simulated tempering draws from: along one leg or two, without bins.

Position and rung have the joint density :math:`e^{c_r \cdot t(x) + b_r}`, b the log pseudo-prior. So the chance of a
rung given the position,

.. math:: p(r \mid x) = e^{c_r \cdot t(x) + b_r} / \textstyle\sum_s e^{c_s \cdot t(x) + b_s},

needs no normaliser, and lies between 0 and 1. Its mean over the draws of rung r is :math:`B_{rs} = E_r[p(s \mid x)]`,
which is in balance with :math:`v_r \propto Z_r e^{b_r}`: v is the stationary vector of B, and all ratios of
normalisers follow. Then :math:`\sum_r v_r E_r[p(T \mid x)\, h] = v_T E_T[h]` for every quantity h, T the target.

These are the balance heuristic's weights, with the mixture's shares fixed before the run instead of after it; where
the pseudo-prior is MBAR's solution they are MBAR's. How often each rung was visited does not matter: a run may begin
on whichever rungs it likes. Kin: Carlson, Stinson, Pakman & Paninski (2016), who take v from the visits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints
from tempering.estimators.mixture import finite_terms
from tempering.estimators.regeneration import TourWeights
from tempering.estimators.running.batches import followed, padded, standard_error_of_batches
from tempering.estimators.running.quantiles import N_VALUES, quantile_of_counts, value_bin
from tempering.estimators.running.rungs import Quantities, flat_values, groups_of
from tempering.estimators.standard_error import Estimate


class RungMixture(NamedTuple):
    """What a run draws from: every rung's coefficients and log pseudo-prior, and which rung is the target."""

    coefficients: Floats  # (rung, term)
    log_pseudo_prior: Floats  # (rung,)
    target: int

    def chances(self, terms: Floats) -> Floats:
        """Return p(r | x) of draws with terms of shape (draw, term), shape (draw, rung)."""
        log_joint = finite_terms(terms) @ self.coefficients.T + self.log_pseudo_prior
        joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))


class MixedBatch(NamedTuple):
    """Sums over a batch, by the rung of the draw; each with leading axes (group, time)."""

    count: Any  # (rung,)
    chance: Any  # (rung, rung): of p(s | x)
    weighted: Any  # (rung, quantity): of p(T | x) h

    def plus(self, other: MixedBatch) -> MixedBatch:
        """Add batches of the same shape."""
        return MixedBatch(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class MixedSums:
    """Sums from which estimates, standard errors, quantiles and evidence follow, whatever the number of legs.

    Attributes
    ----------
    mixture : RungMixture
    quantities : Quantities
    squares : ndarray, shape (rung,)
        Of p(T | x), over the draws of each rung.
    sketch : ndarray, shape (quantity, rung, value)
        Sums of p(T | x) by the rung of the draw and the value.
    batches : MixedBatch
    lengths : ndarray, shape (time,)
        Iterations of each stretch.
    tours : TourWeights or None
        By p(T | x); None where nobody said where tours end.

    Examples
    --------
    >>> rng, k = np.random.default_rng(1), np.array([1.0, 0.5])
    >>> rung = np.tile([0, 1], (4, 500))
    >>> x = rng.normal(size=rung.shape) / np.sqrt(k[rung])
    >>> mixture = RungMixture(k[:, None], 0.5 * np.log(k) + 0.3 * np.arange(2), 0)
    >>> sums = MixedSums.from_draws(-0.5 * x[..., None] ** 2, rung, {"square": x**2}, mixture)
    >>> result = sums.expect("square")
    >>> bool(abs(result.value - 1.0) < 4 * result.standard_error < 0.5)
    True
    >>> ratio = sums.log_normaliser_ratio(1)  # of Z at k = 1 to Z at k = 1/2
    >>> bool(abs(ratio.value - 0.5 * np.log(0.5)) < 4 * ratio.standard_error < 0.5)
    True
    """

    mixture: RungMixture
    quantities: Quantities
    squares: Floats
    sketch: Floats
    batches: MixedBatch
    lengths: Ints
    tours: TourWeights | None = None

    @classmethod
    def from_draws(
        cls,
        terms: Floats,
        rung: Ints,
        values: Mapping[str, Floats],
        mixture: RungMixture,
        *,
        quantities: Quantities | None = None,
        n_parts: int = 1,
        ends: NDArray[np.bool_] | None = None,
    ) -> MixedSums:
        """Sum up draws, with leading axes (chain, draw): one stretch of time; tours end with the draws ``ends``."""
        units = quantities if quantities is not None else Quantities.like(values)
        m, n_groups = len(mixture.coefficients), groups_of(len(rung), n_parts)
        h = (flat_values(values) - units.centre) / units.scale
        chance = mixture.chances(terms.reshape(rung.size, -1))
        weight, where = chance[:, mixture.target], np.ravel(rung)
        cell = np.repeat(np.arange(n_groups), rung.size // n_groups) * m + where

        def summed(columns: Floats) -> Floats:
            return np.stack([_totals(cell, c, n_groups * m) for c in columns.T], -1).reshape(n_groups, 1, m, -1)

        batch = MixedBatch(summed(np.ones((rung.size, 1)))[..., 0], summed(chance), summed(weight[:, np.newaxis] * h))
        places = [where * N_VALUES + value_bin(np, column) for column in h.T]
        sketch = np.stack([_totals(place, weight, m * N_VALUES).reshape(m, N_VALUES) for place in places])
        tours = None if ends is None else TourWeights.of(weight.reshape(rung.shape), ends)
        return cls(mixture, units, _totals(where, weight**2, m), sketch, batch, np.array([rung.shape[1]]), tours)

    def followed_by(self, later: MixedSums, n_times: int | None = None) -> MixedSums:
        """Go on in time with the same chains: stretches are joined in pairs when there are more than ``n_times``."""
        batches, lengths = followed(self.batches, self.lengths, later.batches, later.lengths, n_times)
        tours = None if self.tours is None or later.tours is None else self.tours.followed_by(later.tours)
        return self._with_totals_of(later, batches=batches, lengths=lengths, tours=tours)

    def beside(self, other: MixedSums) -> MixedSums:
        """Add the sums of other chains that ran as long; their batches stay apart from these."""
        assert np.array_equal(self.lengths, other.lengths), "chains of one run are summed in step"
        batches = MixedBatch(*(np.concatenate(pair) for pair in zip(self.batches, other.batches, strict=True)))
        return self._with_totals_of(other, batches=batches, tours=self._tours_beside(other))

    def merge(self, other: MixedSums) -> MixedSums:
        """Add the sums of an independent run that draws from the same mixture, with the same units: batch by batch."""
        same = all(
            np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(self.mixture, other.mixture, strict=True)
        )
        if not same or not self.quantities.same_as(other.quantities):
            raise EstimatorError(
                "Sums along two legs can be merged if both runs have the same path, pseudo-prior and units, but these "
                "have not: each run learns a path of its own. Run more chains instead, or give both one ladder."
            )
        shape = np.maximum(self.batches.count.shape[:2], other.batches.count.shape[:2])
        one, two = (padded(part.batches, int(shape[0]), int(shape[1])) for part in (self, other))
        lengths = np.maximum(*(np.pad(p.lengths, (0, int(shape[1]) - p.lengths.size)) for p in (self, other)))
        return self._with_totals_of(other, batches=one.plus(two), lengths=lengths, tours=self._tours_beside(other))

    def _tours_beside(self, other: MixedSums) -> TourWeights | None:
        return None if self.tours is None or other.tours is None else self.tours.beside(other.tours)

    def _with_totals_of(self, other: MixedSums, **fields: object) -> MixedSums:
        added: dict[str, object] = {"squares": self.squares + other.squares, "sketch": self.sketch + other.sketch}
        return replace(self, **(added | fields))  # type: ignore[arg-type]

    @cached_property
    def n_draws(self) -> Ints:
        """Number of draws of each rung, T_i."""
        return np.asarray(np.rint(self.batches.count.sum((0, 1))), dtype=np.intp)

    @property
    def nbytes(self) -> int:
        """Memory held, whatever the length of the run."""
        return int(sum(part.nbytes for part in (*self.batches, self.squares, self.sketch)))

    @cached_property
    def overlap(self) -> Floats:
        """B, the mean chances of all rungs over the draws of each: how much rungs have in common.

        A rung without draws gets the mean over all draws.
        """
        chance, n = self.batches.chance.sum((0, 1)), self.n_draws[:, np.newaxis]
        return np.asarray(np.where(n > 0, chance / np.maximum(n, 1), chance.sum(axis=0) / max(1, self.n_draws.sum())))

    @cached_property
    def log_normalisers(self) -> Floats:
        """Log normalisers of all rungs, relative to the target's."""
        log_z = np.log(self._stationary) - self.mixture.log_pseudo_prior
        return np.asarray(log_z - log_z[self.mixture.target])

    @property
    def second_eigenvalue(self) -> float:
        """Second largest eigenvalue of the overlap: near 1 where two groups of rungs have nothing in common."""
        return float(np.sort(np.linalg.eigvals(self.overlap).real)[-2]) if len(self.overlap) > 1 else 0.0

    @cached_property
    def _stationary(self) -> Floats:
        """v, which B leaves as it is: found by elimination without subtractions (Grassmann, Taksar & Heyman 1985)."""
        b = self.overlap.copy()
        for last in range(len(b) - 1, 0, -1):
            b[:last, last] /= max(float(b[last, :last].sum()), 1e-300)
            b[:last, :last] += np.outer(b[:last, last], b[last, :last])
        v = np.ones(len(b))
        for r in range(1, len(b)):
            v[r] = v[:r] @ b[:r, r]
        return np.asarray(np.maximum(v / v.sum(), 1e-300))

    @cached_property
    def per_draw(self) -> Floats:
        """What a draw of each rung counts: v_r / n_r."""
        return self._stationary / np.maximum(self.n_draws, 1)

    @cached_property
    def _on_stationary(self) -> Floats:
        """Influence of every batch on v, shape (group, time, rung)."""
        count, chance, _ = self.batches
        direct = np.einsum("r,gtrs->gts", self.per_draw, chance - count[..., np.newaxis] * self.overlap)
        return np.asarray(direct @ np.linalg.inv(np.eye(len(self.overlap)) - self.overlap + self._stationary))

    @property
    def has_draws(self) -> NDArray[np.bool_]:
        """Which batches have draws, shape (group, time)."""
        return np.asarray(self.batches.count.sum(axis=-1) > 0)

    def expect(self, name: str) -> Estimate:
        """Estimate the expectation of a quantity under the target."""
        columns, shape = self.quantities.columns(name), self.quantities.shapes[name]
        target, unit = self.mixture.target, self.quantities
        count, chance, weighted = self.batches.count, self.batches.chance[..., target], self.batches.weighted
        v = self._stationary
        n = np.maximum(self.n_draws, 1)
        mean_weight, mean_weighted = chance.sum((0, 1)) / n, weighted.sum((0, 1)) / n[:, np.newaxis]
        mean = v @ mean_weighted / (v @ mean_weight)
        deviation = mean_weighted - mean_weight[:, np.newaxis] * mean  # of each rung, (rung, quantity)
        own = weighted - chance[..., np.newaxis] * mean - count[..., np.newaxis] * deviation
        influence = np.einsum("r,gtrq->gtq", self.per_draw, own) + self._on_stationary @ deviation
        error = standard_error_of_batches(influence / (v @ mean_weight), self.has_draws)
        value = (unit.centre + unit.scale * mean)[columns].reshape(shape)
        if not np.all(np.isfinite(value)):
            raise EstimatorError(
                f"A quantity must be finite at every draw, but {name!r} was NaN or infinite at some. Return a finite "
                "number there: draws are not kept, and cannot be left out afterwards."
            )
        spread = (unit.scale * error)[columns].reshape(shape)
        return Estimate(float(value), float(spread)) if value.ndim == 0 else Estimate(value, spread)

    def log_normaliser_ratio(self, rung: int) -> Estimate:
        """Estimate log Z of the target less log Z of a rung."""
        target = self.mixture.target
        relative = self._on_stationary / self._stationary
        error = standard_error_of_batches(relative[..., target] - relative[..., rung], self.has_draws)
        return Estimate(float(-self.log_normalisers[rung]), float(error))

    def quantile(self, name: str, probability: float | Floats) -> Floats:
        """Return quantiles of a quantity from its sketch, one column per component."""
        columns, shape = self.quantities.columns(name), self.quantities.shapes[name]
        found = quantile_of_counts(np.einsum("r,qrv->qv", self.per_draw, self.sketch[columns]), probability)
        centre, scale = self.quantities.centre[columns], self.quantities.scale[columns]
        return np.asarray((centre + scale * found).reshape((*np.shape(probability), *shape)))

    @property
    def weights(self) -> Floats:
        """Sum of the weights of each rung's draws."""
        return np.asarray(self.batches.chance[..., self.mixture.target].sum((0, 1)) * self.per_draw)

    @property
    def ess_per_rung(self) -> Floats:
        """Effective sample size of the weights of each rung's own draws (Eq. 9)."""
        total = self.batches.chance[..., self.mixture.target].sum((0, 1))
        return np.where(self.squares > 0, total**2 / np.where(self.squares > 0, self.squares, 1.0), 0.0)

    @property
    def ess(self) -> float:
        """Effective sample size of the weights (Eq. 3)."""
        square = float(self.per_draw**2 @ self.squares)
        return float(self.weights.sum() ** 2 / square) if square > 0 else 0.0


def _totals(place: Ints, weight: Floats, n: int) -> Floats:
    return np.asarray(np.bincount(place, weight, n), dtype=np.float64)
