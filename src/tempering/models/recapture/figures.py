"""What draws say of columns of values, averaged over models; tables of effects, coefficients, growth and numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tempering.errors import InputError
from tempering.estimators import weighted_quantile
from tempering.estimators.standard_error import standard_error_of_sum, widened_by_chains
from tempering.models.recapture.entry import population
from tempering.models.recapture.histories import Histories
from tempering.models.recapture.layout import BLOCKS, PARAMETERS
from tempering.runs.draws import TemperedDraws
from tempering.runs.tours import pieces_of

if TYPE_CHECKING:
    from tempering.models.recapture.results import RecaptureResult

FIGURES = ["mean", "standard_error", "sd", "lower", "upper"]
EVER = "ever"  # the row of all birds that ever were there
QUANTILE_BINS = 1024
VALUES_AT_ONCE = 2**22  # 32 MiB


@dataclass(frozen=True, eq=False)
class Averaging:
    """What the draws of a run say of columns (chain, draw) of values."""

    draws: TemperedDraws

    def figures(self, columns: Sequence[NDArray[Any]], rule: str, interval: float) -> NDArray[np.float64]:
        """Return mean, standard error, deviation and the ends of the interval of each column.

        Replicas of an ensemble are added up before the errors are worked out, weights taken as known: for hundreds of
        columns that takes a tenth of the time.
        """
        weights = self.draws.weights(rule)
        used = np.flatnonzero(weights > weights.max() * 1e-12)
        share = weights.ravel()[used]
        out = np.zeros((len(columns), len(FIGURES)))
        n_ensembles = self.draws.n_chains // self.draws.chains_per_ensemble
        series = np.empty((n_ensembles, self.draws.n_draws, len(columns)))
        for i, (row, column) in enumerate(zip(out, columns, strict=True)):
            mean, sd, low, high = weighted_figures(column.ravel()[used].astype(float), share, interval)
            row[:] = mean, 0.0, sd, low, high
            residual = weights * (column - mean)
            series[..., i] = residual.reshape(n_ensembles, -1, self.draws.n_draws).sum(axis=1)
        if len(columns):
            influences = (weights * (column - mean) for column, mean in zip(columns, out[:, 0], strict=True))
            out[:, 1] = self._widened(standard_error_of_sum(series), influences)
        return out

    def errors(self, columns: Sequence[NDArray[Any]], rule: str) -> NDArray[np.float64]:
        """Return the standard errors of the means of columns by themselves, several at once: they share weights."""
        step = max(1, VALUES_AT_ONCE // self.draws.rung.size)
        found = [np.zeros(0)]
        for i in range(0, len(columns), step):
            some = columns[i : i + step]
            both = self.draws.combination(np.stack(some, axis=-1).astype(float), rule)
            means: Any = np.ravel(both.estimate)
            influences = (both.weights * (column - mean) for column, mean in zip(some, means, strict=True))
            found.append(self._widened(np.ravel(both.standard_error), influences))
        return np.concatenate(found)

    def _widened(self, errors: NDArray[np.float64], influences: Iterable[NDArray[Any]]) -> NDArray[np.float64]:
        """Take the spread between pieces that begin with a fresh draw where it is larger than batches explain."""
        if self._piece is None:
            return errors
        totals: Any = np.stack([np.bincount(self._piece, column.ravel()) for column in influences], axis=-1)
        return np.sqrt(widened_by_chains(errors**2, totals))

    @cached_property
    def _piece(self) -> NDArray[np.int64] | None:
        """Which piece each draw belongs to; None where nothing is drawn afresh."""
        draws_afresh = self.draws.ladder.inverse_temperatures[-1] == 0.0
        return pieces_of(self.draws).ravel() if draws_afresh else None


def weighted_figures(x: NDArray[np.float64], weights: NDArray[np.float64], interval: float) -> tuple[float, ...]:
    """Return mean, deviation and the ends of the central interval."""
    share = weights / weights.sum()
    mean = float(share @ x)
    deviation = float(np.sqrt(max(share @ (x - mean) ** 2, 0.0)))
    return mean, deviation, *quantiles_of(x, share, (1 - interval) / 2, (1 + interval) / 2)


def quantiles_of(x: NDArray[np.float64], share: NDArray[np.float64], *probabilities: float) -> tuple[float, ...]:
    """Return weighted quantiles; only draws around them are sorted, which takes a tenth of the time for many draws.

    Examples
    --------
    >>> quantiles_of(np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5]), 0.1, 0.5)
    (1.0, 2.0)
    """
    low, high = float(x.min()), float(x.max())
    if low == high:
        return (low,) * len(probabilities)
    bins = ((x - low) * ((QUANTILE_BINS - 1) / (high - low))).astype(np.intp)
    below = np.cumsum(np.bincount(bins, share, QUANTILE_BINS))

    def quantile(probability: float) -> float:
        near = min(int(np.searchsorted(below, probability)), QUANTILE_BINS - 1)
        before = below[near - 1] if near else 0.0
        inside = np.flatnonzero(bins == near)
        rest = float(np.clip((probability - before) / share[inside].sum(), 0.0, 1.0))
        return float(weighted_quantile(x[inside], share[inside], rest))

    return tuple(quantile(p) for p in probabilities)


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
