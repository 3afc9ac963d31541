"""What is in the model, draw by draw: effects, covariates, and which sets vary in time."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.models.recapture.figures import weighted_figures
from tempering.models.recapture.layout import BLOCKS, PARAMETERS

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult


def effect_flags(result: "RecaptureResult", name: str) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return each effect that a parameter may have, and in which draws it is there."""
    codes = result.draws.values["model"][..., PARAMETERS.index(name)]
    distinct, index = np.unique(codes, return_inverse=True)
    structures = [result.space.structure(c) for c in distinct]
    space = result.space.space(name)
    asked: dict[str, Any] = {
        term: lambda s, term=term: space.differs(s.labels, term)
        for term in space.factors
        if any(space.differs(row, term) for row in space.partitions)
    }
    for time in space.options:
        if time:
            asked["time" if time == "t" else time] = lambda s, time=time: any(
                x == time or x.startswith(f"{time}+") for x in s.times
            )
    for time in space.options:
        factor = time.partition("+")[2]
        if factor:
            alone = asked.get(factor, lambda s: False)
            asked[factor] = lambda s, alone=alone, factor=factor: (
                alone(s) or any(x.endswith(f"+{factor}") for x in s.times)
            )
    flags = [
        (effect, np.array([is_in(s) for s in structures])[index].reshape(codes.shape))
        for effect, is_in in asked.items()
    ]
    return flags + [(covariate, slope[..., 0] > 0) for covariate, slope in slopes_of(result, name)]


def slopes_of(result: "RecaptureResult", name: str) -> list[tuple[str, NDArray[Any]]]:
    """Return the individual covariates that a parameter may have: whether each is in, and its slope (..., 2)."""
    if result.individuals is None:
        return []
    slopes, q = result.draws.values["slopes"], PARAMETERS.index(name)
    may = result.individuals.may[q]
    return [(covariate, slopes[..., q, m, :]) for m, covariate in enumerate(result.individuals.names) if may[m]]


def time_flags(result: "RecaptureResult") -> list[tuple[str, int, NDArray[np.bool_]]]:
    """Return parameter, column, and in which draws it varies in time."""
    out = []
    for name in result.parameters:
        times = np.asarray(result.space.times_of(result.draws.values["model"][..., PARAMETERS.index(name)]))
        out += [(name, c, times[..., c] > 0) for c in result.columns_of(name)]
    return out


def coefficient_table(result: "RecaptureResult", rule: str, interval: float) -> pd.DataFrame:
    """Tabulate slopes of covariates, deviations of random years and additive effects, given that a set has them.

    All are on the logit scale; ``probability`` is that of having it. A slope is per standard deviation of the
    covariate; an additive effect is the distance from the first class of its set, in every year.
    """
    rows: list[Any] = []
    figures: list[Any] = []
    weights = result.draws.weights(rule)
    for name in result.parameters:
        times = result.space.times_of(result.draws.values["model"][..., PARAMETERS.index(name)])
        for time in _with_coefficients(result):
            for c in result.columns_of(name):
                has_it = times[..., c] == result.space.all_times.index(time)
                share = weights * has_it
                if share.sum() > 0:
                    which = 0 if "+" in time else 1
                    b = result.draws.values["coefficients"][..., PARAMETERS.index(name), c, which].astype(float)
                    b = np.exp(b) if time == "random" else b
                    if "+" in time and not b[has_it].any():
                        continue  # distances are measured from this class
                    rows.append((name, *result.label(name, c), time, float(share.sum())))
                    figures.append(weighted_figures(b[has_it], share[has_it] / share.sum(), interval))
        for covariate, slope in slopes_of(result, name):
            has_it = slope[..., 0] > 0
            share = weights * has_it
            if share.sum() > 0:
                rows.append((name, "", "", covariate, float(share.sum())))
                figures.append(weighted_figures(slope[..., 1][has_it], share[has_it] / share.sum(), interval))
    table = pd.DataFrame(rows, columns=["parameter", "group", "age_class", "term", "probability"])
    for i, figure in enumerate(("mean", "sd", "lower", "upper")):
        table[figure] = [f[i] for f in figures]
    return table if result.has_groups else table.drop(columns="group")


def _with_coefficients(result: "RecaptureResult") -> list[str]:
    """Name the trends and random years that some parameter may have."""
    if "coefficients" not in result.draws.values:
        return []
    used = {time for name in result.parameters for time in result.space.space(name).options}
    kinds = dict(zip(result.times.names, result.times.kinds, strict=True))
    return [time for time in result.space.times if time in used and kinds[time] != BLOCKS]
