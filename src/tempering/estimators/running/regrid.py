"""Move running sums into other bins and units, so that runs tuned apart can be merged.

Sums in other units are exact. A bin goes, with its moments, into the new bin that its mean energy lies in: the
moments stay what they are, and only the error bound of two nodes a bin grows by the width of the old bin.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempering.estimators.arrays import Floats, Ints
from tempering.estimators.running.bins import N_BINS, BatchSums, EnergyBins, middles, widths
from tempering.estimators.running.quantiles import COARSENING, N_COARSE, N_VALUES, value_bin, value_edges
from tempering.estimators.running.rungs import Quantities, RunningRungs, Totals


def regridded(sums: RunningRungs, bins: EnergyBins, quantities: Quantities) -> RunningRungs:
    """Return the same sums in other bins and units."""
    changed = _in_units(sums, quantities)
    if changed.bins == bins:
        return changed
    old = changed.bins
    n, first = np.moveaxis(changed.totals.joint.sum(axis=0), -1, 0)[:2]
    mean = middles(np, old) + widths(np, old) * first / np.where(n > 0, n, 1.0)
    to = bins.locate(np, mean)[0]
    # d' = shift + stretch * d, for the new bin's middle and width
    stretch = widths(np, old) / widths(np, bins)[to]
    shift = (middles(np, old) - middles(np, bins)[to]) / widths(np, bins)[to]
    joint = changed.totals.joint
    d1 = shift * joint[..., 0] + stretch * joint[..., 1]
    d2 = shift**2 * joint[..., 0] + 2 * shift * stretch * joint[..., 1] + stretch**2 * joint[..., 2]
    q = quantities.size
    h, dh = changed.totals.pooled[:, :q], changed.totals.pooled[:, q:]
    pooled = np.concatenate([h, shift[:, np.newaxis] * h + stretch[:, np.newaxis] * dh], axis=1)
    coarse = bins.locate(np, middles(np, old)[COARSENING // 2 :: COARSENING])[0] // COARSENING
    totals = Totals(
        _gathered(np.stack([joint[..., 0], d1, d2], -1), to, 1, N_BINS),
        _gathered(pooled, to, 0, N_BINS),
        changed.totals.squares,
        _gathered(changed.totals.sketch, coarse, 1, N_COARSE),
    )
    batches = changed.batches
    e_scale, e_shift = old.scale / bins.scale, (old.centre - bins.centre) / bins.scale
    e1 = e_shift * batches.count + e_scale * batches.energy[..., 0]
    e2 = e_shift**2 * batches.count + 2 * e_shift * e_scale * batches.energy[..., 0]
    energy = np.stack([e1, e2 + e_scale**2 * batches.energy[..., 1]], -1)
    moved = batches._replace(energy=energy, pooled=_gathered(batches.pooled, to, 2, N_BINS))
    return replace(changed, bins=bins, totals=totals, batches=moved)


def _gathered(table: Floats, to: Ints, axis: int, n: int) -> Floats:
    """Add the rows of an axis up at their new places."""
    rows = np.moveaxis(table, axis, 0)
    out = np.zeros((n, *rows.shape[1:]))
    np.add.at(out, to, rows)
    return np.ascontiguousarray(np.moveaxis(out, 0, axis))


def _in_units(sums: RunningRungs, quantities: Quantities) -> RunningRungs:
    """Return sums of h' = shift + stretch * h."""
    old = sums.quantities
    if old.same_as(quantities):
        return sums
    stretch = old.scale / quantities.scale
    shift = (old.centre - quantities.centre) / quantities.scale
    joint, pooled, squares, sketch = sums.totals
    moments = joint.sum(axis=0)
    q = old.size
    h = shift * moments[:, :1] + stretch * pooled[:, :q]
    dh = shift * moments[:, 1:2] + stretch * pooled[:, q:]
    n = squares[:, :1]
    plain = n * sums.batches.plain.sum((0, 1)) / np.maximum(joint[..., 0].sum(axis=1), 1.0)[:, np.newaxis]
    of_h = shift**2 * n + 2 * shift * stretch * plain + stretch**2 * squares[:, 1:]
    square = np.concatenate([n, of_h], axis=1)
    to_value = shift[:, np.newaxis] + stretch[:, np.newaxis] * _value_middles()
    values = np.stack(
        [_gathered(row, value_bin(np, to), 1, N_VALUES) for row, to in zip(sketch, to_value, strict=True)]
    )
    b = sums.batches
    weight = b.weight[:, :, 0, :, np.newaxis]
    batches = BatchSums(
        b.count,
        shift * b.count[..., np.newaxis] + stretch * b.plain,
        b.energy,
        b.log_reference,
        b.weight,
        shift * weight + stretch * b.weighted,
        np.concatenate([b.pooled[..., :1], shift * b.pooled[..., :1] + stretch * b.pooled[..., 1:]], axis=-1),
    )
    totals = Totals(joint, np.concatenate([h, dh], axis=1), square, values)
    return replace(sums, quantities=quantities, totals=totals, batches=batches)


def _value_middles() -> Floats:
    edges = value_edges()
    return 0.5 * (edges[1:] + edges[:-1])
