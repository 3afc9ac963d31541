r"""The selected columns' inverse, and what every other column would add, both kept up to date by rank-one changes.

With A the Gram matrix plus the slab's precision, gamma the selected columns and K the inverse of A on gamma, two
numbers are kept for each column j, as seen from the selected ones *without* j:

- ``schur[j]`` :math:`= A_{jj} - A_{j\gamma} K A_{\gamma j}`, what of j the others do not explain;
- ``cross[j]`` :math:`= x_j'y - A_{j\gamma} K X_\gamma' y`, what of y is left for it.

A flip of one column changes both by a multiple of one vector v, a combination of as many rows of A as there are
selected columns: O(p s). Rows of A are computed once, O(n p), and stay in a cache of fixed size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.models.variable_selection.arrays import Columns
from tempering.models.variable_selection.compiling import compiled, inner

Ints = NDArray[np.int64]
REFRESH = 1000  # flips until everything is computed afresh: rounding stays near 1e-10


class Factor(NamedTuple):
    """Changed in place by `flip`."""

    is_in: NDArray[np.int8]  # (p,)
    members: Ints  # (capacity,), the selected columns, in no order
    place: Ints  # (p,), where a column is among the members
    inverse: Floats  # (capacity, capacity)
    coefficients: Floats  # (capacity,), posterior means of the members
    schur: Floats  # (p,)
    cross: Floats  # (p,)
    slab_inverse: Floats  # (capacity, capacity), of a dense slab
    slab_schur: Floats  # (p,)
    rows: Floats  # (n_rows, p), rows of A
    row_of: Ints  # (p,), -1: not there
    owner: Ints  # (n_rows,)
    numbers: Floats  # size, residual sum of squares, flips since the last refresh, the cache's clock hand
    work: Floats  # (p,)


def new_factor(data: Columns, capacity: int, n_rows: int) -> Factor:
    """Return the factor of the empty model."""
    p = len(data.cross)
    dense = data.dense.shape[0] > 0
    slab = capacity if dense else 0
    factor = Factor(
        np.zeros(p, np.int8),
        np.zeros(capacity, np.int64),
        np.full(p, -1, np.int64),
        np.zeros((capacity, capacity)),
        np.zeros(capacity),
        np.zeros(p),
        np.zeros(p),
        np.zeros((slab, slab)),
        np.zeros(p if dense else 0),
        np.zeros((n_rows, p)),
        np.full(p, -1, np.int64),
        np.full(n_rows, -1, np.int64),
        np.zeros(4),
        np.zeros(p),
    )
    empty(data, factor)
    return factor


@compiled
def empty(data: Any, factor: Any) -> None:
    """Go back to the model without columns."""
    for j in range(len(data.cross)):
        factor.schur[j] = data.scale * data.squares[j] + data.ridge[j]
        if data.dense.shape[0] > 0:
            factor.schur[j] += data.dense[j, j]
            factor.slab_schur[j] = data.dense[j, j]
        factor.cross[j] = data.cross[j]
        factor.is_in[j] = 0
        factor.place[j] = -1
    factor.numbers[0] = 0.0
    factor.numbers[1] = data.total
    factor.numbers[2] = 0.0


@inner
def fetch_row(data: Any, factor: Any, j: int) -> int:
    """Return where row j of A is in the cache; compute it if it is not there, in place of one not in use."""
    if factor.row_of[j] >= 0:
        row_of_it: int = factor.row_of[j]
        return row_of_it
    n_rows = len(factor.owner)
    hand = int(factor.numbers[3])
    while factor.owner[hand] >= 0 and factor.is_in[factor.owner[hand]] == 1:
        hand = (hand + 1) % n_rows
    if factor.owner[hand] >= 0:
        factor.row_of[factor.owner[hand]] = -1
    factor.owner[hand] = j
    factor.row_of[j] = hand
    row = factor.rows[hand]
    np.dot(data.columns, data.columns[j], row)
    is_dense = data.dense.shape[0] > 0
    for m in range(len(row)):
        row[m] = data.scale * row[m] + (data.dense[j, m] if is_dense else 0.0)
    row[j] += data.ridge[j]
    factor.numbers[3] = (hand + 1) % n_rows
    return hand


@inner
def _subtract(rows: Any, row: int, amount: float, out: Any) -> None:
    source = rows[row]
    for j in range(len(out)):
        out[j] -= amount * source[j]


@inner
def _shift_both(v: Any, schur: Any, cross: Any, by_schur: float, by_cross: float) -> None:
    for j in range(len(v)):
        schur[j] += by_schur * v[j] * v[j]
        cross[j] += by_cross * v[j]


@inner
def _border(inverse: Any, size: int, u: Any, schur: float) -> None:
    """Add a row and a column to an inverse, ``u`` the inverse times the new column."""
    for a in range(size):
        for b in range(size):
            inverse[a, b] += u[a] * u[b] / schur
        inverse[a, size] = -u[a] / schur
        inverse[size, a] = -u[a] / schur
    inverse[size, size] = 1.0 / schur


@inner
def _unborder(inverse: Any, size: int, i: int) -> None:
    """Take row and column i out of an inverse; the last ones go where it was."""
    pivot = inverse[i, i]
    for a in range(size):
        if a != i:
            ratio = inverse[a, i] / pivot
            for b in range(size):
                if b != i:
                    inverse[a, b] -= ratio * inverse[i, b]
    last = size - 1
    if i != last:
        for a in range(size):
            inverse[a, i] = inverse[a, last]
        for a in range(size):
            inverse[i, a] = inverse[last, a]
        inverse[i, i] = inverse[last, last]


@compiled
def insert(data: Any, factor: Any, j: int) -> None:
    """Select column j."""
    size = int(factor.numbers[0])
    row = fetch_row(data, factor, j)
    near = np.empty(size)
    for a in range(size):
        near[a] = factor.rows[row, factor.members[a]]
    u = np.zeros(size)
    schur, cross = factor.rows[row, j], data.cross[j]
    for a in range(size):
        for b in range(size):
            u[a] += factor.inverse[a, b] * near[b]
        schur -= near[a] * u[a]
        cross -= near[a] * factor.coefficients[a]
    schur = max(schur, data.ridge[j], 1e-12 * factor.rows[row, j])
    v = factor.work
    for m in range(len(v)):
        v[m] = factor.rows[row, m]
    for a in range(size):
        _subtract(factor.rows, factor.row_of[factor.members[a]], u[a], v)
    _shift_both(v, factor.schur, factor.cross, -1.0 / schur, -cross / schur)
    _border(factor.inverse, size, u, schur)
    for a in range(size):
        factor.coefficients[a] -= u[a] * cross / schur
    factor.coefficients[size] = cross / schur
    if data.dense.shape[0] > 0:
        _insert_slab(data, factor, j, size)
    factor.members[size] = j
    factor.place[j] = size
    factor.is_in[j] = 1
    factor.numbers[0] = size + 1
    factor.numbers[1] -= cross * cross / schur
    _see_members(factor)


@inner
def remove(data: Any, factor: Any, j: int) -> None:
    """Take column j out."""
    size, i = int(factor.numbers[0]), factor.place[j]
    pivot, coefficient = factor.inverse[i, i], factor.coefficients[i]
    schur, cross = 1.0 / pivot, coefficient / pivot
    v = factor.work
    for m in range(len(v)):
        v[m] = 0.0
    for a in range(size):
        _subtract(factor.rows, factor.row_of[factor.members[a]], -factor.inverse[a, i] / pivot, v)
    _shift_both(v, factor.schur, factor.cross, 1.0 / schur, cross / schur)
    for a in range(size):
        if a != i:
            factor.coefficients[a] -= factor.inverse[a, i] * coefficient / pivot
    last = size - 1
    factor.coefficients[i] = factor.coefficients[last]
    _unborder(factor.inverse, size, i)
    if data.dense.shape[0] > 0:
        _remove_slab(data, factor, j, size, i)
    factor.members[i] = factor.members[last]
    factor.place[factor.members[i]] = i
    factor.place[j] = -1
    factor.is_in[j] = 0
    factor.numbers[0] = last
    factor.numbers[1] += cross * cross / schur
    factor.schur[j] = schur
    factor.cross[j] = cross
    _see_members(factor)


@inner
def _insert_slab(data: Any, factor: Any, j: int, size: int) -> None:
    """Do the same to the inverse of a dense slab's precision."""
    u = np.zeros(size)
    schur = data.dense[j, j]
    for a in range(size):
        for b in range(size):
            u[a] += factor.slab_inverse[a, b] * data.dense[j, factor.members[b]]
        schur -= data.dense[j, factor.members[a]] * u[a]
    v = factor.work
    for m in range(len(v)):
        v[m] = data.dense[j, m]
    for a in range(size):
        _subtract(data.dense, factor.members[a], u[a], v)
    for m in range(len(v)):
        factor.slab_schur[m] -= v[m] * v[m] / schur
    _border(factor.slab_inverse, size, u, schur)


@inner
def _remove_slab(data: Any, factor: Any, j: int, size: int, i: int) -> None:
    pivot = factor.slab_inverse[i, i]
    v = factor.work
    for m in range(len(v)):
        v[m] = 0.0
    for a in range(size):
        _subtract(data.dense, factor.members[a], -factor.slab_inverse[a, i] / pivot, v)
    for m in range(len(v)):
        factor.slab_schur[m] += v[m] * v[m] * pivot
    _unborder(factor.slab_inverse, size, i)
    factor.slab_schur[j] = 1.0 / pivot


@inner
def _see_members(factor: Any) -> None:
    """Write what each member adds to the others, which the inverse's diagonal knows."""
    for a in range(int(factor.numbers[0])):
        m = factor.members[a]
        factor.schur[m] = 1.0 / factor.inverse[a, a]
        factor.cross[m] = factor.coefficients[a] / factor.inverse[a, a]
        if factor.slab_inverse.shape[0] > 0:
            factor.slab_schur[m] = 1.0 / factor.slab_inverse[a, a]


@compiled
def flip(data: Any, factor: Any, j: int) -> None:
    """Put column j in or take it out; compute all afresh now and then."""
    if factor.is_in[j] == 1:
        remove(data, factor, j)
    else:
        insert(data, factor, j)
    factor.numbers[2] += 1.0
    if factor.numbers[2] >= REFRESH:
        refresh(data, factor)


@compiled
def refresh(data: Any, factor: Any) -> None:
    """Build the same model again from the empty one, rows of the cache kept."""
    size = int(factor.numbers[0])
    members = np.empty(size, np.int64)
    for a in range(size):
        members[a] = factor.members[a]
    empty(data, factor)
    for a in range(size):
        insert(data, factor, members[a])
    factor.numbers[2] = 0.0
