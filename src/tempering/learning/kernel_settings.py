"""Tune kernels rung by rung: scales by Robbins and Monro's rule, shapes from the draws, fresh draws by what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempering.arrays import Floats
from tempering.engines.trace import Trace
from tempering.errors import SamplerError
from tempering.kernels.settings import Settings, is_dense, starting_settings
from tempering.learning.density_of_states import DensityOfStates
from tempering.path.ladder import Ladder

# d acceptance / d log scale of a random walk near its optimum is about -1/4: a full Newton step has gain 4
FULL_GAIN = 4.0
DENSE_UP_TO = 16  # dimensions; beyond, a matrix a rung costs more than it gains
DRAWS_FOR_SHAPE = 4000
MOST_FRESH = 0.9  # of a rung's proposals: a mode that the base does not know is left by local moves alone
COVARIANCES = ("auto", "dense", "diagonal", "identity")


def start(leaves: Sequence[Any], ladder: Ladder, centre: Floats) -> tuple[Settings, ...]:
    """Return the settings that tuning starts from, one a simple kernel."""
    d = len(centre)
    return tuple(starting_settings(ladder, centre, _scale(leaf, d), dense=_is_dense(leaf, d)) for leaf in leaves)


def shaped(
    settings: tuple[Settings, ...], leaves: Sequence[Any], centre: Floats, factor: Floats, m: int
) -> tuple[Settings, ...]:
    """Let ``m`` rungs start with a known centre and factor of the covariance, and scales in units of these.

    ``settings`` say of each kernel whether its shapes are matrices.
    """
    deviations = np.sqrt(np.sum(factor**2, axis=1, keepdims=True))
    changed = []
    for setting, leaf in zip(settings, leaves, strict=True):
        scale, shape = _scale(leaf, centre.size), factor if is_dense(setting.factor) else deviations
        if leaf.covariance == "identity":
            scale, shape = scale * float(size_of(shape[None])[0]), np.ones_like(shape)
        rows = (m, 1)
        changed.append(Settings(np.full(m, scale), np.tile(shape, (*rows, 1)), np.tile(centre, rows), np.zeros(m)))
    return tuple(changed)


def _scale(leaf: Any, dimension: int) -> float:
    scale = leaf.starting_scale(dimension)
    if not isinstance(scale, int | float | np.number) or not 0 < scale < np.inf:
        raise SamplerError(f"The scale of a kernel must be a number above 0, but {leaf!r} starts from {scale!r}.")
    return float(scale)


def _is_dense(leaf: Any, dimension: int) -> bool:
    if leaf.covariance not in COVARIANCES:
        raise SamplerError(f"covariance must be one of {COVARIANCES}, but got {leaf.covariance!r}.")
    return dimension > 1 and (leaf.covariance == "dense" or (leaf.covariance == "auto" and dimension <= DENSE_UP_TO))


def acceptance_by_rung(trace: Trace, before: NDArray[np.int32], n_rungs: int) -> tuple[Floats, Floats]:
    """Return the mean acceptance (rung, kernel) of moves made on each rung, and their number.

    ``before`` is the rung a move was made on: that of the draw before.
    """
    n_leaves = trace.acceptance.shape[-1]
    mean, count = np.full((n_rungs, n_leaves), np.nan), np.zeros((n_rungs, n_leaves))
    flat_rung = before.ravel()
    for leaf in range(n_leaves):
        accepted = trace.acceptance[..., leaf].ravel()
        tried = ~np.isnan(accepted)
        total = np.bincount(flat_rung[tried], accepted[tried], n_rungs)
        count[:, leaf] = np.bincount(flat_rung[tried], minlength=n_rungs)
        mean[:, leaf] = np.where(count[:, leaf] > 0, total / np.maximum(count[:, leaf], 1), np.nan)
    return mean, count


def rescaled(
    settings: tuple[Settings, ...], leaves: Sequence[Any], mean: Floats, count: Floats, gain: float
) -> tuple[Settings, ...]:
    """Move every rung's log scale towards its kernel's target acceptance; rungs hardly seen follow less."""
    changed = []
    for i, (setting, leaf) in enumerate(zip(settings, leaves, strict=True)):
        target = leaf.target_acceptance(setting.centre.shape[1])
        if target is None:
            changed.append(setting)
            continue
        trust = count[:, i] / (count[:, i] + 10.0)
        error = np.where(np.isnan(mean[:, i]), 0.0, mean[:, i] - target)
        changed.append(setting._replace(scale=setting.scale * np.exp(gain * FULL_GAIN * trust * error)))
    return tuple(changed)


def reshaped(
    settings: tuple[Settings, ...], leaves: Sequence[Any], values: Floats, log_weights: Floats
) -> tuple[Settings, ...]:
    """Give every rung the centre and covariance of all draws, weighted towards it.

    Parameters
    ----------
    values : ndarray, shape (draw, d)
    log_weights : ndarray, shape (rung, draw)
        Log weight of every draw towards every rung. A step's length is kept: the scale absorbs the change of shape.
    """
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    effective = 1.0 / np.sum(weights**2, axis=1)
    centre = weights @ values
    changed = []
    for setting, leaf in zip(settings, leaves, strict=True):
        if leaf.covariance == "identity":
            changed.append(setting._replace(centre=centre))
            continue
        factor = np.stack(
            [
                _factor(values, w, c, n, old)
                for w, c, n, old in zip(weights, centre, effective, setting.factor, strict=True)
            ]
        )
        scale = setting.scale
        if leaf.target_acceptance(values.shape[1]) is not None:
            scale = _scale_for(leaf, scale, size_of(factor) / size_of(setting.factor))
        changed.append(setting._replace(scale=scale, factor=factor, centre=centre))
    return tuple(changed)


def _scale_for(leaf: Any, scale: Floats, growth: Floats) -> Floats:
    """Return scales that keep the length of steps while the shape grows by some factor.

    Local steps are cut where they are longer than the gradient allows. In the shape of a whole rung they are cut by the
    root of two at a typical place, and in one that was ``growth`` times smaller they were by sqrt(1 + growth^-2).
    """
    if not hasattr(leaf, "local_scales"):
        return scale / growth
    return np.asarray(np.clip(scale * np.sqrt(2.0 / (1.0 + growth**2)), *leaf.local_scales))


def _factor(values: Floats, weights: Floats, centre: Floats, n_effective: float, old: Floats) -> Floats:
    """Return a Cholesky factor (or standard deviations) of the weighted covariance, shrunk while draws are few."""
    d = values.shape[1]
    residual = values - centre
    if old.shape[1] == 1:
        variance = weights @ residual**2
        trust = n_effective / (n_effective + 5.0)
        return np.asarray(np.sqrt(trust * variance + (1 - trust) * np.sum(old**2, axis=1) + 1e-300)[:, None])
    covariance = (weights * residual.T) @ residual
    trust = n_effective / (n_effective + d + 5.0)
    spread = np.diag(np.maximum(np.diag(covariance), 1e-300))
    try:
        return np.asarray(np.linalg.cholesky(trust * covariance + (1 - trust) * spread))
    except np.linalg.LinAlgError:
        return np.asarray(np.sqrt(spread))


def size_of(factor: Floats) -> Floats:
    """Return the root mean square standard deviation of each rung's shape."""
    return np.asarray(np.sqrt(np.sum(factor**2, axis=(1, 2)) / factor.shape[1]))


def carried_over(settings: tuple[Settings, ...], old: Ladder, new: Ladder) -> tuple[Settings, ...]:
    """Carry settings from one ladder to another: scales by interpolation in log k, shapes from the nearest rung."""
    at = np.log(np.maximum(old.inverse_temperatures, 1e-6))[::-1]
    wanted = np.log(np.maximum(new.inverse_temperatures, 1e-6))
    nearest = [len(at) - 1 - int(np.argmin(np.abs(at - w))) for w in wanted]
    return tuple(
        Settings(
            scale=np.exp(np.interp(wanted, at, np.log(s.scale)[::-1])),
            factor=s.factor[nearest],
            centre=s.centre[nearest],
            fresh=None if s.fresh is None else s.fresh[nearest],
        )
        for s in settings
    )


def with_fresh(settings: tuple[Settings, ...], states: DensityOfStates, ladder: Ladder) -> tuple[Settings, ...]:
    """Let each rung propose draws of the base, the more often the more of them it accepts, but make local moves too.

    By the root: where one in a hundred is accepted, every tenth proposal is spent on it, for it may cross to a mode.
    """
    if ladder.hottest > 0.0:
        return settings
    fresh = np.minimum(np.sqrt(states.acceptance_of_fresh(ladder)), MOST_FRESH)
    return tuple(s._replace(fresh=fresh) for s in settings)
