"""CSV files with a header: what the command line reads and writes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from tempering.arrays import Floats
from tempering.errors import InputError


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV file."""
    try:
        table = pd.read_csv(path, float_precision="round_trip")
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


def input_columns(table: pd.DataFrame, names: list[str], path: Path) -> pd.DataFrame:
    """Return columns of numbers, and as they are those of text without a number in any cell: categories."""
    text = [name for name in names if name in table.columns and _is_text(table[name])]
    numbers = [name for name in names if name not in text]
    out = pd.DataFrame(numeric_columns(table, numbers, path) if numbers else None, table.index, numbers)
    return pd.concat([out, table[text]], axis=1)[names]


def _is_text(column: pd.Series) -> bool:
    numbers = pd.to_numeric(column, errors="coerce")
    return bool(numbers.isna().all() and column.map(lambda cell: isinstance(cell, str)).any())


def check_writable(path: Path, option: str) -> None:
    """Refuse, before anything is computed, a file that cannot be written in the end."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist. Make it first, or name another file.")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"{option} {path} cannot be written. Name another file.")


def check_picture(path: Path, n_inputs: int) -> None:
    """Refuse, before anything is computed, a picture that cannot be drawn in the end."""
    from matplotlib.figure import Figure

    check_writable(path, "--plot")
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in known:
        raise InputError(
            f"--plot {path}: a picture cannot be written as {path.suffix!r}. Use one of {', '.join(sorted(known))}."
        )
    if n_inputs not in (1, 2):
        raise InputError(
            f"A plot needs one or two input columns, but there are {n_inputs}. "
            "Leave --plot out, or choose one or two with --inputs."
        )
