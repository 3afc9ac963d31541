"""What is in the model, draw by draw: effects, covariates, and which sets vary in time."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tempering.models.recapture.layout import PARAMETERS

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
