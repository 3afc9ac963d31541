"""Which inputs a surface depends on: Sobol indices and main effects, each with the uncertainty of the surface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.stats import norm, qmc

from tempering.arrays import Floats
from tempering.errors import InputError
from tempering.models.treed_gp.model import TreedGPModel
from tempering.models.treed_gp.surfaces import surface_means

Quantiles = Callable[[Floats], Floats]

N_PARTS = 4  # of a Sobol design, each a design too: how far they differ is an upper bound of what errors are
N_BINS = 21  # of an input's quantiles, at whose middles its main effect is reported


@dataclass(frozen=True)
class Sensitivity:
    """Shares of the surface's variance and main effects of every input, over the posterior of the surface.

    Intervals hold the trees' own values between two quantiles, (1 - level) / 2 on either side; those of the indices are
    wider by the error of the design, which is all there is where the data leave no doubt.
    """

    names: tuple[str, ...]
    level: float
    first: Floats
    """First-order Sobol indices, posterior means, shape (d,): the share of the variance an input explains alone."""
    total: Floats
    """Total indices, posterior means, shape (d,): the share in which an input has any part."""
    first_interval: Floats
    """Ends of the intervals, shape (2, d)."""
    total_interval: Floats
    grid: Floats
    """Values of each input at which its main effect stands, shape (d, n_values)."""
    main_effects: Floats
    """Mean of the surface given one input at a value, posterior means, shape (d, n_values)."""
    main_effects_interval: Floats
    """Ends of their intervals, shape (2, d, n_values)."""

    def __str__(self) -> str:
        width = max(5, *(len(name) for name in self.names))
        lines = [f"{'input':<{width}}  first-order ({self.level:.0%} interval)   total ({self.level:.0%} interval)"]
        for j, name in enumerate(self.names):
            first, total = (
                f"{value[j]:6.3f} ({ends[0, j]:.3f} to {ends[1, j]:.3f})"
                for value, ends in ((self.first, self.first_interval), (self.total, self.total_interval))
            )
            lines.append(f"{name:<{width}}  {first:<28} {total}")
        return "\n".join(lines)


def _quantiles(column: Floats, chosen: Any) -> Quantiles:
    """Return a quantile function of what was chosen for a column."""
    if hasattr(chosen, "ppf"):
        return cast(Quantiles, chosen.ppf)
    if chosen is not None:
        values = np.sort(np.asarray(chosen, np.float64))
        return lambda u: values[np.minimum((u * len(values)).astype(int), len(values) - 1)]
    low, width = float(column.min()), float(np.ptp(column))
    return lambda u: low + width * u


def input_quantiles(inputs: Floats, names: tuple[str, ...], distributions: Mapping[Any, Any] | None) -> list[Quantiles]:
    """Return a quantile function for each column: of the distribution given, or uniform between the data's ends."""
    given = dict(distributions or {})
    functions = [_quantiles(inputs[:, j], given.pop(name, given.pop(j, None))) for j, name in enumerate(names)]
    if given:
        raise InputError(
            f"distributions has entries for {', '.join(map(repr, given))}, which are not inputs. The inputs are "
            f"{', '.join(names)}; columns can be given by their number too."
        )
    return functions


def analyse(
    model: TreedGPModel, rows: Floats, quantiles: list[Quantiles], n: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return first-order and total indices of each tree's surface, the grid and its main effects, and design errors.

    Two independent designs A, B from scrambled Sobol points in 2 d dimensions, and for every input j the design A
    with column j of B (Saltelli et al. 2010). First-order: the mean of (f(B) - m)(f(AB_j) - f(A)), where m is the mean
    of the surface; without it the error grows with m. Total: half the mean of (f(A) - f(AB_j))^2 (Jansen 1999).

    Returns
    -------
    first, total : ndarray, shape (n_trees, d)
    grid : ndarray, shape (d, N_BINS)
    effects : ndarray, shape (n_trees, d, N_BINS)
    errors : ndarray, shape (2, d)
        Standard errors of the mean first-order and total indices, by the design.
    """
    d, power = len(quantiles), max(4, int(np.ceil(np.log2(n))))
    n = 2**power
    u = np.clip(qmc.Sobol(2 * d, rng=rng).random_base2(power), 1e-12, 1.0 - 1e-12)
    a, b = (np.column_stack([q(part[:, j]) for j, q in enumerate(quantiles)]) for part in (u[:, :d], u[:, d:]))
    f_a, f_b = surface_means(model, rows, a), surface_means(model, rows, b)
    both = np.concatenate([f_a, f_b], axis=1)
    mean, variance = both.mean(axis=1)[:, None], both.var(axis=1)[:, None]
    variance = np.where(variance > 0, variance, np.inf)
    indices, errors = np.empty((2, len(rows), d)), np.empty((2, d))
    middles = (np.arange(N_BINS) + 0.5) / N_BINS
    grid, effects = np.empty((d, N_BINS)), np.empty((len(rows), d, N_BINS))
    for j in range(d):
        mixed = a.copy()
        mixed[:, j] = b[:, j]
        f_mixed = surface_means(model, rows, mixed)
        terms = np.stack([(f_b - mean) * (f_mixed - f_a), 0.5 * (f_a - f_mixed) ** 2]) / variance
        indices[:, :, j] = terms.mean(axis=2)
        parts = terms.mean(axis=1).reshape(2, N_PARTS, -1).mean(axis=2)
        errors[:, j] = parts.std(axis=1, ddof=1) / np.sqrt(N_PARTS)
        grid[j] = quantiles[j](middles)
        effects[:, j] = _main_effect(model, rows, a[: min(n, 256)], j, grid[j])
    return *indices, grid, effects, errors


def _main_effect(model: TreedGPModel, rows: Floats, others: Floats, column: int, values: Floats) -> Floats:
    """Return each tree's mean over the other inputs at values of one, shape (n_trees, n_values)."""
    points = np.repeat(others[None], len(values), axis=0)
    points[:, :, column] = values[:, None]
    means = surface_means(model, rows, points.reshape(-1, others.shape[1]))
    return np.asarray(means.reshape(len(rows), len(values), len(others)).mean(axis=2))


def _interval(values: Floats, ends: list[float], error: Floats) -> Floats:
    """Return quantiles of the trees' values, as far from their mean as they and the design's error are together."""
    away, mean = np.quantile(values, ends, axis=0) - values.mean(axis=0), values.mean(axis=0)
    further = np.hypot(away, norm.ppf(ends[1]) * error)
    return np.asarray(mean + np.array([[-1.0], [1.0]]) * further)


def summary(
    found: tuple[Floats, Floats, Floats, Floats, Floats],
    names: tuple[str, ...],
    level: float,
    scale: Callable[[Floats], Floats],
) -> Sensitivity:
    """Average over the trees, with intervals; ``scale`` takes responses back to their units."""
    first, total, grid, effects, errors = found
    ends = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    return Sensitivity(
        names=names,
        level=level,
        first=first.mean(axis=0),
        total=total.mean(axis=0),
        first_interval=_interval(first, ends, errors[0]),
        total_interval=_interval(total, ends, errors[1]),
        grid=grid,
        main_effects=scale(effects.mean(axis=0)),
        main_effects_interval=scale(np.quantile(effects, ends, axis=0)),
    )
