"""Reversible jumps of one parameter between structures, at any inverse temperature.

Each jump is a `structure_moves.Change` with new values for the groups it touches, made in one of two
styles:

- `gaussian_values`, the moves of section 5: mean-preserving flips (Jacobian sqrt(n)) and splits (Jacobian 2
a value);
- `fitted_values`: independent draws from laws fitted beforehand (`fits`), Jacobian 1, good at every k.

Both return the new table and the log of (reverse density x Jacobian) / (forward density).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tempering.models.recapture.groups import Groups
from tempering.models.recapture.structure_moves import FLIP, MERGE, SPLIT, Change

Array = Any

LOG_2 = 0.6931471805599453
LOG_2_PI = 1.8378770664093453


class Shapes(NamedTuple):
    """Parameters of the fitted Beta laws in every cell ``(K, A)``."""

    a: Array
    b: Array


def gaussian_values(
    noise: Array, sigma: Array, values: Array, change: Change, before: Groups, cells: Array
) -> tuple[Array, Array]:
    """Flip, split or merge with Gaussian auxiliaries ``sigma * noise`` (K,)."""
    timed = before.timed[jnp.argmax(change.first)]
    first = values[:, jnp.argmax(change.first)]
    second = values[:, jnp.argmax(change.second)]
    in_first, in_second = ((cells & group).any(axis=1) for group in (change.first, change.second))
    flipped, log_flip = _flip_values(noise, sigma, first, timed, in_first)
    both = jnp.where(timed, in_first & in_second, True)
    counted = jnp.where(timed, both, jnp.arange(len(first)) == 0)
    drawn = jnp.where(timed, noise, noise[0]) * sigma
    offset = jnp.where(change.kind == SPLIT, drawn, (first - second) / 2)
    log_split = jnp.sum(jnp.where(counted, LOG_2 + _minus_log_normal(offset, sigma), 0.0))
    merged = jnp.where(both, (first + second) / 2, jnp.where(in_second & timed, second, first))
    new_first = jnp.where(both, first + drawn, first)
    new_second = jnp.where(both, first - drawn, first)
    on_first = jnp.select([change.kind == FLIP, change.kind == SPLIT], [flipped, new_first], merged)
    on_second = jnp.where(change.kind == MERGE, merged, new_second)
    log_ratio = jnp.select([change.kind == FLIP, change.kind == SPLIT], [log_flip, log_split], -log_split)
    table = jnp.where(change.first, on_first[:, None], jnp.where(change.second, on_second[:, None], values))
    return table, log_ratio


def _flip_values(noise: Array, sigma: Array, old: Array, timed: Array, exists: Array) -> tuple[Array, Array]:
    """Add zero-sum noise to a constant, or take the mean over years; n - 1 auxiliaries, Jacobian sqrt(n)."""
    n = jnp.maximum(exists.sum(), 1)
    centred = sigma * (noise - jnp.sum(jnp.where(exists, noise, 0.0)) / n)
    mean = jnp.sum(jnp.where(exists, old, 0.0)) / n
    new = jnp.where(timed, mean, jnp.where(exists, old + centred, old))
    squares = jnp.sum(jnp.where(exists, (new - old) ** 2, 0.0))
    log_spread = 0.5 * jnp.log(n) + (n - 1) * (0.5 * LOG_2_PI + jnp.log(sigma)) + squares / (2 * sigma**2)
    return new, jnp.where(timed, -log_spread, log_spread)


def _minus_log_normal(x: Array, sigma: Array) -> Array:
    return 0.5 * LOG_2_PI + jnp.log(sigma) + 0.5 * (x / sigma) ** 2


def fitted_values(
    uniform: Array, values: Array, change: Change, before: Groups, after: Groups, old: Shapes, new: Shapes
) -> tuple[Array, Array]:
    """Draw the values of the changed groups from their fitted laws; ``uniform`` is (K, A).

    The law is logistic on the logit scale, with the mode and curvature of the Beta law there: heavier in the
    tails, drawn from one uniform number, and exactly uniform on (0, 1) when the Beta law is.
    """
    changed = change.first | change.second
    location, scale = _logistic(new)
    drawn = jax.nn.sigmoid(location + scale * _logit(after.shared(uniform)))
    table = jnp.where(changed, drawn, values)
    forward = jnp.sum(jnp.where(after.free & changed, _log_density(table, location, scale), 0.0))
    location, scale = _logistic(old)
    backward = jnp.sum(jnp.where(before.free & changed, _log_density(values, location, scale), 0.0))
    return table, backward - forward


def _logistic(shapes: Shapes) -> tuple[Array, Array]:
    """Return location and scale: the mode log(a / b), and the curvature a b / (a + b) = 1 / (2 scale^2)."""
    curvature = shapes.a * shapes.b / (shapes.a + shapes.b)
    return jnp.log(shapes.a / shapes.b), 1 / jnp.sqrt(2 * curvature)


def _logit(v: Array) -> Array:
    return jnp.log(v) - jnp.log1p(-v)


def _log_density(v: Array, location: Array, scale: Array) -> Array:
    """Return the log density of v when logit v is logistic."""
    inside = jnp.where((v > 0) & (v < 1), v, 0.5)
    distance = jnp.abs((_logit(inside) - location) / scale)
    log_logistic = -distance - 2 * jnp.log1p(jnp.exp(-distance)) - jnp.log(scale)
    return log_logistic - jnp.log(inside) - jnp.log1p(-inside)
