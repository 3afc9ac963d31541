r"""Energies in bins: what stands for draws that are not kept.

Given its energy, nothing else about a draw matters to any weight. Bins are equal steps of
:math:`\operatorname{arsinh}((E - c) / s)`: of width s / 32 where the cold rung's energies lie, and of 3 % of the
distance from there beyond, so that a fixed number of them covers the prior's energies too. A bin keeps the number of
its draws, and the first two moments of their energies; two nodes of equal weight with these moments stand for them,
so that a weight :math:`e^{aE}` is summed with a relative error of :math:`(a\,\mathrm{width})^3 / 48` at the most.

All functions take the module of arrays, NumPy's or JAX's, as ``xp``: engines sum on the device by the same source.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from tempering.estimators.arrays import Floats
from tempering.estimators.pareto import BOUNDED, MINIMUM_TAIL, PRIOR_DRAWS, PRIOR_SHAPE, generalised_pareto_shape

PER_UNIT = 32  # bins a unit of arsinh
LOWEST, HIGHEST = -20, 5  # 2.4e8 scales below the centre, 74 above
N_BINS = (HIGHEST - LOWEST) * PER_UNIT
MOMENTS = 3  # of the energy: 1, d, d^2, with d the distance from the middle of the bin, in widths


@dataclass(frozen=True)
class EnergyBins:
    """Bins around ``centre``, finest within ``scale`` of it.

    The lowest bin holds all that is lower, minus infinity too; the highest is for energies that should not be.

    Examples
    --------
    >>> bins = EnergyBins.around(np.array([-3.0, -1.0, -2.0]))
    >>> bins.scale, bool(abs(bins.centre + 2) <= bins.scale)
    (1.0, True)
    """

    centre: float
    scale: float

    @classmethod
    def around(cls, cold_energy: Floats) -> EnergyBins:
        """Return bins for a run whose cold energies are like these.

        Scales are powers of two and centres multiples of them, so that runs of several seeds mostly agree.
        """
        finite = cold_energy[np.isfinite(cold_energy)]
        spread = float(np.std(finite)) if finite.size else 1.0
        scale = float(2.0 ** np.ceil(np.log2(max(spread, 1.0))))
        centre = float(np.mean(finite)) if finite.size else 0.0
        return cls(scale * np.round(centre / scale), scale)

    def locate(self, xp: ModuleType, energy: Any, places: Places | None = None) -> tuple[Any, Any]:
        """Return the bin of each energy, and its distance from the middle in widths.

        The bin is found in single precision: at an edge it may be the next one, whose moments serve as well.
        """
        middle, per_width, per_scale = places if places is not None else places_of(xp, self)
        u = xp.arcsinh(((energy - self.centre) * per_scale).astype(np.float32))
        place = xp.clip((xp.where(xp.isnan(u), HIGHEST, u) - LOWEST) * PER_UNIT, 0.0, N_BINS - 0.5)
        index = place.astype(np.int32)
        distance = (energy - middle[index]) * per_width[index]
        return index, xp.where(xp.abs(distance) <= 0.75, distance, 0.0)  # beyond the ends: none


Places = tuple[Any, Any, Any]  # of the bins: middles, 1 / widths, 1 / scale; kept, for divisions are slow


def places_of(xp: ModuleType, bins: EnergyBins) -> Places:
    """Return where the bins are."""
    return middles(xp, bins), 1.0 / widths(xp, bins), 1.0 / xp.asarray(bins.scale)


def middles(xp: ModuleType, bins: EnergyBins) -> Any:
    """Return the energies in the middle of the bins."""
    edges = _edges(xp)
    return bins.centre + bins.scale * 0.5 * (edges[1:] + edges[:-1])


def widths(xp: ModuleType, bins: EnergyBins) -> Any:
    """Return the widths of the bins."""
    edges = _edges(xp)
    return bins.scale * (edges[1:] - edges[:-1])


def _edges(xp: ModuleType) -> Any:
    return xp.sinh(LOWEST + xp.arange(N_BINS + 1) / PER_UNIT)


class Nodes(NamedTuple):
    """Two nodes a bin: the last axis. Values are sums over the draws that a node stands for."""

    energy: Any  # (..., bin, 2)
    count: Any  # (..., bin, 2)
    values: Any  # (..., bin, 2, quantity)


def nodes_of(xp: ModuleType, table: Any, bins: EnergyBins, n_quantities: int = 0) -> Nodes:
    """Return nodes with the moments of a table, shape (..., bin, 3 + 2 n_quantities or more).

    Columns are the sums of 1, d, d^2, then of the quantities h, then of d h.
    """
    n = table[..., 0]
    safe = xp.where(n > 0, n, 1.0)
    mean = table[..., 1] / safe
    deviation = xp.sqrt(xp.maximum(table[..., 2] / safe - mean**2, 0.0))
    sides = xp.asarray([-1.0, 1.0])
    place = mean[..., None] + sides * deviation[..., None]
    energy = middles(xp, bins)[:, None] + widths(xp, bins)[:, None] * place
    count = xp.broadcast_to(0.5 * n[..., None], energy.shape)
    h = table[..., MOMENTS : MOMENTS + n_quantities]
    dh = table[..., MOMENTS + n_quantities : MOMENTS + 2 * n_quantities]
    tilted = (dh - mean[..., None] * h) / xp.where(deviation > TINY, deviation, 1.0)[..., None]
    slope = xp.where((deviation > TINY)[..., None], tilted, 0.0)
    return Nodes(energy, count, 0.5 * (h[..., None, :] + sides[:, None] * slope[..., None, :]))


TINY = 1e-5  # widths: draws nearer to each other are one


class BatchSums(NamedTuple):
    """What standard errors need of a batch; each with leading axes for the batches."""

    count: Any  # (rung,)
    plain: Any  # (rung, quantity): sums of h
    energy: Any  # (rung, 2): sums of e and e^2, e = (E - centre) / scale
    log_reference: Any  # (tilt, rung)
    weight: Any  # (tilt, rung): sums of exp(tilt * E - log_reference)
    weighted: Any  # (rung, quantity): sums of h * exp((1 - k) E - log_reference)
    pooled: Any  # (bin, 1 + quantity): counts and sums of h of all rungs

    def plus(self, other: BatchSums) -> BatchSums:
        """Add batches of the same shape: sums of sums are sums."""
        reference = np.where(
            self.weight == 0, other.log_reference,
            np.where(other.weight == 0, self.log_reference, np.maximum(self.log_reference, other.log_reference)),
        )  # fmt: skip
        by_one, by_other = (np.exp(np.minimum(b.log_reference - reference, 0.0)) for b in (self, other))
        return BatchSums(
            self.count + other.count,
            self.plain + other.plain,
            self.energy + other.energy,
            reference,
            self.weight * by_one + other.weight * by_other,
            self.weighted * by_one[..., COLD, :, None] + other.weighted * by_other[..., COLD, :, None],
            self.pooled + other.pooled,
        )


def tilts_of(k: Floats) -> Floats:
    """Return the powers whose weights are summed, shape (4, rung).

    Towards the cold rung, its squares, towards the next colder rung, towards the next hotter one.
    """
    colder, hotter = np.concatenate([k[:1], k[:-1]]), np.concatenate([k[1:], k[-1:]])
    return np.stack([1.0 - k, 2.0 * (1.0 - k), colder - k, hotter - k])


COLD, SQUARED, COLDER, HOTTER = range(4)


def batch_of(xp: ModuleType, table: Any, bins: EnergyBins, tilts: Any, n_quantities: int) -> BatchSums:
    """Reduce tables of shape (..., rung, bin, column) to what standard errors need."""
    nodes = nodes_of(xp, table, bins, n_quantities)
    there = nodes.count > 0
    e = xp.where(there, (nodes.energy - bins.centre) / bins.scale, 0.0)
    energy = xp.stack([(nodes.count * e).sum((-2, -1)), (nodes.count * e**2).sum((-2, -1))], -1)
    references, weights = [], []
    weighted = None
    for tilt in range(len(tilts)):
        power = tilts[tilt][:, None, None]
        log_w = xp.where(there, power * nodes.energy, -np.inf)
        largest = log_w.max((-2, -1))
        reference = xp.where(largest > -np.inf, largest, 0.0)
        w = xp.exp(log_w - reference[..., None, None])
        references.append(reference)
        weights.append((w * nodes.count).sum((-2, -1)))
        if tilt == COLD:
            weighted = (w[..., None] * nodes.values).sum((-3, -2))
    h = table[..., MOMENTS : MOMENTS + n_quantities]
    pooled = xp.concatenate([table[..., :1], h], -1).sum(-3)
    return BatchSums(
        table[..., 0].sum(-1), h.sum(-2), energy, xp.stack(references, -2), xp.stack(weights, -2), weighted, pooled
    )


STAND_INS = 4000  # at most, for the tail of one rung


def binned_pareto_k(joint: Floats, bins: EnergyBins, power: Floats) -> Floats:
    """Return Pareto k-hat of the weights exp(power * E) of each rung, as `pareto_k_per_rung` of its draws.

    Draws are spread evenly over their bins, which are narrow where a tail matters; a long tail is stood for by
    evenly spaced draws of it.

    Parameters
    ----------
    joint : ndarray, shape (rung, bin, 3)
    bins : EnergyBins
    power : ndarray, shape (rung,)
    """
    middle, width = middles(np, bins), widths(np, bins)
    return np.array([_shape(row[:, 0], middle, width, p) for row, p in zip(joint, power, strict=True)])


def _shape(count: Floats, middle: Floats, width: Floats, power: float) -> float:
    n = float(count.sum())
    if n == 0:
        return np.inf
    filled = np.flatnonzero(count)
    if power == 0.0 or (filled.size == 1 and width[filled[0]] * abs(power) < 1e-6):
        return -np.inf
    n_tail = int(min(n // 5, np.ceil(3 * np.sqrt(n))))
    if n_tail < MINIMUM_TAIL:
        return np.inf
    order = filled[::-1] if power > 0 else filled  # from the largest weight down
    side = np.sign(power)
    cumulated = np.concatenate([[0.0], np.cumsum(count[order])])
    start = middle[order] + side * width[order] / 2
    rank = np.append((np.arange(m := min(n_tail, STAND_INS)) + 0.5) * n_tail / m, n_tail + 0.5)
    at = np.minimum(np.searchsorted(cumulated, rank, side="right") - 1, order.size - 1)
    energy = start[at] - side * width[order][at] * (rank - cumulated[at]) / count[order][at]
    log_w = power * energy
    if log_w[0] - log_w[-1] <= 1e-9:
        return -np.inf
    if 1.0 < BOUNDED * float(count @ np.exp(power * middle - log_w[0])) / n:
        return -np.inf
    relative = np.exp(log_w - log_w[0])
    shape = generalised_pareto_shape(relative[:-1] - relative[-1])
    return float((n_tail * shape + PRIOR_DRAWS * PRIOR_SHAPE) / (n_tail + PRIOR_DRAWS))
