"""CSV files with a header: what the command line reads and writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError

Floats = NDArray[np.float64]


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV file."""
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"The data must be a CSV file with a header, but {path} could not be read: {error}") from error
    if table.empty:
        raise InputError(f"The data must have rows, but {path} has none. Check that the file holds the data you meant.")
    return table


def numeric_columns(table: pd.DataFrame, names: list[str], path: Path) -> Floats:
    """Return columns as numbers; name the first cell, by its line in the file, that is none."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError(
            f"{path} must have the columns {', '.join(names)}, but {', '.join(missing)} is missing: it has "
            f"{', '.join(map(str, table.columns))}."
        )
    columns = []
    for name in names:
        numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            cell = table[name].iloc[int(bad[0])]
            came = repr(cell) if isinstance(cell, str) else "missing" if np.isnan(cell) else f"{cell:g}"
            raise InputError(
                f"{path}, line {bad[0] + 2}: {name} must be a finite number, but is {came} "
                f"({bad.size} such rows in all). Drop or fill those rows."
            )
        columns.append(numbers)
    return np.column_stack(columns)
