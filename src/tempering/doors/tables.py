"""Weighted draws for tools that know weights: pandas, Parquet, GetDist and anesthetic.

Every draw of every rung goes out with its weight; those of weight zero are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.estimators.rules import DEFAULT_RULE
from tempering.requirements import imported, require
from tempering.runs.draws import check_draws
from tempering.runs.stored import place_of
from tempering.runs.summary import indices

if TYPE_CHECKING:
    import pandas as pd

    from tempering.runs.draws import TemperedDraws


def columns_of(draws: TemperedDraws) -> dict[str, NDArray[np.float64]]:
    """Return one column for every number of a draw, named as in `TemperedDraws.summary`, over (chain, draw)."""
    found = {}
    for name, array in draws.values.items():
        whole = np.asarray(array)
        flat = whole.reshape(whole.shape[0] * whole.shape[1], -1)
        for i, index in enumerate(indices(whole.shape[2:])):
            found[f"{name}[{index}]" if index else name] = flat[:, i]
    return found


def to_pandas(draws: TemperedDraws, *, rule: str = DEFAULT_RULE, every: bool = False) -> pd.DataFrame:
    """Return a table with one row for each draw: its values, ``weight``, ``rung``, ``energy``, ``chain`` and ``draw``.

    Parameters
    ----------
    draws : TemperedDraws
    rule : str
        How the rungs are combined; the weights sum to one.
    every : bool
        Keep draws of weight zero too.
    """
    import pandas as pd

    check_draws(draws)
    chain, draw = np.indices(draws.rung.shape)
    beside: dict[str, Any] = {
        "weight": draws.weights(rule),
        "rung": draws.rung,
        "energy": draws.energy,
        "chain": chain,
        "draw": draw,
    }
    values = columns_of(draws)
    taken = sorted(set(values) & set(beside))
    if taken:
        raise InputError(
            f"The values of a table must not be called {', '.join(beside)}, but one is {taken[0]!r}. Rename it in the "
            "target."
        )
    table = pd.DataFrame({**values, **{name: np.ravel(a) for name, a in beside.items()}})
    return table if every else table[table["weight"] > 0].reset_index(drop=True)


def to_parquet(draws: TemperedDraws, path: str | Path, *, rule: str = DEFAULT_RULE) -> None:
    """Write the table of `to_pandas` as a Parquet file."""
    require("pyarrow", what="A Parquet file", install="tempering[parquet]")
    table = to_pandas(draws, rule=rule)
    try:
        table.to_parquet(place_of(path))
    except OSError as error:
        raise InputError(f"{path} must be writable, but: {error.strerror}. Choose another place.") from error


def to_getdist(draws: TemperedDraws, *, rule: str = DEFAULT_RULE, labels: dict[str, str] | None = None) -> Any:
    """Return a ``getdist.MCSamples`` of the weighted draws.

    Parameters
    ----------
    draws : TemperedDraws
    rule : str
    labels : dict of str to str, optional
        LaTeX for the names, without dollar signs.
    """
    getdist = imported("getdist", what="An MCSamples", install="tempering[getdist]")
    names, samples, weights, log_density = _weighted(draws, rule)
    shown = [_checked(labels).get(name, name.replace("_", r"\_")) for name in names]
    return getdist.MCSamples(
        samples=samples, weights=weights / weights.max(), loglikes=-log_density, names=names, labels=shown,
        sampler="uncorrelated", settings={"ignore_rows": 0},
    )  # fmt: skip


def write_getdist(draws: TemperedDraws, root: str | Path, *, rule: str = DEFAULT_RULE) -> list[Path]:
    """Write chain files as GetDist and CosmoMC read them: ``root.txt`` and ``root.paramnames``.

    Each row of ``root.txt`` is a weight, minus the log density, and the parameters.
    """
    names, samples, weights, log_density = _weighted(draws, rule)
    text, parameters = Path(f"{place_of(root)}.txt"), Path(f"{root}.paramnames")
    try:
        np.savetxt(text, np.column_stack([weights / weights.max(), -log_density, samples]), fmt="%.10e")
        parameters.write_text("".join(f"{name} {name}\n" for name in names), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{text} must be writable, but: {error.strerror}. Choose another place.") from error
    return [text, parameters]


def to_anesthetic(draws: TemperedDraws, *, rule: str = DEFAULT_RULE, labels: dict[str, str] | None = None) -> Any:
    """Return an ``anesthetic.MCMCSamples`` of the weighted draws, ``logL`` among its columns."""
    anesthetic = imported("anesthetic", what="Weighted samples of anesthetic", install="tempering[anesthetic]")
    names, samples, weights, log_density = _weighted(draws, rule)
    shown = [_checked(labels).get(name, name) for name in names]
    return anesthetic.MCMCSamples(samples, columns=names, weights=weights, logL=log_density, labels=shown)


def _checked(labels: dict[str, str] | None) -> dict[str, str]:
    if labels is not None and not isinstance(labels, dict):
        raise InputError(f"labels must be a dictionary of names and what is shown, but got {labels!r}.")
    return labels or {}


def _weighted(
    draws: TemperedDraws, rule: str
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return names, values, weights and log densities of the draws that count."""
    check_draws(draws)
    columns = columns_of(draws)
    weights = draws.weights(rule).ravel()
    log_density = np.ravel(draws.path.log_target(draws.terms))
    kept = weights > 0
    samples = np.column_stack([column[kept] for column in columns.values()]).astype(float)
    return list(columns), samples, weights[kept], log_density[kept]
