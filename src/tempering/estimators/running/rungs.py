r"""Running sums of a run of any length: no draw is kept, and every rule's answer follows.

What is kept: counts and energy moments by (rung, energy bin), sums of the quantities, batches of both for standard
errors, and quantile sketches. All of it is sums, so that runs are merged by adding, in any order; its size is fixed by
the numbers of rungs and quantities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tempering.errors import EstimatorError
from tempering.estimators.arrays import Floats, Ints, as_inverse_temperatures, as_log, as_rung, count_rungs
from tempering.estimators.running.batches import MAXIMUM_GROUPS, followed, padded
from tempering.estimators.running.bins import MOMENTS, N_BINS, BatchSums, EnergyBins, batch_of, tilts_of
from tempering.estimators.running.quantiles import COARSENING, N_COARSE, N_VALUES, value_bin


@dataclass(frozen=True, eq=False)
class Quantities:
    """Names and shapes of the quantities, and the units their sums are kept in: (h - centre) / scale."""

    shapes: Mapping[str, tuple[int, ...]]
    centre: Floats
    scale: Floats

    @classmethod
    def like(cls, values: Mapping[str, Floats], n_leading: int = 2) -> Quantities:
        """Choose units from some values with leading axes such as (chain, draw)."""
        shapes = {name: np.shape(array)[n_leading:] for name, array in values.items()}
        flat = flat_values(values, n_leading)
        finite = np.where(np.isfinite(flat), flat, np.nan)
        known = np.any(np.isfinite(flat), axis=0)
        finite[:, ~known] = 0.0
        spread = np.nanstd(finite, axis=0) if flat.size else np.zeros(flat.shape[1])
        scale = np.where(spread > 0, 2.0 ** np.ceil(np.log2(np.where(spread > 0, spread, 1.0))), 1.0)
        centre = np.nanmean(finite, axis=0) if flat.size else np.zeros(flat.shape[1])
        return cls(shapes, scale * np.round(centre / scale), scale)

    @property
    def size(self) -> int:
        """Number of components of all quantities together."""
        return int(self.centre.size)

    def columns(self, name: str) -> slice:
        """Return where the components of one quantity are."""
        start = 0
        for known, shape in self.shapes.items():
            stop = start + int(np.prod(shape))
            if known == name:
                return slice(start, stop)
            start = stop
        raise EstimatorError(
            f"The quantity must be one that was summed, {', '.join(self.shapes) or 'none'}, but got {name!r}. Name it "
            "in keep=Sums({...}) before the run: draws are not kept."
        )

    def same_as(self, other: Quantities) -> bool:
        """Whether sums of both can be added."""
        return (
            dict(self.shapes) == dict(other.shapes)
            and np.array_equal(self.centre, other.centre)
            and np.array_equal(self.scale, other.scale)
        )


def flat_values(values: Mapping[str, Any], n_leading: int = 2) -> Floats:
    """Return all components side by side, shape (draw, component)."""
    if not values:
        return np.zeros((0, 0))
    arrays = [np.asarray(array, dtype=np.float64) for array in values.values()]
    n = int(np.prod(arrays[0].shape[:n_leading]))
    return np.concatenate([array.reshape(n, -1) for array in arrays], axis=1)


class Totals(NamedTuple):
    """Sums over all draws."""

    joint: Floats  # (rung, bin, 3): of 1, d, d^2
    pooled: Floats  # (bin, 2 quantity): of h and d h, all rungs together
    squares: Floats  # (rung, 1 + quantity): of 1 and h^2, over all draws or some of them
    sketch: Floats  # (quantity, coarse bin, value)


@dataclass(frozen=True, eq=False)
class RunningRungs:
    """Sums from which estimates, standard errors, sample sizes, quantiles and evidence follow.

    Attributes
    ----------
    inverse_temperatures : ndarray, shape (rung,)
        Falling from cold to hot.
    bins : EnergyBins
    quantities : Quantities
    totals : Totals
    batches : BatchSums
        With leading axes (group of chains, stretch of time).
    lengths : ndarray, shape (time,)
        Iterations of each stretch.

    Examples
    --------
    >>> rng, k = np.random.default_rng(1), np.array([1.0, 0.5])
    >>> rung = np.tile([0, 1], (4, 500))
    >>> x = rng.normal(size=rung.shape) / np.sqrt(k[rung])
    >>> sums = RunningRungs.from_draws(-0.5 * x**2, rung, {"square": x**2}, k)
    >>> from tempering.estimators import combine_sums
    >>> result = combine_sums(sums, "square", "ess_optimal")
    >>> bool(abs(result.estimate - 1.0) < 4 * result.standard_error < 0.5)
    True
    """

    inverse_temperatures: Floats
    bins: EnergyBins
    quantities: Quantities
    totals: Totals
    batches: BatchSums
    lengths: Ints

    @classmethod
    def from_draws(
        cls,
        energy: ArrayLike,
        rung: ArrayLike,
        values: Mapping[str, ArrayLike],
        inverse_temperatures: ArrayLike,
        *,
        bins: EnergyBins | None = None,
        quantities: Quantities | None = None,
        chains_per_ensemble: int = 1,
        n_parts: int = 1,
    ) -> RunningRungs:
        """Sum up draws: one stretch of time.

        Parameters
        ----------
        energy, rung : array_like, shape (chain, draw)
        values : mapping of str to array_like, shape (chain, draw, ...)
            The quantities at each draw.
        inverse_temperatures : array_like, shape (rung,)
        bins, quantities : optional
            Those of an earlier stretch; chosen from these draws where they are not given.
        chains_per_ensemble : int
            Consecutive chains that depend on each other.
        n_parts : int
            Blocks of chains that are summed apart, of which these are one.
        """
        index = np.atleast_2d(as_rung(rung))
        k = check_ladder(inverse_temperatures)
        count_rungs(index, k.size)
        e = as_log("energy", np.atleast_2d(np.asarray(energy, dtype=np.float64)), index.shape)
        arrays = {name: np.asarray(v, dtype=np.float64) for name, v in values.items()}
        bins = bins if bins is not None else EnergyBins.around(e[index == index.min()])
        quantities = quantities if quantities is not None else Quantities.like(arrays)
        flat = flat_values(arrays) if arrays else np.zeros((index.size, 0))
        h = (flat - quantities.centre) / quantities.scale
        n_groups = groups_of(len(index) // chains_per_ensemble, n_parts)
        group = np.repeat(np.arange(n_groups), index.size // n_groups)
        tables = _tables(e.ravel(), index.ravel(), h, group, (n_groups, k.size), bins)
        batch = batch_of(np, tables, bins, tilts_of(k), quantities.size)
        table = tables.sum(axis=0)
        totals = Totals(
            np.ascontiguousarray(table[..., :MOMENTS]),
            table[..., MOMENTS:].sum(axis=0),
            _squares(index.ravel(), h, k.size),
            _sketch(e.ravel(), h, bins),
        )
        return cls.of_stretch(k, bins, quantities, totals, batch, index.shape[1])

    @classmethod
    def of_stretch(
        cls, k: Floats, bins: EnergyBins, quantities: Quantities, totals: Totals, batch: BatchSums, n_iterations: int
    ) -> RunningRungs:
        """Take sums of one stretch of time as they are; ``batch`` leads with the group."""
        batches = BatchSums(*(np.asarray(part, np.float64)[:, np.newaxis] for part in batch))
        return cls(k, bins, quantities, totals, batches, np.array([n_iterations]))

    def followed_by(self, later: RunningRungs, n_times: int | None = None) -> RunningRungs:
        """Go on in time with the same chains: stretches are joined in pairs when there are more than ``n_times``."""
        self._check_mergeable(later)
        totals = Totals(*(a + b for a, b in zip(self.totals, later.totals, strict=True)))
        batches, lengths = followed(self.batches, self.lengths, later.batches, later.lengths, n_times)
        return replace(self, totals=totals, batches=batches, lengths=lengths)

    def beside(self, other: RunningRungs) -> RunningRungs:
        """Add the sums of other chains that ran as long; their batches stay apart from these.

        Where the energies of one rose out of the bins of the other, both are kept in the higher ones.
        """
        assert np.array_equal(self.lengths, other.lengths), "chains of one run are summed in step"
        bins = max(self.bins, other.bins, key=lambda bins: (bins.centre, bins.scale))
        first, second = (moved_to(part, bins, self.quantities) for part in (self, other))
        totals = Totals(*(a + b for a, b in zip(first.totals, second.totals, strict=True)))
        batches = BatchSums(*(np.concatenate(pair) for pair in zip(first.batches, second.batches, strict=True)))
        return replace(first, totals=totals, batches=batches)

    def merge(self, other: RunningRungs) -> RunningRungs:
        """Add the sums of an independent run over the same rungs and quantities.

        Batch by batch, so that the memory stays what it is. Associative and commutative up to rounding where both
        have the same bins; otherwise this run's bins are kept, and the other's moments are moved into them.
        """
        self._check_alike(other)
        other = moved_to(other, self.bins, self.quantities)
        shape = np.maximum(self.batches.count.shape[:2], other.batches.count.shape[:2])
        one, two = (padded(part.batches, int(shape[0]), int(shape[1])) for part in (self, other))
        lengths = np.maximum(*(np.pad(p.lengths, (0, int(shape[1]) - p.lengths.size)) for p in (self, other)))
        totals = Totals(*(a + b for a, b in zip(self.totals, other.totals, strict=True)))
        return replace(self, totals=totals, batches=one.plus(two), lengths=lengths)

    @cached_property
    def n_draws(self) -> Ints:
        """Number of draws of each rung, T_i."""
        return np.asarray(np.rint(self.totals.joint[..., 0].sum(axis=1)), dtype=np.intp)

    @property
    def sketch(self) -> Floats:
        """Counts by quantity, coarse bin of the energy and value."""
        return self.totals.sketch

    @property
    def nbytes(self) -> int:
        """Memory held, whatever the length of the run."""
        return sum(part.nbytes for part in (*self.totals, *self.batches))

    def _check_alike(self, other: RunningRungs) -> None:
        if not np.array_equal(self.inverse_temperatures, other.inverse_temperatures):
            raise EstimatorError(
                f"Sums to be merged must have the same rungs, but the ladders are {self.inverse_temperatures} and "
                f"{other.inverse_temperatures}. Give both runs one ladder: ladder=first.ladder."
            )
        if dict(self.quantities.shapes) != dict(other.quantities.shapes):
            raise EstimatorError(
                f"Sums to be merged must be of the same quantities, but they are {dict(self.quantities.shapes)} and "
                f"{dict(other.quantities.shapes)}. Name the same quantities in both runs."
            )

    def _check_mergeable(self, other: RunningRungs) -> None:
        self._check_alike(other)
        if self.bins != other.bins or not self.quantities.same_as(other.quantities):
            raise EstimatorError(
                f"Blocks of one run must have the same bins and units, but the bins are {self.bins} and "
                f"{other.bins}. Pass bins=first.bins, quantities=first.quantities."
            )


def groups_of(n_units: int, n_parts: int = 1) -> int:
    """Return into how many groups of equal size chains are put: the largest divisor that is not too large.

    All ``n_parts`` blocks of chains together have no more groups than one would.
    """
    return max(g for g in range(1, max(1, MAXIMUM_GROUPS // n_parts) + 1) if n_units % g == 0)


def check_ladder(inverse_temperatures: ArrayLike) -> Floats:
    """Check that k falls from cold to hot."""
    k = as_inverse_temperatures(inverse_temperatures)
    if np.any(np.diff(k) >= 0):
        raise EstimatorError(f"inverse_temperatures must fall from cold to hot, but they are {k}. Sort the rungs.")
    return k


def _tables(energy: Floats, rung: Ints, h: Floats, group: Ints, shape: tuple[int, int], bins: EnergyBins) -> Floats:
    """Return the sums of all columns, shape (group, rung, bin, 3 + 2 quantity)."""
    index, d = bins.locate(np, energy)
    cell = (group * shape[1] + rung) * N_BINS + index
    ones = np.ones((d.size, 1))
    d = d[:, np.newaxis]
    columns = np.concatenate([ones, d, d**2, h, d * h], axis=1)
    sums = [np.bincount(cell, column, shape[0] * shape[1] * N_BINS) for column in columns.T]
    return np.stack(sums, axis=-1).astype(np.float64).reshape(*shape, N_BINS, -1)


def _squares(rung: Ints, h: Floats, n_rungs: int) -> Floats:
    ones = np.ones((h.shape[0], 1))
    sums = [np.bincount(rung, column, n_rungs) for column in np.concatenate([ones, h**2], axis=1).T]
    return np.stack(sums, axis=-1).astype(np.float64)


def _sketch(energy: Floats, h: Floats, bins: EnergyBins) -> Floats:
    coarse = bins.locate(np, energy)[0] // COARSENING
    size = N_COARSE * N_VALUES
    rows = [np.bincount(coarse * N_VALUES + value_bin(np, column), minlength=size) for column in h.T]
    return np.array(rows, dtype=np.float64).reshape(h.shape[1], N_COARSE, N_VALUES)


def moved_to(sums: RunningRungs, bins: EnergyBins, quantities: Quantities) -> RunningRungs:
    """Return the same sums in other bins and units."""
    if sums.bins == bins and sums.quantities.same_as(quantities):
        return sums
    from tempering.estimators.running.regrid import regridded

    return regridded(sums, bins, quantities)
