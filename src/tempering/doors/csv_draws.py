"""Draws made elsewhere, in a CSV file: read, combine and tabulate them.

One draw a row, in time order, with columns for its energy, its inverse temperature and its values.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.estimators import RULES, Combination, combine
from tempering.estimators.rules import MINIMUM_ESS_PER_DRAW, PARETO_K_LIMIT

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

MOST_RUNGS = 1000  # more distinct inverse temperatures than this are no ladder


@dataclass(frozen=True, eq=False)
class FileEstimates:
    """What the draws of a file say about k = 1, by every rule that can be used.

    Attributes
    ----------
    names : tuple of str
        The values estimated.
    inverse_temperatures : ndarray, shape (n_rungs,)
        From cold to hot; k = 1 is among them even where no draw has it.
    visits : ndarray of int, shape (n_rungs,)
        Draws on each rung.
    combinations : tuple of Combination
        One for each rule; ``cold_only`` is missing where no draw has k = 1.
    """

    names: tuple[str, ...]
    inverse_temperatures: Floats
    visits: NDArray[np.int64]
    combinations: tuple[Combination, ...]

    @property
    def advice(self) -> str:
        """Which rule to use, and what to beware of, in a sentence or two."""
        first, seen = self.combinations[0], self.visits > 0
        few = first.ess_per_rung < MINIMUM_ESS_PER_DRAW * self.visits
        doubtful = int(np.sum(seen & (few | (first.pareto_k >= PARETO_K_LIMIT))))
        why = f"k-hat of {PARETO_K_LIMIT} or more, or an ESS below a fifth of the draws"
        cold = "" if seen[0] else "No draw has k = 1, so that all rests on weights. "
        if doubtful == 0:
            return f"{cold}The weights of all {seen.sum()} rungs can be trusted: use mbar or screened."
        if doubtful == seen.sum():
            return f"{cold}The weights of no rung can be trusted ({why}): do not use these estimates."
        return (
            f"{cold}The weights of {doubtful} of {seen.sum()} rungs cannot be trusted ({why}): use "
            "screened or mbar, and neither pooled nor ess_optimal, which give those rungs a share."
        )

    def estimates_table(self) -> "Table":
        """Tabulate the estimates with their standard errors, a rule a row."""
        from rich.table import Table

        table = Table("rule", title="Estimates at k = 1", title_justify="left")
        for name in self.names:
            table.add_column(name, justify="right")
            table.add_column("standard error", justify="right")
        table.add_column("ESS of weights", justify="right")
        for found in self.combinations:
            pairs = zip(np.ravel(found.estimate), np.ravel(found.standard_error), strict=True)
            cells = [text for value, error in pairs for text in (f"{value:.6g}", f"{error:.2g}")]
            table.add_row(found.rule, *cells, f"{found.ess:.1f}")
        return table

    def rungs_table(self) -> "Table":
        """Tabulate the rungs: draws, sample size and tail of their weights, and their share by each rule."""
        from rich.table import Table

        table = Table(title="Rungs, and their shares by rule", title_justify="left")
        for heading in ("k", "draws", "ESS", "k-hat", *(found.rule for found in self.combinations)):
            table.add_column(heading, justify="right")
        first = self.combinations[0]
        for i, k in enumerate(self.inverse_temperatures):
            ess, tail = first.ess_per_rung[i], first.pareto_k[i]
            numbers = (f"{k:.4g}", f"{self.visits[i]}", f"{ess:.1f}", f"{tail:.2f}")
            table.add_row(*numbers, *(f"{found.shares[i]:.3f}" for found in self.combinations))
        return table

    def print(self, console: "Console", *, notes: bool = True) -> None:
        """Print both tables and the advice."""
        console.print(self.estimates_table())
        console.print(self.rungs_table())
        if notes:
            console.print(self.advice, highlight=False)


def combine_csv(path: str | Path, *, energy: str, inverse_temperature: str, values: Sequence[str]) -> FileEstimates:
    """Combine the draws of all temperatures in a file into estimates for k = 1.

    Parameters
    ----------
    path : path
        A CSV file with a header and one draw per row, in time order.
    energy, inverse_temperature : str
        Columns of the energy (log pi, or the log likelihood where only that is tempered) and of k in [0, 1].
    values : sequence of str, or str
        Columns whose means under k = 1 are estimated.
    """
    names = tuple(name.strip() for name in ([values] if isinstance(values, str) else values))
    if not names:
        raise InputError("At least one column must be named to estimate the mean of, but values is empty. Name one.")
    columns = read_numbers(Path(path), [energy, inverse_temperature, *names])
    ladder, rung = rungs_of(columns[inverse_temperature], inverse_temperature)
    h = np.column_stack([columns[name] for name in names])
    rules = [rule for rule in RULES if rule != "cold_only" or np.any(rung == 0)]
    combinations = tuple(
        combine(h, None, rung, rule, energy=columns[energy], inverse_temperatures=ladder) for rule in rules
    )
    return FileEstimates(names, ladder, np.bincount(rung, minlength=len(ladder)), combinations)


def rungs_of(k: Floats, name: str) -> tuple[Floats, NDArray[np.intp]]:
    """Return the distinct inverse temperatures from cold to hot, 1 among them, and the rung of every draw."""
    outside = np.flatnonzero((k < 0) | (k > 1))
    if len(outside):
        raise InputError(
            f"Inverse temperatures must lie in [0, 1], but row {outside[0] + 1} of column {name!r} has "
            f"{k[outside[0]]:g}. If the column holds temperatures, write their inverses."
        )
    ladder = -np.unique(-np.append(k, 1.0))
    if len(ladder) > MOST_RUNGS:
        raise InputError(
            f"There must be at most {MOST_RUNGS} inverse temperatures, many draws to each, but column "
            f"{name!r} has {len(ladder)}. Round them to the rungs of your ladder."
        )
    return ladder, np.searchsorted(-ladder, -k)


def read_numbers(path: Path, names: Sequence[str]) -> dict[str, Floats]:
    """Read columns of finite numbers from a CSV file, or say in which row there is none."""
    frame = _read_text(path)
    for name in names:
        if name not in frame:
            raise InputError(
                f"{path} must have a column {name!r}, but its columns are {', '.join(map(repr, frame))}. "
                "Give the names of the header."
            )
    if len(frame) == 0:
        raise InputError(f"{path} must hold at least one draw, but it has a header only. Write one draw per row.")
    return {name: _numbers(frame[name], name, path) for name in names}


def _read_text(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
    except OSError as error:
        raise InputError(f"{path} must be a readable file, but: {error.strerror}. Check the path.") from error
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} must have a header and draws, but it is empty. Write one draw per row.") from None
    except (ValueError, pd.errors.ParserWarning) as error:  # bad encodings too are ValueErrors
        raise InputError(
            f"{path} must be a CSV file in UTF-8 with as many fields in each row as in its header, but: "
            f"{str(error).strip().rstrip('.')}. Repair that row."
        ) from error
    return frame.rename(columns=str.strip)


def _numbers(column: "pd.Series[str]", name: str, path: Path) -> Floats:
    import pandas as pd

    try:
        numbers = column.to_numpy(dtype=str).astype(np.float64)  # to the last bit, which pandas before 3.1 may round
    except ValueError:
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise InputError(
            f"Column {name!r} of {path} must hold finite numbers, but row {bad[0] + 1} has "
            f"{column.iloc[bad[0]]!r}. Repair or remove that row (rows are counted without the header)."
        )
    return numbers
