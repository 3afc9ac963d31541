"""Figures of columns of draws: weighted means and intervals, and standard errors that see what chains do slowly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.estimators import weighted_quantile
from tempering.estimators.standard_error import standard_error_of_sum, widened_by_chains
from tempering.runs.draws import TemperedDraws
from tempering.runs.tours import pieces_of

FIGURES = ["mean", "standard_error", "sd", "lower", "upper"]
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
