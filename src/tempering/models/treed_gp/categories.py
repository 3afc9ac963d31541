"""Columns of categories in a data frame: as columns of 0 and 1 that the tree may split on and leaves leave alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tempering.errors import InputError


@dataclass(frozen=True)
class Categories:
    """Which columns are numbers, and the categories of the others, as they were in the training data."""

    numbers: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, X: Any) -> Categories | None:
        """Read them from a data frame; None where there is no column of categories, or no data frame."""
        if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
            return None
        text = [c for c in X.columns if not np.issubdtype(np.asarray(X[c]).dtype, np.number)]
        if not text:
            return None
        numbers = tuple(str(c) for c in X.columns if c not in text)
        if not numbers:
            raise InputError(
                f"Leaves need at least one column of numbers, but {', '.join(map(str, text))} all hold categories. "
                "Code one of them as numbers, or use another model."
            )
        return cls(numbers, {str(c): _levels(X[c], str(c)) for c in text})

    def apply(self, X: Any) -> Any:
        """Return the columns of numbers, then one of 0 and 1 for each category, or for one of two."""
        import pandas as pd

        missing = [name for name in (*self.numbers, *self.levels) if name not in getattr(X, "columns", ())]
        if missing:
            raise InputError(
                f"The model was fitted to a data frame with columns of categories and needs one with the same columns: "
                f"{', '.join(missing)} is missing."
            )
        out = {name: np.asarray(X[name], np.float64) for name in self.numbers}
        for name, levels in self.levels.items():
            cells = np.asarray(X[name]).astype(str)
            unknown = sorted(set(cells) - set(levels))
            if unknown:
                raise InputError(
                    f"{name} has the category {str(unknown[0])!r}, which the training data do not have. They have "
                    f"{', '.join(levels)}."
                )
            for level in levels[1:] if len(levels) == 2 else levels:
                out[f"{name}={level}"] = (cells == level).astype(np.float64)
        return pd.DataFrame(out)


def _levels(column: Any, name: str) -> tuple[str, ...]:
    values = np.asarray(column)
    if any(value is None or value != value for value in values.tolist()):
        raise InputError(f"{name} has cells without a category. Drop those rows, or name a category for them.")
    return tuple(sorted(set(values.astype(str))))
