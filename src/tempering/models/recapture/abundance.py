"""Growth and abundance of the population that birds were caught from, averaged over models."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.models.recapture.entry import population
from tempering.models.recapture.figures import FIGURES
from tempering.models.recapture.histories import Histories

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult

EVER = "ever"  # the row of all birds that ever were there


def growth_table(result: "RecaptureResult", rule: str, interval: float) -> pd.DataFrame:
    """Tabulate N[t + 1] / N[t] by interval, named after its first year, and its geometric mean."""
    phi, _, gamma = _tables(result)
    growth = phi[..., 1:, :] / gamma[..., 1:, :]
    years = [str(year) for year in result.counts.years[1 : 1 + growth.shape[-2]]]
    mean = np.exp(np.log(growth).mean(axis=-2, keepdims=True))
    return _tabulated(result, "interval", [*years, "mean"], np.concatenate([growth, mean], axis=-2), rule, interval)


def abundance_table(result: "RecaptureResult", rule: str, interval: float, rng: Any) -> pd.DataFrame:
    """Tabulate the number of birds there at each occasion, expected given those that ever were there, and these."""
    size, caught = population(*_tables(result))
    assert isinstance(result.data, Histories)
    n = result.data.first_captures().sum(axis=1)
    ever = n + np.random.default_rng(rng).negative_binomial(n, np.clip(caught, 1e-9, 1.0))
    numbers = np.concatenate([size * ever[..., None, :], ever[..., None, :]], axis=-2)
    years = [str(year) for year in result.data.years[: size.shape[-2]]]
    return _tabulated(result, "occasion", [*years, EVER], numbers, rule, interval)


def _tables(result: "RecaptureResult") -> tuple[NDArray[np.float64], ...]:
    """Return survival over whole intervals, recapture and seniority (chain, draw, T, C)."""
    counts = result.counts
    if counts.entered is None:
        raise InputError("Growth and abundance were not asked for. Fit with entry='~ time' (--entry).")
    n = counts.n_intervals - counts.tail
    phi, p, gamma = (result._values(name)[..., :n, :].astype(float) for name in ("phi", "p", "gamma"))
    return phi ** counts.lengths[:n, None], p, gamma


def _tabulated(
    result: "RecaptureResult", column: str, names: list[str], values: NDArray[np.float64], rule: str, interval: float
) -> pd.DataFrame:
    places = [(group, r) for group in range(values.shape[-1]) for r in range(len(names))]
    figures = result.averaging.figures([values[..., r, group] for group, r in places], rule, interval)
    table = pd.DataFrame({column: [names[r] for _, r in places]})
    if result.has_groups:
        table.insert(0, "group", [result.counts.groups[group] for group, _ in places])
    for name, figure in zip(FIGURES, figures.T, strict=True):
        table[name] = figure
    return table
