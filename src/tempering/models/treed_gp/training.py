"""Training data: checked, scaled, and with replicated inputs collapsed (section 1)."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingData:
    """Scaled data of a treed Gaussian process.

    The response has mean 0 and range 1, each input column minimum 0 and maximum 1, both over the training
    rows alone: where one predicts has no influence on the model. Split candidates are a column's distinct
    values.
    """

    columns: NDArray[np.int64]
    """Columns that vary; the others carry no information and are left out."""
    low: Array
    width: Array
    centre: float
    spread: float
    x: Array
    """Distinct scaled inputs, shape (n_distinct, n_columns)."""
    y: Array
    """Replicates, mean, sum of squares about it and weight, shape (n_distinct, 4); more columns for classes."""
    rank: NDArray[np.int64]
    cuts: Array
    n_cuts: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of rows, replicates counted."""
        return int(self.y[:, 0].sum())

    def scale(self, inputs: Array) -> Array:
        """Map inputs as the training inputs were mapped."""
        return np.ascontiguousarray((inputs[:, self.columns] - self.low) / self.width)  # one layout, compiled once

    def response(self, scaled: Array) -> Array:
        """Map scaled responses back to the units of the data."""
        return np.asarray(self.centre + self.spread * scaled)


def check_finite(values: Array, name: str) -> None:
    """Refuse NaN and infinity, with the rows in which they stand."""
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        rows = ", ".join(str(i) for i in np.flatnonzero(bad)[:10]) + (", ..." if bad.sum() > 10 else "")
        raise InputError(
            f"{name} must be finite, but it contains {kind} (NaN or infinity in {bad.sum()} rows: {rows}). "
            "Drop those rows or fill them in."
        )


def check_rows(values: ArrayLike, name: str) -> None:
    """Refuse NaN and infinity in anything that reads as numbers; leave the rest to later checks."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return
    if numbers.ndim > 0:
        check_finite(numbers, name)


def prepare(inputs: ArrayLike, response: ArrayLike) -> TrainingData:
    """Check, scale and collapse training data.

    Examples
    --------
    >>> data = prepare([[1.0], [1.0], [3.0]], [0.0, 2.0, 4.0])
    >>> data.n_rows, len(data.x), data.spread
    (3, 2, 4.0)
    """
    x = np.atleast_2d(np.asarray(inputs, np.float64).T).T
    z = np.asarray(response, np.float64).ravel()
    check_finite(x, "Input X")
    check_finite(z, "Response y")
    if len(x) != len(z):
        raise InputError(f"X and y must have as many rows, but have {len(x)} and {len(z)}. Pass one y for each row.")
    if len(x) < 2:
        raise InputError(
            f"A treed GP needs at least 2 rows, but got n_samples = {len(x)}. Pass more data.",
        )
    with np.errstate(over="ignore"):
        widths, spread = np.ptp(x, axis=0), float(np.ptp(z)) or 1.0
    if not (np.isfinite(spread) and np.all(np.isfinite(widths))):
        raise InputError(
            "The difference of the largest and the smallest value of y, and of each column of X, must be a float, "
            "but one is larger than 1.8e308. Divide by a constant."
        )
    columns = np.flatnonzero(widths > 0)
    _report_constant(x.shape[1], columns)
    x = x[:, columns]
    low, width, lowest = x.min(axis=0), widths[columns], float(z.min())
    centre = lowest + spread * float(np.mean((z - lowest) / spread))  # the sum of all might have no room in a float
    distinct, where = np.unique((x - low) / width, axis=0, return_inverse=True)
    y = _collapse((z - centre) / spread, where.ravel(), len(distinct))
    values = [np.unique(column) for column in distinct.T]
    cuts = np.zeros((len(values), max(map(len, values))))
    for j, candidates in enumerate(values):
        cuts[j, : len(candidates)] = candidates
    rank = np.stack([np.searchsorted(v, column) for v, column in zip(values, distinct.T, strict=True)], axis=1)
    n_cuts = np.array([len(v) for v in values], np.int64)
    distinct, rank = np.ascontiguousarray(distinct), np.ascontiguousarray(rank, np.int64)
    return TrainingData(columns, low, width, centre, spread, distinct, y, rank, cuts, n_cuts)


def with_classes(data: TrainingData) -> TrainingData:
    """Return data whose responses, 0 or 1, are classes: rows of the second at each input, less half of all.

    Examples
    --------
    >>> with_classes(prepare([[1.0], [1.0], [3.0]], [0, 1, 1])).y[:, 4]
    array([0. , 0.5])
    """
    count = data.y[:, 0]
    kappa = np.rint(count * data.response(data.y[:, 1])) - 0.5 * count
    weight, nothing = 0.25 * count, np.zeros_like(count)  # as it would be at even odds
    y = np.stack([count, kappa / weight, nothing, weight, kappa, nothing], axis=1)
    return replace(data, centre=0.0, spread=1.0, y=y)


def _report_constant(n_columns: int, varying: NDArray[np.int64]) -> None:
    constant = sorted(set(range(n_columns)) - set(varying.tolist()))
    if len(varying) == 0:
        raise InputError(
            f"At least one input column must vary, but all of the {n_columns} are constant. "
            "Nothing can be learnt from them: use the mean of y."
        )
    if constant:
        warnings.warn(
            f"The input columns {constant} are constant and were left out: they carry no information.",
            UserWarning,
            stacklevel=4,
        )


def _collapse(z: Array, where: NDArray[np.int64], n_distinct: int) -> Array:
    """Return replicates, mean, sum of squares and weight (replicates) at each distinct input."""
    count = np.bincount(where, minlength=n_distinct).astype(np.float64)
    mean = np.bincount(where, weights=z, minlength=n_distinct) / count
    squares = np.bincount(where, weights=(z - mean[where]) ** 2, minlength=n_distinct)
    return np.stack([count, mean, squares, count], axis=1)
