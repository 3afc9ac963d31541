"""From and to R by reticulate: functions, data and tables, as plain lists that every version of reticulate converts.

Versions of reticulate before 1.37 convert neither the arrays of NumPy 2 nor the data frames of pandas 3; lists and
dictionaries they do. ``tempering.doors.r.table(x)`` is what R turns into a data frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError, TargetError


@dataclass(frozen=True, eq=False)
class RFunction:
    """A function of R as one of Python: it gets a numeric vector and returns one number.

    Parameters
    ----------
    function : callable
        What reticulate makes of an R function.
    """

    function: Callable[[Any], Any]

    def __call__(self, x: Any) -> float:
        """Return the value at a position."""
        value = self.function(np.atleast_1d(np.asarray(x, dtype=float)).tolist())
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TargetError(
                f"A function of R must return one number, but it returned {value!r:.60}. Sum its terms."
            ) from None


def density(function: Callable[[Any], Any]) -> RFunction:
    """Return an R function of a numeric vector as a log density (or log likelihood, or log prior)."""
    if not callable(function):
        raise TargetError(f"A log density must be a function, but got {type(function).__name__}. Pass the function.")
    return RFunction(function)


def position(values: Any) -> NDArray[np.float64]:
    """Return a numeric vector of R as one position: a plain list would be a list of positions."""
    return np.atleast_1d(np.asarray(values, dtype=float))


def data(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a data frame of R, passed as ``as.list(frame)``, as one of pandas."""
    if not isinstance(columns, Mapping):
        raise InputError(f"Columns must come by name, but got {type(columns).__name__}. Pass as.list(your_data_frame).")
    return pd.DataFrame({name: np.atleast_1d(np.asarray(column)) for name, column in columns.items()})


def table(found: Any) -> dict[str, list[Any]]:
    """Return a table (or a run, a Series, an array) as columns by name, for R's ``as.data.frame``.

    The index becomes columns too, unless it only counts the rows. Of a run it is every draw with its rung and weight.

    Examples
    --------
    >>> table(pd.DataFrame({"mean": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="quantity")))
    {'quantity': ['a', 'b'], 'mean': [1.0, 2.0]}
    """
    if hasattr(found, "rung") and hasattr(found, "weights"):
        from tempering.doors.tables import to_pandas

        found = to_pandas(found)
    frame = found.to_frame() if isinstance(found, pd.Series) else found
    if not isinstance(frame, pd.DataFrame):
        frame = _frame_of_array(frame)
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    return {str(name): _plain(frame[name]) for name in frame.columns}


def _frame_of_array(found: Any) -> pd.DataFrame:
    array = np.asarray(found)
    if array.ndim not in (1, 2) or array.dtype == object:
        raise InputError(f"A table has rows and columns, but got {type(found).__name__}. Pass a table or an array.")
    columns = array.reshape(len(array), -1)
    return pd.DataFrame(columns, columns=[f"x{i + 1}" for i in range(columns.shape[1])])


def _plain(column: pd.Series[Any]) -> list[Any]:
    """Return numbers, truth values and text as Python's own; anything else as text."""
    if column.dtype.kind in "fiub":
        return list(column.tolist())
    return [None if pd.isna(value) else str(value) for value in column]
