"""A table of every quantity under the weights: ArviZ and its kin take no weights, so that all of it is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tempering.arrays import Floats
from tempering.estimators import varies, weighted_ecdf
from tempering.runs.diagnosis import weighted_r_hat

if TYPE_CHECKING:
    import pandas as pd

    from tempering.runs.draws import TemperedDraws

QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}


def summary_of(draws: TemperedDraws, rule: str, hdi: float) -> pd.DataFrame:
    """Tabulate every coordinate of every value; see `TemperedDraws.summary`."""
    import pandas as pd

    rows: dict[str, Any] = {}
    for name, array in draws.values.items():
        values = np.asarray(array, dtype=float)
        flat = values.reshape(*values.shape[:2], -1)
        labels = [f"{name}[{index}]" if index else name for index in indices(values.shape[2:])]
        rows |= dict(zip(labels, _rows(draws, flat, rule, hdi), strict=True))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")


def indices(shape: tuple[int, ...]) -> list[str]:
    """Return the indices of an array as text, in C order; of a number there is one, and it is empty."""
    return [",".join(str(i) for i in index) for index in np.ndindex(*shape)]


def _rows(draws: TemperedDraws, flat: Floats, rule: str, hdi: float) -> list[dict[str, float]]:
    mean = draws.estimate(flat, rule)
    weights = draws.weights(rule)
    centre, error = np.ravel(mean.value), np.ravel(mean.standard_error)
    with np.errstate(invalid="ignore"):
        variance = draws.variance(flat, rule)
    variance = np.where(varies(centre, variance) | np.isnan(variance), variance, 0.0)
    deviation, moving = np.sqrt(variance), (error > 0) & (variance > 0)
    ess = np.where(moving, variance / np.where(moving, error, 1.0) ** 2, np.nan)
    return [
        {
            "mean": centre[i],
            "standard_error": error[i],
            "sd": deviation[i],
            **_places(flat[..., i], weights, hdi),
            "ess": ess[i],
            "r_hat": weighted_r_hat(flat[..., i], draws, rule),
        }
        for i in range(flat.shape[2])
    ]


def _places(values: Floats, weights: Floats, hdi: float) -> dict[str, float]:
    """Return quantiles and the ends of the shortest interval; the draws are sorted once for all."""
    curve = weighted_ecdf(values, weights)
    low, high = curve.shortest(hdi)
    quantiles = curve.quantile(list(QUANTILES.values()))
    return {**dict(zip(QUANTILES, quantiles, strict=True)), "hdi_low": low, "hdi_high": high}
